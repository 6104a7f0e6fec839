"""What has to be audited: signals seen, pending audits one a slot, claims under a lease, dead letters, the timeline.

A slot is a scope and a lane. The lane `now` is due at once; the lane `settled` waits until the telemetry has followed a
change. They are apart because an alert during a rollout must neither wait for it nor have it judged before its time.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.contract.signals import AuditRequest, Scope, Signal, Trigger
from functions.store.codec import at, fields, ms, pack, unpack_object
from functions.store.connection import Argument, Connection
from functions.store.errors import StoreCorrupt, StoreError, StoreFull

log = logging.getLogger(__name__)

_BATCH = 256


class Lane(StrEnum):
    NOW = "now"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Entry:
    """A signal with what intake decided. `due` None: it is kept for the timeline only."""

    signal: Signal
    due: datetime | None
    lane: Lane = Lane.NOW
    #: how far later signals may push the time of the first
    span: timedelta = timedelta(0)
    #: the gravest signal of a record is its trigger
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of offered signals: new ones, ones known already, audits that were opened."""

    new: int = 0
    known: int = 0
    opened: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An audit that was given up: it was tried too often, or can't be read."""

    audit: str
    scope: str
    why: str
    at: datetime
    signals: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what is kept. Beyond `pending` audits nothing more is taken (StoreFull)."""

    pending: int = 10_000
    signals: int = 100
    seen: int = 200_000
    seen_for: timedelta = timedelta(days=3)
    timeline: int = 10_000
    timeline_for: timedelta = timedelta(days=7)


DEFAULTS = Limits()


def new_audit_id(now: datetime) -> str:
    """Sorts by time, can be typed, and no two are alike."""
    return f"{now:%Y%m%dt%H%M%S}-{secrets.token_hex(4)}"


class Queue:
    def __init__(self, connection: Connection, limits: Limits = DEFAULTS) -> None:
        self._c = connection
        self.limits = limits

    async def offer(self, entries: Sequence[Entry], now: datetime) -> Taken:
        """Take signals: seen, joined to the pending audit of their slot and in the timeline, in one step a batch.

        Raises StoreFull, with nothing of the batch taken; what was taken before is known when it is offered again.
        """
        total = Taken()
        for start in range(0, len(entries), _BATCH):
            got = await self._offer(entries[start : start + _BATCH], now)
            total = Taken(total.new + got.new, total.known + got.known, total.opened + got.opened)
        return total

    async def _offer(self, entries: Sequence[Entry], now: datetime) -> Taken:
        key, limits = self._c.key, self.limits
        slots = list(dict.fromkeys(_slot(e) for e in entries if e.due is not None))
        keys = [key("seen"), key("due"), key("timeline"), key("counters")]
        arguments: list[Argument] = [ms(now), ms(now + limits.seen_for), limits.seen, limits.timeline, ms(now - limits.timeline_for)]
        arguments += [limits.pending, limits.signals, len(slots)]
        for slot in slots:
            keys += [key("pending", slot), key("pending-signals", slot)]
            arguments += [slot, new_audit_id(now)]
        for e in entries:
            baseline = ms(e.signal.baseline) if e.signal.baseline else ""
            arguments += [_digest(e.signal.key), slots.index(_slot(e)) + 1 if e.due else 0, ms(e.signal.at), ms(e.due or now)]
            arguments += [round(e.span.total_seconds() * 1000), baseline, e.rank, pack(e.signal.as_dict())]
        reply = await self._c.run("offer", keys, arguments)
        if reply[0] == -1:
            raise StoreFull(f"{limits.pending} audits are pending: nothing more is taken")
        return Taken(*reply)

    async def claim_due(self, now: datetime, lease: timedelta, limit: int = 10, *, start: bool = True) -> list[AuditRequest]:
        """Claim what is due: for this process (`start`), or to send it to another one, which calls `start`.

        A claim whose lease runs out is claimed again with the next attempt. What can't be read becomes a dead letter.
        """
        claimed: list[AuditRequest] = []
        until, flag = ms(now + lease), int(start)
        for raw in await self._ready("work", now, limit):
            audit = raw.decode()
            keys = [self._c.key("work"), self._c.key("audit", audit), self._c.key("audit-signals", audit)]
            reply = await self._c.run("reclaim", keys, [audit, ms(now), until, flag])
            await self._take(claimed, reply, audit, "", now)
        for raw in await self._ready("due", now, limit - len(claimed)):
            slot = raw.decode()
            identity = await self._c.do("HGET", self._c.key("pending", slot), "audit")
            if identity is None:
                continue  # somebody else was faster
            audit = identity.decode()
            keys = [self._c.key("due"), self._c.key("work"), self._c.key("pending", slot), self._c.key("pending-signals", slot)]
            keys += [self._c.key("audit", audit), self._c.key("audit-signals", audit)]
            reply = await self._c.run("claim", keys, [slot, audit, ms(now), until, flag])
            await self._take(claimed, reply, audit, slot, now)
        return claimed

    async def _ready(self, name: str, now: datetime, limit: int) -> list[bytes]:
        if limit <= 0:
            return []
        found: list[bytes] = await self._c.do("ZRANGEBYSCORE", self._c.key(name), "-inf", ms(now), "LIMIT", 0, limit)
        return found

    async def _take(self, claimed: list[AuditRequest], reply: Any, audit: str, slot: str, now: datetime) -> None:
        if not reply:
            return
        try:
            claimed.append(_request(*reply))
        except StoreCorrupt as error:
            log.error("audit %s becomes a dead letter: %s", audit, error)
            await self._bury(audit, slot, now, str(error))

    async def _bury(self, audit: str, slot: str, now: datetime, why: str) -> None:
        key = self._c.key
        keys = [key("due"), key("work"), key("dead"), key("pending", slot), key("pending-signals", slot)]
        await self._c.run("bury", [*keys, key("audit", audit), key("audit-signals", audit)], [slot, audit, ms(now), why])

    async def start(self, audit: str, now: datetime, lease: timedelta) -> AuditRequest | None:
        """Begin a claimed audit that was sent here. None: it is done, under way elsewhere, or unknown."""
        keys = [self._c.key("work"), self._c.key("audit", audit), self._c.key("audit-signals", audit)]
        reply = await self._c.run("start", keys, [audit, ms(now), ms(now + lease)])
        taken: list[AuditRequest] = []
        await self._take(taken, reply, audit, "", now)
        return taken[0] if taken else None

    async def renew(self, request: AuditRequest, now: datetime, lease: timedelta) -> bool:
        """Keep a claim. False: it was lost to somebody else."""
        return await self._hold(request, now + lease, counted=True)

    async def retry(
        self, request: AuditRequest, when: datetime, *, counted: bool = True, fault: str = "", back: datetime | None = None
    ) -> bool:
        """Give a claim back, to be claimed again from `when` on.

        `counted` False: nothing was tried, the attempt is free. `fault` and `back` are told to who claims it then.
        """
        told = {"fault": fault, "back": ms(back) if back else ""}
        return await self._hold(request, when, {name: value for name, value in told.items() if value}, counted=counted)

    async def _hold(self, request: AuditRequest, when: datetime, told: Mapping[str, Argument] = {}, *, counted: bool) -> bool:
        keys = [self._c.key("work"), self._c.key("audit", request.audit)]
        return bool(
            await self._c.run(
                "hold",
                keys,
                [request.audit, request.attempt, ms(when), 0 if counted else 1, *(part for field in told.items() for part in field)],
            )
        )

    async def timeline(self, since: datetime, until: datetime, scopes: Iterable[Scope] | None = None) -> list[Signal]:
        """Signals of a time, oldest first: those of the scopes, or all."""
        wanted = None if scopes is None else {str(s) for s in scopes}
        raw = await self._c.do("ZRANGEBYSCORE", self._c.key("timeline"), ms(since), ms(until))
        found = [unpack_object(data, "a signal of the timeline") for data in raw]
        return [_signal(s) for s in found if wanted is None or s.get("scope") in wanted]

    async def unjudged_changes(self, until: datetime) -> set[Scope]:
        """Scopes of the changes whose audits are under way, or due by then."""
        slots = list(await self._c.do("ZRANGEBYSCORE", self._c.key("due"), "-inf", ms(until)))
        for audit in await self._c.do("ZRANGE", self._c.key("work"), 0, -1):
            slots.append(await self._c.do("HGET", self._c.key("audit", audit.decode()), "slot") or b"")
        parts = (slot.decode().rpartition("|") for slot in slots)
        return {Scope.parse(scope) for scope, _, lane in parts if scope and lane == Lane.SETTLED}

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Audits that were given up, latest first."""
        letters = []
        reply = await self._c.do("ZREVRANGE", self._c.key("dead"), 0, limit - 1)
        for audit in (raw.decode() for raw in reply):
            record = fields(await self._c.do("HGETALL", self._c.key("audit", audit)))
            when = await self._c.do("ZSCORE", self._c.key("dead"), audit)
            signals = await self._c.do("LLEN", self._c.key("audit-signals", audit))
            scope = record.get("scope") or record.get("slot", b"?|").rpartition(b"|")[0]
            letters.append(DeadLetter(audit, scope.decode(), record.get("why", b"").decode(), at(when or 0), signals))
        return letters

    async def replay(self, audit: str, now: datetime) -> Taken | None:
        """Offer the signals of a dead letter once more, under keys of their own. None: there is no such letter."""
        if await self._c.do("ZSCORE", self._c.key("dead"), audit) is None:
            return None
        raw = await self._c.do("LRANGE", self._c.key("audit-signals", audit), 0, -1)
        signals = [_signal(unpack_object(data, f"a signal of audit {audit}")) for data in raw]
        if not signals:
            raise StoreError(f"nothing is left of the signals of audit {audit}")
        again = [replace(s, key=f"replay/{audit}/{s.key}") for s in signals]
        taken = await self.offer([Entry(s, now, rank=9) for s in again], now)
        await self.drop(audit)
        return taken

    async def drop(self, audit: str) -> bool:
        """Forget a dead letter."""
        keys = [self._c.key("dead"), self._c.key("audit", audit), self._c.key("audit-signals", audit)]
        return bool(await self._c.run("unbury", keys, [audit]))

    async def waiting(self, now: datetime) -> dict[str, float]:
        """How much waits: pending, due, claimed audits, dead letters, and for how long the oldest has been due."""
        due = self._c.key("due")
        oldest = await self._c.do("ZRANGEBYSCORE", due, "-inf", ms(now), "WITHSCORES", "LIMIT", 0, 1)
        return {
            "pending": await self._c.do("ZCARD", due),
            "due": await self._c.do("ZCOUNT", due, "-inf", ms(now)),
            "claimed": await self._c.do("ZCARD", self._c.key("work")),
            "dead": await self._c.do("ZCARD", self._c.key("dead")),
            "overdue_seconds": max(0.0, (ms(now) - _score(oldest)) / 1000) if oldest else 0.0,
        }


def _score(reply: Any) -> float:
    """The score of the first member in a reply, in the shapes that protocol versions give it."""
    first = reply[0]
    return float(first[1] if isinstance(first, list | tuple) else reply[1])


def slot_of(scope: Scope, lane: Lane) -> str:
    """The name of a slot."""
    return f"{scope}|{lane}"


def _slot(entry: Entry) -> str:
    return slot_of(entry.signal.scope, entry.lane)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _signal(data: dict[str, Any]) -> Signal:
    try:
        return Signal.from_dict(data)
    except (KeyError, ValueError, TypeError) as error:
        raise StoreCorrupt(f"a stored signal can't be read: {error}") from None


def _request(record: Any, signals: list[bytes]) -> AuditRequest:
    found = fields(record)
    try:
        audit = found["audit"].decode()
        scope = Scope.parse(found["slot"].decode().rpartition("|")[0])
        lead = found["lead"]
        baseline = at(found["baseline"]) if "baseline" in found else None
        back = at(found["back"]) if "back" in found else None
        due, attempt, round_ = at(found["due"]), int(found["attempt"]), int(found["round"])
    except (KeyError, ValueError) as error:
        raise StoreCorrupt(f"a pending audit can't be read: {error!r}") from None
    gravest = _signal(unpack_object(lead, f"the trigger of audit {audit}"))
    trigger: Trigger = gravest.trigger
    all_signals = tuple(sorted((_signal(unpack_object(s, f"a signal of audit {audit}")) for s in signals), key=lambda s: s.at))
    if gravest.key not in {s.key for s in all_signals}:
        all_signals = (gravest, *all_signals)  # pushed out by later ones
    follows, fault = (found.get(name, b"").decode() for name in ("follows", "fault"))
    return AuditRequest(audit, scope, trigger, baseline, due, all_signals, attempt, round_, follows, fault, back)
