"""Redis (or Valkey) is the truth: pending and finished audits, findings over time, the outbox, states. See `Store`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from functions.store.audits import Audits, JudgeAgain
from functions.store.connection import Client, Connection, connect
from functions.store.errors import SchemaNewer, StoreCorrupt, StoreError, StoreFull
from functions.store.findings import Findings, Mute
from functions.store.letters import Letter, Letters
from functions.store.notes import Episodes, Notes
from functions.store.outbox import Delivery, Finished, Outbox, Plan, Planned, Told
from functions.store.queue import DEFAULTS, DeadLetter, Entry, Lane, Limits, Queue, Taken, new_audit_id

__all__ = [
    "Audits",
    "DeadLetter",
    "Delivery",
    "Entry",
    "Episodes",
    "Findings",
    "Finished",
    "JudgeAgain",
    "Lane",
    "Letter",
    "Letters",
    "Limits",
    "Mute",
    "Notes",
    "Outbox",
    "Plan",
    "Planned",
    "Queue",
    "SchemaNewer",
    "Store",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "Taken",
    "Told",
    "connect",
    "new_audit_id",
]

Samples = list[tuple[Mapping[str, str], float]]


class Store:
    """Everything that is kept of one cluster, by concern. Every method may raise StoreError ("again later")."""

    def __init__(self, redis: Client, cluster: str, limits: Limits = DEFAULTS) -> None:
        self.cluster = cluster
        self._connection = Connection(redis, cluster)
        self.queue = Queue(self._connection, limits)
        self.findings = Findings(self._connection)
        self.audits = Audits(self._connection, self.findings, limits.signals)
        self.outbox = Outbox(self._connection)
        self.episodes = Episodes(self._connection)
        self.notes = Notes(self._connection)
        self.letters = Letters(self._connection)

    @classmethod
    async def open(cls, url: str, cluster: str, *, password: str | None = None, ca: Path | None = None, limits: Limits = DEFAULTS) -> Store:
        """Connect and check the schema. Raises StoreError, SchemaNewer."""
        store = cls(await connect(url, password=password, ca=ca), cluster, limits)
        await store.check()
        return store

    async def check(self) -> None:
        """Whether the server answers and the data is of a version this Telltale knows."""
        await self._connection.check_schema()

    async def server(self) -> dict[str, str]:
        """What the server says of itself, as INFO has it."""
        found = await self._connection.do("INFO")
        lines = [line.partition(":") for line in found.splitlines()] if isinstance(found, str) else []
        pairs = {name: value for name, _, value in lines} if lines else dict(found)
        return {str(name): str(value) for name, value in pairs.items()}

    async def close(self) -> None:
        await self._connection.close()

    async def purge(self, now: datetime, *, resolved_for: timedelta, audits_for: timedelta) -> None:
        """Forget what is finished and old (Policy.retention). What is open, pending or untold is never forgotten."""
        await self.findings.purge(now, resolved_for)
        await self.audits.purge(now, audits_for)
        await self.outbox.purge(now, audits_for)
        await self.letters.purge(now - audits_for)

    async def gauges(self, now: datetime) -> dict[str, Samples]:
        """What the metrics page shows, by name: labels and value."""
        waiting = await self.queue.waiting(now) | await self.outbox.waiting() | await self.letters.waiting()
        overdue = waiting.pop("overdue_seconds")
        gauges: dict[str, Samples] = {
            "waiting": [({"what": name}, float(count)) for name, count in waiting.items()],
            "overdue_seconds": [({}, overdue)],
            "counted": [({"what": name}, float(count)) for name, count in sorted((await self.notes.counters()).items())],
        }
        if beats := await self.notes.beats():
            gauges["last_beat_seconds"] = [({"role": role}, when.timestamp()) for role, when in sorted(beats.items())]
        if opened := await self.findings.counts():
            gauges["open_findings"] = [({"check": c, "severity": s}, float(n)) for (c, s), n in sorted(opened.items())]
        return gauges
