"""Metric families of a job at one instant, put together from the stored names; the unit in which renames are judged.

A histogram is one family, not three names, and a native histogram is the same family as the classic one. Nothing is
compared here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from functions.contract.telemetry import MetricSchema

_PARTS = ("_bucket", "_sum", "_count")
#: Written by Prometheus itself about a scrape, or by its rules; no exporter renames them.
_OWN = frozenset({"up", "ALERTS", "ALERTS_FOR_STATE"})
_OWN_PREFIX = "scrape_"
#: Labels that say which series of a distribution it is; they come and go with the type.
PART_LABELS = frozenset({"le", "quantile"})


@dataclass(frozen=True, slots=True)
class Family:
    """One family of one job. Numbers of a distribution are those of its `_count`: one series a label set."""

    job: str
    name: str
    #: every stored name of it
    names: tuple[str, ...]
    series: int
    targets: int
    labels: Mapping[str, int]
    type: str = ""
    help: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    #: of its values; of a distribution the mean observation, which survives a restart
    mean: float | None = None
    #: mean number that has been counted, for what only grows (counters, observations of a distribution)
    count: float | None = None

    @property
    def counts_up(self) -> bool:
        """Its values only grow while a process lives, so that a restart changes their level."""
        return self.type in ("counter", "histogram", "summary") or (not self.type and self.name.endswith("_total"))


Families = Mapping[str, Mapping[str, Family]]


def families(schema: Iterable[MetricSchema]) -> dict[str, dict[str, Family]]:
    """job -> family name -> family."""
    jobs: dict[str, dict[str, MetricSchema]] = {}
    for metric in schema:
        if metric.name not in _OWN and not metric.name.startswith(_OWN_PREFIX):
            jobs.setdefault(metric.job, {})[metric.name] = metric
    return {job: _group(metrics) for job, metrics in jobs.items()}


def _group(metrics: Mapping[str, MetricSchema]) -> dict[str, Family]:
    members: dict[str, list[MetricSchema]] = {}
    for name, metric in metrics.items():
        members.setdefault(_family(name, metrics), []).append(metric)
    return {name: _merge(name, parts) for name, parts in members.items()}


def _family(name: str, metrics: Mapping[str, MetricSchema]) -> str:
    for suffix in _PARTS:
        base = name.removesuffix(suffix)
        if base != name and _is_part(base, suffix, metrics):
            return base
    base = name.removesuffix("_created")
    if base != name and (
        base in metrics or base + "_total" in metrics or (base + "_count" in metrics and _is_part(base, "_count", metrics))
    ):
        # the instant a counter was created belongs to the counter
        return base if base in metrics or base + "_total" not in metrics else base + "_total"
    return name


def companion(name: str, known: Collection[str]) -> bool:
    """Whether a name is only the instant at which a known counter or histogram was created: it succeeds nobody."""
    base = name.removesuffix("_created")
    return base != name and (base in known or base + "_total" in known)


def _is_part(base: str, suffix: str, metrics: Mapping[str, MetricSchema]) -> bool:
    type_ = metrics[base + suffix].type
    if type_:
        return type_ in ("histogram", "summary", "gaugehistogram")
    if base + "_bucket" in metrics:
        return True
    return base + "_sum" in metrics and base + "_count" in metrics


def _merge(name: str, parts: list[MetricSchema]) -> Family:
    by_name = {p.name: p for p in parts}
    # what carries the numbers: the family's own name, else the number of observations
    main = by_name.get(name + "_count") or by_name.get(name) or parts[0]
    spread = by_name.get(name + "_sum")
    mean = main.mean
    if spread and spread.mean is not None and main.mean:
        mean = spread.mean / main.mean  # the mean observation: unlike the sums it survives a restart
    distribution = name + "_count" in by_name
    labels = {label: count for label, count in main.labels.items() if label not in PART_LABELS}
    return Family(
        job=main.job,
        name=name,
        names=tuple(sorted(by_name)),
        series=main.series,
        targets=max(p.targets for p in parts),
        labels=labels,
        type=next((p.type for p in (main, *parts) if p.type), "") or ("histogram" if name + "_bucket" in by_name else ""),
        help=next((p.help for p in (main, *parts) if p.help), ""),
        unit=next((p.unit for p in parts if p.unit), ""),
        low=None if distribution else main.low,
        high=None if distribution else main.high,
        mean=mean,
        count=main.mean,
    )
