"""The metrics server itself: every figure by which it tells that it is ill is asked for, and judged on both sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from functions.contract.findings import Verdict
from functions.knowledge.pipeline import Figure, load_pipeline
from tests.support.recorded import Recorded
from tests.support.worlds import World, fleet

FIGURES = load_pipeline().figures
#: a sound value of figures that are compared with another one, and of those with a floor
SOUND = {"ahead_of": 1_793_706_000.0, "below": 1.0}


def values(figure: Figure, ill: bool, minute: int) -> dict[str, float]:
    """The figure, and what it is compared with, at a minute of the window."""
    if figure.metric.endswith("_total"):
        return {figure.metric: 1000 + (60.0 * minute if ill else 0)}
    if figure.reaches:
        return {figure.metric: 10 if ill else 3, figure.reaches: 10}
    if figure.ahead_of:
        return {figure.metric: SOUND["ahead_of"], figure.ahead_of: SOUND["ahead_of"] - (2000 if ill else 4)}
    return {figure.metric: 0 if ill else SOUND["below"]}


def server(figure: Figure, ill: bool) -> World:
    world = fleet(1)
    world.pod("prometheus-0", "n-1", 0, "monitoring", owner="StatefulSet/prometheus")
    world.add("StatefulSet", "prometheus", "monitoring", {"replicas": 1})
    for minute in (56, 58, 60):
        at = f"2026-11-03T1{1 + minute // 60}:{minute % 60:02}:00Z"
        body = "".join(f"{name} {value:.0f}\n" for name, value in values(figure, ill, minute).items())
        world.now(world.section("prometheus-0", body, job="prometheus", namespace="monitoring", port=9090, scraped_at=at))
    world.before(world.section("prometheus-0", body, job="prometheus", namespace="monitoring", port=9090))
    return world


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
async def test_each_figure_is_found_where_it_is_ill_and_quiet_where_it_is_sound(figure: Figure, tmp_path: Path) -> None:
    for ill in (True, False):
        report = (await Recorded.read(server(figure, ill).write(tmp_path / str(ill)))).judged()
        found = [(f.code, f.subject.metric, f.verdict) for f in report.findings]
        assert found == ([(f"telemetry-gap/{figure.code}", figure.metric, figure.verdict)] if ill else []), found


async def test_one_scrape_without_a_baseline_does_not_tell_when_a_counter_counted(tmp_path: Path) -> None:
    world = fleet(1)
    world.bodies["before"] = []
    world.pod("prometheus-0", "n-1", 0, "monitoring", owner="StatefulSet/prometheus")
    body = "prometheus_tsdb_wal_corruptions_total 3\nprometheus_rule_evaluation_failures_total 0\n"
    world.now(world.section("prometheus-0", body, job="prometheus", namespace="monitoring", port=9090))
    report = (await Recorded.read(world.write(tmp_path))).judged()
    assert not [f for f in report.findings if f.verdict is Verdict.FAIL]
    told = [u.subject.metric for c in report.checks for u in c.unjudged]
    assert "prometheus_tsdb_wal_corruptions_total" in told
    assert "prometheus_rule_evaluation_failures_total" not in told


async def test_what_a_silent_target_hides_is_listed_with_it(tmp_path: Path) -> None:
    """An alert that sees nothing at all makes it critical; one that is blind to this target alone does not."""
    for count, severity, note in ((1, "critical", "sees nothing"), (2, "warning", "does not see n-1")):
        world = fleet(count)
        first = world.bodies["after"][0].partition("\n")[0]
        world.bodies["after"][0] = first + ' up="0" error="connection refused"\n'
        world.alert("GpuHot", "DCGM_FI_DEV_GPU_TEMP > 85")
        world.alert("ExporterDown", 'up{job="dcgm"} == 0')
        report = (await Recorded.read(world.write(tmp_path / str(count)))).judged()
        down = next(f for f in report.findings if f.code == "telemetry-gap/target-down")
        assert [(i.kind, i.name, i.note) for i in down.impact] == [("alert", "GpuHot", note)]
        assert down.severity.value == severity
