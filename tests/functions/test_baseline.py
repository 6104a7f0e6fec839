"""The last good inventory: when it is kept, which one counts, and that it comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.baseline import is_good, keep, recall
from functions.contract.facts import Facts, Known, Windows
from functions.contract.findings import Verdict
from functions.contract.report import AuditReport
from functions.contract.rules import Matcher, Selector, SelectorCount
from functions.contract.signals import CLUSTER, Scope, TriggerKind
from functions.contract.telemetry import DeviceSeries, MetricSchema, Target
from functions.evidence import kept as keeping
from functions.evidence.sources import Metadata
from functions.store import Store
from tests.support.reports import NOW, check, finding, later, report, request

TARGET = Target("dcgm", "gpu-1", {"job": "dcgm", "instance": "gpu-1"}, up=True, samples=3, scraped_at=NOW)
METRIC = MetricSchema("dcgm", "DCGM_FI_DEV_GPU_TEMP", 8, 1, 30.0, None, 31.5, {"Hostname": 8}, "gauge", "GPU temperature (in C).")
DEVICE = DeviceSeries("dcgm", "gpu-1", {"UUID": "GPU-1", "Hostname": "gpu-1"}, 20, {"gpu": "UUID", "host": "Hostname"}, "gpu-1", "GPU-1")
COUNT = SelectorCount(Selector("DCGM_FI_DEV_GPU_TEMP", (Matcher("Hostname", "=~", "gpu-.*"),)), {"dcgm": 8})


def facts(at: datetime = NOW) -> Facts:
    values: dict[str, Any] = {"targets": (TARGET,), "schema": (METRIC,), "devices": (DEVICE,), "selectors": (COUNT,)}
    return replace(Facts(Windows(None, at)), **{name: Known(value, at, "test") for name, value in values.items()})


def scheduled(*checks: Any, **more: Any) -> AuditReport:
    return report("a", *checks, **{"scope": CLUSTER, "kind": TriggerKind.SCHEDULE, "phase": "periodic"} | more)


def test_what_is_kept_comes_back_as_it_was() -> None:
    taken = keeping.of(facts())
    assert taken is not None
    assert keeping.unpacked(keeping.packed(taken)) == taken
    assert keeping.unpacked({"at": "then"}) is None


@pytest.mark.parametrize(
    ("code", "good"),
    [
        ("metric-rename/renamed", False),
        ("telemetry-gap/target-down", False),
        ("telemetry-gap/field-absent", True),
        ("label-mapping/pod-missing", True),
    ],
)
def test_an_audit_that_found_a_loss_is_no_measure_of_what_should_be(code: str, good: bool) -> None:
    assert is_good(scheduled(check(code.partition("/")[0], [finding(code)]))) is good
    assert is_good(scheduled(check(code.partition("/")[0], [finding(code, node="n", verdict=Verdict.UNKNOWN)])))


def test_only_a_look_at_the_whole_cluster_is_kept() -> None:
    assert is_good(scheduled())
    assert not is_good(scheduled(scope=Scope("node", "", "gpu-1")))
    assert not is_good(scheduled(kind=TriggerKind.ALERT, phase="firing"))


async def test_the_latest_from_before_the_change_counts(kept: Store) -> None:
    for seconds in (0, 1800, 3600, 3660):
        assert await keep(kept, scheduled(), facts(later(seconds)))
    assert not await keep(kept, scheduled(check("metric-rename", [finding("metric-rename/renamed")])), facts(later(3700)))

    async def at(baseline: datetime | None) -> datetime | None:
        found = (await recall(kept, replace(request(), baseline=baseline), later(4000))).inventory
        return found.at if found else None

    assert await at(None) == later(3660)
    assert await at(later(3655)) == later(1800), "one taken during a change does not take the place of the one from before"
    assert await at(later(1000)) is None


async def test_what_another_version_kept_in_another_shape_is_no_baseline(kept: Store) -> None:
    await kept.notes.keep_baseline(f"cluster/{int(NOW.timestamp() // 3600) % 2}", NOW, {"at": NOW.isoformat(), "series": 3})
    assert (await recall(kept, request(), NOW + timedelta(seconds=5))).inventory is None


async def test_texts_are_kept_of_broken_times_too(kept: Store) -> None:
    broken = scheduled(check("metric-rename", [finding("metric-rename/renamed")]))
    assert not await keep(kept, broken, facts(NOW)), "no inventory"
    remembered = await recall(kept, replace(request(), baseline=later(60)), later(120))
    assert remembered.inventory is None
    assert remembered.texts is not None
    assert remembered.texts.metadata == {("dcgm", METRIC.name): Metadata("gauge", METRIC.help)}
    assert (await recall(kept, replace(request(), baseline=later(-1)), later(120))).texts is None
    assert keeping.unpacked_texts({"at": "then"}) is None


def test_for_a_node_only_its_own_targets_are_the_baseline() -> None:
    taken = keeping.of(facts())
    assert taken is not None
    elsewhere = taken.facts(Scope("node", "", "gpu-2"), frozenset({"gpu-2"}))
    assert elsewhere["targets_before"].value == elsewhere["devices_before"].value == ()  # type: ignore[union-attr]
    assert "schema_before" not in elsewhere
    here = taken.facts(CLUSTER, frozenset())
    assert {v.label: v.values for v in here["label_values_before"].value} == {"UUID": {"GPU-1"}, "Hostname": {"gpu-1"}}  # type: ignore[union-attr]
