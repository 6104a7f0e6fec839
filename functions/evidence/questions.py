"""One plan of questions, two ways to answer: rendered as PromQL for a server, or evaluated here over a bundle.

A question aggregates, so that its answer does not grow with the number of samples. Both ways must agree; the
tests ask real Prometheus servers and the evaluator the same questions about the same exposition.

Not here: which questions an audit asks (`plan.py`), and who answers them (`prometheus.py`, `bundle.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from functions.contract.rules import Matcher
from functions.contract.telemetry import Row
from functions.evidence.matching import compare, matches
from functions.evidence.ranges import KEEPS_NAME, RANGE_FUNCTIONS

__all__ = ["LABEL", "METRIC", "PART", "RANGE_FUNCTIONS", "Question", "Series", "compare", "matches", "one_of", "selector"]

#: The label that carries the metric's name where a range function drops it.
METRIC = "telltale_metric"
#: The label that tells which part of a union a row answers.
PART = "telltale_part"
#: In the answer to a question about label names, the name.
LABEL = "label"

#: One stored series: its labels, `__name__` included, and (Unix seconds, value) samples, oldest first.
Series = tuple[Mapping[str, str], Sequence[tuple[float, float]]]

_AGGREGATE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "count": lambda values: float(len(values)),
    "group": lambda values: 1.0,
    "sum": lambda values: math.fsum(values) if all(map(math.isfinite, values)) else sum(values),
    # Prometheus' min and max pass NaN over where there is anything else
    "min": lambda values: min((v for v in values if not math.isnan(v)), default=math.nan),
    "max": lambda values: max((v for v in values if not math.isnan(v)), default=math.nan),
}
_PLAIN_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Question:
    """`op by (by) (selector)`; without an `op`, the selected series themselves with all their labels.

    `where` selects; `finite` leaves out NaN and infinities before aggregating; `above` keeps values at or above it.
    `over` applies a range function first: ("changes", 600) is `changes(selector[600s])`; then `keep` filters its
    result ("== 0"). A range function drops the metric's name, so that two metrics in one question collide: `names`
    asks for each metric by itself and keeps its name in the label `METRIC`; `alive` leaves out series that ended
    within the range. `within` aggregates by further labels first: op "count" by (job) within (instance) is how many
    instances each job has. `after` filters the aggregated result ("> 1"). `parts` make a union: every row carries the
    id of its part in the label `PART`. The op "topk" keeps one series of each group,
    the one with the largest value, with all its labels. The op "labels" asks which label names the selected series
    have: a server has an endpoint for it.
    """

    id: str
    op: str = ""
    by: tuple[str, ...] = ()
    where: tuple[Matcher, ...] = ()
    over: tuple[str, int] | None = None
    keep: tuple[str, float] | None = None
    finite: bool = False
    above: float | None = None
    after: tuple[str, float] | None = None
    names: tuple[str, ...] = ()
    alive: bool = False
    within: tuple[str, ...] = ()
    parts: tuple[Question, ...] = ()

    @classmethod
    def union(cls, id: str, parts: Sequence[Question]) -> Question:
        """One question of several, answered at once."""
        longest = max((part.over for part in parts if part.over), key=lambda over: over[1], default=None)
        return cls(id, parts=tuple(parts), over=longest)

    def by_reach(self) -> list[Question]:
        """The question as few that each look back equally far, for who has to cut the samples."""
        reaches: dict[float | None, list[Question]] = {}
        for part in self.parts:
            reaches.setdefault(part.over[1] if part.over else None, []).append(part)
        return [Question.union(self.id, parts) for parts in reaches.values()] or [self]

    @property
    def selector(self) -> str:
        """What it selects, before anything is aggregated."""
        return selector(self.where)

    @property
    def shown(self) -> str:
        """The question as evidence: what a person can run, without the many parts that only differ in a name."""
        if self.parts:
            more = f" … and {len(self.parts) - 1} more like it" if len(self.parts) > 1 else ""
            return self.parts[0].shown + more
        if len(self.names) > 1:
            return f"{replace(self, names=self.names[:1]).promql()} … and {len(self.names) - 1} more metrics"
        return self.promql()

    def promql(self) -> str:
        """The question as a PromQL expression."""
        if self.parts:
            return either([_tag(part.promql(), PART, part.id) for part in self.parts])
        if self.names:
            named = (_tag(self._inner((Matcher("__name__", "=", name), *self.where)), METRIC, name) for name in self.names)
            inner = either(list(named))
        else:
            inner = self._inner(self.where)
        if self.within:
            inner = f"group by ({_labels([*self.by, *self.within])}) ({inner})"
        if not self.op:
            return inner
        if self.op == "topk":
            return f"topk by ({_labels(self.by)}) (1, {inner})"
        query = f"{self.op} by ({_labels(self.by)}) ({inner})"
        return f"{query} {self.after[0]} {_number(self.after[1])}" if self.after else query

    def _inner(self, where: Sequence[Matcher]) -> str:
        inner = selector(where)
        if self.over:
            ranged = f"{self.over[0]}({inner}[{self.over[1]}s])"
            inner = f"({ranged} and {inner})" if self.alive else ranged
        if self.keep:
            inner = f"({inner} {self.keep[0]} {_number(self.keep[1])})"
        if self.above is not None:
            inner = f"({inner} >= {_number(self.above)})"
        if self.finite:
            inner = f"(({inner} < +Inf) > -Inf)"
        return inner

    def answer(self, series: Iterable[Series]) -> tuple[Row, ...]:
        """The same, over stored series.

        The samples are those that the instant sees: for an instant question the last one counts, for `over` all
        that lie within the range (the caller has cut them to the look-back or the range).
        """
        if self.parts:
            held = list(series)
            return tuple(Row({**row.labels, PART: part.id}, row.value) for part in self.parts for row in part.answer(held))
        found = list(self._select(series))
        if self.op == "labels":
            names = {name for labels, _ in found for name, value in labels.items() if value}
            return tuple(Row({LABEL: name}, 1.0) for name in sorted(names))
        if self.op == "topk":
            found = _largest(found, self.by)
        if self.op in ("", "topk"):
            return tuple(Row({k: v for k, v in labels.items() if v}, value) for labels, value in found)
        if self.within:
            wide = (*self.by, *self.within)
            found = [(dict(zip(wide, key, strict=True)), 1.0) for key in _grouped(found, wide)]
        rows = (
            Row({k: v for k, v in zip(self.by, key, strict=True) if v}, _AGGREGATE[self.op](values))
            for key, values in _grouped(found, self.by).items()
        )
        return tuple(row for row in rows if not self.after or compare(self.after[0], row.value, self.after[1]))

    def concerns(self, name: str) -> bool:
        """Whether a metric can be in the answer, going by its name alone."""
        if self.parts:
            return any(part.concerns(name) for part in self.parts)
        if self.names and name not in self.names:
            return False
        return all(matches(m, name) for m in self.where if m.label == "__name__")

    def _select(self, series: Iterable[Series]) -> Iterable[tuple[Mapping[str, str], float]]:
        series = list(series) if self.alive else series
        newest = _newest(series) if self.alive else {}
        wanted: dict[str, bool] = {}  # many series share a name, and a pattern over names is dear
        others = [m for m in self.where if m.label != "__name__"]
        for labels, samples in series:
            name = labels.get("__name__", "")
            if name not in wanted:
                wanted[name] = self.concerns(name)
            if not samples or not wanted[name]:
                continue
            if self.alive and samples[-1][0] < newest[_place(labels)]:
                continue
            if not all(matches(m, labels.get(m.label, "")) for m in others):
                continue
            value = RANGE_FUNCTIONS[self.over[0]](samples, self.over[1]) if self.over else samples[-1][1]
            if value is None or not self._kept(value):
                continue
            kept = {k: v for k, v in labels.items() if k != "__name__" or not self.over or self.over[0] in KEEPS_NAME}
            if self.names:
                kept[METRIC] = name
            yield kept, value

    def _kept(self, value: float) -> bool:
        if self.keep and not compare(self.keep[0], value, self.keep[1]):
            return False
        if self.above is not None and not value >= self.above:
            return False
        return not self.finite or math.isfinite(value)


def _place(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _newest(series: Iterable[Series]) -> dict[tuple[str, str], float]:
    """When each target was last scraped, as its series tell."""
    found: dict[tuple[str, str], float] = {}
    for labels, samples in series:
        if samples:
            found[_place(labels)] = max(found.get(_place(labels), -math.inf), samples[-1][0])
    return found


def _grouped(found: Iterable[tuple[Mapping[str, str], float]], by: Sequence[str]) -> dict[tuple[str, ...], list[float]]:
    groups: dict[tuple[str, ...], list[float]] = {}
    for labels, value in found:
        groups.setdefault(tuple(labels.get(n, "") for n in by), []).append(value)
    return groups


def _largest(found: Iterable[tuple[Mapping[str, str], float]], by: Sequence[str]) -> list[tuple[Mapping[str, str], float]]:
    """One series of each group; a NaN is smaller than every number."""
    best: dict[tuple[str, ...], tuple[Mapping[str, str], float]] = {}
    for labels, value in found:
        key = tuple(labels.get(n, "") for n in by)
        if key not in best or value > best[key][1] or (math.isnan(best[key][1]) and not math.isnan(value)):
            best[key] = (labels, value)
    return list(best.values())


def parts_of(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of a union by part. They keep the label that says so: there can be many, and none needs it gone."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.labels.get(PART, ""), []).append(row)
    return parts


def either(expressions: Sequence[str]) -> str:
    """Their union, as a balanced tree: a server compares the whole left side of each `or` with its right side."""
    if len(expressions) < 3:
        return " or ".join(expressions)
    half = len(expressions) // 2
    return f"({either(expressions[:half])}) or ({either(expressions[half:])})"


def selector(where: Sequence[Matcher]) -> str:
    """A vector selector in PromQL. At least one matcher must exclude the empty value, or a server refuses it."""
    return "{" + ",".join(f"{label_name(m.label)}{m.op}{quoted(m.value)}" for m in where) + "}"


def quoted(text: str) -> str:
    """A PromQL string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def label_name(name: str) -> str:
    """A label name as PromQL writes it; names outside the classic alphabet are quoted (Prometheus 3)."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def one_of(label: str, values: Iterable[str]) -> Matcher:
    """A matcher for any of the values, taken literally. Prometheus looks such a list up without a regex engine."""
    held = sorted(set(values))
    if len(held) == 1:
        return Matcher(label, "=", held[0])
    return Matcher(label, "=~", "|".join(map(literal, held)))


def literal(text: str) -> str:
    """A text as a regex that RE2 and Python read alike (`re.escape` escapes more than RE2 allows)."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def _labels(names: Sequence[str]) -> str:
    return ",".join(map(label_name, names))


def _tag(expression: str, label: str, value: str) -> str:
    return f'label_replace({expression},"{label}",{quoted(value.replace("$", "$$"))},"","")'


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
