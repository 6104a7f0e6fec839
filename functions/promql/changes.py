"""What changed its name or its unit, as reading and rewriting expressions need it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from functions.contract.rules import Matcher, Selector

#: What a family's stored series add to its name.
SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_created")


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A metric that is called otherwise, is gone, or has another unit. `name` is stored or of the family."""

    name: str
    #: the new name, or a selector ("new{state=\"active\"}"); None where there is no plain successor
    to: str | None
    #: new value = old value × factor; None where the unit stayed or the factor is not known
    factor: float | None = None
    #: jobs in which it changed (None: every job), and those in which the old name lives on
    jobs: frozenset[str] | None = None
    kept: frozenset[str] = frozenset()
    #: neither name was seen: it is only there after an event, and is known to have changed with those that were
    unseen: bool = False
    #: in words what became of it, where it is neither a new name nor taken away
    why: str = ""

    @property
    def lost(self) -> bool:
        """Whether the old name is no longer there (False: only the unit changed)."""
        return self.to != self.name


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A label that is called otherwise or is gone, on some metrics."""

    label: str
    to: str | None
    #: stored names that lost it; None: every metric
    metrics: frozenset[str] | None = None
    #: old value -> new value, where the values are written otherwise (under the same or the new label)
    values: Mapping[str, str] = field(default_factory=dict)
    #: jobs in which it changed; None: every job
    jobs: frozenset[str] | None = None
    #: stored name -> jobs in which its series still carry it
    kept: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def lost(self) -> bool:
        return self.to != self.label

    def hits(self, selector: Selector, name: str) -> bool:
        """Whether all that a selector selects of a metric changed."""
        return touches(selector, self.jobs, self.kept.get(name, frozenset()))


@dataclass(frozen=True)
class Changes:
    """Everything that changed at once."""

    metrics: tuple[MetricChange, ...] = ()
    labels: tuple[LabelChange, ...] = ()
    #: stored names that are lost as well, and nobody knows why: what needs them can't be rewritten
    unexplained: frozenset[str] = frozenset()
    #: what was rewritten already; many findings list the same expression
    rewritten: dict[tuple[str, bool], str | None] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[MetricChange, ...]]:
        found: dict[str, tuple[MetricChange, ...]] = {}
        for change in self.metrics:
            found[change.name] = (*found.get(change.name, ()), change)
        return found

    @cached_property
    def _by_label(self) -> Mapping[str, tuple[LabelChange, ...]]:
        found: dict[str, tuple[LabelChange, ...]] = {}
        for change in self.labels:
            found[change.label] = (*found.get(change.label, ()), change)
        return found

    @cached_property
    def _old_names(self) -> Mapping[str, frozenset[str]]:
        """new name -> the names that became it."""
        found: dict[str, set[str]] = {}
        for change in self.metrics:
            if change.to and change.lost:
                found.setdefault(change.to.partition("{")[0], set()).add(change.name)
        return {new: frozenset(old) for new, old in found.items()}

    def metric(self, stored: str) -> tuple[MetricChange, ...]:
        """Changes of a stored name, with the suffix carried over where the family is what changed."""
        if found := self._by_name.get(stored):
            return found
        for suffix in SUFFIXES:
            if stored.endswith(suffix) and (found := self._by_name.get(stored[: -len(suffix)])):
                return tuple(replace(c, name=stored, to=_suffixed(c.to, suffix), factor=_carried(c.factor, suffix)) for c in found)
        return ()

    def metrics_of(self, selector: Selector) -> tuple[MetricChange, ...]:
        """Changes of the metrics that a selector means, by name or by a pattern over __name__."""
        if selector.name is not None:
            return tuple(c for c in self.metric(selector.name) if touches(selector, c.jobs, c.kept))
        return tuple(c for c in self.metrics if means(selector, c.name) and touches(selector, c.jobs, c.kept))

    def label_of(self, selector: Selector, label: str) -> LabelChange | None:
        """What became of a lost label on the metrics that a selector means; names from before or after the change."""
        return next((c for c in self._by_label.get(label, ()) if c.lost and self.concerns(c, selector)), None)

    def respelled(self, selector: Selector, label: str) -> Mapping[str, str]:
        """Values of a label that are written otherwise now, on the metrics that a selector means."""
        return next((c.values for c in self._by_label.get(label, ()) if c.values and self.concerns(c, selector)), {})

    def concerns(self, change: LabelChange, selector: Selector) -> bool:
        """Whether a label's change is about everything that a selector means."""
        if change.metrics is None:
            return touches(selector, change.jobs, frozenset())
        if selector.name is None:
            return any(change.hits(selector, name) for name in change.metrics if means(selector, name))
        known = selector.name in change.metrics or not change.metrics.isdisjoint(self._old_names.get(selector.name, ()))
        return known and change.hits(selector, selector.name)

    @cached_property
    def lost_labels(self) -> Mapping[str, frozenset[str]]:
        """Lost labels, each with those that took its place."""
        lost = {label: [c for c in held if c.lost] for label, held in self._by_label.items()}
        return {label: frozenset(c.to for c in held if c.to) for label, held in lost.items() if held}


NO_CHANGES = Changes()


def _suffixed(to: str | None, suffix: str) -> str | None:
    if to is None:
        return None
    name, brace, rest = to.partition("{")
    return f"{name if name.endswith(suffix) else name + suffix}{brace}{rest}"


def _carried(factor: float | None, suffix: str) -> float | None:
    """Buckets and counts count; only their bounds have the unit."""
    return None if suffix in ("_count", "_created") else factor


def names_of(selector: Selector) -> tuple[str, ...]:
    """The metric names that a selector spells out: its own, or the alternatives of a pattern over __name__."""
    if selector.name is not None:
        return (selector.name,)
    return tuple(part for m in selector.matchers if m.label == "__name__" and m.op in ("=", "=~") for part in alternatives(m))


def means(selector: Selector, name: str) -> bool:
    """Whether a selector means a metric, by its name or by what it says of __name__."""
    if selector.name is not None:
        return selector.name == name
    said = [m for m in selector.matchers if m.label == "__name__"]
    return any(not m.negative for m in said) and all(_says(m, name) for m in said)


def touches(selector: Selector, jobs: frozenset[str] | None, kept: frozenset[str] = frozenset()) -> bool:
    """Whether a selector asks for jobs in which something changed, and for none in which it is as it was."""
    asked = [m for m in selector.matchers if m.label == "job"]
    if kept and (not asked or any(all(_says(m, job) for m in asked) for job in kept)):
        return False
    return jobs is None or not asked or any(all(_says(m, job) for m in asked) for job in jobs)


def _says(matcher: Matcher, name: str) -> bool:
    try:
        hit = matcher.value == name if matcher.op in ("=", "!=") else re.fullmatch(matcher.value, name) is not None
    except re.error:  # RE2 knows spellings that Python does not
        return False
    return hit != matcher.negative


def alternatives(matcher: Matcher) -> tuple[str, ...]:
    """The values that a positive matcher lists, where it is nothing but a list."""
    if matcher.op == "=":
        return (matcher.value,)
    value = matcher.value
    if value.startswith("(?:") and value.endswith(")"):
        value = value[3:-1]
    elif value.startswith("(") and value.endswith(")"):
        value = value[1:-1]
    parts = tuple(value.split("|"))
    return () if any(set(part) & set("\\.+*?()[]{}^$") for part in parts) else parts
