"""Which rules are blind, and of which another check or code speaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.contract.findings import CheckResult, Severity, Verdict
from functions.contract.rules import Matcher, Rule, RuleKind, Selector, SelectorCount
from tests.functions.checks.gap_facts import JOB, NAMES, codes, judge, metric, only, target

TEMP = "DCGM_FI_DEV_GPU_TEMP"


def alert(expr: str, name: str = "Hot") -> Rule:
    return Rule(RuleKind.ALERT, name, "gpu", expr, origin="rules/gpu.yaml")


def record(name: str, expr: str) -> Rule:
    return Rule(RuleKind.RECORD, name, "gpu", expr)


def count(name: str, series: int, *matchers: Matcher, job: str = JOB) -> SelectorCount:
    return SelectorCount(Selector(name, matchers), {job: series} if series else {})


def audit(*rules: Rule, now: tuple[SelectorCount, ...], before: tuple[SelectorCount, ...] | None = None, **facts: Any) -> CheckResult:
    return judge(rules=rules, selectors=now, selectors_before=now if before is None else before, **facts)


def blind(result: CheckResult) -> dict[str | None, Verdict]:
    return {f.subject.rule: f.verdict for f in result.findings if f.code == "telemetry-gap/alert-blind"}


def test_a_rule_that_selects_something_is_well() -> None:
    result = audit(alert(f"{TEMP} > 90"), now=(count(TEMP, 2),))
    assert result.verdict is Verdict.PASS


def test_an_alert_on_what_nobody_exports_is_blind_and_critical() -> None:
    found = only(audit(alert("DCGM_FI_DEV_FB_TOTAL > 1"), now=(count("DCGM_FI_DEV_FB_TOTAL", 0),)), "alert-blind")
    assert found.subject.rule == "Hot"
    assert found.severity is Severity.CRITICAL
    assert found.evidence[0].sample == "DCGM_FI_DEV_FB_TOTAL > 1"


def test_a_recording_rule_is_a_warning() -> None:
    found = only(audit(record("fb:total", "DCGM_FI_DEV_FB_TOTAL"), now=(count("DCGM_FI_DEV_FB_TOTAL", 0),)), "alert-blind")
    assert found.severity is Severity.WARNING


def test_an_alert_on_a_lost_metric_is_blind_beside_the_loss() -> None:
    name = "DCGM_FI_DEV_GPU_NVLINK_ERRORS"
    result = audit(
        alert(f"increase({name}[5m]) > 0"),
        now=(count(name, 0),),
        before=(count(name, 4),),
        schema_before=(*(metric(n) for n in NAMES), metric(name)),
    )
    assert codes(result) == {"went-silent", "alert-blind"}


def test_a_rule_on_a_renamed_metric_is_left_to_metric_rename() -> None:
    now = (*(metric(n) for n in NAMES if n != TEMP), metric(TEMP + "_CELSIUS"))
    assert not blind(audit(alert(f"{TEMP} > 90"), now=(count(TEMP, 0),), before=(count(TEMP, 2),), schema=now))


def test_an_alert_on_an_event_that_has_not_happened_is_well() -> None:
    assert not blind(audit(alert("DCGM_FI_DEV_XID_ERRORS > 0"), now=(count("DCGM_FI_DEV_XID_ERRORS", 0),)))


@pytest.mark.parametrize("expr", ["absent(nothing_here)", f"nothing_here or {TEMP}", "up == 0", f"{TEMP} unless nothing_here"])
def test_what_an_expression_does_not_need_may_be_absent(expr: str) -> None:
    assert not blind(audit(alert(expr), now=(count("nothing_here", 0), count(TEMP, 2), count("up", 0))))


def test_the_output_of_a_recording_rule_counts_as_there_where_the_rule_sees_something() -> None:
    rules = (record("gpu:temp:max", f"max({TEMP})"), alert("gpu:temp:max > 90"))
    assert not blind(audit(*rules, now=(count(TEMP, 2), count("gpu:temp:max", 0))))
    rules = (record("gpu:temp:max", "max(no_such_temp)"), alert("gpu:temp:max > 90"))
    assert blind(audit(*rules, now=(count("no_such_temp", 0), count("gpu:temp:max", 0)))) == {
        "gpu:temp:max": Verdict.FAIL,
        "Hot": Verdict.FAIL,
    }


def test_recording_rules_that_read_each_other_end() -> None:
    rules = (record("a:b", "c:d"), record("c:d", "a:b"))
    assert not blind(audit(*rules, now=(count("a:b", 0), count("c:d", 0))))


def test_a_status_that_has_not_happened_is_well_and_a_place_that_is_nowhere_is_blind() -> None:
    status, place = Matcher("code", "=~", "5.."), Matcher("namespace", "=", "typo")
    rows = (*(metric(n) for n in NAMES), metric("http_requests_total", labels={"code": 2, "namespace": 2}))
    facts = {"schema": rows, "schema_before": rows}
    assert not blind(
        audit(alert('rate(http_requests_total{code=~"5.."}[5m]) > 0'), now=(count("http_requests_total", 0, status),), **facts)
    )
    assert blind(audit(alert('http_requests_total{namespace="typo"} > 0'), now=(count("http_requests_total", 0, place),), **facts)) == {
        "Hot": Verdict.FAIL
    }


def test_a_label_that_the_metric_never_had_is_blind_and_a_lost_one_is_not_ours() -> None:
    matcher = Matcher("hostname", "=", "n-1")
    facts = {"now": (count(TEMP, 0, matcher),)}
    assert blind(audit(alert(f'{TEMP}{{hostname="n-1"}} > 90'), **facts)) == {"Hot": Verdict.FAIL}
    had = tuple(metric(n, labels={"hostname": 2}) for n in NAMES)
    assert not blind(audit(alert(f'{TEMP}{{hostname="n-1"}} > 90'), schema_before=had, before=(count(TEMP, 2, matcher),), **facts))


def test_a_rule_about_a_job_that_was_not_captured_is_unknown() -> None:
    captured = frozenset({JOB})
    result = audit(
        alert("node_load1 > 9"),
        alert("DCGM_FI_DEV_FB_TOTAL > 1", "Full"),
        now=(count("node_load1", 0), count("DCGM_FI_DEV_FB_TOTAL", 0)),
        jobs=captured,
    )
    assert blind(result) == {"Full": Verdict.FAIL}
    assert [u.subject.rule for u in result.unjudged] == ["Hot"]
    other = Matcher("job", "=", "other")
    result = audit(alert(f'{TEMP}{{job="other"}} > 9'), now=(count(TEMP, 0, other),), jobs=captured)
    assert result.verdict is Verdict.UNKNOWN


def test_what_hides_behind_a_broken_target_is_not_blind() -> None:
    result = audit(
        alert(f"{TEMP} > 90"),
        now=(count(TEMP, 0),),
        before=(count(TEMP, 2),),
        targets=(target(up=False, error="refused"),),
        schema=(),
        devices=(),
    )
    assert codes(result) == {"target-down"}
    assert any(u.subject.rule == "Hot" and "telemetry-gap/target-down" in u.why for u in result.unjudged)


def test_an_expression_that_cannot_be_read_and_a_count_that_is_not_known_are_unknown() -> None:
    result = audit(alert("sum(((", "Odd"), alert("uncounted > 1"), now=())
    assert {u.subject.rule for u in result.unjudged} == {"Odd", "Hot"}
    assert not result.findings


def test_a_selector_over_several_names_is_judged_by_each() -> None:
    either = Selector(None, (Matcher("__name__", "=~", "DCGM_FI_DEV_XID_ERRORS?|nothing_here"),))
    xid = Selector(None, (Matcher("__name__", "=~", "DCGM_FI_DEV_XID_ERRORS|DCGM_FI_DEV_XID_ERROR"),))
    counts = (SelectorCount(either, {}), SelectorCount(xid, {}))
    assert blind(audit(alert('{__name__=~"DCGM_FI_DEV_XID_ERRORS?|nothing_here"} > 0'), now=counts)) == {"Hot": Verdict.FAIL}
    assert not blind(audit(alert('{__name__=~"DCGM_FI_DEV_XID_ERRORS|DCGM_FI_DEV_XID_ERROR"} > 0'), now=counts))


def test_a_loaded_rule_that_fails_is_told_with_its_error() -> None:
    failing = replace(alert(f"{TEMP} > 90"), health="err", error="many-to-many matching not allowed")
    found = only(audit(failing, now=(count(TEMP, 2),)), "pipeline-unhealthy")
    assert (found.subject.rule, found.observed) == ("Hot", "many-to-many matching not allowed")
