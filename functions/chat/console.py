"""Standard output as a channel: for `run` on a terminal, and for a Pod's log."""

from __future__ import annotations

import sys
from typing import TextIO

from functions.chat.message import Delivered, Outgoing, Ref, Result, Retry


class Console:
    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        out = self._out or sys.stdout
        text = "".join(c for c in message.text if c.isprintable() or c in "\n\t")  # no escape sequences from outside
        try:
            print(text, end="\n\n", file=out, flush=True)
        except OSError as error:  # a closed pipe must not stop the others
            return Retry(f"standard output: {error.strerror}")
        return Delivered()

    async def close(self) -> None:
        return None
