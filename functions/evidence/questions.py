"""One plan of questions, two ways to answer: rendered as PromQL for a server, or evaluated here over a bundle.

A question aggregates, so that its answer does not grow with the number of samples. Both ways must agree; the
tests ask a real Prometheus and the evaluator the same questions about the same exposition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from functions.contract.rules import Matcher
from functions.contract.telemetry import Row

#: A presence label in an answer: `has_Hostname="1"` on the rows whose series carry a non-empty `Hostname`.
PRESENCE = "has_"

_AGGREGATE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "count": lambda values: float(len(values)),
    "group": lambda values: 1.0,
    "sum": lambda values: math.fsum(values) if all(map(math.isfinite, values)) else sum(values),
    # Prometheus' min and max pass NaN over where there is anything else
    "min": lambda values: min((v for v in values if not math.isnan(v)), default=math.nan),
    "max": lambda values: max((v for v in values if not math.isnan(v)), default=math.nan),
}


@dataclass(frozen=True, slots=True)
class Question:
    """`op by (by) (selector)`.

    `where` selects; `finite` leaves out NaN and infinities before aggregating; `above` keeps values at or above it.
    `over` applies a range function first: ("changes", 600) is `changes(selector[600s])`; then `keep` filters its
    result ("== 0"). `presence` adds a label `has_X="1"` for each label X of it that is not empty, and groups by
    those. `after` filters the aggregated result ("> 1").
    """

    id: str
    op: str
    by: tuple[str, ...]
    where: tuple[Matcher, ...]
    presence: tuple[str, ...] = ()
    over: tuple[str, int] | None = None
    keep: tuple[str, float] | None = None
    finite: bool = False
    above: float | None = None
    after: tuple[str, float] | None = None

    def promql(self) -> str:
        """The question as a PromQL expression."""
        inner = "{" + ",".join(map(str, self.where)) + "}"
        if self.over:
            # A range function drops the metric name; it is kept in a label of its own first. PromQL can't do that
            # to a range selector, so questions with `over` name the metrics in `where` and ask one a time.
            inner = f"{self.over[0]}({inner}[{self.over[1]}s])"
        if self.keep:
            inner = f"({inner} {self.keep[0]} {_number(self.keep[1])})"
        if self.above is not None:
            inner = f"({inner} >= {_number(self.above)})"
        if self.finite:
            inner = f"(({inner} < +Inf) > -Inf)"
        for label in self.presence:
            inner = f'label_replace({inner},"{PRESENCE}{label}","1","{label}",".+")'
        by = ",".join([*self.by, *(PRESENCE + label for label in self.presence)])
        query = f"{self.op} by ({by}) ({inner})" if by else f"{self.op}({inner})"
        return f"{query} {self.after[0]} {_number(self.after[1])}" if self.after else query

    def answer(self, series: Iterable[tuple[Mapping[str, str], Sequence[tuple[float, float]]]]) -> tuple[Row, ...]:
        """The same, over stored series: (labels with `__name__`, (Unix seconds, value) samples, oldest first).

        The samples are those that the instant sees: for an instant question the last one counts, for `over` all
        that lie within the range (the caller has cut them to the look-back or the range).
        """
        groups: dict[tuple[str, ...], list[float]] = {}
        names = [*self.by]
        for labels, samples in series:
            if not samples or not all(matches(m, labels.get(m.label, "")) for m in self.where):
                continue
            value = RANGE_FUNCTIONS[self.over[0]](samples) if self.over else samples[-1][1]
            if value is None or (self.keep and not compare(self.keep[0], value, self.keep[1])):
                continue
            if self.above is not None and not value >= self.above:
                continue
            if self.finite and not math.isfinite(value):
                continue
            dropped = "__name__" if self.over else None  # a range function loses the metric name
            key = tuple("" if n == dropped else labels.get(n, "") for n in names) + tuple(
                "1" if labels.get(n) else "" for n in self.presence
            )
            groups.setdefault(key, []).append(value)
        keys = [*names, *(PRESENCE + label for label in self.presence)]
        rows = (Row({k: v for k, v in zip(keys, key, strict=True) if v}, _AGGREGATE[self.op](values)) for key, values in groups.items())
        return tuple(row for row in rows if not self.after or compare(self.after[0], row.value, self.after[1]))


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def compare(op: str, left: float, right: float) -> bool:
    """A PromQL comparison."""
    return {"==": left == right, "!=": left != right, ">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[op]


@lru_cache(maxsize=4096)
def _pattern(value: str) -> re.Pattern[str]:
    # RE2 and Python agree on what rules and dashboards use; what Python can't compile matches nothing but itself.
    try:
        return re.compile(f"(?s:{value})")
    except re.error:
        return re.compile(re.escape(value))


def matches(matcher: Matcher, value: str) -> bool:
    """Whether a label value ("" where the label is absent) satisfies a matcher, as Prometheus has it."""
    if matcher.op in ("=", "!="):
        return (value == matcher.value) == (matcher.op == "=")
    return (_pattern(matcher.value).fullmatch(value) is not None) == (matcher.op == "=~")


def changes(samples: Sequence[tuple[float, float]]) -> float:
    """PromQL `changes`: how often the value differs from the one before (NaN after NaN is no change)."""
    pairs = zip(samples, samples[1:], strict=False)
    return float(sum(a[1] != b[1] and not (math.isnan(a[1]) and math.isnan(b[1])) for a, b in pairs))


RANGE_FUNCTIONS: Mapping[str, Callable[[Sequence[tuple[float, float]]], float | None]] = {
    "changes": changes,
    "count_over_time": lambda samples: float(len(samples)),
    "max_over_time": lambda samples: max(v for _, v in samples),
    "last_over_time": lambda samples: samples[-1][1],
}
