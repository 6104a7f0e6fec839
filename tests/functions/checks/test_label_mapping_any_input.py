"""Whatever exporters print, label-mapping answers: no crash, only its own codes, the same answer in any order."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.checks.label_mapping.check import CHECK
from functions.contract.facts import Missing, Why
from functions.contract.findings import Verdict
from functions.contract.telemetry import DeviceReading
from tests.functions.checks.mapping_facts import LONG_AGO, NOW, A, B, judge, node, pod, series, target

_CODES = {code.id for code in CHECK.codes}
_gpus = st.sampled_from([A, B, A.lower(), "0", "nvidia1", "", "<<<NULL>>>", "N/A"])
_nodes = st.sampled_from(["n-1", "n-2", "", "n-9"])
_names = st.sampled_from(["", "a-0", "b-0", "gone-0", "dcgm-n-1", "done-0"])
_hosts = st.sampled_from(["", "n-1", "N-2.example.org", "localhost", "dcgm-n-1", "10.0.0.1", "elsewhere"])
_values = st.sampled_from([0.0, 0.5, 1.0, 55.0, 9.2e18, float("nan"), float("inf"), -1.0])


@st.composite
def _series(draw: st.DrawFn):
    part = draw(st.sampled_from(["", "", "7"]))
    honor = draw(st.sampled_from([True, False, None]))
    where, name, host = draw(_nodes), draw(_names), draw(_hosts)
    at = draw(st.sampled_from(["", "dcgm.gpu-operator:9400", "x", "[::1]:9400"]))
    return series(draw(_gpus), where, name, namespace=draw(st.sampled_from(["ml", ""])), part=part, at=at, host=host, honor_labels=honor)


_pods = (
    pod("a-0"),
    pod("b-0", "n-2", started_at=NOW - timedelta(seconds=5)),
    pod("done-0", phase="Succeeded", finished_at=LONG_AGO),
    pod("waits-0", "", phase="Pending"),
    pod("claims-0", gpus=0, claims={"gpu": "c"}),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_series(), max_size=6), st.lists(_values, min_size=6, max_size=6), st.booleans())
def test_any_series_get_an_answer_that_does_not_depend_on_their_order(devices, values, known_targets) -> None:
    readings = tuple(DeviceReading("gpu.utilization", "DCGM_FI_DEV_GPU_UTIL", v, 1, d) for d, v in zip(devices, values, strict=False))
    nodes = (node("n-1", labels={"nvidia.com/gpu.replicas": "x"}), node("n-2", 0))
    more = {"targets": (target(), target("n-2", up=False))} if known_targets else {}
    forward = judge(nodes=nodes, pods=_pods, devices=tuple(devices), readings=readings, **more)
    backward = judge(nodes=nodes, pods=_pods, devices=tuple(reversed(devices)), readings=tuple(reversed(readings)), **more)
    assert "the check itself failed" not in forward.summary, forward.summary
    assert {f.code for f in forward.findings} <= _CODES
    assert {(f.code, str(f.subject.parts())) for f in forward.findings} == {(f.code, str(f.subject.parts())) for f in backward.findings}
    for finding in forward.findings:
        assert all([finding.observed, finding.expected, finding.hint, finding.evidence])


def test_each_optional_fact_may_be_missing_and_without_values_nothing_is_green() -> None:
    gone = Missing(Why.UNREACHABLE, "no answer", "q")
    for name, needed in CHECK.needs.items():
        if not needed:
            verdict = judge(pods=(pod("a-0"),), devices=(series(A, name="a-0"),), **{name: gone}).verdict
            assert verdict is (Verdict.UNKNOWN if name == "readings" else Verdict.PASS), name


def test_a_value_that_is_no_number_decides_nothing_in_either_order() -> None:
    devices = (series(A, name="a-0"), series(A, name="b-0"))
    readings = [
        DeviceReading("gpu.utilization", "DCGM_FI_DEV_GPU_UTIL", v, 1, d) for v, d in zip((float("nan"), 55.0), devices, strict=True)
    ]
    answers = [judge(pods=(pod("a-0"), pod("b-0")), devices=devices, readings=tuple(order)) for order in (readings, readings[::-1])]
    codes = [{f.code for f in answer.findings} for answer in answers]
    assert codes[0] == codes[1]
    assert "label-mapping/shared-device" not in codes[0]
