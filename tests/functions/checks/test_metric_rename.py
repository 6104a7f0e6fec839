"""metric-rename over small worlds: each code, who is told to be hit, and what must not be claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.checks.base import run
from functions.checks.metric_rename.check import CHECK
from functions.contract.cluster import Container, Pod
from functions.contract.facts import NO_BASELINE, Facts, Missing, Why, Windows
from functions.contract.findings import CheckResult, Finding, Severity, Verdict
from functions.contract.policy import Policy
from functions.contract.rules import Dashboard, PanelQuery, Rule, RuleKind
from functions.contract.telemetry import LabelValues, MetricSchema
from functions.knowledge import load
from tests.functions.checks.rename_worlds import AT, NO_CATALOGUE, histogram, known, metric, target

KEPT = [metric("app_workers", 8.0), metric("app_queue_depth", 3.0)]


def alert(name: str, expr: str, **annotations: str) -> Rule:
    return Rule(RuleKind.ALERT, name, "group", expr, annotations=annotations)


def record(name: str, expr: str) -> Rule:
    return Rule(RuleKind.RECORD, name, "group", expr)


def board(*queries: tuple[str, str, str]) -> Dashboard:
    return Dashboard("GPU fleet", "fleet", "file", tuple(PanelQuery(where, "panel", expr, legend) for where, expr, legend in queries))


def judge(
    before: list[MetricSchema],
    after: list[MetricSchema],
    *,
    rules: tuple[Rule, ...] | Missing = (),
    boards: tuple[Dashboard, ...] = (),
    policy: Policy | None = None,
    values: tuple[tuple[LabelValues, ...], tuple[LabelValues, ...]] = ((), ()),
    **facts: Any,
) -> CheckResult:
    made = Facts(
        Windows(AT, AT),
        **{
            "schema_before": known(*before),
            "schema": known(*after),
            "targets": known(target("a"), target("b")),
            "targets_before": known(target("a"), target("b")),
            "partial_losses": known(),
            "rules": rules if isinstance(rules, Missing) else known(*rules),
            "dashboards": known(*boards),
            "label_values_before": known(*values[0]),
            "label_values": known(*values[1]),
            **facts,
        },
    )
    return run(CHECK, made, {"policy": policy or Policy(), "knowledge": load(), "windows": made.windows})


def told(result: CheckResult, code: str, **subject: str) -> list[Finding]:
    return [
        f for f in result.findings if f.code == f"metric-rename/{code}" and all(f.subject.parts().get(k) == v for k, v in subject.items())
    ]


def one(result: CheckResult, code: str, **subject: str) -> Finding:
    (found,) = told(result, code, **subject)
    return found


def codes(result: CheckResult) -> set[str]:
    return {f.code.partition("/")[2] for f in result.findings}


# ------------------------------------------------------------------------------------------------------------- names


def test_nothing_changed_is_a_pass_that_says_what_was_compared() -> None:
    result = judge(KEPT, KEPT)
    assert (result.verdict, result.findings) == (Verdict.PASS, ())
    assert "2 metrics of 1 job" in result.summary


def test_without_a_baseline_nothing_can_be_compared() -> None:
    assert judge(KEPT, KEPT, schema_before=NO_BASELINE).verdict is Verdict.UNKNOWN


def test_a_rename_that_nothing_uses_is_information() -> None:
    found = one(judge([metric("DCGM_FI_DEV_GPU_TEMP", 50), *KEPT], [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 51), *KEPT]), "renamed")
    assert (found.subject.metric, found.subject.renamed_to) == ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS")
    assert found.severity is Severity.INFO
    assert found.evidence


def test_a_rename_lists_the_rule_and_the_panel_that_use_the_old_name() -> None:
    result = judge(
        [metric("DCGM_FI_DEV_GPU_TEMP", 50), *KEPT],
        [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 51), *KEPT],
        rules=(alert("Hot", "DCGM_FI_DEV_GPU_TEMP > 85"), alert("Busy", "app_workers > 9")),
        boards=(board(("Temperature", "max(DCGM_FI_DEV_GPU_TEMP)", "")),),
    )
    found = one(result, "renamed")
    assert {(i.kind, i.name) for i in found.impact} == {("alert", "Hot"), ("dashboard", "GPU fleet")}
    assert found.severity is Severity.CRITICAL
    assert one(result, "rule-dead", rule="Hot").severity is Severity.CRITICAL
    assert "1 of 1" in one(result, "dashboard-dead", dashboard="GPU fleet").title
    assert not told(result, "rule-dead", rule="Busy")


def test_the_suggested_expression_uses_the_new_name() -> None:
    result = judge(
        [metric("DCGM_FI_DEV_GPU_TEMP", 50), *KEPT],
        [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 51), *KEPT],
        rules=(alert("Hot", "DCGM_FI_DEV_GPU_TEMP > 85"),),
    )
    (impact,) = one(result, "renamed").impact
    assert impact.suggested
    assert "DCGM_FI_DEV_GPU_TEMP_CELSIUS" in impact.suggested


def test_a_removed_metric_gives_its_expression_and_is_not_called_renamed() -> None:
    result = judge([metric("vllm:gpu_prefix_cache_hit_rate", 0.4), *KEPT], KEPT)
    assert "prefix_cache_hits_total" in one(result, "removed").hint
    assert codes(result) == {"removed"}


def test_a_name_that_vanished_without_a_word_is_not_this_checks() -> None:
    assert judge([metric("app_something", 5), *KEPT], KEPT).verdict is Verdict.PASS


def test_without_rules_and_dashboards_a_rename_is_a_warning() -> None:
    from functions.contract.facts import NOT_ASKED

    result = judge(
        [metric("DCGM_FI_DEV_GPU_TEMP", 50), *KEPT],
        [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 51), *KEPT],
        rules=(),
        dashboards=NOT_ASKED,
    )
    assert one(result, "renamed").severity is Severity.WARNING


def test_both_names_at_once_are_told_as_such_alone() -> None:
    old, new = metric("inference_objective_input_tokens", 50), metric("llm_d_epp_request_input_tokens", 50)
    assert codes(judge([old, *KEPT], [old, new, *KEPT])) == {"dual-emitted"}


def test_an_inferred_rename_says_how_sure_it_is_and_why() -> None:
    result = judge([metric("app_gpu_temp", 53), *KEPT], [metric("app_gpu_temp_celsius", 54), *KEPT], policy=NO_CATALOGUE)
    assert "inferred with confidence" in one(result, "renamed").observed


# ----------------------------------------------------------------------------------------------------- scale and type


@pytest.mark.parametrize(
    ("old", "was", "new", "now"),
    [
        ("DCGM_FI_DEV_SM_CLOCK", 1410, "DCGM_FI_DEV_SM_CLOCK_HERTZ", 1.41e9),
        ("DCGM_FI_DEV_FB_USED", 40_000, "DCGM_FI_DEV_FB_USED_BYTES", 4.2e10),
        ("DCGM_FI_DEV_GPU_UTIL", 60, "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.55),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 3e11, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 3.1e8),
    ],
)
@pytest.mark.parametrize("policy", [Policy(), NO_CATALOGUE], ids=["catalogue", "data"])
def test_a_new_scale_is_told_beside_the_new_name(old: str, was: float, new: str, now: float, policy: Policy) -> None:
    result = judge([metric(old, was), *KEPT], [metric(new, now), *KEPT], policy=policy)
    assert one(result, "unit-changed", metric=old).subject.renamed_to == new
    assert one(result, "renamed", metric=old)


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", 50),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.7),
    ],
)
def test_a_new_name_on_the_same_scale_is_only_a_new_name(old: str, new: str, level: float) -> None:
    assert codes(judge([metric(old, level), *KEPT], [metric(new, level * 1.1), *KEPT])) == {"renamed"}


def test_the_old_scale_under_the_new_name_is_seen_in_the_values() -> None:
    """DCGM 4.6 already had the new name with percent in it."""
    assert codes(judge([metric("DCGM_FI_DEV_GPU_UTIL", 60), *KEPT], [metric("DCGM_FI_DEV_GPU_UTIL_RATIO", 62), *KEPT])) == {"renamed"}
    same = judge([metric("DCGM_FI_DEV_GPU_UTIL_RATIO", 62), *KEPT], [metric("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.6), *KEPT])
    assert one(same, "unit-changed").subject.renamed_to is None


def test_a_rule_on_a_name_whose_scale_changed_is_misled_now() -> None:
    result = judge(
        [metric("app_memory_used", 40_000), *KEPT],
        [metric("app_memory_used", 40_000 * 1048576.0), *KEPT],
        rules=(alert("Full", "app_memory_used > 75000"),),
    )
    assert one(result, "unit-changed", metric="app_memory_used").severity is Severity.CRITICAL
    assert "1,048,576 times" in one(result, "unit-changed").title


@pytest.mark.parametrize(("was", "now"), [(0.0, 0.0), (80.0, 0.0), (80.0, 3.0), (2.0, 80.0), (60.0, 0.6)])
def test_load_that_comes_and_goes_is_no_change_of_scale(was: float, now: float) -> None:
    one_series = {"series": 1, "spread": 0.0}
    assert judge([metric("app_load", was, **one_series), *KEPT], [metric("app_load", now, **one_series), *KEPT]).verdict is Verdict.PASS  # type: ignore[arg-type]


def test_a_unit_that_moved_in_help_is_told() -> None:
    before = [metric("app_clock", 1410, help="Clock (in MHz)."), *KEPT]
    assert codes(judge(before, [metric("app_clock", 1.41e9, help="Clock (in Hz)."), *KEPT])) == {"unit-changed"}
    assert codes(judge(before, [metric("app_clock", 1410, help="Clock (in Hz)."), *KEPT])) == set()


@pytest.mark.parametrize(
    ("old", "text", "new", "factor"),
    [
        ("APP_ENERGY_CONSUMPTION", "Energy used (mJ).", "APP_ENERGY_JOULES", "1/1,000"),
        ("APP_GPU_UTIL", "How busy the GPU is (%).", "APP_GPU_UTIL_RATIO", "1/100"),
    ],
)
def test_a_unit_may_be_stated_by_the_text_of_the_old_name_and_by_the_new_name(old: str, text: str, new: str, factor: str) -> None:
    before = [metric(old, 80.0, help=text, type="gauge"), *KEPT]
    result = judge(before, [metric(new, 80.0 / float(factor[2:].replace(",", "")), type="gauge"), *KEPT], policy=NO_CATALOGUE)
    assert factor in one(result, "unit-changed").title


def test_a_text_that_is_known_only_now_changed_no_unit() -> None:
    before, after = metric("app_wait_seconds", 3.0), metric("app_wait_seconds", 3.0, help="Wait of a request (ms).")
    assert judge([before, *KEPT], [after, *KEPT]).verdict is Verdict.PASS


def test_milliseconds_that_became_seconds_in_a_histogram() -> None:
    before = [*histogram("app_wait_milliseconds", 1000, 35.0), *KEPT]
    result = judge(before, [*histogram("app_wait_seconds", 1100, 0.036), *KEPT])
    assert codes(result) == {"renamed", "unit-changed"}


def test_a_type_that_changed_under_the_same_name() -> None:
    result = judge([metric("app_bytes", 9e9, type="counter"), *KEPT], [metric("app_bytes", 9e5, type="gauge"), *KEPT])
    assert "rate()" in one(result, "type-changed").hint


def test_an_unknown_type_is_no_change_of_type() -> None:
    assert judge([metric("app_bytes", 9, type=""), *KEPT], [metric("app_bytes", 9, type="gauge"), *KEPT]).verdict is Verdict.PASS


def test_a_native_histogram_is_a_change_of_type_not_three_losses() -> None:
    result = judge([*histogram("app_wait_seconds", 1000, 0.1), *KEPT], [metric("app_wait_seconds", None, type="histogram"), *KEPT])
    assert codes(result) == {"type-changed"}


@pytest.mark.parametrize(
    "expr",
    ["histogram_quantile(0.95, sum by (le) (rate(app_wait_seconds_bucket[5m]))) > 2", "rate(app_wait_seconds_count[5m]) > 9"],
)
def test_a_rule_on_the_parts_of_a_histogram_dies_when_it_becomes_native(expr: str) -> None:
    before, after = histogram("app_wait_seconds", 1000, 0.1), [metric("app_wait_seconds", None, type="histogram")]
    found = one(judge([*before, *KEPT], [*after, *KEPT], rules=(alert("Slow", expr),)), "rule-dead", rule="Slow")
    assert "app_wait_seconds is a native histogram now" in found.observed
    assert "histogram_quantile()" in found.hint
    assert not found.impact[0].suggested


# ------------------------------------------------------------------------------------------------------------ labels


def gpu(*labels: str) -> list[MetricSchema]:
    return [
        metric(n, 50, labels=("instance", "UUID", *labels))
        for n in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE")
    ]


def test_a_label_that_changed_its_name_on_all_metrics_is_one_finding() -> None:
    found = one(judge(gpu("Hostname"), gpu("hostname")), "label-renamed")
    assert found.subject.parts() == {"label": "Hostname", "renamed_to": "hostname", "job": "job"}


@pytest.mark.parametrize(
    ("expr", "code"),
    [
        ('DCGM_FI_DEV_GPU_TEMP{Hostname=~"gpu-.+"} > 85', "rule-dead"),
        ("max by (UUID, Hostname) (DCGM_FI_DEV_GPU_TEMP) * on (Hostname) group_left (rack) app_rack", "rule-dead"),
        # the label never reached the join: it was empty before
        ("max by (UUID) (DCGM_FI_DEV_GPU_TEMP) * on (Hostname) group_left (rack) app_rack", ""),
        ("sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE) > 3000", "grouping-collapsed"),
        ("max by (UUID) (DCGM_FI_DEV_GPU_TEMP) > 85", ""),
        ('DCGM_FI_DEV_GPU_TEMP{Hostname!="x"} > 85', "grouping-collapsed"),
        ("sum by (Hostname) (app_workers) > 1", ""),
    ],
)
def test_what_a_renamed_label_does_to_a_rule(expr: str, code: str) -> None:
    result = judge([*gpu("Hostname"), *KEPT], [*gpu("hostname"), *KEPT], rules=(alert("Rule", expr),))
    assert codes(result) - {"label-renamed"} == ({code} if code else set())


def test_a_panel_whose_variable_reads_the_old_label_is_empty() -> None:
    boards = (board(("Temperature", 'DCGM_FI_DEV_GPU_TEMP{Hostname=~"$host"}', "{{Hostname}}"), ("Workers", "app_workers", "")),)
    result = judge([*gpu("Hostname"), *KEPT], [*gpu("hostname"), *KEPT], boards=boards)
    assert "1 of 2" in one(result, "dashboard-dead").title


def test_a_label_is_recognised_by_its_values_where_its_name_tells_nothing() -> None:
    values = frozenset({"gpu-1", "gpu-2"})
    seen = ((LabelValues("job", "box", values, "app_workers"),), (LabelValues("job", "machine", values, "app_workers"),))
    result = judge([metric("app_workers", labels=("box",))], [metric("app_workers", labels=("machine",))], values=seen)
    assert one(result, "label-renamed", label="box").subject.renamed_to == "machine"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"n1.example.com", "n2.example.com"}, {"n1", "n2"}),
        ({"00000000:3B:00.0", "00000000:86:00.0"}, {"0000:3b:00.0", "0000:86:00.0"}),
        ({"GPU-5f1c-7a", "GPU-5f1c-7b"}, {"5f1c-7a", "5f1c-7b"}),
    ],
)
def test_a_label_is_recognised_by_its_values_though_they_too_are_written_otherwise(old: set[str], new: set[str]) -> None:
    seen = tuple((LabelValues("job", label, frozenset(v), "app_workers"),) for label, v in (("box", old), ("machine", new)))
    result = judge([metric("app_workers", labels=("box",))], [metric("app_workers", labels=("machine",))], values=(seen[0], seen[1]))
    assert one(result, "label-renamed", label="box").subject.renamed_to == "machine"


@pytest.mark.parametrize(("old", "new"), [({"0", "1"}, {"0.0", "1.0"}), ({"n1", "n2"}, {"n3", "n4"})])
def test_values_that_any_label_could_have_prove_no_rename_of_a_label(old: set[str], new: set[str]) -> None:
    seen = tuple((LabelValues("job", label, frozenset(v), "app_workers"),) for label, v in (("box", old), ("shard", new)))
    result = judge([metric("app_workers", labels=("box",))], [metric("app_workers", labels=("shard",))], values=(seen[0], seen[1]))
    assert not told(result, "label-renamed")


def test_a_label_without_a_successor_is_lost() -> None:
    result = judge([metric("app_workers", labels=("pool", "zone"))], [metric("app_workers", labels=("pool",))])
    assert one(result, "label-lost").subject.label == "zone"


def test_the_workload_of_a_device_that_fell_idle_is_no_lost_label() -> None:
    busy = [metric("DCGM_FI_DEV_GPU_TEMP", 50, labels=("UUID", "exported_pod", "exported_namespace", "exported_container"))]
    assert judge(busy, [metric("DCGM_FI_DEV_GPU_TEMP", 30, labels=("UUID",))]).verdict is Verdict.PASS


def test_a_documented_label_that_a_target_has_anyway_takes_nothing_over_from_an_idle_device() -> None:
    before = [metric("DCGM_FI_DEV_GPU_TEMP", 50, labels=("UUID", "pod", "pod_name"))]
    after = [metric("DCGM_FI_DEV_GPU_TEMP", 30, labels=("UUID", "pod"))]
    own = tuple((LabelValues("job", "pod", frozenset({"exporter"}), "DCGM_FI_DEV_GPU_TEMP"),) for _ in range(2))
    held = (*own[0], LabelValues("job", "pod_name", frozenset({"train"}), "DCGM_FI_DEV_GPU_TEMP"))
    assert judge(before, after, values=(held, own[1])).verdict is Verdict.PASS


def test_a_label_that_was_on_some_series_only_comes_and_goes() -> None:
    before = [metric("DCGM_FI_DEV_XID_ERRORS", 31, labels=("UUID",), counts={"err_msg": 1})]
    assert judge(before, [metric("DCGM_FI_DEV_XID_ERRORS", 31, labels=("UUID",))]).verdict is Verdict.PASS


def test_an_added_label_is_no_finding() -> None:
    assert judge([metric("app_workers")], [metric("app_workers", labels=("instance", "gpu", "engine"))]).verdict is Verdict.PASS


def test_a_target_label_that_changed_is_told_only_where_a_rule_uses_it() -> None:
    earlier = known(target("a", zone="z"), target("b", zone="z"))
    before, after = [metric("app_workers", labels=("gpu", "zone"))], [metric("app_workers", labels=("gpu",))]
    assert judge(before, after, targets_before=earlier).verdict is Verdict.PASS
    used = judge(before, after, targets_before=earlier, rules=(alert("Few", 'app_workers{zone="z"} < 2'),))
    assert codes(used) == {"label-lost", "rule-dead"}


# ------------------------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"GPU-ab12", "GPU-cd34"}, {"gpu-ab12", "gpu-cd34"}),
        ({"1", "5"}, {"1.0", "5.0"}),
        ({"n1.example.com", "n2.example.com"}, {"n1", "n2"}),
        ({"GPU-5f1c-7a", "GPU-5f1c-7b"}, {"5f1c-7a", "5f1c-7b"}),
        ({"00000000:3B:00.0", "00000000:86:00.0"}, {"0000:3b:00.0", "0000:86:00.0"}),
        ({"00000000:3B:00.0"}, {"3b:00.0"}),
    ],
)
def test_values_that_are_written_differently_are_told(old: set[str], new: set[str]) -> None:
    seen = tuple((LabelValues("job", "key", frozenset(v), "app_workers"),) for v in (old, new))
    before = [metric("app_workers", labels=("key",))]
    first = sorted(old)[0]
    result = judge(before, before, values=(seen[0], seen[1]), rules=(alert("Few", f'app_workers{{key="{first}"}} < 2'),))
    assert one(result, "label-value-changed", label="key").severity is Severity.CRITICAL
    assert one(result, "rule-dead", rule="Few")


def test_other_values_are_no_other_spelling() -> None:
    seen = tuple((LabelValues("job", "key", frozenset(v), "app_workers"),) for v in ({"red", "blue"}, {"green", "black"}))
    before = [metric("app_workers", labels=("key",))]
    assert judge(before, before, values=(seen[0], seen[1])).verdict is Verdict.PASS


# --------------------------------------------------------------------------------------------------- rules and more


def test_a_rule_over_the_output_of_a_dead_recording_rule_is_dead_too() -> None:
    rules = (record("node:temp:max", "max(DCGM_FI_DEV_GPU_TEMP)"), alert("Hot", "node:temp:max > 85"))
    result = judge([metric("DCGM_FI_DEV_GPU_TEMP", 50)], [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 50)], rules=rules)
    assert {f.subject.rule for f in told(result, "rule-dead")} == {"node:temp:max", "Hot"}


@pytest.mark.parametrize("expr", ["absent(DCGM_FI_DEV_GPU_TEMP)", "DCGM_FI_DEV_GPU_TEMP_CELSIUS > 85 or DCGM_FI_DEV_GPU_TEMP > 85"])
def test_a_selector_that_is_not_needed_kills_no_rule(expr: str) -> None:
    result = judge([metric("DCGM_FI_DEV_GPU_TEMP", 50)], [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 50)], rules=(alert("Hot", expr),))
    assert not told(result, "rule-dead")


def test_a_meaning_that_changed_between_two_versions_is_told_by_the_catalogue() -> None:
    def pod(tag: str) -> Pod:
        return Pod("m", "am-0", "u", "n", "Running", "StatefulSet/am", (Container("am", f"quay.io/prometheus/alertmanager:v{tag}"),))

    places = known(target("a", namespace="m", pod="am-0", container="am"), target("b"))
    both = [metric("alertmanager_alerts", 5)]
    crossed = judge(both, both, targets=places, targets_before=places, pods_before=known(pod("0.24.0")), pods=known(pod("0.25.0")))
    assert "active" in one(crossed, "meaning-changed").observed
    stayed = judge(both, both, targets=places, targets_before=places, pods_before=known(pod("0.25.0")), pods=known(pod("0.26.0")))
    assert stayed.verdict is Verdict.PASS


def test_what_a_down_target_hides_is_unjudged_unless_another_job_has_it() -> None:
    down = known(target("a", up=False))
    hidden = judge([metric("app_only_here")], [], targets_before=known(target("a")), targets=down)
    assert (hidden.verdict, len(hidden.unjudged)) == (Verdict.UNKNOWN, 1)
    other = metric("app_only_here", job="other")
    places = known(target("a", up=False), target("c", job="other"))
    assert judge([metric("app_only_here"), other], [other], targets=places).verdict is Verdict.PASS


def test_every_code_says_what_it_is_why_it_matters_and_what_to_do() -> None:
    for code in CHECK.codes:
        assert all((code.title, code.why, code.todo, code.example)), code


@pytest.mark.parametrize("fact", ["rules", "dashboards"])
@pytest.mark.parametrize(("why", "told"), [(Why.UNREACHABLE, True), (Why.UNAUTHORISED, True), (Why.NOT_CONFIGURED, False)])
def test_who_a_rename_breaks_is_unjudged_where_nobody_could_look(fact: str, why: Why, told: bool) -> None:
    before, after = [metric("DCGM_FI_DEV_POWER_USAGE")], [metric("DCGM_FI_DEV_BOARD_POWER_WATTS")]
    found = judge(before, after, **{fact: Missing(why, "refused")})
    assert found.verdict is Verdict.FAIL
    assert [u.why for u in found.unjudged] == ([f"which {fact} it breaks: refused ({why})"] if told else [])
    assert not judge(before, before, **{fact: Missing(why, "refused")}).unjudged, "nothing changed, so nobody is hit"


XID = alert("GpuXid", "max by (gpu) (DCGM_FI_DEV_XID_ERRORS) > 0")


def test_an_alert_on_an_event_that_has_not_happened_dies_with_the_renames_of_its_exporter() -> None:
    before, after = [metric("DCGM_FI_DEV_POWER_USAGE")], [metric("DCGM_FI_DEV_BOARD_POWER_WATTS")]
    found = one(judge(before, after, rules=(XID,)), "rule-dead", rule="GpuXid")
    assert found.severity is Severity.CRITICAL
    assert found.impact[0].suggested == "max by (gpu) (DCGM_FI_DEV_XID_ERROR) > 0"
    assert "DCGM_FI_DEV_XID_ERROR since its exporter renamed others" in found.observed


@pytest.mark.parametrize(
    "more",
    [
        # the field list still names some of the old fields, and may name this one
        [metric("DCGM_FI_DEV_PSTATE")],
        # the event has happened: it is there under its old name
        [metric("DCGM_FI_DEV_XID_ERRORS")],
    ],
)
def test_where_the_old_names_live_on_such_an_alert_is_quiet(more: list[MetricSchema]) -> None:
    before, after = [metric("DCGM_FI_DEV_POWER_USAGE"), *more], [metric("DCGM_FI_DEV_BOARD_POWER_WATTS"), *more]
    assert not told(judge(before, after, rules=(XID,)), "rule-dead")
    assert not told(judge(before, before, rules=(XID,)), "rule-dead")


def test_a_job_that_had_targets_and_has_no_baseline_is_not_compared_and_said_so() -> None:
    earlier = replace(target("a"), job="other")
    found = judge([metric("app_workers")], [metric("app_workers"), metric("app_jobs", job="other")], targets_before=known(earlier))
    assert [u.subject.job for u in found.unjudged] == ["other"]
    assert not judge(
        [metric("app_workers")], [metric("app_workers"), metric("app_jobs", job="new")], targets_before=known(earlier)
    ).unjudged
