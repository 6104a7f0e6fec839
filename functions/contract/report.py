"""The report of one audit, and its JSON form (`telltale.dev/audit/v1`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from functions.contract.findings import CheckResult, Finding, Verdict, worst
from functions.contract.signals import Scope, Signal, Trigger

SCHEMA = "telltale.dev/audit/v1"


def instant(value: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the second, with a Z."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if value else None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Everything one audit found. `as_dict` is the contract with outside tools."""

    id: str
    cluster: str
    scope: Scope
    trigger: Trigger
    baseline: datetime | None
    current: datetime
    checks: tuple[CheckResult, ...]
    signals: tuple[Signal, ...] = ()
    #: what the watch may have missed, as lines for a person
    coverage: tuple[str, ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)
    #: the affected workloads with their devices, requests and what was done, for the postmortem (reports/context.py)
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f for c in self.checks for f in c.findings)

    @property
    def verdict(self) -> Verdict:
        return worst(c.verdict for c in self.checks)

    def as_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "audit": {
                "id": self.id,
                "cluster": self.cluster,
                "scope": str(self.scope),
                "verdict": self.verdict.value,
                "trigger": self.trigger.as_dict(),
                "baseline": instant(self.baseline),
                "current": instant(self.current),
                "coverage": list(self.coverage),
                "cost": dict(self.cost),
            },
            "checks": [_check(c) for c in self.checks],
            "findings": [finding_as_dict(f, self.cluster) for f in self.findings],
            "signals": [s.as_dict() for s in self.signals],
            "context": dict(self.context),
        }


def _check(check: CheckResult) -> dict[str, Any]:
    return {
        "id": check.id,
        "verdict": check.verdict.value,
        "summary": check.summary,
        "judged": check.judged,
        "unjudged": len(check.unjudged),
        "unjudged_subjects": [{"subject": u.subject.parts(), "why": u.why} for u in check.unjudged[:50]],
        "missing": [{"fact": m.fact, "why": m.why, "detail": m.detail} for m in check.missing],
    }


def finding_as_dict(finding: Finding, cluster: str) -> dict[str, Any]:
    """A finding in the JSON form of the audit report."""
    return {
        "code": finding.code,
        "fingerprint": finding.fingerprint(cluster),
        "verdict": finding.verdict.value,
        "severity": finding.severity.value,
        "title": finding.title,
        "observed": finding.observed,
        "expected": finding.expected,
        "hint": finding.hint,
        "subject": finding.subject.parts(),
        "impact": [
            {k: v for k, v in (("kind", i.kind), ("name", i.name), ("expr", i.expr), ("suggested", i.suggested), ("note", i.note)) if v}
            for i in finding.impact
        ],
        "evidence": [{"source": e.source, "ref": e.ref, "sample": e.sample, "at": e.at} for e in finding.evidence],
    }
