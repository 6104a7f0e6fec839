"""What changes break: rules, recording rules and what reads them, dashboards, and answers that are wrong now."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from functions.checks.impact import Judge, RuleState, State, Stored, Users, World, collapsed, counted, dead_dashboards, judged_rules
from functions.contract.findings import Severity
from functions.contract.rules import Dashboard, PanelQuery, Rule, RuleKind, Selector, SelectorCount
from functions.promql import Changes, LabelChange, MetricChange, Place, demands, read, read_grafana, rewrite

DCGM = frozenset({"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_ROW_REMAP_FAILURE"})
LOWERCASED = Changes((), (LabelChange("Hostname", "hostname", DCGM),))
RENAMED = Changes(
    (
        MetricChange("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
        MetricChange("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE_BYTES", 1048576),
        MetricChange("vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds"),
        MetricChange("taken", None),
    )
)


def alert(name: str, expr: str, **annotations: str) -> Rule:
    return Rule(RuleKind.ALERT, name, "g", expr, annotations=annotations)


def record(name: str, expr: str) -> Rule:
    return Rule(RuleKind.RECORD, name, "g", expr)


def panel(where: str, expr: str, legend: str = "") -> PanelQuery:
    return PanelQuery(where, "panel", expr, legend)


def world(rules: Iterable[Rule], changes: Changes, stored: str, before: str | None = None, **more: object) -> World:
    """Every selector over a stored name finds series; a selector with a leading `-` finds none. `name.a.b` has labels a, b."""
    rules = tuple(rules)

    def counts(text: str) -> dict[Selector, SelectorCount]:
        words = text.split()
        names = {word.split(".")[0] for word in words}
        found = [use.selector for rule in rules for use in read(rule.expr).selectors]
        return {s: SelectorCount(s, {"j": int(s.name in names and f"-{s}" not in words)}) for s in found}

    def names(text: str) -> dict[str, Stored]:
        parts = [word.split(".") for word in text.split() if not word.startswith("-")]
        return {name: Stored(frozenset({"j"}), frozenset(labels), frozenset(labels)) for name, *labels in parts}

    earlier = None if before is None else names(before)
    return World(rules, changes, counts(stored), None if before is None else counts(before), names(stored), earlier, **more)  # type: ignore[arg-type]


def states(of: World) -> dict[str, State]:
    return {state.rule.name: state.state for state in judged_rules(Judge(of))}


def dead_rules(of: World) -> list[RuleState]:
    return [state for state in judged_rules(Judge(of)) if state.state is State.DEAD]


def test_a_label_s_new_spelling_kills_selectors_and_joins_and_leaves_the_rest() -> None:
    hot = alert("GPUHot", 'DCGM_FI_DEV_GPU_TEMP{Hostname=~"gpu-.+"} > 85')
    rack = alert(
        "GPUHotInRack",
        "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)\n  * on (Hostname) group_left (rack)\n"
        '    label_replace(kube_node_labels, "Hostname", "$1", "node", "(.+)") > 80',
    )
    remap = alert("GPURowRemapFailed", "max by (UUID) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0")
    down = alert("GPUExporterDown", 'absent(up{job="nvidia-dcgm-exporter"} == 1)')
    seen = world([hot, rack, remap, down], LOWERCASED, "DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_ROW_REMAP_FAILURE kube_node_labels")
    selector = read(hot.expr).selectors[0].selector
    seen = World(seen.rules, seen.changes, {**(seen.counts or {}), selector: SelectorCount(selector, {})})
    assert states(seen) == {
        "GPUHot": State.DEAD,
        "GPUHotInRack": State.DEAD,
        "GPURowRemapFailed": State.WELL,
        "GPUExporterDown": State.WELL,
    }
    dead = {state.rule.name: state for state in dead_rules(seen)}
    assert rewrite(hot.expr, LOWERCASED) == 'DCGM_FI_DEV_GPU_TEMP{hostname=~"gpu-.+"} > 85'
    assert '"hostname", "$1", "node"' in (rewrite(rack.expr, LOWERCASED) or "")
    assert "joins on Hostname" in dead["GPUHotInRack"].found.why


def test_a_rule_that_reads_a_dead_record_is_dead_and_one_that_reads_a_living_record_is_not() -> None:
    rules = [
        record("node:temp:max", "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)"),
        alert("Hot", "node:temp:max > 85"),
        record("ratio", "a / b"),
        alert("Full", "ratio > 0.9"),
        record("total", "nowhere"),
        alert("Sum", "total > 1"),
    ]
    assert states(world(rules, RENAMED, "a b DCGM_FI_DEV_GPU_TEMP_CELSIUS")) == {
        "node:temp:max": State.DEAD,
        "Hot": State.DEAD,
        "ratio": State.WELL,
        "Full": State.WELL,
        "total": State.BLIND,
        "Sum": State.BLIND,
    }


def test_a_record_that_one_of_two_rules_still_writes_is_alive() -> None:
    rules = [record("r", "DCGM_FI_DEV_GPU_TEMP"), record("r", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"), alert("A", "r > 1")]
    assert states(world(rules, RENAMED, "DCGM_FI_DEV_GPU_TEMP_CELSIUS"))["A"] is State.WELL


def test_rules_that_read_each_other_come_to_an_end() -> None:
    rules = [record("a", "b + 1"), record("b", "a + 1"), record("c", "c offset 1m or DCGM_FI_DEV_GPU_TEMP")]
    assert set(states(world(rules, RENAMED, ""))) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("expr", "stored", "before", "state"),
    [
        # two things are missing, and one of them was never there
        ("DCGM_FI_DEV_GPU_TEMP / nowhere", "", "DCGM_FI_DEV_GPU_TEMP", State.BLIND),
        ("DCGM_FI_DEV_GPU_TEMP / lost", "", "DCGM_FI_DEV_GPU_TEMP lost", State.DEAD),
        ("DCGM_FI_DEV_GPU_TEMP > 85", "", "", State.BLIND),
        ("DCGM_FI_DEV_GPU_TEMP > 85", "", None, State.DEAD),
        # another job still has the old name
        ("DCGM_FI_DEV_GPU_TEMP > 85", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP", State.WELL),
        ("DCGM_FI_DEV_GPU_TEMP > 85 or other > 85", "other", None, State.WELL),
        ("DCGM_FI_DEV_GPU_TEMP > 85 or DCGM_FI_DEV_FB_FREE < 5", "", None, State.DEAD),
        ("other unless DCGM_FI_DEV_GPU_TEMP > 85", "other", None, State.WELL),
        ("taken > 1", "", "taken", State.DEAD),
        ("rate(vllm:time_per_output_token_seconds_bucket[5m])", "", None, State.DEAD),
        ('{__name__=~"DCGM_FI_DEV_GPU_T.*"} > 1', "", None, State.DEAD),
        ("silent_errors_total > 0", "", None, State.WELL),
        ("up == 0", "", None, State.WELL),
        ('ALERTS{alertname="X"}', "", None, State.WELL),
        ("sum(", "", None, State.UNTOLD),
        ("nowhere > 1", "", None, State.BLIND),
        # a label that the metric has not; a status that has not happened; a place that is nowhere
        ('there{a="b"} > 1', 'there -there{a="b"}', None, State.BLIND),
        ('there{a="b"} > 1', 'there.a -there{a="b"}', None, State.WELL),
        ('there{namespace="b"} > 1', 'there.namespace -there{namespace="b"}', None, State.BLIND),
        # an event of a metric that was renamed before it happened
        ('taken{code="5"} > 1', "", 'taken.code -taken{code="5"}', State.DEAD),
        ('taken{job="typo"} > 1', "", 'taken.job -taken{job="typo"}', State.BLIND),
    ],
)
def test_what_a_rule_amounts_to(expr: str, stored: str, before: str | None, state: State) -> None:
    seen = world([alert("A", expr)], RENAMED, stored, before, silent=lambda name: name.startswith("silent"))
    assert states(seen) == {"A": state}


def test_a_place_that_had_series_before_is_less_sure_to_be_a_fault_than_one_that_never_had() -> None:
    expr = 'there{namespace="b"} > 1'
    stored = 'there.namespace -there{namespace="b"}'

    def sure(before: str | None, expr: str = expr) -> list[bool]:
        return [s.found.sure for s in judged_rules(Judge(world([alert("A", expr)], RENAMED, stored, before)))]

    assert (sure(None), sure("there.namespace"), sure(None, "nowhere")) == ([True], [False], [True])


def test_a_label_that_is_gone_without_a_word_is_blind_unless_it_names_who_uses_a_device() -> None:
    rules, stored = [alert("A", 'there{team="a"}')], 'there -there{team="a"}'
    assert states(world(rules, RENAMED, stored, "there.team")) == {"A": State.BLIND}
    assert states(world(rules, RENAMED, stored, "there.team", attribution=frozenset({"team"}))) == {"A": State.WELL}


def test_a_series_that_is_recorded_without_a_label_kills_who_asks_for_it() -> None:
    rules = [record("r", "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)"), alert("A", 'r{Hostname="gpu-1"} > 85')]
    assert states(world(rules, LOWERCASED, "DCGM_FI_DEV_GPU_TEMP"))["A"] is State.DEAD


@pytest.mark.parametrize(
    ("expr", "state"),
    [
        ('x{job="elsewhere"} > 1', State.UNTOLD),
        ('DCGM_FI_DEV_FB_TOTAL{job=~"dcgm.*"} > 1', State.BLIND),
        ("node_cpu_seconds_total > 1", State.UNTOLD),
        ("DCGM_FI_DEV_FB_TOTAL > 1", State.BLIND),
    ],
)
def test_a_rule_about_a_job_that_was_not_looked_at_is_not_judged(expr: str, state: State) -> None:
    seen = world([alert("A", expr)], RENAMED, "DCGM_FI_DEV_POWER_USAGE", jobs=frozenset({"dcgm-exporter"}))
    assert states(seen) == {"A": state}


def test_selectors_that_nobody_counted_are_judged_by_the_changes_alone() -> None:
    rules = (alert("Dead", "DCGM_FI_DEV_GPU_TEMP > 1"), alert("Open", "other > 1"), alert("Fine", "absent(other)"))
    assert states(World(rules, RENAMED)) == {"Dead": State.DEAD, "Open": State.UNTOLD, "Fine": State.WELL}


def test_a_value_that_is_written_otherwise_kills_the_rule_that_asks_for_it() -> None:
    changes = Changes((), (LabelChange("modelName", "modelName", frozenset({"x"}), {"A100": "NVIDIA A100"}),))
    expr = 'x{modelName="A100"} > 1'
    seen = world([alert("A", expr)], changes, 'x -x{modelName="A100"}', "x")
    (found,) = dead_rules(seen)
    assert (rewrite(expr, changes), "is written NVIDIA A100" in found.found.why) == ('x{modelName="NVIDIA A100"} > 1', True)


def board(*queries: PanelQuery, title: str = "GPU fleet") -> Dashboard:
    return Dashboard(title, "u", "f.json", queries)


def shown(changes: Changes, stored: str, *boards: Dashboard) -> World:
    names = set(stored.split())
    found = [use.selector for b in boards for q in b.queries for use in read_grafana(q.expr).selectors]
    asked = {s: [m.label for m in s.matchers if demands(m)] for s in found}
    hits = {s: s.name in names and not any(changes.label_of(s, label) for label in asked[s]) for s in found}
    return World((), changes, counted(SelectorCount(s, {"j": int(hit)}) for s, hit in hits.items()))


def test_a_dashboard_is_dead_by_its_variable_s_label_though_its_metric_lives() -> None:
    fleet = board(
        panel("Temperature", 'DCGM_FI_DEV_GPU_TEMP{Hostname=~"$host"}', "{{Hostname}} GPU {{gpu}}"),
        panel("Power", 'sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE{Hostname=~"$host"})'),
        panel("Devices", "count(DCGM_FI_DEV_POWER_USAGE)"),
        PanelQuery("host", "variable", "label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)"),
    )
    by_device = board(panel("Busy", 'DCGM_FI_DEV_POWER_USAGE{UUID=~"$device"}', "{{UUID}}"), title="GPU by device")
    (dead,) = dead_dashboards(
        Judge(shown(LOWERCASED, "DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_POWER_USAGE", fleet, by_device)), [fleet, by_device]
    )
    assert (dead.dashboard.title, dead.dead, dead.panels) == ("GPU fleet", ("Temperature", "Power"), 3)
    suggested = [q.suggested for q in dead.queries]
    assert 'sum by (hostname) (DCGM_FI_DEV_POWER_USAGE{hostname=~"$host"})' in suggested
    assert "label_values(DCGM_FI_DEV_GPU_TEMP, hostname)" in suggested


def test_a_panel_without_values_for_its_variable_is_dead_through_it() -> None:
    fleet = board(
        panel("Power", 'DCGM_FI_DEV_POWER_USAGE{gpu="$gpu"}'),
        panel("All", "sum(DCGM_FI_DEV_POWER_USAGE)"),
        PanelQuery("gpu", "variable", "label_values(DCGM_FI_DEV_GPU_TEMP, gpu)"),
    )
    (dead,) = dead_dashboards(Judge(shown(RENAMED, "DCGM_FI_DEV_POWER_USAGE", fleet)), [fleet])
    assert dead.dead == ("Power",)
    assert [q.why for q in dead.queries if q.user.query and q.user.query.where == "Power"] == ["its variable gpu has no values"]


def test_a_dashboard_without_data_for_any_other_reason_is_not_dead_by_a_change() -> None:
    fleet = board(panel("Nothing", "nowhere"), panel("Any", 'rate($metric{a="b"}[$__interval])'), panel("Broken", "sum("))
    assert dead_dashboards(Judge(shown(RENAMED, "", fleet)), [fleet]) == ()


def wrong(changes: Changes, expr: str, stored: str) -> list[tuple[str, Place]]:
    return [(c.label, c.place) for c in collapsed(Judge(world([alert("A", expr)], changes, stored)), ())]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE) > 1", [("Hostname", Place.BY)]),
        ("sum by (gpu) (DCGM_FI_DEV_POWER_USAGE) > 1", []),
        ("sum without (Hostname) (DCGM_FI_DEV_POWER_USAGE) > 1", [("Hostname", Place.WITHOUT)]),
        ('DCGM_FI_DEV_POWER_USAGE{Hostname!="gpu-1"}', [("Hostname", Place.EXCLUDE)]),
        ("DCGM_FI_DEV_POWER_USAGE / on (Hostname, gpu) DCGM_FI_DEV_GPU_TEMP", [("Hostname", Place.ON)]),
        ("other unless on (Hostname) DCGM_FI_DEV_GPU_TEMP", [("Hostname", Place.ON)]),
        ("other * on (gpu) group_left (Hostname) DCGM_FI_DEV_GPU_TEMP", [("Hostname", Place.GROUP)]),
        ('sum by (n) (label_replace(DCGM_FI_DEV_POWER_USAGE, "n", "$1", "Hostname", "(.+)"))', [("n", Place.BY)]),
        ("sum by (Hostname) (other)", []),
        # no answer is no wrong answer
        ("sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE) * on (Hostname) other", []),
        ("sum by (Hostname) (nowhere)", []),
    ],
)
def test_an_answer_that_rests_on_a_label_that_is_gone_is_wrong(expr: str, expected: list[tuple[str, Place]]) -> None:
    assert wrong(LOWERCASED, expr, "DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_GPU_TEMP other") == expected


def test_what_groups_a_recorded_series_by_a_label_that_it_no_longer_has_is_wrong_too() -> None:
    rules = [record("p", "sum by (Hostname, gpu) (DCGM_FI_DEV_POWER_USAGE)"), alert("A", "max by (Hostname) (p) > 1")]
    found = collapsed(Judge(world(rules, LOWERCASED, "DCGM_FI_DEV_POWER_USAGE")), ())
    assert [(c.user.name, c.label) for c in found] == [("p", "Hostname"), ("A", "Hostname")]


def test_users_are_everyone_who_uses_a_changed_name_or_label_through_records_too() -> None:
    changes = Changes(RENAMED.metrics, LOWERCASED.labels)
    rules = [
        record("temp", "max(DCGM_FI_DEV_GPU_TEMP)"),
        alert("Hot", "temp > 85"),
        alert("Power", "DCGM_FI_DEV_POWER_USAGE > 700", summary="of {{ $labels.Hostname }}"),
        alert("Other", "x > 1", summary="of {{ $labels.Hostname }}"),
        record("again", "avg_over_time(temp[5m])"),
        alert("Deep", "again > 1"),
        alert("Elsewhere", 'DCGM_FI_DEV_GPU_TEMP{job="other"} > 85'),
    ]
    held = Users(rules, [board(panel("p", 'DCGM_FI_DEV_FB_FREE{Hostname="$h"} < 5'))], changes)
    temp = held.of(["DCGM_FI_DEV_GPU_TEMP"], frozenset({"dcgm"}))
    assert [(i.name, i.note) for i in temp] == [
        ("temp", ""),
        ("Hot", "reads temp, which is recorded from it"),
        ("again", "reads temp, which is recorded from it"),
        ("Deep", "reads again, which is recorded from it"),
    ]
    assert held.severity(temp) is Severity.CRITICAL
    (free,) = held.of(["DCGM_FI_DEV_FB_FREE"])
    assert (free.kind, free.suggested, free.note) == ("dashboard", '(DCGM_FI_DEV_FB_FREE_BYTES{Hostname="$h"} / 1048576) < 5', "p")
    (printed,) = held.of_label("Hostname", "hostname", DCGM)
    assert (printed.name, "blank, write hostname" in printed.note) == ("Power", True)
