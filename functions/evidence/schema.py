"""The schema of every metric that matters, from the answers to the questions of `plan.py`. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from functions.contract.telemetry import MetricSchema, Row
from functions.evidence.questions import parts_of
from functions.evidence.sources import Metadata

_DISTRIBUTION = ("_bucket", "_sum", "_count", "_created")
_SHAPED = ("histogram", "summary", "gaugehistogram")

#: (job, metric) -> figure -> value
Figures = dict[tuple[str, str], dict[str, float]]


def figures(stats: Iterable[Row]) -> Figures:
    """(job, metric) -> what was counted and measured."""
    found: Figures = {}
    for part, rows in parts_of(stats).items():
        for row in rows:
            found.setdefault(key_of(row), {})[part] = row.value
    return {key: figure for key, figure in found.items() if "series" in figure}


def not_finite(found: Figures) -> frozenset[str]:
    """Metrics of which some value is no finite number."""
    return frozenset(
        key[1] for key, figure in found.items() if any(not math.isfinite(figure.get(part, 0)) for part in ("low", "high", "sum"))
    )


def with_finite(found: Figures, names: frozenset[str], stats: Iterable[Row]) -> Figures:
    """The figures with those of the named metrics taken over finite values alone."""
    out = {k: {p: v for p, v in f.items() if k[1] not in names or p in ("series", "targets")} for k, f in found.items()}
    for part, rows in parts_of(stats).items():
        for row in rows:
            if key_of(row) in out:
                out[key_of(row)][part] = row.value
    return out


def schema(
    found: Figures,
    labels: Mapping[tuple[str, str], Mapping[str, int]],
    metadata: Mapping[tuple[str, str], Metadata],
    leave_out: frozenset[str],
) -> tuple[MetricSchema, ...]:
    """One entry a job and metric. `leave_out` names recorded series: they are nobody's exposition."""
    known = {key for key in found if key[1] not in leave_out}
    return tuple(_metric(key, found[key], labels.get(key, {}), metadata, known, labels) for key in sorted(known))


def key_of(row: Row) -> tuple[str, str]:
    return row.labels.get("job", ""), row.labels.get("__name__", "")


def _metric(
    key: tuple[str, str],
    figure: Mapping[str, float],
    labels: Mapping[str, int],
    metadata: Mapping[tuple[str, str], Metadata],
    known: set[tuple[str, str]],
    all_labels: Mapping[tuple[str, str], Mapping[str, int]],
) -> MetricSchema:
    described = _described(key, metadata)
    total = figure.get("sum", math.nan)
    finite = figure.get("finite", figure["series"])
    return MetricSchema(
        job=key[0],
        name=key[1],
        series=int(figure["series"]),
        targets=int(figure.get("targets", 0)),
        low=_finite(figure.get("low")),
        high=_finite(figure.get("high")),
        mean=_finite(total / finite) if finite else None,
        labels=labels,
        type=described.type or _inferred_type(key, known, all_labels),
        help=described.help,
        unit=described.unit,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _described(key: tuple[str, str], metadata: Mapping[tuple[str, str], Metadata]) -> Metadata:
    """The metadata of a stored name: its own, or that of the family whose suffix the format added."""
    job, name = key
    families: list[tuple[str, tuple[str, ...]]] = [(name, ())]
    families += [(name.removesuffix(s), _SHAPED) for s in _DISTRIBUTION if name.endswith(s)]
    families += [(name.removesuffix("_total"), ("counter",))] if name.endswith("_total") else []
    families += [(name.removesuffix("_created"), ("counter",))] if name.endswith("_created") else []
    families += [(name.removesuffix("_info"), ("info",))] if name.endswith("_info") else []
    for family, types in families:
        for found in (metadata.get((job, family)), metadata.get(("", family))):
            if found and (not types or found.type in types):
                return found if found.type not in ("unknown", "untyped") else replace(found, type="")
    return Metadata()


def _inferred_type(key: tuple[str, str], known: set[tuple[str, str]], all_labels: Mapping[tuple[str, str], Mapping[str, int]]) -> str:
    """Histogram or summary where the shape of the family says so; the rest stays unknown without metadata."""
    job, name = key
    for suffix in _DISTRIBUTION[:3]:
        base = name.removesuffix(suffix)
        if base == name:
            continue
        if (job, base + "_bucket") in known and "le" in all_labels.get((job, base + "_bucket"), {}):
            return "histogram"
        if (job, base) in known and "quantile" in all_labels.get((job, base), {}):
            return "summary"
    return "summary" if "quantile" in all_labels.get(key, {}) and (job, name + "_count") in known else ""
