"""Findings and verdicts. One fingerprint per cause; never the message, never a Pod's random suffix."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum


class Verdict(StrEnum):
    FAIL = "fail"
    UNKNOWN = "unknown"
    PASS = "pass"
    NOT_APPLICABLE = "not-applicable"


_RANK = {Verdict.FAIL: 3, Verdict.UNKNOWN: 2, Verdict.PASS: 1, Verdict.NOT_APPLICABLE: 0}


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """fail > unknown > pass > not-applicable; nothing at all is not-applicable."""
    return max(verdicts, key=_RANK.__getitem__, default=Verdict.NOT_APPLICABLE)


class Severity(StrEnum):
    """critical: a person on call is misled now · warning: something is lost · info: nothing in use depends on it."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a finding is about. Unset parts are left out of the report. `workload` is Kind/name."""

    node: str | None = None
    gpu: str | None = None
    gpu_instance: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    workload: str | None = None
    metric: str | None = None
    label: str | None = None
    renamed_to: str | None = None
    job: str | None = None
    target: str | None = None
    rule: str | None = None
    rule_group: str | None = None
    dashboard: str | None = None
    uid: str | None = None
    trace: str | None = None
    experiment: str | None = None

    def parts(self) -> dict[str, str]:
        """The parts that are set, in order of declaration."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def identity(self) -> tuple[tuple[str, str], ...]:
        """What the fingerprint rests on: the owner instead of the Pod, where the owner is known."""
        parts = self.parts()
        if "workload" in parts:
            parts.pop("pod", None)
        return tuple(sorted(parts.items()))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing a person can check by hand. `source`: prometheus, exposition, kubernetes, rules, dashboard, traces, logs."""

    source: str
    ref: str
    sample: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Impact:
    """Something people rely on that the finding breaks. `kind`: alert, recording-rule, dashboard."""

    kind: str
    name: str
    expr: str
    suggested: str | None = None
    #: what exactly breaks, where the expression alone does not show it
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    title: str
    observed: str
    expected: str
    hint: str
    subject: Subject
    severity: Severity
    verdict: Verdict = Verdict.FAIL
    impact: tuple[Impact, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    @property
    def check(self) -> str:
        return self.code.partition("/")[0]

    def fingerprint(self, cluster: str) -> str:
        """One per cause: cluster, code and the subject's identity."""
        text = "\x1f".join([cluster, self.code, *(f"{k}={v}" for k, v in self.subject.identity())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A subject that a check could not judge, and why. Never green."""

    subject: Subject
    why: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a check returns. `judged` counts the subjects that were looked at, pass or fail."""

    findings: tuple[Finding, ...] = ()
    judged: int = 0
    unjudged: tuple[Unjudged, ...] = ()
    #: what was proven, in a few words ("64 devices of 3 nodes map to their Pods")
    proven: str = ""


@dataclass(frozen=True, slots=True)
class MissingFact:
    fact: str
    why: str
    detail: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check's outcome in a report."""

    id: str
    verdict: Verdict
    summary: str
    judged: int = 0
    unjudged: tuple[Unjudged, ...] = ()
    missing: tuple[MissingFact, ...] = ()
    findings: tuple[Finding, ...] = field(default=(), repr=False)
