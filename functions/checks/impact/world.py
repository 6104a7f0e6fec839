"""What is known about the stored series, and what one selector over them amounts to.

A selector that finds nothing is dead where a change of names, labels or values took its series, blind where nothing
explains it, and well where its absence is in good order: an event that has not happened, a workload that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from functions.contract.rules import Matcher, Rule, Selector, SelectorCount
from functions.contract.telemetry import MetricSchema
from functions.knowledge.pipeline import SYNTHETIC
from functions.promql import NO_CHANGES, Changes, MetricChange, demands, means, names_of, touches

#: Labels that say where a series comes from. A value of theirs that is not there names something that does not exist;
#: a value of any other label (a status, a reason) may only not have happened.
_ORIGIN = frozenset({"job", "namespace", "exported_namespace", "cluster", "service", "container", "exported_container", "endpoint"})
#: Labels that a target gives to all its series.
_GIVEN = frozenset({"job", "instance"})


class State(StrEnum):
    """What one selector, or one whole expression, amounts to."""

    #: finds series, or need not find any
    WELL = "well"
    #: finds nothing because of a change of names or labels
    DEAD = "dead"
    #: finds nothing for any other reason
    BLIND = "blind"
    #: can't be told
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Found:
    """A state and its reason. `sure` is False where it may be meant to be empty; `never`: it has not had data before."""

    state: State
    why: str = ""
    sure: bool = True
    never: bool = False
    selector: Selector | None = None


WELL = Found(State.WELL)


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored name at one instant, over all jobs: labels on any of its series, and those on every one."""

    jobs: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()


def stored(schema: Iterable[MetricSchema]) -> dict[str, Stored]:
    """stored name -> what is known of it."""
    found: dict[str, Stored] = {}
    for row in schema:
        labels = _GIVEN | {label for label, count in row.labels.items() if count}
        whole = _GIVEN | {label for label, count in row.labels.items() if count >= row.series}
        held = found.get(row.name)
        if held is None:
            found[row.name] = Stored(frozenset({row.job}), labels, whole)
        else:
            found[row.name] = Stored(held.jobs | {row.job}, held.labels | labels, held.whole & whole)
    return found


def counted(counts: Iterable[SelectorCount] | None) -> Mapping[Selector, SelectorCount] | None:
    """Counts by selector."""
    return None if counts is None else {c.selector: c for c in counts}


def nothing_hidden(_jobs: frozenset[str], _names: tuple[str, ...]) -> str:
    return ""


@dataclass(frozen=True)
class World:
    """What is known. `counts` None: series were not counted, and only changes can be judged."""

    rules: tuple[Rule, ...] = ()
    changes: Changes = NO_CHANGES
    counts: Mapping[Selector, SelectorCount] | None = None
    counts_before: Mapping[Selector, SelectorCount] | None = None
    #: stored names, now and in the baseline (None: there is none)
    now: Mapping[str, Stored] = field(default_factory=dict)
    before: Mapping[str, Stored] | None = None
    #: jobs that were looked at; None: every job was
    jobs: frozenset[str] | None = None
    #: jobs whose workloads no longer run, and their targets with them
    gone_jobs: frozenset[str] = frozenset()
    #: labels that name the workload on a device: an idle device has none
    attribution: frozenset[str] = frozenset()
    #: whether the absence of a metric is in good order (an event that has not happened yet)
    silent: Callable[[str], bool] = lambda _name: False
    #: why series of jobs or names can't be seen ("" where they can)
    hidden: Callable[[frozenset[str], tuple[str, ...]], str] = nothing_hidden

    def found(self, selector: Selector) -> Found:
        """What a selector over stored series amounts to."""
        return replace(self._found(selector), selector=selector)

    def _found(self, selector: Selector) -> Found:
        names = self.names_of(selector)
        count = None if self.counts is None else self.counts.get(selector)
        if (count and count.series) or (names and SYNTHETIC.issuperset(names)):
            return WELL
        had = self._had(selector)
        unseen = any(change.unseen for change in self.changes.metrics_of(selector))
        if (had != 0 or unseen or self._only_quiet(selector, names)) and (why := self._blamed(selector)):
            return Found(State.DEAD, why)
        if count is None:
            return Found(State.UNTOLD, f"nothing tells how many series {selector} selects")
        if any(self.silent(name) for name in names):
            return WELL
        jobs = self._jobs_of(selector, names)
        if hidden := self.hidden(jobs, names):
            return Found(State.UNTOLD, f"{selector} selects nothing: {hidden}")
        if jobs and jobs <= self.gone_jobs:
            return WELL
        if outside := self._outside(selector, names):
            return Found(State.UNTOLD, outside)
        present = next((name for name in names if name in self.now), "")
        return self._by_labels(selector, present, had) if present else self._nowhere(selector, names, had)

    def names_of(self, selector: Selector) -> tuple[str, ...]:
        """The names that a selector can mean: its own, those that its pattern lists, else the stored ones that match it."""
        if found := names_of(selector):
            return found
        return tuple(name for name in self._all_names if means(selector, name))

    @cached_property
    def _all_names(self) -> tuple[str, ...]:
        return tuple(sorted({*self.now, *(self.before or ())}))

    @cached_property
    def _first_words(self) -> frozenset[str]:
        return frozenset(map(_first_word, self._all_names))

    def _had(self, selector: Selector) -> int | None:
        """Its series in the baseline; None where that is not known."""
        held = None if self.counts_before is None else self.counts_before.get(selector)
        return None if held is None else held.series

    def _only_quiet(self, selector: Selector, names: tuple[str, ...]) -> bool:
        """Whether nothing of it was there before for the mere reason that a status or event had not happened."""
        needed = {m.label for m in selector.matchers if demands(m) and m.label != "__name__"}
        held = [self.before[name] for name in names if self.before and name in self.before]
        return bool(needed) and not needed & _ORIGIN and any(needed <= earlier.labels for earlier in held)

    def _jobs_of(self, selector: Selector, names: tuple[str, ...]) -> frozenset[str]:
        """The jobs that had the series in the baseline."""
        held = (self.counts_before or {}).get(selector)
        jobs = frozenset(job for job, count in (held.by_job if held else {}).items() if count)
        return jobs or frozenset(job for name in names if (s := (self.before or {}).get(name)) for job in s.jobs)

    def _blamed(self, selector: Selector) -> str:
        """The change that took all series of a selector; "" where there is none."""
        changes = self.changes
        if lost := [change for change in changes.metrics_of(selector) if change.lost]:
            return " and ".join(dict.fromkeys(map(said_of, lost)))
        for matcher in filter(demands, selector.matchers):
            if change := changes.label_of(selector, matcher.label):
                return f"label {change.label} {became(change.to)}"
            values = changes.respelled(selector, matcher.label)
            if old := next((v for v in values if v in wanted_values(matcher)), ""):
                return f"value {old} of {matcher.label} is written {values[old]} now"
        return ""

    def _outside(self, selector: Selector, names: tuple[str, ...]) -> str:
        """Why a selector is about a job that was not looked at; "" where it is about one that was."""
        if self.jobs is None:
            return ""
        if any(m.label == "job" and not m.negative for m in selector.matchers):
            return "" if touches(selector, self.jobs) else f"{selector} is about a job that was not looked at"
        kin = any(name in self.now or _first_word(name) in self._first_words for name in names)
        return "" if kin else f"{' and '.join(names) or selector} may belong to a job that was not looked at"

    def _nowhere(self, selector: Selector, names: tuple[str, ...], had: int | None) -> Found:
        if had:
            return Found(State.BLIND, f"{selector} selected {had} series before the change and selects none now")
        listed = " and ".join(names[:3]) or "what it describes"
        return Found(State.BLIND, f"{selector} selects nothing: {listed} is exported nowhere", never=True)

    def _by_labels(self, selector: Selector, name: str, had: int | None) -> Found:
        """The metric is there, and the matchers select none of it."""
        needed = [m for m in selector.matchers if demands(m) and m.label != "__name__"]
        earlier = (self.before or {}).get(name, Stored())
        lacking = sorted({m.label for m in needed} - self.now[name].labels)
        if lacking:
            return self._lacking(selector, name, lacking, earlier, had)
        where = ", ".join(str(m) for m in needed if m.label in _ORIGIN)
        if not where:
            return WELL  # a status or reason that has not happened, a device that is no more
        if had:
            return Found(State.BLIND, f"{selector} selected {had} series before; nothing matches {where} now", sure=False)
        return Found(State.BLIND, f"{selector} selects nothing: no series of {name} matches {where}", never=True)

    def _lacking(self, selector: Selector, name: str, lacking: list[str], earlier: Stored, had: int | None) -> Found:
        """No series of the metric has a label that the selector asks for."""
        why = f"{selector} selects nothing: {name} has no label {', '.join(lacking)}"
        if not had and not earlier.labels.intersection(lacking):
            return Found(State.BLIND, why, never=True)
        if self.attribution.intersection(lacking):
            return WELL  # an idle device names no workload; label-mapping knows who holds one
        if earlier.labels and not earlier.whole.intersection(lacking):
            return WELL  # it comes and goes with what the series tell
        return Found(State.BLIND, f"{why} any more")


def became(to: str | None) -> str:
    return f"is called {to} now" if to else "is gone"


def said_of(change: MetricChange) -> str:
    if change.why:
        return change.why
    if change.unseen:
        return f"{change.name} is called {change.to} since its exporter renamed others as well; neither has series until something happens"
    return f"{change.name} {'is called ' + change.to + ' now' if change.to else 'was taken away'}"


def _first_word(name: str) -> str:
    return re.split(r"[_:.\-]", name, maxsplit=1)[0].lower()


def wanted_values(matcher: Matcher) -> frozenset[str]:
    """The values that a matcher spells."""
    return frozenset(re.split(r"[|()]", matcher.value)) if "~" in matcher.op else frozenset({matcher.value})
