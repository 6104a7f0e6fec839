"""`telltale findings` and `telltale postmortem`: what is stored."""

from __future__ import annotations

import argparse
import asyncio

from functions.contract.errors import Again
from functions.reports.summary import subject_text
from functions.settings import Settings, SettingsError
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
    async with opened(Settings.read(), embedded=True) as store:
        found: list[dict[str, object]] = []
        cursor: str | None = None
        while True:
            page, cursor = await StoredBoard(store).findings(cursor, 500, everything=options.all)
            found += [f for f in page if not options.check or str(f["code"]).startswith(options.check + "/")]
            if cursor is None:
                break
    if options.format == "json":
        print(output.as_json({"findings": found, "next": None}))
    else:
        for f in found:
            print(f"{f['severity']!s:9} {f['code']}  {subject_text(f['subject'])}  since {f['first_seen']}\n          {f['title']}")  # type: ignore[arg-type]
        print(f"{len(found)} findings" if found else "nothing is open")
    return 0


async def _postmortem(options: argparse.Namespace) -> int:
    async with opened(Settings.read(), embedded=True) as store:
        text = await StoredBoard(store).postmortem(options.id)
    if text is None:
        raise UsageError(f"no audit is called {options.id!r}")
    print(output.as_json({"audit": options.id, "text": text}) if options.format == "json" else text)
    return 0
