"""Is it news? Silence is the normal case."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from functions.contract.findings import Finding, Severity, Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import CLUSTER, TriggerKind
from functions.reports.news import Before, Kind, News, Reason, before, decide, drafts, line_of
from tests.support.reports import EXPORTER, NOW, check, finding, report

POD = finding()
FP = POD.fingerprint("lab")
HERE = str(EXPORTER)


def told(f: Finding = POD, severity: str = "critical", scope: str = HERE) -> dict[str, dict[str, str]]:
    return {f.fingerprint("lab"): {"severity": severity, "scope": scope}}


def knows(told: Mapping[str, Mapping[str, str]] | None = None, **more: Any) -> Before:
    return before(HERE, told or {}, more.pop("thread", None), more.pop("earlier", ()), more.pop("muted", ()))


def say(audit: AuditReport, known: Before, *transitions: tuple[str, str]) -> News:
    return decide(audit.as_dict(), [{"fingerprint": fp, "kind": kind} for fp, kind in transitions], known)


FAILING = report("a", check("label-mapping", [POD]))
PASSING = report("a", check("label-mapping"))
BLIND = report("a", check("telemetry-gap", missing="unreachable"), check("label-mapping"))
UNKNOWN_BEFORE = {"verdict": "unknown", "unknown": {"telemetry-gap": ["schema"]}}


def test_a_new_failure_is_posted() -> None:
    news = say(FAILING, knows(), (FP, "opened"))
    assert (news.kind, news.reason, news.told, news.loud) == (Kind.POST, Reason.NEW_FAILURE, {FP: "critical"}, True)


def test_a_cause_that_was_told_is_not_told_again() -> None:
    news = say(FAILING, knows(told()), (FP, "ongoing"))
    assert (news.kind, news.reason) == (Kind.SILENT, Reason.UNCHANGED)


def test_a_worse_cause_is_told_as_an_update() -> None:
    news = say(FAILING, knows(told(severity="warning")), (FP, "worsened"))
    assert (news.kind, news.reason) == (Kind.UPDATE, Reason.WORSE)


def test_a_milder_cause_is_not_told() -> None:
    mild = report("a", check("label-mapping", [finding(severity=Severity.INFO)]))
    assert say(mild, knows(told()), (FP, "ongoing")).kind is Kind.SILENT


def test_what_came_back_is_told() -> None:
    assert say(FAILING, knows(), (FP, "reopened")).reason is Reason.REOPENED


def test_what_was_told_and_is_gone_is_resolved() -> None:
    news = say(PASSING, knows(told()), (FP, "resolved"))
    assert (news.kind, news.reason, news.resolved, news.standing) == (Kind.RESOLVED, Reason.RESOLVED, (FP,), False)


def test_one_of_two_gone_is_an_update() -> None:
    other = finding(node="n-2")
    audit = report("a", check("label-mapping", [other]))
    news = say(audit, knows({**told(), **told(other)}), (FP, "resolved"))
    assert (news.kind, news.reason) == (Kind.UPDATE, Reason.RESOLVED)


def test_what_was_never_told_is_resolved_in_silence() -> None:
    audit = report("a", check("label-mapping"), scope=CLUSTER, kind=TriggerKind.SCHEDULE)
    assert say(audit, knows(), (FP, "resolved")).kind is Kind.SILENT


def test_what_is_newly_unknown_is_posted_once() -> None:
    assert (say(BLIND, knows()).kind, say(BLIND, knows()).reason) == (Kind.POST, Reason.UNKNOWN)
    again = say(BLIND, knows(earlier=[UNKNOWN_BEFORE, None]))
    assert (again.kind, again.reason) == (Kind.SILENT, Reason.UNCHANGED)
    elsewhere = say(BLIND, knows(earlier=[None, UNKNOWN_BEFORE]))
    assert elsewhere.kind is Kind.SILENT


def test_what_is_unknown_for_a_further_reason_is_posted() -> None:
    known = knows(earlier=[{"verdict": "unknown", "unknown": {"telemetry-gap": ["rules"]}}])
    assert say(BLIND, known).reason is Reason.UNKNOWN


def test_what_can_be_judged_again_ends_the_standing_message() -> None:
    audit = report("a", check("telemetry-gap"), check("label-mapping"))
    known = knows(thread={"unknown": True}, earlier=[UNKNOWN_BEFORE])
    news = say(audit, known)
    assert (news.kind, news.reason) == (Kind.RESOLVED, Reason.JUDGED)


def test_what_fails_when_it_can_be_judged_again_is_an_update() -> None:
    known = knows(thread={"unknown": True}, earlier=[UNKNOWN_BEFORE])
    assert say(report("a", check("telemetry-gap", [POD])), known, (FP, "opened")).kind is Kind.UPDATE


def test_an_unknown_finding_is_told_and_told_again_as_a_failure() -> None:
    doubt = report("a", check("label-mapping", [finding(verdict=Verdict.UNKNOWN, node="n-1", gpu="GPU-1")]))
    first = say(doubt, knows(), (FP, "opened"))
    assert (first.reason, first.told) == (Reason.UNKNOWN, {FP: "unknown"})
    second = say(FAILING, knows(told(severity="unknown")), (FP, "confirmed"))
    assert (second.kind, second.reason) == (Kind.UPDATE, Reason.NEW_FAILURE)


def test_a_healthy_rollout_is_one_line() -> None:
    news = say(PASSING, knows())
    assert (news.kind, news.reason, news.brief, news.loud) == (Kind.POST, Reason.HEALTHY, True, False)


def test_a_failed_rollout_that_broke_nothing_is_not_called_a_success() -> None:
    assert say(report("a", check("label-mapping"), phase="failed"), knows()).reason is Reason.ENDED


@pytest.mark.parametrize("kind", [TriggerKind.SCHEDULE, TriggerKind.KUBERNETES_EVENT, TriggerKind.MANUAL])
def test_a_quiet_cluster_posts_nothing(kind: TriggerKind) -> None:
    news = say(report("a", check("label-mapping"), scope=CLUSTER, kind=kind, phase=""), knows())
    assert (news.kind, news.reason) == (Kind.SILENT, Reason.QUIET)


def test_a_muted_cause_is_silent_until_its_mute_ends() -> None:
    assert say(FAILING, knows(muted=[FP]), (FP, "opened")).reason is Reason.MUTED
    assert say(FAILING, knows(), (FP, "ongoing")).reason is Reason.NEW_FAILURE


def test_what_another_scope_told_is_ended_in_its_own_thread() -> None:
    elsewhere = told(scope="node/n-1")
    news = say(report("a", check("label-mapping"), scope=CLUSTER), knows(elsewhere), (FP, "resolved"))
    line, there = line_of("cluster", news, elsewhere)
    assert (line, there.kind) == ("node/n-1", Kind.RESOLVED)
    both = {**elsewhere, **told(finding(node="n-2"), scope="node/n-1")}
    assert line_of("cluster", news, both)[1].kind is Kind.UPDATE
    assert line_of("cluster", say(FAILING, knows()), {})[0] == "cluster"


def draft(audit: AuditReport, news: News, last: Mapping[str, Any] | None = None) -> str:
    return drafts(audit.as_dict(), news, last, NOW)


def ago(minutes: float, trigger: str) -> dict[str, Any]:
    return {"at": (NOW - timedelta(minutes=minutes)).timestamp() * 1000, "trigger": trigger}


SILENT = News(Kind.SILENT, Reason.UNCHANGED)


def test_an_alert_while_something_can_not_be_followed_drafts_a_postmortem() -> None:
    firing = report("a", check("label-mapping", [POD]), kind=TriggerKind.ALERT, phase="firing")
    assert "alert fires" in draft(firing, SILENT)
    assert draft(firing, SILENT, ago(5, "alert/firing")) == ""
    assert draft(firing, SILENT, ago(90, "alert/firing"))
    assert draft(report("a", check("label-mapping"), kind=TriggerKind.ALERT, phase="firing"), SILENT) == ""


def test_a_resolved_alert_completes_the_draft_of_its_scope() -> None:
    resolved = report("a", check("label-mapping"), kind=TriggerKind.ALERT, phase="resolved")
    assert draft(resolved, SILENT, ago(5, "alert/firing"))
    assert draft(resolved, SILENT) == ""


@pytest.mark.parametrize("phase", ["failed", "stalled"])
def test_a_rollout_that_does_not_succeed_drafts_a_postmortem(phase: str) -> None:
    assert draft(report("a", check("label-mapping"), phase=phase), SILENT)


def test_a_cause_that_newly_misleads_drafts_a_postmortem_and_an_old_one_does_not() -> None:
    assert draft(FAILING, say(FAILING, knows(), (FP, "opened")))
    assert draft(FAILING, say(FAILING, knows(told()))) == ""
    mild = report("a", check("label-mapping", [finding(severity=Severity.WARNING)]))
    assert draft(mild, say(mild, knows(), (FP, "opened"))) == ""
