"""The telemetry of one instant: its questions asked, its answers assembled. `telemetry.py` compares two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher
from functions.contract.telemetry import LabelValues, MetricSchema, Row, Target
from functions.evidence import assemble, plan, presence, schema
from functions.evidence.questions import LABEL, Question, parts_of
from functions.evidence.request import carried, value_of
from functions.evidence.schema import Figures
from functions.evidence.sources import Metadata, MetricSource

Where = tuple[Matcher, ...]
NOTHING = "no job has device or serving metrics"


@dataclass(frozen=True, slots=True)
class Relevant:
    """What a first look at an instant shows."""

    stored: bool
    jobs: frozenset[str]
    #: labels of targets that are down or serve nothing, of any job
    broken: tuple[Mapping[str, str], ...]


class Moment:
    """One instant of one source. `where` selects what matters; None: nothing does, and nothing is asked."""

    def __init__(self, source: MetricSource, at: datetime) -> None:
        self.at = at
        self._source = source
        self.where: Where | None = ()

    async def ask(self, question: Question) -> Fact[tuple[Row, ...]]:
        """The answer to one question, or why there is none."""
        return await self._source.ask(question, self.at)

    async def rows(self, question: Callable[[Where], Question]) -> Fact[tuple[Row, ...]]:
        """The answer to a question about what matters; nothing is asked where nothing matters."""
        return Known((), self.at, NOTHING) if self.where is None else await self.ask(question(self.where))

    async def relevant(self, devices: Matcher, known: Iterable[str], *, everything: bool) -> Fact[Relevant]:
        """Which jobs have device metrics or known signals, and which targets are broken.

        Where everything matters anyhow, only whether there is anything at all.
        """
        answer = await self.ask(plan.anything() if everything else plan.relevance(devices, known))
        if isinstance(answer, Missing):
            return answer
        parts = parts_of(answer.value)
        jobs = {row.labels.get("job", "") for part in ("devices", "signals") for row in parts.get(part, [])}
        broken = tuple(row.labels for part in ("down", "empty") for row in parts.get(part, []))
        return carried(answer, Relevant(bool(parts), frozenset(jobs), broken))

    async def targets(self, listed: Fact[tuple[Target, ...]]) -> Fact[tuple[Target, ...]]:
        """Targets as listed by the server and as told by what it stored. A server need not be able to list them."""
        if self.where is None:
            return Known((), self.at, NOTHING)
        series = await self.ask(plan.target_series(self.where))
        if isinstance(listed, Missing) and listed.why is not Why.UNSUPPORTED:
            return listed
        if isinstance(series, Missing):
            return series
        known = listed.value if isinstance(listed, Known) else ()
        return carried(series, assemble.targets(known, series.value))

    async def schema(self, metadata: Fact[Mapping[tuple[str, str], Metadata]], recorded: frozenset[str]) -> Fact[tuple[MetricSchema, ...]]:
        """Names, figures and labels of every metric of the jobs that matter."""
        if self.where is None:
            return Known((), self.at, NOTHING)
        measured, names, samples = await asyncio.gather(
            self._figures(self.where), self.ask(plan.label_names(self.where)), self.ask(plan.samples(self.where))
        )
        for answer in (measured, names, samples):
            if isinstance(answer, Missing):
                return answer
        assert isinstance(measured, Known)
        labels = await self._labels(self.where, value_of(names), value_of(samples), measured.value)
        if isinstance(labels, Missing):
            return labels
        described = metadata.value if isinstance(metadata, Known) else {}
        untyped = (f"types and HELP are not known: {metadata.detail}",) if isinstance(metadata, Missing) else ()
        value = schema.schema(measured.value, labels.value, described, recorded)
        return Known(value, self.at, measured.source, (*measured.warnings, *labels.warnings, *untyped), measured.lost)

    async def _figures(self, where: Where) -> Fact[Figures]:
        stats = await self.ask(plan.figures(where))
        if isinstance(stats, Missing):
            return stats
        found = schema.figures(stats.value)
        if odd := schema.not_finite(found):
            finite = await self.ask(plan.finite_figures(where, odd))
            if isinstance(finite, Missing):
                return finite
            found = schema.with_finite(found, odd, finite.value)
        return carried(stats, found)

    async def _labels(
        self, where: Where, names: Sequence[Row], samples: Sequence[Row], measured: Figures
    ) -> Fact[dict[tuple[str, str], dict[str, int]]]:
        """How many series of each metric carry each label."""
        labels = presence.expected(samples, [row.labels[LABEL] for row in names])
        answers = await asyncio.gather(*(self.ask(question) for question in presence.questions(where, labels)))
        lost = next((answer for answer in answers if isinstance(answer, Missing)), None)
        if lost:
            return lost
        known = [answer for answer in answers if isinstance(answer, Known)]
        counts = {key: int(figure["series"]) for key, figure in measured.items()}
        counted = presence.counted(labels, (row for answer in known for row in answer.value), counts)
        return Known(counted, self.at, "labels", tuple(w for answer in known for w in answer.warnings))

    async def label_values(self, metrics: Mapping[tuple[str, str], str]) -> Fact[tuple[LabelValues, ...]]:
        """The values of labels, each read from one metric."""
        if not metrics:
            return Known((), self.at, "no label changed, and no selector is empty")
        answer = await self.ask(plan.label_values(self.narrowed(), metrics))
        if isinstance(answer, Missing):
            return answer
        return carried(answer, assemble.label_values(answer.value, metrics))

    def narrowed(self) -> Sequence[Matcher]:
        """The selection without the job matcher, for questions that name their jobs themselves."""
        return [m for m in self.where or () if m.label not in ("job", "__name__")]
