"""Which labels the series of a metric carry, and on how many of them, at little cost. Pure.

Counting the series of every label would touch each series as often as it has labels. Nearly always a label is on all
series of a metric or on none, so the exceptions are counted instead: where a sample of the metric has the label, the
series without it; elsewhere those with it. Both are usually none, and a server finds that out in its index. A sample
that misleads costs time, never correctness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from functions.contract.rules import Matcher
from functions.contract.telemetry import Row
from functions.evidence.plan import stored
from functions.evidence.questions import Question, one_of, parts_of

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Expected:
    """Where a label is expected: on everything of some jobs, and on some metrics of others."""

    label: str
    full: frozenset[str]
    mixed: frozenset[str]
    names: frozenset[str]
    none: frozenset[str]

    def on(self, key: Key) -> bool:
        """Whether the label is expected on the series of (job, metric)."""
        return key[0] in self.full or (key[0] in self.mixed and key[1] in self.names)

    def questions(self, where: Sequence[Matcher]) -> list[Question]:
        """The exceptions: part `-LABEL` are series that lack it, part `+LABEL` series that have it unexpectedly."""
        selected, by = stored(where), ("job", "__name__")
        lacks, has = Matcher(self.label, "=", ""), Matcher(self.label, "!=", "")
        parts = []
        if self.full:
            parts.append(Question(f"-{self.label}", "count", by, (*selected, one_of("job", self.full), lacks)))
        if self.mixed:
            jobs, names = one_of("job", self.mixed), one_of("__name__", self.names)
            others = Matcher("__name__", "!=" if names.op == "=" else "!~", names.value)
            parts.append(Question(f"-{self.label}", "count", by, (*selected, jobs, names, lacks)))
            parts.append(Question(f"+{self.label}", "count", by, (*selected, jobs, others, has)))
        if self.none:
            parts.append(Question(f"+{self.label}", "count", by, (*selected, one_of("job", self.none), has)))
        return parts


def expected(samples: Iterable[Row], labels: Iterable[str]) -> list[Expected]:
    """Where each label is expected, as a sample of every metric shows."""
    seen: dict[str, dict[str, set[str]]] = {}
    for row in samples:
        seen.setdefault(row.labels.get("job", ""), {}).setdefault(row.labels.get("__name__", ""), set()).update(row.labels)
    out = []
    for label in sorted(set(labels) - {"__name__"}):
        carriers = {job: {name for name, held in metrics.items() if label in held} for job, metrics in seen.items()}
        full = frozenset(job for job, names in carriers.items() if len(names) == len(seen[job]))
        none = frozenset(job for job, names in carriers.items() if not names)
        mixed = frozenset(seen) - full - none
        out.append(Expected(label, full, mixed, frozenset().union(*(carriers[job] for job in mixed)), none))
    return out


def question(where: Sequence[Matcher], labels: Sequence[Expected]) -> Question:
    """One question for all labels; without parts where there is nothing to ask."""
    return Question.union("presence", [q for label in labels for q in label.questions(where)])


def counted(labels: Iterable[Expected], rows: Iterable[Row], series: Mapping[Key, int]) -> dict[Key, dict[str, int]]:
    """(job, metric) -> label -> number of its series that carry the label."""
    exceptions: dict[str, dict[Key, int]] = {}
    for part, held in parts_of(rows).items():
        exceptions[part] = {(r.labels.get("job", ""), r.labels.get("__name__", "")): int(r.value) for r in held}
    found: dict[Key, dict[str, int]] = {key: {} for key in series}
    for label in labels:
        lacking, having = exceptions.get(f"-{label.label}", {}), exceptions.get(f"+{label.label}", {})
        for key, count in series.items():
            carried = count - lacking.get(key, 0) if label.on(key) else having.get(key, 0)
            if carried > 0:
                found[key][label.label] = carried
    return found
