"""Counting the series of many selectors in one query, and what to do where a server refuses it. Pure but for the meter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from functions.contract.facts import Why
from functions.contract.rules import Matcher, Selector, SelectorCount
from functions.contract.telemetry import Row
from functions.evidence import meter
from functions.evidence.matching import matches, readable
from functions.evidence.prometheus.http import PrometheusError
from functions.evidence.questions import PART, either, quoted
from functions.evidence.questions import selector as rendered

#: Further queries that may be spent on a refusal where no meter says how many.
MOST_AGAIN = 24
#: Where in a query Prometheus' parser stumbled: line and column, in bytes.
_PLACE = re.compile(r"\b1:(\d+): parse error")


class Tally:
    """What the counting of selectors has come to."""

    def __init__(self) -> None:
        self.counts: dict[Selector, SelectorCount] = {}
        self.warnings: list[str] = []
        #: the reason of the last refusal
        self.why = Why.UNSUPPORTED
        self._again = 0

    def can_be_asked(self, selector: Selector) -> bool:
        """Whether a server would answer; one selector that it refuses would cost all the others their query."""
        if not selector.name and all(matches(matcher, "") for matcher in selector.matchers):
            why = "it selects every series there is"
        elif not all(map(readable, selector.matchers)):
            why = "a pattern in it can't be read"
        else:
            return True
        self.warnings.append(f"not counted: {selector} ({why})")
        return False

    def leave_out(self, selectors: Iterable[Selector], error: PrometheusError) -> None:
        """Selectors that have no count."""
        self.why = error.why
        self.warnings += [f"not counted: {selector} ({error.detail})" for selector in selectors]

    def again(self, requests: int) -> bool:
        """Whether so many further queries may be sent."""
        self._again += requests
        return self._again <= MOST_AGAIN and meter.spare(requests)

    def add(self, batch: Sequence[Selector], rows: Iterable[Row]) -> None:
        """The answer to `promql` of a batch."""
        jobs: dict[int, dict[str, int]] = {}
        for row in rows:
            jobs.setdefault(int(row.labels[PART]), {})[row.labels.get("job", "")] = int(row.value)
        self.counts |= {selector: SelectorCount(selector, jobs.get(number, {})) for number, selector in enumerate(batch)}


def promql(batch: Sequence[Selector]) -> str:
    """Counts by job; a label says of which selector."""
    return either([_count(selector, number) for number, selector in enumerate(batch)])


def refused_one(batch: Sequence[Selector], detail: str) -> Selector | None:
    """The selector that a parser's message points at; None where it points at none."""
    if not (place := _PLACE.search(detail)):
        return None
    text = promql(batch).encode()
    before = text[: int(place[1])].decode(errors="ignore")
    number = len(re.findall(r"label_replace\(count by \(job\) \(", before)) - 1
    return batch[number] if 0 <= number < len(batch) else None


def _count(selector: Selector, number: int) -> str:
    name = [Matcher("__name__", "=", selector.name)] if selector.name else []
    return f'label_replace(count by (job) ({rendered([*name, *selector.matchers])}),"{PART}",{quoted(str(number))},"","")'
