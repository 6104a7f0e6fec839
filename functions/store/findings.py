"""Findings over time: what is open and since when, what was resolved, what is muted, and the log of transitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from functions.contract.report import instant
from functions.store.codec import at, fields, ms, pack, unpack_object
from functions.store.connection import Connection
from functions.store.errors import StoreCorrupt
from functions.store.life import OpenFinding

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Mute:
    """A finding about which nothing is posted until a time."""

    fingerprint: str
    until: datetime
    reason: str


class Findings:
    def __init__(self, connection: Connection) -> None:
        self._c = connection

    async def opened(self) -> list[OpenFinding]:
        """All open findings, as far as it takes to compare them with a report."""
        raw = await self._c.do("ZRANGE", self._c.key("open"), 0, -1)
        lives = await self._lives([fp.decode() for fp in raw])
        return [_open(fp, text) for fp, text in lives.items()]

    async def page(
        self, cursor: str | None, limit: int, *, everything: bool = False, check: str = "", severity: str = "", now: datetime | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Findings in the form of the API, the gravest open ones first, then (`everything`) the resolved, latest first."""
        raw = await self._c.do("ZRANGE", self._c.key("open"), 0, -1)
        if everything:
            raw += await self._c.do("ZREVRANGE", self._c.key("closed"), 0, -1)
        names = [fp.decode() for fp in raw]
        start = _after(cursor, names)
        mutes = {m.fingerprint: m for m in await self.mutes(now)} if now else {}
        page: list[dict[str, Any]] = []
        for chunk in range(start, len(names), _CHUNK):
            part = names[chunk : chunk + _CHUNK]
            lives = await self._lives(part)
            fit = [fp for fp in part if fp in lives and _fits(orjson.loads(lives[fp]), check, severity)]
            for record in await self._records(fit[: limit + 1 - len(page)], lives, mutes):
                page.append(record)
            if len(page) > limit:
                last = str(page[limit - 1]["fingerprint"])
                return page[:limit], f"{last}~{names.index(last)}"
        return page, None

    async def get(self, fingerprint: str, now: datetime | None = None) -> dict[str, Any] | None:
        """One finding in the form of the API."""
        lives = await self._lives([fingerprint])
        mutes = {m.fingerprint: m for m in await self.mutes(now)} if now else {}
        records = await self._records([fingerprint], lives, mutes) if lives else []
        return records[0] if records else None

    async def _lives(self, names: list[str]) -> dict[str, bytes]:
        lives: dict[str, bytes] = {}
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            texts = await self._c.do("HMGET", self._c.key("life"), *part)
            lives.update((fp, text) for fp, text in zip(part, texts, strict=True) if text is not None)
        return lives

    async def _records(self, names: list[str], lives: Mapping[str, bytes], mutes: Mapping[str, Mute]) -> list[dict[str, Any]]:
        if not names:
            return []
        contents = await self._c.do("HMGET", self._c.key("findings"), *names)
        records = []
        for fp, content in zip(names, contents, strict=True):
            if content is None:
                raise StoreCorrupt(f"finding {fp} has a life and no content")
            life = unpack_object(lives[fp], f"the life of finding {fp}")
            record = unpack_object(content, f"finding {fp}") | {
                "state": life["state"],
                "severity": life["severity"],
                "verdict": life["verdict"],
                "first_seen": instant(at(life["first"])),
                "last_seen": instant(at(life["last"])),
                "resolved_at": instant(at(life["closed"])) if "closed" in life else None,
                "count": round(life["count"]),
                "reopened": round(life["reopened"]),
                "first_audit": life["first_audit"],
                "audit": life["audit"],
            }
            if mute := mutes.get(fp):
                record |= {"muted_until": instant(mute.until), "mute_reason": mute.reason}
            records.append(record)
        return records

    async def mute(self, fingerprint: str, until: datetime, reason: str) -> None:
        """Post nothing about a finding until a time. It is still counted and listed."""
        await self._c.do("HSET", self._c.key("mutes"), fingerprint, pack({"until": ms(until), "reason": reason}))

    async def unmute(self, fingerprint: str) -> bool:
        return bool(await self._c.do("HDEL", self._c.key("mutes"), fingerprint))

    async def mutes(self, now: datetime) -> list[Mute]:
        """The mutes that hold now."""
        found = []
        for fp, raw in fields(await self._c.do("HGETALL", self._c.key("mutes"))).items():
            value = unpack_object(raw, f"the mute of {fp}")
            if value["until"] > ms(now):
                found.append(Mute(fp, at(value["until"]), str(value["reason"])))
        return sorted(found, key=lambda m: m.until)

    async def transitions(self, limit: int = 100) -> list[dict[str, str]]:
        """The latest transitions, newest first."""
        reply = await self._c.do("XREVRANGE", self._c.key("log"), "+", "-", "COUNT", limit)
        log = [{name: value.decode() for name, value in fields(entry).items()} for _, entry in reply]
        return [{**entry, "at": instant(at(entry["at"])) or ""} for entry in log]

    async def counts(self) -> dict[tuple[str, str], int]:
        """Open findings by check and severity."""
        counted: dict[tuple[str, str], int] = {}
        for finding in await self.opened():
            severity = str(orjson.loads(finding.raw)["severity"])
            key = (finding.code.partition("/")[0], severity)
            counted[key] = counted.get(key, 0) + 1
        return counted

    async def purge(self, now: datetime, resolved_for: timedelta) -> int:
        """Forget what was resolved long ago, and mutes that have ended."""
        old = await self._c.do("ZRANGEBYSCORE", self._c.key("closed"), "-inf", ms(now - resolved_for), "LIMIT", 0, _CHUNK)
        if old:
            await self._c.do("HDEL", self._c.key("life"), *old)
            await self._c.do("HDEL", self._c.key("findings"), *old)
            await self._c.do("ZREM", self._c.key("closed"), *old)
        mutes = fields(await self._c.do("HGETALL", self._c.key("mutes")))
        await self._drop("mutes", [fp for fp, raw in mutes.items() if unpack_object(raw, f"the mute of {fp}")["until"] <= ms(now)])
        return len(old)

    async def _drop(self, name: str, members: Iterable[str]) -> None:
        if names := list(members):
            await self._c.do("HDEL", self._c.key(name), *names)


def _open(fingerprint: str, text: bytes) -> OpenFinding:
    life = unpack_object(text, f"the life of finding {fingerprint}")
    try:
        subject = orjson.loads(life["subject"])
        return OpenFinding(fingerprint, life["code"], subject, life["scope"], life["last"], text.decode())
    except (KeyError, orjson.JSONDecodeError) as error:
        raise StoreCorrupt(f"the life of finding {fingerprint} can't be read: {error!r}") from None


def _after(cursor: str | None, names: list[str]) -> int:
    """Where the page after a cursor starts, also where the finding that it names is gone."""
    fingerprint, _, place = (cursor or "").partition("~")
    if fingerprint in names:
        return names.index(fingerprint) + 1
    return int(place) if place.isdigit() else 0


def _fits(life: Mapping[str, Any], check: str, severity: str) -> bool:
    return (not check or life["code"].partition("/")[0] == check) and (not severity or life["severity"] == severity)
