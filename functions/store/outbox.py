"""From a finished audit to its messages: what was told already, what is decided to tell, and deliveries until they arrive.

Deciding is one step that also records the decision, so that nothing is told twice; the messages then wait, each channel
for itself, until it took them. Messages of one thread arrive in order.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import orjson

from functions.store.codec import at, fields, ms, pack, unpack_object
from functions.store.connection import Argument, Connection
from functions.store.errors import StoreCorrupt

_NAMESPACE = uuid.UUID("6c3b8a0e-6a55-4f0e-9a0f-5d7a1f6c2b41")
_CHUNK = 200


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished audit that nothing has been decided about."""

    audit: str
    report: dict[str, Any]
    transitions: tuple[Mapping[str, str], ...]
    #: what the audit before it of the same scope found, and the last one of the whole cluster
    previous: Mapping[str, Any] | None
    whole: Mapping[str, Any] | None
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What has been told so far. `version` guards the next decision."""

    version: str
    #: fingerprint -> {"severity": …, "scope": the thread it was told in}
    findings: Mapping[str, Mapping[str, str]]
    #: scope -> {"audit": …, "verdict": …, "at": …} of the message that stands open
    threads: Mapping[str, Mapping[str, Any]]
    #: scope -> {"audit": …, "at": …, "trigger": …} of the latest postmortem
    drafts: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision about one audit."""

    audit: str
    #: the thread it belongs to: a scope
    line: str
    kind: str
    news: Mapping[str, Any]
    told: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    forget: tuple[str, ...] = ()
    #: the message that stands open from now on; {}: none does; None: as before
    thread: Mapping[str, Any] | None = None
    gaps: tuple[str, ...] = ()
    message: Mapping[str, Any] | None = None
    postmortem: Mapping[str, Any] | None = None
    draft: Mapping[str, Any] | None = None
    channels: tuple[str, ...] = ()


class Planned(StrEnum):
    DONE = "done"
    GONE = "gone"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message to one channel. `key` stays the same over all attempts."""

    id: str
    channel: str
    thread: str
    kind: str
    audit: str
    key: str
    attempt: int
    created: datetime
    payload: dict[str, Any]
    #: what the channel kept of the thread's message, and of this delivery so far
    ref: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None
    why: str = ""


class Outbox:
    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def untold(self, limit: int = 20) -> list[str]:
        """Finished audits that nothing was decided about, in the order in which they finished."""
        return [raw.decode() for raw in await self._c.do("ZRANGE", self._c.key("untold"), 0, limit - 1)]

    async def finished(self, audit: str) -> Finished | None:
        record = fields(await self._c.do("HGETALL", self._c.key("audit", audit)))
        if "report" not in record:
            return None
        try:
            return Finished(
                audit,
                unpack_object(record["report"], f"the report of audit {audit}"),
                tuple(orjson.loads(record["transitions"])),
                orjson.loads(record["previous"]) if record.get("previous") else None,
                orjson.loads(record["whole"]) if record.get("whole") else None,
                tuple(orjson.loads(record["gaps"])),
            )
        except (KeyError, orjson.JSONDecodeError) as error:
            raise StoreCorrupt(f"audit {audit} can't be read: {error!r}") from None

    async def told(self) -> Told:
        version = await self._c.do("GET", self._c.key("told-version"))
        parts = []
        for name in ("told", "threads", "drafts"):
            raw = fields(await self._c.do("HGETALL", self._c.key(name)))
            parts.append({key: unpack_object(value, f"{name} {key}") for key, value in raw.items()})
        return Told((version or b"0").decode(), *parts)

    async def plan(self, plan: Plan, told: Told, now: datetime) -> Planned:
        """Record a decision. CHANGED: another was recorded since `told` was read; decide again."""
        key = self._c.key
        header: dict[str, Any] = {
            "audit": plan.audit,
            "line": plan.line,
            "kind": plan.kind,
            "version": told.version,
            "now": ms(now),
            "news": orjson.dumps(plan.news).decode(),
            "told": {fp: orjson.dumps(what).decode() for fp, what in plan.told.items()},
            "forget": list(plan.forget),
            "gaps": list(plan.gaps),
            "postmortem": orjson.dumps(plan.postmortem).decode() if plan.postmortem else "",
            "draft": orjson.dumps(plan.draft).decode() if plan.draft else "{}",
        }
        if plan.thread is not None:
            header["thread"] = orjson.dumps(plan.thread).decode() if plan.thread else ""
        names = ("told", "told-version", "threads", "drafts", "postmortems", "ready", "counters", "gaps")
        keys = [key("untold"), key("audit", plan.audit), *map(key, names)]
        stub = pack(plan.postmortem) if plan.postmortem else b""
        arguments: list[Argument] = [orjson.dumps(header), orjson.dumps(plan.message or {}), stub]
        for channel in plan.channels:
            for kind in [*([plan.kind] if plan.message else []), *(["postmortem"] if plan.postmortem else [])]:
                identity = f"{plan.audit}/{kind}/{channel}"
                keys += [key("delivery", identity), key("line", channel, plan.line)]
                arguments += [identity, channel, kind, str(uuid.uuid5(_NAMESPACE, f"{key()}{identity}"))]
        return Planned((await self._c.run("plan", keys, arguments)).decode())

    async def claim(self, now: datetime, lease: timedelta, limit: int = 20) -> list[Delivery]:
        """Claim deliveries that are ready, under a lease."""
        claimed: list[Delivery] = []
        ready = await self._c.do("ZRANGEBYSCORE", self._c.key("ready"), "-inf", ms(now), "LIMIT", 0, limit)
        for identity in (raw.decode() for raw in ready):
            keys = [self._c.key("ready"), self._c.key("delivery", identity), self._c.key("refs")]
            reply = await self._c.run("deliver_claim", keys, [identity, ms(now), ms(now + lease)])
            if reply:
                claimed.append(_delivery(identity, *reply))
        return claimed

    async def delivered(self, delivery: Delivery, ref: Mapping[str, Any] | None, now: datetime) -> bool:
        """It has arrived. `ref`: what the channel needs to edit it later."""
        return await self._end(delivery, now, "delivered", ref, "")

    async def refuse(self, delivery: Delivery, why: str, now: datetime) -> bool:
        """It will never arrive: a dead letter, listed and replayable."""
        return await self._end(delivery, now, "refused", None, why)

    async def _end(self, delivery: Delivery, now: datetime, outcome: str, ref: Mapping[str, Any] | None, why: str) -> bool:
        keys = [*self._places(delivery), self._c.key("refs"), self._c.key("refused"), self._c.key("counters")]
        kept = orjson.dumps({**ref, "kept": ms(now)}) if ref else b""
        return bool(await self._c.run("deliver_end", keys, [delivery.id, delivery.attempt, ms(now), outcome, kept, why]))

    async def again(self, delivery: Delivery, when: datetime, why: str, progress: Mapping[str, Any] | None = None) -> bool:
        """Try it again later. `progress`: what has arrived of it so far."""
        keys = [self._c.key("ready"), self._c.key("delivery", delivery.id)]
        kept = orjson.dumps(dict(progress)) if progress else b""
        return bool(await self._c.run("deliver_again", keys, [delivery.id, delivery.attempt, ms(when), kept, why]))

    async def refused(self, limit: int = 100) -> list[Delivery]:
        """Deliveries that will never arrive by themselves, latest first."""
        names = [raw.decode() for raw in await self._c.do("ZREVRANGE", self._c.key("refused"), 0, limit - 1)]
        records = [(name, await self._c.do("HGETALL", self._c.key("delivery", name))) for name in names]
        return [_delivery(name, record, b"") for name, record in records if record]

    async def replay(self, delivery: Delivery, now: datetime) -> bool:
        """Try a refused delivery again."""
        keys = [*self._places(delivery), self._c.key("refused")]
        return bool(await self._c.run("deliver_replay", keys, [delivery.id, ms(now)]))

    async def drop(self, delivery: Delivery) -> None:
        """Forget a refused delivery."""
        await self._c.do("ZREM", self._c.key("refused"), delivery.id)
        await self._c.do("DEL", self._c.key("delivery", delivery.id))

    def _places(self, delivery: Delivery) -> list[str]:
        key = self._c.key
        return [key("ready"), key("delivery", delivery.id), key("line", delivery.channel, delivery.thread)]

    async def waiting(self) -> dict[str, float]:
        """How much waits to be told, to be delivered, and how much was refused."""
        names = {"untold": "untold", "undelivered": "ready", "refused": "refused"}
        return {name: await self._c.do("ZCARD", self._c.key(key)) for name, key in names.items()}

    async def purge(self, now: datetime, kept_for: timedelta) -> None:
        """Forget which message stood for a scope that has been quiet for long, and refusals of long ago."""
        limit = ms(now - kept_for)
        for name, stamp in (("refs", "kept"), ("threads", "at"), ("drafts", "at")):
            raw = fields(await self._c.do("HGETALL", self._c.key(name)))
            if old := [k for k, v in raw.items() if unpack_object(v, f"{name} {k}").get(stamp, 0) < limit]:
                await self._c.do("HDEL", self._c.key(name), *old)
        for identity in await self._c.do("ZRANGEBYSCORE", self._c.key("refused"), "-inf", limit, "LIMIT", 0, _CHUNK):
            await self._c.do("ZREM", self._c.key("refused"), identity)
            await self._c.do("DEL", self._c.key("delivery", identity.decode()))


def _delivery(identity: str, record: Any, ref: bytes) -> Delivery:
    found = fields(record)
    try:
        return Delivery(
            id=identity,
            channel=found["channel"].decode(),
            thread=found["thread"].decode(),
            kind=found["kind"].decode(),
            audit=found["audit"].decode(),
            key=found["key"].decode(),
            attempt=int(found["attempt"]),
            created=at(found["created"]),
            payload=unpack_object(found["payload"], f"delivery {identity}"),
            ref=unpack_object(ref, f"the message of {identity}") if ref else None,
            progress=unpack_object(found["progress"], f"delivery {identity}") if "progress" in found else None,
            why=found.get("why", b"").decode(),
        )
    except KeyError as error:
        raise StoreCorrupt(f"delivery {identity} can't be read: no {error}") from None
