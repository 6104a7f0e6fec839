"""Several metric servers as one `MetricSource`.

Copies (a pair that scrapes the same targets) and shards (each scrapes its share) look alike in an aggregate and must
be united differently: the larger of two copies' counts, the sum of two shards'. Which is which is read off the
targets: servers that scrape an instance of a job in common are copies for that job.

One server that does not answer makes the united fact `Missing`, naming it: a series that the others don't have may be
on that one, so nothing could be said to be absent.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher, Rule, Selector, SelectorCount
from functions.contract.telemetry import Body, Row, Target
from functions.evidence.questions import PART, Question
from functions.evidence.sources import Metadata, MetricSource
from functions.evidence.watched import unique_rules

T = TypeVar("T")
#: job -> groups of servers (by number) that are copies of each other
Groups = Mapping[str, Sequence[Sequence[int]]]
_OVERLAP = Question("overlap", "group", ("job", "instance"), (Matcher("__name__", "=", "up"),))
_ADDED = frozenset({"count", "sum"})


class ManyMetrics:
    """The union of several sources."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._sources = tuple(sources)
        self._groups: dict[datetime, asyncio.Task[Fact[Groups]]] = {}

    async def ask(self, question: Question, at: datetime) -> Fact[tuple[Row, ...]]:
        """The united answer."""
        answers = await self._all(lambda source: source.ask(question, at))
        groups = await self._copies(at) if _adds(question) else Known({}, at, "")
        if isinstance(answers, Missing):
            return answers
        if isinstance(groups, Missing):
            return groups
        rows = _merged([a.value for a in answers], question, groups.value)
        return _united(answers, rows)

    async def count_selectors(self, selectors: Sequence[Selector], at: datetime) -> Fact[tuple[SelectorCount, ...]]:
        """Counts by job; a selector that one server could not count has none."""
        answers = await self._all(lambda source: source.count_selectors(selectors, at))
        groups = await self._copies(at)
        if isinstance(answers, Missing):
            return answers
        if isinstance(groups, Missing):
            return groups
        counts = [{c.selector: c.by_job for c in a.value} for a in answers]
        everywhere = [s for s in dict.fromkeys(selectors) if all(s in held for held in counts)]
        return _united(answers, tuple(SelectorCount(s, _jobs([held[s] for held in counts], groups.value)) for s in everywhere))

    async def targets(self, at: datetime) -> Fact[tuple[Target, ...]]:
        """Every target once; one that any copy reaches is up."""
        answers = await self._all(lambda source: source.targets(at))
        if isinstance(answers, Missing):
            return answers
        found: dict[frozenset[tuple[str, str]], Target] = {}
        for target in (t for a in answers for t in a.value):
            key = frozenset(target.labels.items())
            if key not in found or (target.up and not found[key].up):
                found[key] = target
        return _united(answers, tuple(found.values()))

    async def metadata(self, at: datetime) -> Fact[Mapping[tuple[str, str], Metadata]]:
        """Types and HELP texts; servers that disagree about a type leave it unknown."""
        answers = await self._all(lambda source: source.metadata(at))
        if isinstance(answers, Missing):
            return answers
        found: dict[tuple[str, str], Metadata] = {}
        for key, entry in (pair for a in answers for pair in a.value.items()):
            held = found.get(key, entry)
            kinds = {held.type, entry.type} - {""}
            found[key] = Metadata(kinds.pop() if len(kinds) == 1 else "", held.help or entry.help, held.unit or entry.unit)
        return _united(answers, found)

    async def rules(self) -> Fact[tuple[Rule, ...]]:
        """Every loaded rule once. A server without rules of its own (a querier without a ruler) adds none."""
        answers = await asyncio.gather(*(source.rules() for source in self._sources))
        lost = next((a for a in answers if isinstance(a, Missing) and a.why is not Why.UNSUPPORTED), None)
        known = [a for a in answers if isinstance(a, Known)]
        if lost or not known:
            return lost or next(a for a in answers if isinstance(a, Missing))
        return _united(known, unique_rules([rule for a in known for rule in a.value]))

    async def bodies(self, at: datetime) -> Fact[tuple[Body, ...]]:
        """The raw bodies that any of them has."""
        answers = await self._all(lambda source: source.bodies(at))
        return answers if isinstance(answers, Missing) else _united(answers, tuple(body for a in answers for body in a.value))

    async def _all(self, asked: Callable[[MetricSource], Any]) -> list[Known[Any]] | Missing:
        answers: Sequence[Fact[Any]] = await asyncio.gather(*(asked(source) for source in self._sources))
        lost = [a for a in answers if isinstance(a, Missing)]
        if lost:
            others = f" (the other {len(answers) - len(lost)} of {len(answers)} servers answered)" if len(lost) < len(answers) else ""
            return replace(lost[0], detail=lost[0].detail + others)
        return [a for a in answers if isinstance(a, Known)]

    async def _copies(self, at: datetime) -> Fact[Groups]:
        if at not in self._groups:
            if len(self._groups) > 16:
                self._groups.clear()
            self._groups[at] = asyncio.ensure_future(self._look(at))
        answer = await self._groups[at]
        if isinstance(answer, Missing):
            self._groups.pop(at, None)  # it may answer the next time
        return answer

    async def _look(self, at: datetime) -> Fact[Groups]:
        answers = await self._all(lambda source: source.ask(_OVERLAP, at))
        if isinstance(answers, Missing):
            return answers
        jobs: dict[str, dict[int, set[str]]] = {}
        for number, answer in enumerate(answers):
            for row in answer.value:
                jobs.setdefault(row.labels.get("job", ""), {}).setdefault(number, set()).add(row.labels.get("instance", ""))
        return Known({job: _grouped(held) for job, held in jobs.items()}, at, "instances of each server")


def _grouped(instances: Mapping[int, set[str]]) -> list[list[int]]:
    """Servers that share an instance, directly or through others."""
    groups: list[tuple[list[int], set[str]]] = []
    for number, held in instances.items():
        joined = [group for group in groups if group[1] & held]
        groups = [group for group in groups if not group[1] & held]
        groups.append((sorted([number, *(n for g in joined for n in g[0])]), held.union(*(g[1] for g in joined))))
    return [group[0] for group in groups]


def _adds(question: Question) -> bool:
    """Whether a row can stand for series of several shards that must be added up."""
    return any(_adds(part) for part in question.parts) or (question.op in _ADDED and "instance" not in question.by)


def _merged(answers: Sequence[Iterable[Row]], question: Question, groups: Groups) -> tuple[Row, ...]:
    parts = {part.id: part for part in question.parts}
    found: dict[frozenset[tuple[str, str]], dict[int, Row]] = {}
    for number, rows in enumerate(answers):
        for row in rows:
            found.setdefault(frozenset(row.labels.items()), {})[number] = row
    out = []
    for held in found.values():
        labels = next(iter(held.values())).labels
        asked = parts.get(labels.get(PART, ""), question)
        out.append(Row(labels, _value(asked, {n: row.value for n, row in held.items()}, groups.get(labels.get("job", "")))))
    return tuple(out)


def _value(asked: Question, values: Mapping[int, float], groups: Sequence[Sequence[int]] | None) -> float:
    numbers = [v for v in values.values() if not math.isnan(v)] or [math.nan]
    if asked.op == "min":
        return min(numbers)
    if asked.op not in _ADDED or not groups or "instance" in asked.by:
        return max(numbers)
    grouped = {n for group in groups for n in group}
    shares = [[values[n] for n in group if n in values] for group in groups] + [[v] for n, v in values.items() if n not in grouped]
    return math.fsum(max(share) for share in shares if share)


def _jobs(counts: Sequence[Mapping[str, int]], groups: Groups) -> dict[str, int]:
    asked = Question("count", "count", ("job",))
    jobs = sorted({job for held in counts for job in held})
    return {job: int(_value(asked, {n: held[job] for n, held in enumerate(counts) if job in held}, groups.get(job))) for job in jobs}


def _united(answers: Sequence[Known[Any]], value: T) -> Known[T]:
    warnings = tuple(dict.fromkeys(w for a in answers for w in a.warnings))
    lost = tuple(dict.fromkeys(part for a in answers for part in a.lost))
    return Known(value, answers[0].at, " + ".join(dict.fromkeys(a.source for a in answers)), warnings, lost)
