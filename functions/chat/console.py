"""Standard output as a channel: for `run` on a terminal, and for a Pod's log. Markdown's marks are left out: nothing shows them."""

from __future__ import annotations

import re
import sys
from typing import TextIO

from functions.chat.message import Delivered, Outgoing, Ref, Result, Retry

_MARKS = re.compile(r"\*\*|`|^_(?=.*_$)|(?<=.)_$", re.MULTILINE)


class Console:
    """`postmortems`: whether their whole text is printed as well; it can always be had with `telltale postmortem`."""

    def __init__(self, out: TextIO | None = None, *, postmortems: bool = True) -> None:
        self._out = out
        self._postmortems = postmortems

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        out = self._out or sys.stdout
        if message.kind == "postmortem" and not self._postmortems:
            return Delivered()
        text = message.text if message.kind == "postmortem" else _MARKS.sub("", message.text)
        text = "".join(c for c in text if c.isprintable() or c in "\n\t")  # no escape sequences from outside
        try:
            print(text, end="\n\n", file=out, flush=True)
        except OSError as error:  # a closed pipe must not stop the others
            return Retry(f"standard output: {error.strerror}")
        return Delivered()

    async def close(self) -> None:
        return None
