"""Finished audits: completing one is a single step, over report, findings, outbox and what must be judged again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from functions.contract.findings import Finding, Verdict
from functions.contract.report import AuditReport, finding_as_dict
from functions.store.codec import fields, ms, pack, unpack_object
from functions.store.connection import Argument, Connection
from functions.store.findings import Findings
from functions.store.life import resolved_by
from functions.store.queue import Entry, Lane, new_audit_id, slot_of

_LOG = 10_000
_CHUNK = 200
#: stubs that are kept, however old
_POSTMORTEMS = 1000


@dataclass(frozen=True, slots=True)
class JudgeAgain:
    """The sources were away: the same signals are audited once more."""

    entries: tuple[Entry, ...]
    due: datetime
    round: int
    baseline: datetime | None


class Audits:
    def __init__(self, connection: Connection, findings: Findings, signals_kept: int = 100) -> None:
        self._c = connection
        self._findings = findings
        self._signals_kept = signals_kept

    async def complete(
        self,
        report: AuditReport,
        now: datetime,
        *,
        gaps: Iterable[str] = (),
        again: JudgeAgain | None = None,
        dead: str = "",
    ) -> bool:
        """End an audit. False: it had ended before, and nothing is changed.

        `gaps`: the watch gaps that the report names (they are done with when it is told); `again`: judge later what can't
        be judged now; `dead`: why it was given up (it is then among the dead letters too).
        """
        contents = _contents(report)
        header: dict[str, Any] = {
            "audit": report.id,
            "scope": str(report.scope),
            "now": ms(now),
            "current": ms(report.current),
            "verdict": report.verdict.value,
            "log": _LOG,
            "findings": [_meta(f, fp) for fp, (f, _) in contents.items()],
            "resolve": [{"fingerprint": o.fingerprint, "life": o.raw} for o in resolved_by(report, await self._findings.opened())],
            "gaps": orjson.dumps(list(gaps)).decode(),
            "last": orjson.dumps(_last(report)).decode(),
        }
        if dead:
            header["dead"] = dead
        if again:
            header["again"] = self._again(report, again, now)
        slot = slot_of(report.scope, Lane.SETTLED)
        names = ("work", "audits", "findings", "life", "open", "closed", "log", "untold", "last", "counters", "dead", "due")
        keys = [self._c.key("audit", report.id), self._c.key("audit-signals", report.id), *map(self._c.key, names)]
        keys += [self._c.key("pending", slot), self._c.key("pending-signals", slot)]
        arguments: list[Argument] = [orjson.dumps(header), pack(report.as_dict()), *(content for _, content in contents.values())]
        if again:
            arguments += [pack(e.signal.as_dict()) for e in again.entries]
        return bool(await self._c.run("complete", keys, arguments))

    def _again(self, report: AuditReport, again: JudgeAgain, now: datetime) -> dict[str, Any]:
        return {
            "slot": slot_of(report.scope, Lane.SETTLED),
            "audit": new_audit_id(now),
            "due": ms(again.due),
            "span": 0,
            "round": again.round,
            "most": self._signals_kept,
            "baseline": str(ms(again.baseline)) if again.baseline else "",
            "ranks": [e.rank for e in again.entries],
        }

    async def page(self, cursor: str | None, limit: int) -> tuple[list[dict[str, Any]], str | None]:
        """Audit objects, newest first, and the cursor of the next page."""
        key = self._c.key("audits")
        start = await self._after(key, cursor) if cursor else 0
        names = await self._c.do("ZREVRANGE", key, start, start + limit)
        reports = [report for name in names[:limit] if (report := await self.get(name.decode())) is not None]
        if len(names) <= limit:
            return [r["audit"] for r in reports], None
        score = await self._c.do("ZSCORE", key, names[limit - 1])
        return [r["audit"] for r in reports], f"{round(float(score or 0))}~{names[limit - 1].decode()}"

    async def _after(self, key: str, cursor: str) -> int:
        """Where the page after a cursor starts, also where the audit that it names is gone."""
        when, _, audit = cursor.partition("~")
        rank = await self._c.do("ZREVRANK", key, audit)
        if rank is not None:
            return int(rank) + 1
        return int(await self._c.do("ZCOUNT", key, f"({when}" if when.isdigit() else "(0", "+inf"))

    async def get(self, audit: str) -> dict[str, Any] | None:
        """The whole report of a finished audit, in its JSON form."""
        raw = await self._c.do("HGET", self._c.key("audit", audit), "report")
        return None if raw is None else unpack_object(raw, f"the report of audit {audit}")

    async def outcome(self, audit: str) -> dict[str, Any]:
        """What is kept beside a report: when it was completed, its transitions, and what was decided to tell."""
        record = fields(await self._c.do("HGETALL", self._c.key("audit", audit)))
        kept = {name: value.decode() for name, value in record.items() if name in ("state", "completed", "why")}
        parsed = {name: orjson.loads(record[name]) for name in ("transitions", "news") if name in record}
        return kept | parsed

    async def postmortem(self, audit: str) -> str | None:
        """The postmortem stub that was drafted from an audit."""
        raw = await self._c.do("HGET", self._c.key("postmortems"), audit)
        return None if raw is None else str(unpack_object(raw, f"the postmortem of {audit}")["text"])

    async def postmortems(self) -> list[str]:
        """The audits that have a stub, newest first."""
        return sorted((name.decode() for name in await self._c.do("HKEYS", self._c.key("postmortems"))), reverse=True)

    async def purge(self, now: datetime, kept_for: timedelta, most: int = 5000) -> int:
        """Forget audits of long ago that have been told; dead letters and the latest postmortems stay."""
        key = self._c.key("audits")
        old = await self._c.do("ZRANGEBYSCORE", key, "-inf", ms(now - kept_for), "LIMIT", 0, _CHUNK)
        surplus = await self._c.do("ZCARD", key) - most
        if surplus > 0:
            old = list(dict.fromkeys([*old, *await self._c.do("ZRANGE", key, 0, min(surplus, _CHUNK) - 1)]))
        gone = 0
        for name in old:
            audit = name.decode()
            waiting = [await self._c.do("ZSCORE", self._c.key(index), audit) for index in ("untold", "dead")]
            if waiting == [None, None]:
                await self._c.do("DEL", self._c.key("audit", audit))
                await self._c.do("ZREM", key, audit)
                gone += 1
        if stubs := (await self.postmortems())[_POSTMORTEMS:]:
            await self._c.do("HDEL", self._c.key("postmortems"), *stubs)
        lasts = fields(await self._c.do("HGETALL", self._c.key("last")))
        limit = ms(now - kept_for)
        if quiet := [scope for scope, raw in lasts.items() if unpack_object(raw, f"the last audit of {scope}")["current"] < limit]:
            await self._c.do("HDEL", self._c.key("last"), *quiet)
        return gone


def _contents(report: AuditReport) -> Mapping[str, tuple[Finding, bytes]]:
    """Findings and their stored form by fingerprint; of those with one cause, the first fail stands for all."""
    contents: dict[str, tuple[Finding, bytes]] = {}
    for finding in sorted(report.findings, key=lambda f: f.verdict is not Verdict.FAIL):
        contents.setdefault(finding.fingerprint(report.cluster), (finding, pack(finding_as_dict(finding, report.cluster))))
    return contents


def _meta(finding: Finding, fingerprint: str) -> dict[str, str]:
    return {
        "fingerprint": fingerprint,
        "code": finding.code,
        "severity": finding.severity.value,
        "verdict": finding.verdict.value,
        "subject": orjson.dumps(finding.subject.parts()).decode(),
    }


def _last(report: AuditReport) -> dict[str, Any]:
    """What the next audit of the scope is compared with."""
    unknown = {c.id: sorted(m.fact for m in c.missing) for c in report.checks if c.verdict is Verdict.UNKNOWN}
    return {"audit": report.id, "current": ms(report.current), "verdict": report.verdict.value, "unknown": unknown}
