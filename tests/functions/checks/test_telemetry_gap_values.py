"""Values that cannot be: codes for no value, and values that stand still."""

from __future__ import annotations

from typing import Any

import pytest

from functions.contract.facts import Missing, Why
from functions.contract.findings import Severity, Verdict
from functions.contract.rules import Rule, RuleKind
from functions.contract.telemetry import MetricSchema
from tests.functions.checks.gap_facts import JOB, codes, extreme, judge, metric, only, passes, still, util

ENERGY, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"
CLOCK, TEMP = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_TEMP"


@pytest.mark.parametrize("value", [9223372036854775794.0, 2147483634.0, 140737488355330.0])
def test_a_code_for_no_value_is_found_by_metric_and_node(value: float) -> None:
    found = only(judge(extremes=(extreme("DCGM_FI_DEV_MEMORY_TEMP", value),)), "blank-sentinel")
    assert found.subject.parts() == {"node": "n-1", "gpu": "GPU-a", "metric": "DCGM_FI_DEV_MEMORY_TEMP", "job": JOB}
    assert "celsius between 0 and 150" in found.expected


def test_several_devices_of_a_node_are_one_finding() -> None:
    rows = tuple(extreme("DCGM_FI_DEV_MEMORY_TEMP", 2147483634.0, gpu=g) for g in ("GPU-a", "GPU-b"))
    found = only(judge(extremes=rows), "blank-sentinel")
    assert found.subject.gpu is None
    assert "on 2 devices" in found.observed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (ENERGY, 2663661779860.0),
        (ENERGY, 2147483634.0),
        ("DCGM_FI_DEV_FB_USED_BYTES", 85899345920.0),
        ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1.98e9),
        (POWER, 2147483647.0),
    ],
)
def test_a_large_value_is_no_code(name: str, value: float) -> None:
    passes(judge(extremes=(extreme(name, value),)))


def test_a_rule_on_the_metric_makes_it_critical() -> None:
    rule = Rule(RuleKind.ALERT, "Hot", "gpu", "DCGM_FI_DEV_MEMORY_TEMP > 95")
    result = judge(extremes=(extreme("DCGM_FI_DEV_MEMORY_TEMP", 2147483632.0),), rules=(rule,))
    assert next(f for f in result.findings if f.code.endswith("blank-sentinel")).severity is Severity.CRITICAL


def test_without_extremes_the_highest_value_of_each_name_has_to_do() -> None:
    row = MetricSchema(JOB, "DCGM_FI_DEV_MEMORY_TEMP", 1, 1, 50.0, 2147483634.0, None)
    names = (metric("DCGM_FI_DEV_GPU_UTIL"), row)
    result = judge(extremes=Missing(Why.TIMED_OUT, "no answer"), schema=names, schema_before=names)
    assert codes(result) == {"blank-sentinel"}


def frozen(quiet: int, *names: str, **more: Any) -> tuple[Any, ...]:
    return tuple(still(name, quiet, **more) for name in names or (ENERGY, POWER, CLOCK, TEMP))


def test_values_that_stand_still_under_load_are_frozen() -> None:
    found = only(judge(standstill=frozen(2)), "frozen")
    assert found.subject.parts() == {"node": "n-1", "job": JOB, "target": "10.0.1.1:9400"}
    assert "2 of 2 series" in found.observed


def test_one_device_of_two_can_be_frozen() -> None:
    assert "1 of 2 series" in only(judge(standstill=frozen(1)), "frozen").observed


def test_a_frozen_device_is_not_the_idle_one() -> None:
    passes(judge(standstill=frozen(1), readings=(util("GPU-a", 80), util("GPU-b", 0))))


def test_idle_devices_may_stand_still() -> None:
    passes(judge(standstill=frozen(2), readings=(util("GPU-a", 0), util("GPU-b", 0))))


def test_one_scrape_proves_nothing() -> None:
    passes(judge(standstill=frozen(2, scrapes=1)))


def test_whole_degrees_and_megahertz_can_repeat() -> None:
    passes(judge(standstill=frozen(2, CLOCK, TEMP)))
    passes(judge(standstill=frozen(2, TEMP)))


def test_energy_that_moves_shows_that_the_source_lives() -> None:
    passes(judge(standstill=(*frozen(2, POWER, CLOCK, TEMP), still(ENERGY, 0))))


def test_a_code_for_no_value_that_stands_still_is_not_frozen_too() -> None:
    code = tuple(extreme(name, 2147483634.0, gpu=gpu) for name in (ENERGY, POWER, CLOCK) for gpu in ("GPU-a", "GPU-b"))
    assert "frozen" not in codes(judge(standstill=frozen(2, POWER, CLOCK), extremes=code))


def test_whether_idle_or_frozen_is_unknown_without_readings() -> None:
    result = judge(standstill=frozen(2), readings=Missing(Why.TIMED_OUT, "no answer"))
    assert result.verdict is Verdict.UNKNOWN
    assert not result.findings
