"""Several servers as one: copies are not counted twice, shards are added up, and a lost one is never passed over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.contract.facts import Fact, Known, Missing
from functions.contract.rules import Matcher, Rule, RuleKind, Selector
from functions.contract.telemetry import Row, Target
from functions.evidence import plan
from functions.evidence.many import ManyMetrics
from functions.evidence.questions import Question, Series
from functions.evidence.sources import Metadata
from tests.support.memory_metrics import MemoryMetrics, series

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ALL = (Matcher("__name__", "=", "temp"),)


def target(instance: str, values: Sequence[float] = (1, 2), job: str = "dcgm") -> list[Series]:
    lines = "".join(f'temp{{gpu="{number}"}} {value}\n' for number, value in enumerate(values))
    return series("up 1\n" + lines, job=job, instance=instance)


def many(*held: Sequence[Series], **options: Any) -> ManyMetrics:
    return ManyMetrics([MemoryMetrics({NOW: list(s)}, **options) for s in held])


def rows(fact: Fact[tuple[Row, ...]]) -> list[tuple[dict[str, str], float]]:
    assert isinstance(fact, Known), fact
    return sorted(((dict(row.labels), row.value) for row in fact.value), key=repr)


async def test_copies_count_once() -> None:
    pair = many(target("a") + target("b"), target("a") + target("b"))
    assert rows(await pair.ask(Question("c", "count", ("job",), ALL), NOW)) == [({"job": "dcgm"}, 4.0)]
    assert rows(await pair.ask(Question("s", "sum", ("job",), ALL), NOW)) == [({"job": "dcgm"}, 6.0)]


async def test_a_copy_that_missed_a_scrape_does_not_lower_the_count() -> None:
    pair = many(target("a") + target("b"), target("a"))
    assert rows(await pair.ask(Question("c", "count", ("job",), ALL), NOW)) == [({"job": "dcgm"}, 4.0)]


async def test_shards_are_added_up() -> None:
    shards = many(target("a"), target("b"))
    assert rows(await shards.ask(Question("c", "count", ("job",), ALL), NOW)) == [({"job": "dcgm"}, 4.0)]
    assert rows(await shards.ask(Question("m", "max", ("job",), ALL), NOW)) == [({"job": "dcgm"}, 2.0)]
    assert rows(await shards.ask(Question("m", "min", ("job",), ALL), NOW)) == [({"job": "dcgm"}, 1.0)]


async def test_shards_that_are_pairs_themselves_are_told_apart() -> None:
    four = many(target("a"), target("a"), target("b"), target("b"))
    assert rows(await four.ask(Question("c", "count", ("job",), ALL), NOW)) == [({"job": "dcgm"}, 4.0)]


async def test_servers_of_different_jobs_are_united() -> None:
    both = many(target("a"), target("v", job="vllm"))
    answer = rows(await both.ask(Question("c", "count", ("job",), ALL), NOW))
    assert answer == [({"job": "dcgm"}, 2.0), ({"job": "vllm"}, 2.0)]


async def test_a_union_of_questions_is_united_part_by_part() -> None:
    answer = rows(await many(target("a"), target("b", (5, 9))).ask(plan.figures(ALL), NOW))
    figures = {labels["telltale_part"]: value for labels, value in answer}
    assert figures == {"series": 4, "targets": 2, "low": 1, "high": 9, "sum": 17}


async def test_selectors_are_counted_over_copies_and_shards() -> None:
    shards = many(target("a"), target("b"))
    answer = await shards.count_selectors([Selector("temp"), Selector("absent")], NOW)
    assert isinstance(answer, Known)
    assert [dict(c.by_job) for c in answer.value] == [{"dcgm": 4}, {}]


@pytest.mark.parametrize("name", ["c", "overlap", "selectors", "targets-api", "metadata", "rules"])
async def test_one_server_without_an_answer_makes_the_fact_missing(name: str) -> None:
    healthy, lame = MemoryMetrics({NOW: target("a")}, targets=()), MemoryMetrics({NOW: target("b")}, targets=(), fails=lambda n: n == name)
    both = ManyMetrics([healthy, lame])
    answers: dict[str, Fact[Any]] = {
        "c": await both.ask(Question("c", "count", ("job",), ALL), NOW),
        "selectors": await both.count_selectors([Selector("temp")], NOW),
        "targets-api": await both.targets(NOW),
        "metadata": await both.metadata(NOW),
        "rules": await both.rules(),
    }
    lost = {asked for asked, answer in answers.items() if isinstance(answer, Missing)}
    assert lost == ({"c", "selectors"} if name == "overlap" else {name})
    assert all(
        f"{name} timed out" in a.detail and "1 of 2" in a.detail for a in answers.values() if isinstance(a, Missing) and name != "rules"
    )


async def test_a_target_that_any_copy_reaches_is_up_and_a_rule_counts_once() -> None:
    down = Target("dcgm", "a", {"job": "dcgm", "instance": "a"}, up=False, error="timeout")
    up = Target("dcgm", "a", {"job": "dcgm", "instance": "a"}, up=True)
    one = Rule(RuleKind.ALERT, "Hot", "gpu", "temp > 90")
    other = Rule(RuleKind.ALERT, "Hot", "gpu", "temp>90")
    held = ManyMetrics([MemoryMetrics({}, targets=[down], rules=[one]), MemoryMetrics({}, targets=[up], rules=[other])])
    targets, rules = await held.targets(NOW), await held.rules()
    assert isinstance(targets, Known)
    assert isinstance(rules, Known)
    assert [t.up for t in targets.value] == [True]
    assert rules.value == (one,)


async def test_types_that_servers_disagree_about_are_unknown() -> None:
    one = MemoryMetrics({}, metadata={("", "m"): Metadata("gauge", "A."), ("", "n"): Metadata("gauge")})
    other = MemoryMetrics({}, metadata={("", "m"): Metadata("counter", "B."), ("", "n"): Metadata("")})
    answer = await ManyMetrics([one, other]).metadata(NOW)
    assert isinstance(answer, Known)
    assert (answer.value["", "m"].type, answer.value["", "m"].help, answer.value["", "n"].type) == ("", "A.", "gauge")
