"""What processes keep for each other and for later: episode states, baselines, watch gaps, signs of life, counters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson

from functions.store.codec import at, fields, ms, pack, unpack, unpack_object
from functions.store.connection import Connection
from functions.store.errors import StoreCorrupt

#: States of Events have no end; the others are kept for as long as their object lives.
_ENDLESS = "event/"
_MOST_GAPS = 50


class Episodes:
    """Last seen states of rollouts and nodes, kept by compare-and-set."""

    def __init__(self, connection: Connection, event_states_for: timedelta = timedelta(days=2)) -> None:
        self._c = connection
        self._event_ms = round(event_states_for.total_seconds() * 1000)

    async def get(self, key: str) -> tuple[dict[str, Any] | None, str]:
        """The state and its version, of an absent one as well."""
        raw = await self._c.do("GET", self._c.key("episode", key))
        if raw is None:
            return None, "0"
        version, _, text = raw.partition(b"\n")
        if not version.isdigit():
            raise StoreCorrupt(f"the state {key} can't be read")
        return unpack_object(text, f"the state {key}"), version.decode()

    async def put(self, key: str, state: Mapping[str, Any] | None, version: str) -> bool:
        """Keep the state (None: forget it) if its version is still this one."""
        keys = [self._c.key("episode", key), self._c.key("episode-versions")]
        text = b"" if state is None else pack(dict(state))
        return bool(await self._c.run("episode", keys, [version, text, self._event_ms if key.startswith(_ENDLESS) else 0]))


class Notes:
    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def keep_baseline(self, name: str, taken: datetime, inventory: Any) -> bool:
        """Keep the last good inventory, unless a later one is kept already."""
        keys = [self._c.key("baseline-at"), self._c.key("baselines")]
        return bool(await self._c.run("baseline", keys, [name, ms(taken), pack(inventory)]))

    async def baseline(self, name: str) -> tuple[datetime, Any] | None:
        """The last good inventory of that name, and when it was taken."""
        taken = await self._c.do("HGET", self._c.key("baseline-at"), name)
        raw = await self._c.do("HGET", self._c.key("baselines"), name)
        return None if taken is None or raw is None else (at(taken), unpack(raw, f"baseline {name}"))

    async def note_gap(self, gap: Mapping[str, Any], now: datetime) -> None:
        """Something may have gone unseen. The next audit that completes says so, once."""
        key = self._c.key("gaps")
        await self._c.do("ZADD", key, ms(now), orjson.dumps(dict(gap), option=orjson.OPT_SORT_KEYS))
        await self._c.do("ZREMRANGEBYRANK", key, 0, -_MOST_GAPS - 1)

    async def gaps(self) -> dict[str, dict[str, Any]]:
        """Gaps that no report has told yet, by the text under which `complete` takes them off."""
        raw = await self._c.do("ZRANGE", self._c.key("gaps"), 0, -1)
        return {text.decode(): unpack_object(text, "a watch gap") for text in raw}

    async def beat(self, role: str, now: datetime) -> None:
        """A sign of life."""
        await self._c.do("HSET", self._c.key("beats"), role, ms(now))

    async def beats(self) -> dict[str, datetime]:
        return {role: at(when) for role, when in fields(await self._c.do("HGETALL", self._c.key("beats"))).items()}

    async def count(self, name: str, by: int = 1) -> None:
        await self._c.do("HINCRBY", self._c.key("counters"), name, by)

    async def counters(self) -> dict[str, int]:
        return {name: int(value) for name, value in fields(await self._c.do("HGETALL", self._c.key("counters"))).items()}
