"""Questions, asked of real Prometheus servers and of the evaluator over the same series, have the same answers."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from functions.contract.rules import Matcher
from functions.evidence import plan, presence
from functions.evidence.matching import matches, readable
from functions.evidence.questions import LABEL, METRIC, PART, Question, Series, one_of
from tests.support.exporters import exporters
from tests.support.prometheus import BINARIES, Server, job, prometheus

pytestmark = pytest.mark.real

GPU = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="n1",pod="train-0",namespace="ml"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",Hostname="n1",pod=""} 0
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",Hostname="n1"} NaN
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b",Hostname="n1"} 41.5
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",Hostname="n1"} NaN
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",note="a\\"b\\\\c\\nd"} +Inf
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",note="$1 (x|y)"} 9.223372036854775794e18
# TYPE latency_seconds histogram
latency_seconds_bucket{le="1"} 3
latency_seconds_bucket{le="+Inf"} 5
latency_seconds_sum 4.25
latency_seconds_count 5
"""
OTHER = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-c",hostname="n2"} -3.5\nup_to_you 1\n'


@pytest.fixture(params=sorted(BINARIES), scope="module")
def binary(request: pytest.FixtureRequest) -> str:
    return BINARIES[request.param]


@pytest.fixture
async def server(binary: str) -> AsyncIterator[Server]:
    async with exporters({"n1": GPU, "n2": OTHER, "app": 'vllm:requests{a_b="1"} 7\n'}) as fleet:
        scrape = [job("dcgm", fleet, ("n1", {"namespace": "gpu"}), "n2", honor_labels=False), job("vllm", fleet, "app")]
        async with prometheus(scrape, binary=binary, interval=0.3) as running:
            await fleet.scraped(3)
            await running.scraped(1)
            yield running


async def stored(server: Server, at: float, span: int | None) -> list[Series]:
    """Every series that the server holds, as the evaluator takes them."""
    expr = '{__name__=~".+"}' + (f"[{span}s]" if span else "")
    data = await server.api("query", query=expr, time=repr(at))
    return [(r["metric"], [(float(t), float(v)) for t, v in r.get("values") or [r["value"]]]) for r in data["result"]]


async def both(server: Server, question: Question) -> tuple[list[Any], list[Any]]:
    """The server's rows and the evaluator's, made comparable."""
    at = time.time()
    data = await server.api("query", query=question.promql(), time=repr(at))
    theirs = [(dict(r["metric"]), float(r["value"][1])) for r in data["result"]]
    ours = [(dict(r.labels), r.value) for r in question.answer(await stored(server, at, question.over[1] if question.over else None))]
    return sorted(theirs, key=_order), sorted(ours, key=_order)


def _order(row: tuple[dict[str, str], float]) -> list[tuple[str, str]]:
    return sorted(row[0].items())


def same(theirs: list[Any], ours: list[Any]) -> None:
    assert [labels for labels, _ in theirs] == [labels for labels, _ in ours]
    for (labels, one), (_, other) in zip(theirs, ours, strict=True):
        assert (math.isnan(one) and math.isnan(other)) or one == pytest.approx(other, rel=1e-9), labels


DCGM = (Matcher("job", "=", "dcgm"),)
DEVICES = Matcher("__name__", "=~", "DCGM_(FI|EXP)_.*")
BY = ("job", "instance", "UUID", "gpu", "Hostname", "hostname", "pod", "exported_pod", "namespace", "exported_namespace")
QUESTIONS = [
    plan.relevance(DEVICES, ["vllm:requests", "absent_metric"]),
    plan.anything(),
    plan.target_series(DCGM),
    plan.figures(DCGM),
    plan.figures(plan.EVERYTHING),
    plan.finite_figures(DCGM, ["DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK"]),
    plan.devices((*DCGM, Matcher("nvlink", "=", "")), DEVICES, BY),
    plan.readings(DCGM, ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK"], BY),
    plan.readings(DCGM, ["DCGM_FI_DEV_GPU_UTIL"], ("job",)),
    plan.extremes((DEVICES, *DCGM), ["DCGM_FI_DEV_FB_USED"], BY, 2147483632),
    plan.standstill(DCGM, ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_SM_CLOCK"], 60),
    plan.instances(DCGM, ["DCGM_FI_DEV_GPU_UTIL", "up_to_you"]),
    plan.label_values(
        [], {("dcgm", "UUID"): "DCGM_FI_DEV_GPU_UTIL", ("dcgm", "note"): "DCGM_FI_DEV_FB_USED", ("vllm", "a_b"): "vllm:requests"}
    ),
    Question("all", "sum", (), DCGM, finite=True),
    Question("text", "group", ("note",), (Matcher("note", "=~", '(?i)A"B[\\s\\S]*d|\\$1 \\(x[[:punct:]]y\\)'),)),
    Question("quote", "group", ("note",), (Matcher("note", "=", 'a"b\\c\nd'),)),
    Question("not", "count", ("__name__",), (*DCGM, Matcher("UUID", "!~", "GPU-(a|b)"), Matcher("instance", "!=", "n9"))),
    Question("literal", "count", ("instance",), (one_of("note", ["$1 (x|y)", "x.y"]),)),
    Question("last", names=("up_to_you", "vllm:requests"), over=("last_over_time", 60)),
    Question("most", "max", (METRIC,), names=("DCGM_FI_DEV_GPU_UTIL",), over=("max_over_time", 60)),
]


async def test_every_question_of_the_plan_has_one_answer(server: Server) -> None:
    held = await stored(server, time.time(), None)
    samples = plan.samples(plan.EVERYTHING).answer(held)
    ours = {(row.labels.get("job"), row.labels["__name__"]) for row in samples}
    theirs = await server.query(plan.samples(plan.EVERYTHING).promql())
    assert {(row["metric"].get("job"), row["metric"]["__name__"]) for row in theirs} == ours
    names = ["UUID", "Hostname", "hostname", "pod", "le", "job", "instance", "exported_namespace", "no_such"]
    expected = presence.expected(samples, names)
    for question in [*QUESTIONS, presence.question(plan.EVERYTHING, expected)]:
        theirs, ours = await both(server, question)
        if any(labels.get("__name__", "").startswith("scrape_") for labels, _ in theirs):
            theirs = [(labels, 0.0 if "duration" in labels.get("__name__", "") else value) for labels, value in theirs]
            ours = [(labels, 0.0 if "duration" in labels.get("__name__", "") else value) for labels, value in ours]
        same(theirs, ours)


async def test_the_pipeline_of_a_server_is_read_from_its_own_metrics(binary: str) -> None:
    async with prometheus(binary=binary, interval=0.3) as server:
        host = server.url.removeprefix("http://")
        await server.reload(scrape=[{"job_name": "prometheus", "static_configs": [{"targets": [host]}]}])
        await server.scraped(3)
        theirs, ours = await both(server, plan.pipeline())
        values = [row for row in theirs if row[0][PART] == "value"]
        assert [labels for labels, _ in theirs] == [labels for labels, _ in ours]
        reload = "prometheus_config_last_reload_successful"
        assert ({"__name__": reload, METRIC: reload, "instance": host, "job": "prometheus", PART: "value"}, 1.0) in values
        same(values, [row for row in ours if row[0][PART] == "value"])


def test_a_rate_undoes_resets_and_needs_two_samples() -> None:
    question = Question("r", names=("c",), over=("rate", 60))
    series: list[Series] = [({"__name__": "c", "i": "1"}, [(0, 10.0), (10, 30.0), (20, 5.0)]), ({"__name__": "c", "i": "2"}, [(0, 1.0)])]
    assert [(row.labels, row.value) for row in question.answer(series)] == [({"i": "1", METRIC: "c"}, 1.25)]


def test_label_names_are_those_with_a_value() -> None:
    series: list[Series] = [({"__name__": "a", "x": "1", "y": ""}, [(0, 1.0)]), ({"__name__": "b", "z": "1"}, [(0, 1.0)])]
    assert {row.labels[LABEL] for row in Question("l", "labels").answer(series)} == {"__name__", "x", "z"}
    assert Question("l", "labels", (), (Matcher("x", "!=", ""),)).selector == '{x!=""}'


def test_names_outside_the_classic_alphabet_are_quoted() -> None:
    question = Question("q", "count", ("k8s.pod.name",), (Matcher("__name__", "=", "gpu.used"), Matcher("k8s.pod.name", "!=", "")))
    assert question.promql() == 'count by ("k8s.pod.name") ({__name__="gpu.used","k8s.pod.name"!=""})'


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("a|b", "b", True),
        ("a|b", "ab", False),
        ("", "", True),
        ("a|", "", True),
        (".+", "x\ny", True),
        ("(?i)gpu-.*", "GPU-1", True),
        ("(?i)a|B", "b", True),
        ("[[:digit:]]+", "12", True),
        (r"\d+", "١", False),
        ("foo.*", "xfoo", False),
        (r"GPU\.0", "GPU.0", True),
    ],
)
def test_patterns_match_as_re2_does(pattern: str, value: str, expected: bool) -> None:
    assert matches(Matcher("l", "=~", pattern), value) is expected
    assert matches(Matcher("l", "!~", pattern), value) is not expected


def test_a_pattern_that_cannot_be_read_is_told_apart() -> None:
    assert not readable(Matcher("l", "=~", r"\pL+("))
    assert readable(Matcher("l", "=~", "a.*"))
