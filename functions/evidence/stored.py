"""What Prometheus would have stored of the scrapes in a bundle: collision rule, failed scrapes, staleness.

One `Store` holds one window. The rules are those measured on real servers: with `honor_labels: false` a scraped label
that clashes with a target label becomes `exported_…`; with `true` the scraped one wins, an empty one too, and leaves
no label at all. Of two samples with the same labels in one body the first counts. A failed scrape ends all series of
its target, and so does a scrape in which a series is absent. Relabelling and limits are not replayed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from functions.evidence.exposition import Exposition, Sample

#: How far back an instant query looks for the last sample of a series (Prometheus' default).
LOOK_BACK = 300.0

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One scrape of one target."""

    target: Labels
    honor_labels: bool
    body: Exposition
    #: Unix seconds
    at: float
    up: bool
    error: str = ""
    duration: float | None = None
    #: file and first line of the body
    origin: str = ""
    size: int = 0


@dataclass(slots=True)
class Stored:
    """One stored series. `labels` is without the name, shared between the metrics of a body."""

    labels: Labels
    samples: list[tuple[float, float]]
    #: instants of its target's scrapes, where a later one without the series ends it; None: nothing ends it
    scrapes: Sequence[float] | None


def stored_labels(target: Labels, scraped: Labels, honor_labels: bool) -> dict[str, str]:
    """The label set under which Prometheus stores a scraped one."""
    if honor_labels:
        merged = {**target, **scraped}
        return {name: value for name, value in merged.items() if value}
    merged = {**{name: value for name, value in scraped.items() if value}, **target}
    for name in sorted((name for name in target if scraped.get(name)), key=lambda name: (len(name), name)):
        renamed = f"exported_{name}"
        while merged.get(renamed):
            renamed = f"exported_{renamed}"
        merged[renamed] = scraped[name]
    return {name: value for name, value in merged.items() if value}


@dataclass(slots=True)
class Store:
    """The series of one window. `at` is the instant that the window shows."""

    at: float
    by_name: dict[str, list[Stored]] = field(default_factory=dict)
    _index: dict[tuple[str, frozenset[tuple[str, str]]], Stored] = field(default_factory=dict)
    _times: dict[frozenset[tuple[str, str]], list[float]] = field(default_factory=dict)

    def add_stored(self, samples: Sequence[Sample]) -> None:
        """Series as a server has them: a file without targets."""
        keys: dict[int, tuple[Labels, frozenset[tuple[str, str]]]] = {}
        for sample in samples:
            known = keys.get(id(sample.labels))
            if known is None:
                labels = {name: value for name, value in sample.labels.items() if value}
                known = keys[id(sample.labels)] = (labels, frozenset(labels.items()))
            self._append(sample.name, known, self.at if sample.timestamp is None else sample.timestamp, sample.value, None)

    def add_scrapes(self, scrapes: Sequence[Scrape]) -> None:
        """Scrapes of targets, in any order."""
        for scrape in sorted(scrapes, key=lambda s: s.at):
            times = self._times.setdefault(frozenset(scrape.target.items()), [])
            if not times or times[-1] != scrape.at:
                times.append(scrape.at)
            if scrape.up:
                self._add_body(scrape, times)
            self._add_own(scrape, times)

    def _add_body(self, scrape: Scrape, times: list[float]) -> None:
        keys: dict[int, tuple[Labels, frozenset[tuple[str, str]]]] = {}
        for sample in scrape.body.samples:
            known = keys.get(id(sample.labels))
            if known is None:
                labels = stored_labels(scrape.target, sample.labels, scrape.honor_labels)
                known = keys[id(sample.labels)] = (labels, frozenset(labels.items()))
            if sample.timestamp is None:
                self._append(sample.name, known, scrape.at, sample.value, times)
            else:  # no staleness for series that bring their own time
                self._append(sample.name, known, sample.timestamp, sample.value, None)

    def _add_own(self, scrape: Scrape, times: list[float]) -> None:
        """The series that the server itself writes for a scrape."""
        own = {"up": float(scrape.up)}
        read = scrape.body.before_bad if scrape.body.bad else len(scrape.body.samples)
        own["scrape_samples_scraped"] = float(read)
        if scrape.duration is not None:
            own["scrape_duration_seconds"] = scrape.duration
        known = (dict(scrape.target), frozenset(scrape.target.items()))
        for name, value in own.items():
            self._append(name, known, scrape.at, value, times)

    def _append(
        self, name: str, known: tuple[Labels, frozenset[tuple[str, str]]], at: float, value: float, scrapes: list[float] | None
    ) -> None:
        series = self._index.get((name, known[1]))
        if series is None:
            series = Stored(known[0], [(at, value)], scrapes)
            self._index[name, known[1]] = series
            self.by_name.setdefault(name, []).append(series)
        elif at > series.samples[-1][0]:
            series.samples.append((at, value))

    def visible(
        self, at: float, reach: float | None, wanted: Callable[[str], bool]
    ) -> Iterator[tuple[str, Stored, Sequence[tuple[float, float]]]]:
        """(name, series, samples) that a query at an instant sees: the last sample, or with `reach` all in that range.

        At or after the window's own instant everything in the window has been scraped, also by a clock a little ahead.
        """
        end = float("inf") if at >= self.at else at
        start = at - (LOOK_BACK if reach is None else reach)
        for name, all_series in self.by_name.items():
            if not wanted(name):
                continue
            for series in all_series:
                samples = [s for s in series.samples if start < s[0] <= end] if len(series.samples) > 1 or reach else series.samples
                if not samples or not start < samples[-1][0] <= end:
                    continue
                if reach is None:
                    if self._ended(series, samples[-1][0], end):
                        continue
                    samples = samples[-1:]
                yield name, series, samples

    @staticmethod
    def _ended(series: Stored, last: float, end: float) -> bool:
        """Whether its target was scraped again, without it, between its last sample and the instant."""
        if series.scrapes is None:
            return False
        following = bisect_right(series.scrapes, last)
        return following < len(series.scrapes) and series.scrapes[following] <= end
