"""Which open findings an audit has shown to be gone. Pure.

A resolved state needs positive evidence: the finding's check ran, judged, has the finding's subject within its reach and
neither finds it nor leaves it unjudged. An unknown never resolves anything, and neither does a fault that hides others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from functions.contract.findings import CheckResult, Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import Scope

Parts = Mapping[str, str]

#: Findings behind which nothing else can be told (DESIGN.md, "one cause, one finding").
_HIDES = frozenset(
    {
        "telemetry-gap/target-down",
        "telemetry-gap/bad-exposition",
        "telemetry-gap/empty-exposition",
        "telemetry-gap/node-uncovered",
        "telemetry-gap/stale",
    }
)
#: What people look at is judged by itself: a target that can't be judged leaves no rule unjudged, and the reverse.
_LOOKED_AT = frozenset({"rule", "dashboard"})
#: Not part of where a finding is: two findings on one device may differ in them.
_NOT_A_PLACE = frozenset({"renamed_to", "rule_group", "uid"})


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """What is kept of an open finding, as far as it decides whether it is gone."""

    fingerprint: str
    code: str
    subject: Parts
    #: the scope of the audit that saw it last
    scope: str
    #: milliseconds of the instant at which it was seen last
    last: float
    #: the stored text, for compare-and-set
    raw: str


def resolved_by(report: AuditReport, opened: Iterable[OpenFinding]) -> list[OpenFinding]:
    """The open findings that the report has shown to be gone."""
    found = {f.fingerprint(report.cluster) for f in report.findings}
    checks = {c.id: c for c in report.checks}
    hiding = [f.subject.parts() for f in report.findings if f.code in _HIDES]
    instant = report.current.timestamp() * 1000
    return [
        o
        for o in opened
        if o.fingerprint not in found
        and o.last <= instant
        and (check := checks.get(o.code.partition("/")[0])) is not None
        and _has_judged(check, o)
        and within(report.scope, o)
        and not any(touches(parts, o.subject) for parts in hiding)
    ]


def _has_judged(check: CheckResult, finding: OpenFinding) -> bool:
    """The check ran and judged, and what it left unjudged is not this."""
    if check.verdict is Verdict.NOT_APPLICABLE or check.judged == 0:
        return False
    return not any(touches(u.subject.parts(), finding.subject) for u in check.unjudged)


def touches(part: Parts, subject: Parts) -> bool:
    """Whether what holds for one place may hold for the other: they differ in nothing that both name."""
    if part and bool(_LOOKED_AT & part.keys()) != bool(_LOOKED_AT & subject.keys()):
        return False
    return all(part[k] == subject[k] for k in (part.keys() & subject.keys()) - _NOT_A_PLACE)


def within(scope: Scope, finding: OpenFinding) -> bool:
    """Whether an audit of the scope looks at this: by where it is, or because an audit of the same scope has seen it."""
    subject = finding.subject
    if scope.kind == "cluster" or str(scope) == finding.scope:
        return True
    if scope.kind == "node":
        return subject.get("node") == scope.name
    if scope.kind == "namespace":
        return subject.get("namespace") == scope.name
    owner = subject.get("pod") if scope.kind == "Pod" else subject.get("workload")
    return subject.get("namespace") == scope.namespace and owner == (scope.name if scope.kind == "Pod" else f"{scope.kind}/{scope.name}")
