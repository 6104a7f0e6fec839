"""`telltale dead-letters`: what came to nothing — undelivered events, audits given up, messages refused — to replay or drop.

An event's replay is only asked for here: `intake` does it at its next tick, since it may read the cluster.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from functions.contract.errors import Again
from functions.contract.report import instant
from functions.settings import Settings, SettingsError
from functions.store import Store
from functions.store.letters import MOST
from triggers.commands import output
from triggers.commands.serve import opened
from triggers.usage import UsageError

_ALL = "all"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One of any kind, and what can be done with it."""

    id: str
    kind: str
    what: str
    why: str
    at: datetime
    replay: Callable[[], Awaitable[Any]]
    drop: Callable[[], Awaitable[Any]]

    def as_dict(self) -> dict[str, str]:
        return {"id": self.id, "kind": self.kind, "what": self.what, "why": self.why, "at": instant(self.at) or ""}


def run(options: argparse.Namespace) -> int:
    """List them; or replay and drop those that are named."""
    try:
        return asyncio.run(_letters(options))
    except (SettingsError, Again) as error:
        raise UsageError(str(error)) from None


async def _letters(options: argparse.Namespace) -> int:
    async with opened(Settings.read(), embedded=True) as store:
        found = await _entries(store)
        chosen, dropped = _chosen(found, options.replay), _chosen(found, options.drop)
        for entry in chosen:
            await entry.replay()
        for entry in dropped:
            await entry.drop()
    if options.format == "json":
        listed = [e.as_dict() for e in found]
        print(output.as_json({"letters": listed, "replayed": [e.id for e in chosen], "dropped": [e.id for e in dropped]}))
    elif chosen or dropped:
        for done, entries in (("replayed", chosen), ("dropped", dropped)):
            for entry in entries:
                later = " (at the next tick of intake)" if (done, entry.kind) == ("replayed", "event") else ""
                print(f"{done} {entry.id}{later}")
    else:
        for entry in found:
            print(f"{entry.id}  {entry.kind}  {instant(entry.at)}  {entry.what}\n    {entry.why}")
        print(f"{len(found)} dead letters" if found else "no dead letters")
    return 0


async def _entries(store: Store) -> list[_Entry]:
    """All kinds, latest first."""
    now = datetime.now(UTC)
    queue, outbox, letters = store.queue, store.outbox, store.letters
    found = [
        _Entry(
            x.id,
            "event",
            x.what,
            f"{x.why} ({x.where})" if x.where else x.why,
            x.at,
            partial(letters.want, x.id, now),
            partial(letters.drop, x.id),
        )
        for x in await letters.list(MOST)
    ]
    found += [
        _Entry(
            x.audit,
            "audit",
            f"{x.scope}, {x.signals} signals",
            x.why,
            x.at,
            partial(queue.replay, x.audit, now),
            partial(queue.drop, x.audit),
        )
        for x in await queue.dead_letters()
    ]
    found += [
        _Entry(
            x.id,
            "message",
            f"{x.kind} of {x.thread} to {x.channel}",
            x.why,
            x.created,
            partial(outbox.replay, x, now),
            partial(outbox.drop, x),
        )
        for x in await outbox.refused()
    ]
    return sorted(found, key=lambda e: e.at, reverse=True)


def _chosen(found: Sequence[_Entry], names: Sequence[str]) -> list[_Entry]:
    """The named ones. Raises UsageError for a name that is none."""
    if _ALL in names:
        return list(found)
    known = {e.id: e for e in found}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no dead letter is called {unknown[0]}; `telltale dead-letters` lists them")
    return [known[name] for name in dict.fromkeys(names)]
