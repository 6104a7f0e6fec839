"""Events that could not be delivered: kept as they came, listed with their reasons, replayed when a person asks.

A replay is only asked for here; the role that has the rights to read the cluster does it at its next tick. What they
are about is not lost without them: a due audit is claimed again, and the sweep finds what an object's event would have
told. Bounded in number and size, since a broken subscriber sends everything here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from functions.store.codec import at, ms, pack, unpack_object
from functions.store.connection import Argument, Connection
from functions.store.errors import StoreCorrupt

MOST = 500
#: a longer body is not kept: the letter can then be listed but not replayed
LONGEST_BODY = 256 * 1024


@dataclass(frozen=True, slots=True)
class Letter:
    """One undelivered event. `body` None: it was too long to keep."""

    id: str
    at: datetime
    #: type of the event and what it is about
    what: str
    why: str
    #: whom it could not be delivered to
    where: str
    headers: Mapping[str, str]
    body: bytes | None


class Letters:
    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def keep(self, letter: Letter) -> bool:
        """Keep it. False: it is kept already."""
        names = ("letters", "letters-at", "letters-wanted", "counters")
        arguments: list[Argument] = [letter.id, ms(letter.at), pack(_record(letter)), MOST]
        return bool(await self._c.run("letter_keep", [self._c.key(name) for name in names], arguments))

    async def list(self, limit: int = 100) -> tuple[Letter, ...]:
        """Latest first."""
        names = [raw.decode() for raw in await self._c.do("ZREVRANGE", self._c.key("letters-at"), 0, limit - 1)]
        found = [await self.get(name) for name in names]
        return tuple(letter for letter in found if letter)

    async def get(self, identity: str) -> Letter | None:
        raw = await self._c.do("HGET", self._c.key("letters"), identity)
        if raw is None:
            return None
        record = unpack_object(raw, f"the dead letter {identity}")
        try:
            body = record.pop("body")
            when = at(record.pop("at"))
            return Letter(at=when, body=None if body is None else body.encode("latin-1"), **record)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreCorrupt(f"the dead letter {identity} can't be read: {error!r}") from None

    async def want(self, identity: str, now: datetime) -> None:
        """Ask for it to be replayed."""
        await self._c.do("ZADD", self._c.key("letters-wanted"), ms(now), identity)

    async def wanted(self, limit: int = 20) -> tuple[Letter, ...]:
        """Take the letters whose replay is asked for; each is given out once, and stays listed until it is dropped."""
        taken = []
        for identity in (raw.decode() for raw in await self._c.do("ZRANGE", self._c.key("letters-wanted"), 0, limit - 1)):
            if await self._c.do("ZREM", self._c.key("letters-wanted"), identity) and (letter := await self.get(identity)):
                taken.append(letter)
        return tuple(taken)

    async def explain(self, letter: Letter, why: str) -> None:
        """Say why its replay came to nothing."""
        if await self._c.do("HEXISTS", self._c.key("letters"), letter.id):
            await self._c.do("HSET", self._c.key("letters"), letter.id, pack(_record(letter) | {"why": why}))

    async def drop(self, identity: str) -> bool:
        """Forget it."""
        await self._c.do("ZREM", self._c.key("letters-wanted"), identity)
        await self._c.do("ZREM", self._c.key("letters-at"), identity)
        return bool(await self._c.do("HDEL", self._c.key("letters"), identity))

    async def waiting(self) -> dict[str, float]:
        return {"dead_events": await self._c.do("ZCARD", self._c.key("letters-at"))}

    async def purge(self, before: datetime) -> None:
        """Forget those of long ago."""
        for raw in await self._c.do("ZRANGEBYSCORE", self._c.key("letters-at"), "-inf", ms(before)):
            await self.drop(raw.decode())


def _record(letter: Letter) -> dict[str, Any]:
    # latin-1 keeps every byte, of what is no text as well
    body = None if letter.body is None else letter.body.decode("latin-1")
    return {**asdict(letter), "at": ms(letter.at), "body": body}
