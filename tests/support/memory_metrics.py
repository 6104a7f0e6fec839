"""A `MetricSource` over series in memory, for tests of what stands above one: every fact can be made to fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher, Rule, Selector, SelectorCount
from functions.contract.telemetry import Body, Row, Target
from functions.evidence.questions import Question, Series
from functions.evidence.sources import Metadata

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryMetrics:
    """`moments`: instant -> series. `fails`: whether a question (by its id) or a call (by its name) gets no answer."""

    def __init__(
        self,
        moments: Mapping[datetime, Sequence[Series]],
        *,
        targets: Sequence[Target] | None = None,
        rules: Sequence[Rule] = (),
        metadata: Mapping[tuple[str, str], Metadata] | None = None,
        fails: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self.moments = moments
        self.listed = targets
        self.loaded = rules
        self.described = metadata or {}
        self.fails = fails
        self.asked: list[tuple[str, datetime]] = []

    def _series(self, at: datetime) -> Sequence[Series]:
        return self.moments.get(at, ())

    def _refused(self, name: str, at: datetime) -> Missing | None:
        self.asked.append((name, at))
        return Missing(Why.TIMED_OUT, f"{name} timed out", name) if self.fails(name) else None

    async def ask(self, question: Question, at: datetime) -> Fact[tuple[Row, ...]]:
        series = self._series(at)
        if question.op == "labels":  # a server tells the label names of a span of time
            series = [s for held in self.moments.values() for s in held]
        return self._refused(question.id, at) or Known(question.answer(series), at, question.shown)

    async def count_selectors(self, selectors: Sequence[Selector], at: datetime) -> Fact[tuple[SelectorCount, ...]]:
        if refused := self._refused("selectors", at):
            return refused
        counts = []
        for selector in selectors:
            name = [Matcher("__name__", "=", selector.name)] if selector.name else []
            rows = Question("c", "count", ("job",), (*name, *selector.matchers)).answer(self._series(at))
            counts.append(SelectorCount(selector, {row.labels.get("job", ""): int(row.value) for row in rows}))
        return Known(tuple(counts), at, "memory")

    async def targets(self, at: datetime) -> Fact[tuple[Target, ...]]:
        if refused := self._refused("targets-api", at):
            return refused
        return Missing(Why.UNSUPPORTED, "no targets here") if self.listed is None else Known(tuple(self.listed), at, "memory")

    async def metadata(self, at: datetime) -> Fact[Mapping[tuple[str, str], Metadata]]:
        return self._refused("metadata", at) or Known(self.described, at, "memory")

    async def rules(self) -> Fact[tuple[Rule, ...]]:
        return self._refused("rules", _EPOCH) or Known(tuple(self.loaded), _EPOCH, "memory")

    async def bodies(self, at: datetime) -> Fact[tuple[Body, ...]]:
        return Missing(Why.UNSUPPORTED, "no bodies here")


def series(text: str, *, job: str = "", instance: str = "", at: float = 0.0) -> list[Series]:
    """Lines of `name{label="value",…} number` as stored series; `job` and `instance` are added to each."""
    found: list[Series] = []
    for line in text.strip().splitlines():
        match = re.fullmatch(r"\s*([\w:]+)(?:\{(.*)\})?\s+(\S+)\s*", line)
        assert match, line
        labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
        own = {"__name__": match[1], "job": job, "instance": instance}
        found.append(({k: v for k, v in {**own, **labels}.items() if v}, [(at, float(match[3]))]))
    return found
