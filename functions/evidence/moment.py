"""The telemetry of one instant: its questions asked, its answers assembled. `telemetry.py` compares two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher
from functions.contract.telemetry import MetricSchema, Row, Target
from functions.evidence import assemble, plan, presence, schema
from functions.evidence.presence import Expected, Key
from functions.evidence.questions import LABEL, PART, Question, parts_of
from functions.evidence.request import carried, value_of
from functions.evidence.schema import Figures
from functions.evidence.sources import Metadata, MetricSource
from functions.evidence.together import Rows, in_parts, together

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
        self._names: asyncio.Task[Fact[tuple[Row, ...]]] | None = None
        self._later: Moment | None = None
        self._back = 0.0

    async def ask(self, question: Question) -> Fact[tuple[Row, ...]]:
        """The answer to one question, or why there is none."""
        return await self._source.ask(question, self.at)

    async def rows(self, question: Callable[[Where], Question]) -> Fact[tuple[Row, ...]]:
        """The answer to a question about what matters; nothing is asked where nothing matters."""
        return Known((), self.at, NOTHING) if self.where is None else await in_parts(self.ask, question(self.where))

    async def label_names(self) -> Fact[tuple[Row, ...]]:
        """The label names of what matters, asked once; those of an earlier moment too, where it shares them."""
        if self._later:
            return await self._later.label_names()
        if self._names is None:
            self._names = asyncio.ensure_future(self.rows(lambda where: plan.label_names(where, self._back)))
        return await self._names

    def share_label_names(self, later: Moment) -> None:
        """Take them from one question about both moments: names that only one has are known to be on nothing at the other."""
        self._later = later
        later._back = (later.at - self.at).total_seconds()

    async def present(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Those of the labels that some series may carry: grouping by many that none has is dear, and changes nothing."""
        names = await self.label_names()
        if isinstance(names, Missing):
            return tuple(labels)
        held = {"job", "instance", *(row.labels[LABEL] for row in names.value)}
        return tuple(label for label in labels if label in held)

    async def relevant(
        self, devices: Matcher, known: Iterable[str], *, everything: bool, beside: Sequence[Question] = ()
    ) -> tuple[Fact[Relevant], list[Rows]]:
        """Which jobs have device metrics or known signals, and which targets are broken; and answers to what is asked beside.

        Where everything matters anyhow, only whether there is anything at all.
        """
        look = plan.anything() if everything else plan.relevance(devices, known)
        answer, *others = await together(self.ask, [look, *beside])
        if isinstance(answer, Missing):
            return answer, others
        parts = parts_of(answer.value)
        jobs = {row.labels.get("job", "") for part in ("devices", "signals") for row in parts.get(part, [])}
        broken = tuple(
            {name: text for name, text in row.labels.items() if name != PART} for part in ("down", "empty") for row in parts.get(part, [])
        )
        return carried(answer, Relevant(bool(parts), frozenset(jobs), broken)), others

    async def targets(self, listed: Fact[tuple[Target, ...]]) -> Fact[tuple[Target, ...]]:
        """Targets as listed by the server and as told by what it stored. A server need not be able to list them."""
        if self.where is None:
            return Known((), self.at, NOTHING)
        series = await self.ask(plan.target_series(self.where))
        if isinstance(listed, Missing) and listed.why is not Why.UNSUPPORTED:
            return listed
        if isinstance(series, Missing):
            return series
        if isinstance(listed, Missing):
            return carried(series, assemble.targets((), series.value))
        return replace(carried(series, assemble.targets(listed.value, series.value)), at=listed.at)

    async def schema(self, metadata: Fact[Mapping[tuple[str, str], Metadata]], recorded: frozenset[str]) -> Fact[tuple[MetricSchema, ...]]:
        """Names, figures and labels of every metric of the jobs that matter."""
        if self.where is None:
            return Known((), self.at, NOTHING)
        stats, names, samples = await asyncio.gather(self.rows(plan.figures), self.label_names(), self.rows(plan.samples))
        for answer in (stats, names, samples):
            if isinstance(answer, Missing):
                return answer
        assert isinstance(stats, Known)
        labels = presence.expected(value_of(samples), [row.labels[LABEL] for row in value_of(names)])
        completed = await self._completed(schema.figures(stats.value), labels)
        if isinstance(completed, Missing):
            return completed
        figures, counted = completed.value
        described = metadata.value if isinstance(metadata, Known) else {}
        untyped = (f"types and HELP are not known: {metadata.detail}",) if isinstance(metadata, Missing) else ()
        value = schema.schema(figures, counted, described, recorded)
        return Known(value, self.at, stats.source, (*stats.warnings, *completed.warnings, *untyped), (*stats.lost, *completed.lost))

    async def _completed(self, measured: Figures, labels: Sequence[Expected]) -> Fact[tuple[Figures, Mapping[Key, Mapping[str, int]]]]:
        """What the first figures leave open: how many series carry each label, and the range of metrics with odd values."""
        assert self.where is not None
        odd = schema.not_finite(measured)
        asked = [presence.question(self.where, labels), *([plan.finite_figures(self.where, odd)] if odd else [])]
        answers = await together(self.ask, [question for question in asked if question.parts])
        lost = next((answer for answer in answers if isinstance(answer, Missing)), None)
        if lost:
            return lost
        known = [answer for answer in answers if isinstance(answer, Known)]
        exceptions = known[0].value if asked[0].parts else ()
        if odd:
            measured = schema.with_finite(measured, odd, known[-1].value)
        counts = {key: int(figure["series"]) for key, figure in measured.items()}
        warnings = tuple(dict.fromkeys(w for answer in known for w in answer.warnings))
        lost_parts = tuple(dict.fromkeys(part for answer in known for part in answer.lost))
        return Known((measured, presence.counted(labels, exceptions, counts)), self.at, "labels", warnings, lost_parts)

    def narrowed(self) -> Sequence[Matcher]:
        """The selection without the job matcher, for questions that name their jobs themselves."""
        return [m for m in self.where or () if m.label not in ("job", "__name__")]
