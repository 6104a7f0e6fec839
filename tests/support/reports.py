"""Small builders of signals, findings and reports for the tests of what happens around the checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.contract.findings import CheckResult, Finding, MissingFact, Severity, Subject, Unjudged, Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import CLUSTER, AuditRequest, Scope, Signal, Trigger, TriggerKind
from functions.contract.signals import Subject as Thing

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
EXPORTER = Scope("DaemonSet", "gpu-operator", "nvidia-dcgm-exporter")


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def signal(key: str, scope: Scope = EXPORTER, kind: TriggerKind = TriggerKind.ROLLOUT, phase: str = "complete", **more: Any) -> Signal:
    thing = None if scope == CLUSTER else Thing({"node": "Node"}.get(scope.kind, scope.kind), scope.name, scope.namespace)
    return Signal(key, Trigger(kind, phase, thing), scope, more.pop("at", NOW), summary=f"{kind.value} {phase} of {scope}", **more)


def finding(code: str = "label-mapping/pod-missing", severity: Severity = Severity.CRITICAL, **subject: Any) -> Finding:
    verdict = subject.pop("verdict", Verdict.FAIL)
    subject = subject or {"node": "n-1", "gpu": "GPU-1"}
    return Finding(
        code=code,
        title=f"{code} on {' '.join(subject.values())}",
        observed="seen",
        expected="wanted",
        hint="do this",
        subject=Subject(**subject),
        severity=severity,
        verdict=verdict,
    )


def check(
    id: str, findings: Iterable[Finding] = (), *, judged: int = 8, unjudged: Sequence[dict[str, str]] = (), missing: str = ""
) -> CheckResult:
    """One check's outcome. `missing`: why it could not be called."""
    found = tuple(findings)
    if missing:
        return CheckResult(
            id, Verdict.UNKNOWN, f"not judged: {missing}", missing=(MissingFact("schema", missing, f"Prometheus: {missing}"),)
        )
    verdict = Verdict.FAIL if any(f.verdict is Verdict.FAIL for f in found) else Verdict.UNKNOWN if found or unjudged else Verdict.PASS
    left = tuple(Unjudged(Subject(**u), "no answer") for u in unjudged)
    return CheckResult(id, verdict if judged else Verdict.NOT_APPLICABLE, f"{judged} judged", judged, left, (), found)


def report(id: str, *checks: CheckResult, scope: Scope = EXPORTER, kind: TriggerKind = TriggerKind.ROLLOUT, **more: Any) -> AuditReport:
    first = signal(f"{id}/signal", scope, kind, more.pop("phase", "complete"))
    return AuditReport(
        id=id,
        cluster="lab",
        scope=scope,
        trigger=first.trigger,
        baseline=more.pop("baseline", NOW - timedelta(hours=1)),
        current=more.pop("current", NOW),
        checks=checks or (check("label-mapping"),),
        signals=more.pop("signals", (first,)),
        **more,
    )


def request(id: str = "a-1", *signals: Signal, scope: Scope = EXPORTER, **more: Any) -> AuditRequest:
    led = signals or (signal("s-1", scope),)
    return AuditRequest(id, scope, led[0].trigger, due=NOW, signals=led, **more)
