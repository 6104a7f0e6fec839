"""`telltale findings` and `telltale postmortem`: what is stored."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from functions import wiring
from functions.contract.errors import Again
from functions.reports.wording import counted, level, ordered, printable, subject_text
from functions.settings import Settings, SettingsError, read_policy
from triggers.commands import output
from triggers.commands.serve import opened
from triggers.roles import StoredBoard
from triggers.usage import UsageError


def run(options: argparse.Namespace) -> int:
    """Print what the store has."""
    try:
        return asyncio.run(_findings(options) if options.command == "findings" else _postmortem(options))
    except (SettingsError, Again) as error:
        raise UsageError(str(error)) from None


async def _findings(options: argparse.Namespace) -> int:
    settings = Settings.read()
    async with opened(settings, embedded=True) as store:
        board = StoredBoard(store, redactor=wiring.redactor(read_policy(settings.policy)))
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page, cursor = await board.findings(cursor, 500, everything=options.all, check=options.check or "")
            found += page
            if cursor is None:
                break
    if options.format == "json":
        print(output.as_json({"findings": found, "next": None}))
    else:
        print("\n".join(printable(line) for line in _lines(found, all_of_them=options.all)))
    return 0


def _lines(found: Sequence[Mapping[str, Any]], *, all_of_them: bool) -> Iterable[str]:
    """The gravest first, as everywhere."""
    if not found:
        yield "no finding is stored" if all_of_them else "nothing that was judged is open; `telltale audit` judges now"
        return
    for f in ordered(found):
        ended = f" until {f['resolved_at']}" if f.get("resolved_at") else ""
        muted = f" · muted until {f['muted_until']}: {f['mute_reason']}" if f.get("muted_until") else ""
        yield f"{level(f):9} {f['state']:9} {f['title']}"
        yield f"{'':19} {f['code']} · {subject_text(f['subject'])} · since {f['first_seen']}{ended} · {f['fingerprint']}{muted}"
    yield counted(len(found), "1 finding", "{n} findings")


async def _postmortem(options: argparse.Namespace) -> int:
    settings = Settings.read()
    async with opened(settings, embedded=True) as store:
        text = await StoredBoard(store, redactor=wiring.redactor(read_policy(settings.policy))).postmortem(options.id)
    if text is None:
        raise UsageError(f"no audit is called {options.id!r}")
    print(output.as_json({"audit": options.id, "text": text}) if options.format == "json" else text)
    return 0
