"""Answers to the questions of `plan.py`, put together as the nouns that checks read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from functions.contract.rules import SelectorCount
from functions.contract.telemetry import (
    DeviceReading,
    DeviceSeries,
    Extreme,
    LabelValues,
    MetricSchema,
    PartialLoss,
    PipelineSample,
    Row,
    Standstill,
    Target,
)
from functions.evidence.questions import METRIC, PART, parts_of
from functions.evidence.schema import key_of

#: Labels of a reading that its device does not have.
_OWN = frozenset({"__name__", METRIC, PART})
#: How many values of a label are kept; the first in order, so that two instants stay comparable.
VALUES_KEPT = 1000
#: A metric with more series than this is not read for the values of a label where another one has it.
CARRIER_SERIES = 20_000
#: Labels that only part of the series lost, of which the targets are asked for.
MOST_PARTIAL_LABELS = 20


def targets(listed: Sequence[Target], series: Iterable[Row]) -> tuple[Target, ...]:
    """Targets as the server lists them, completed by what it wrote about them; those it only wrote about are added."""
    rows: dict[frozenset[tuple[str, str]], dict[str, float]] = {}
    started: dict[tuple[str, str], float] = {}
    for row in series:
        labels = dict(row.labels)
        name = labels.pop("__name__", "")
        if name == "process_start_time_seconds":
            started[labels.get("job", ""), labels.get("instance", "")] = row.value
        else:
            rows.setdefault(frozenset(labels.items()), {})[name] = row.value
    by_place: dict[tuple[str, str], list[frozenset[tuple[str, str]]]] = {}
    for key in rows:
        labels = dict(key)
        by_place.setdefault((labels.get("job", ""), labels.get("instance", "")), []).append(key)
    out = []
    for target in listed:
        key = frozenset(target.labels.items())
        place = by_place.get((target.job, target.instance), [])
        if key not in rows and len(place) == 1:
            key = place[0]  # a querier adds or drops external labels
        out.append(_completed(target, rows.pop(key, {}), started))
    for key, figures in rows.items():
        if "up" in figures:
            labels = dict(key)
            bare = Target(labels.get("job", ""), labels.get("instance", ""), labels, up=figures["up"] == 1)
            out.append(_completed(bare, figures, started))
    return tuple(sorted(out, key=lambda t: (t.job, t.instance, sorted(t.labels.items()))))


def _completed(target: Target, figures: Mapping[str, float], started: Mapping[tuple[str, str], float]) -> Target:
    def count(name: str, held: int | None) -> int | None:
        return held if held is not None or name not in figures else int(figures[name])

    return replace(
        target,
        samples=count("scrape_samples_scraped", target.samples),
        samples_kept=count("scrape_samples_post_metric_relabeling", target.samples_kept),
        duration=target.duration if target.duration is not None else figures.get("scrape_duration_seconds"),
        timeout=target.timeout if target.timeout is not None else figures.get("scrape_timeout_seconds"),
        process_started=target.process_started or started.get((target.job, target.instance)),
    )


def with_settings(held: Iterable[Target], now: Iterable[Target]) -> tuple[Target, ...]:
    """Earlier targets with the scrape settings of their job as they are now, where its targets agree on them."""
    seen: dict[str, set[tuple[bool | None, float | None]]] = {}
    for target in now:
        seen.setdefault(target.job, set()).add((target.honor_labels, target.interval))
    agreed = {job: next(iter(settings)) for job, settings in seen.items() if len(settings) == 1}

    def completed(target: Target) -> Target:
        honor, interval = agreed.get(target.job, (None, None))
        return replace(
            target,
            honor_labels=honor if target.honor_labels is None else target.honor_labels,
            interval=interval if target.interval is None else target.interval,
        )

    return tuple(map(completed, held))


def readings(rows: Iterable[Row], devices: Iterable[DeviceSeries], concepts: Mapping[str, str]) -> tuple[DeviceReading, ...]:
    """Values by device series. `concepts`: metric name -> concept."""
    sources = {_identity({**d.labels, "job": d.job, "instance": d.instance}): d for d in devices}
    parts = parts_of(rows)
    copies = {(row.labels.get("__name__", ""), _identity(row.labels)): int(row.value) for row in parts.get("copies", [])}
    out = []
    for row in parts.get("value", []):
        name, identity = row.labels.get("__name__", ""), _identity(row.labels)
        if (source := sources.get(identity)) and name in concepts:
            out.append(DeviceReading(concepts[name], name, row.value, copies.get((name, identity), 1), source))
    return tuple(out)


def _identity(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """The labels that a device and its readings share."""
    return frozenset({name: text for name, text in labels.items() if name not in _OWN}.items())


def extremes(rows: Iterable[Row], nodes: Mapping[tuple[str, str], str]) -> tuple[Extreme, ...]:
    """Suspiciously large values by target and device."""
    out = []
    for row in rows:
        labels = dict(row.labels)
        name, job, instance = labels.pop("__name__", ""), labels.pop("job", ""), labels.pop("instance", "")
        out.append(Extreme(job, instance, name, row.value, nodes.get((job, instance), ""), labels))
    return tuple(out)


def standstill(rows: Iterable[Row], nodes: Mapping[tuple[str, str], str]) -> tuple[Standstill, ...]:
    """How much of each metric stood still on each target."""
    figures: dict[tuple[str, str, str], dict[str, int]] = {}
    for part, held in parts_of(rows).items():
        for row in held:
            key = (row.labels.get("job", ""), row.labels.get("instance", ""), row.labels.get(METRIC, ""))
            figures.setdefault(key, {})[part] = int(row.value)
    return tuple(
        Standstill(job, instance, metric, nodes.get((job, instance), ""), f.get("still", 0), f.get("total", 0), f.get("scrapes", 0))
        for (job, instance, metric), f in sorted(figures.items())
    )


def partial_candidates(now: Iterable[MetricSchema], before: Iterable[MetricSchema], up: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Names that some targets of a job have and others lack, and that were there before."""
    had = {(s.job, s.name) for s in before}
    return frozenset(s.name for s in now if (s.job, s.name) in had and 0 < s.targets < len(up.get(s.job, ())))


def partial_losses(
    now: Iterable[Row], before: Iterable[Row], up: Mapping[str, frozenset[str]], up_before: Mapping[str, frozenset[str]]
) -> tuple[PartialLoss, ...]:
    """Which targets lost a name: those that had it, and new ones where every target had it."""
    have, had = _holders(now), _holders(before)
    out = []
    for (job, name), holders in sorted(had.items()):
        kept = have.get((job, name), frozenset())
        earlier = up_before.get(job, frozenset())
        everyone = bool(earlier) and earlier <= holders
        lacking = up.get(job, frozenset()) - kept
        lost = {i for i in lacking if i in holders or (everyone and i not in earlier)}
        if lost and kept:
            out.append(PartialLoss(job, name, tuple(sorted(lost)), tuple(sorted(kept))))
    return tuple(out)


def partial_labels(now: Iterable[MetricSchema], before: Iterable[MetricSchema], but: Collection[str]) -> Mapping[tuple[str, str], str]:
    """(job, label) -> the metric on most targets that had the label on every series and has it on some: one to look closer at."""
    had = {(s.job, s.name): s for s in before}
    found: dict[tuple[str, str], MetricSchema] = {}
    for metric in now:
        was = had.get((metric.job, metric.name))
        for label, count in metric.labels.items() if was else ():
            if was and 0 < count < metric.series and was.labels.get(label, 0) >= was.series and label not in but:
                held = found.setdefault((metric.job, label), metric)
                if metric.targets > held.targets:
                    found[metric.job, label] = metric
    return {key: found[key].name for key in sorted(found)[:MOST_PARTIAL_LABELS]}


def label_losses(
    now: Iterable[Row], before: Iterable[Row], asked: Mapping[tuple[str, str], str], up: Mapping[str, frozenset[str]]
) -> tuple[PartialLoss, ...]:
    """Which targets have a metric as before, and lost a label of it; new ones where every target had the label."""
    parts, parts_before = parts_of(now), parts_of(before)
    out = []
    for number, ((job, label), metric) in enumerate(asked.items()):
        have, bear = (_instances(parts.get(part, ())) for part in (f"{number}", f"{number}/label"))
        had, bore = (_instances(parts_before.get(part, ())) for part in (f"{number}", f"{number}/label"))
        everyone = bool(had) and had <= bore
        lost = {i for i in (have - bear) & up.get(job, frozenset()) if i in bore or (everyone and i not in had)}
        if lost and bear:
            out.append(PartialLoss(job, metric, tuple(sorted(lost)), tuple(sorted(bear)), label))
    return tuple(out)


def _instances(rows: Iterable[Row]) -> set[str]:
    return {row.labels.get("instance", "") for row in rows}


def _holders(rows: Iterable[Row]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        found.setdefault(key_of(row), set()).add(row.labels.get("instance", ""))
    return {key: frozenset(held) for key, held in found.items()}


def serving(held: Iterable[Target]) -> dict[str, frozenset[str]]:
    """job -> the instances that are up and serve something."""
    found: dict[str, set[str]] = {}
    for target in held:
        if target.up and target.samples != 0:
            found.setdefault(target.job, set()).add(target.instance)
    return {job: frozenset(instances) for job, instances in found.items()}


def changed_labels(now: Sequence[MetricSchema], before: Sequence[MetricSchema]) -> frozenset[tuple[str, str]]:
    """(job, label) where the job, or some metric of it, gained or lost the label on all or on part of its series."""
    had, have = _label_names(before), _label_names(now)
    found: set[tuple[str, str]] = set()
    for job in had.keys() & have.keys():
        for name in had[job].keys() & have[job].keys():
            # a label that every series has, (label, True), is told apart from one that some have, (label, False)
            found |= {(job, label) for label, _ in had[job][name] ^ have[job][name]}
        all_had = frozenset().union(*had[job].values())
        all_have = frozenset().union(*have[job].values())
        found |= {(job, label) for label in {label for label, _ in all_had} ^ {label for label, _ in all_have}}
    return frozenset(found)


def twin_labels(wanted: Iterable[tuple[str, str]], held: Iterable[MetricSchema], spelled: frozenset[str]) -> frozenset[tuple[str, str]]:
    """(job, label) that may hold now what a changed one held, though it was there before.

    With honor_labels the value of `exported_namespace` goes into `namespace`; so it may be with any two spellings of
    one thing (`spelled`).
    """
    found: set[tuple[str, str]] = set()
    jobs = {job for job, label in wanted if label in spelled or label.startswith("exported_")}
    for metric in held:
        if metric.job in jobs:
            found |= {(metric.job, label) for label in metric.labels if label in spelled}
    return frozenset(found)


def matched_labels(counts: Iterable[SelectorCount], held: Iterable[MetricSchema]) -> frozenset[tuple[str, str]]:
    """(job, label) of the matchers in selectors that select nothing, in the jobs that have or had the metric."""
    jobs: dict[str, set[str]] = {}
    for metric in held:
        jobs.setdefault(metric.name, set()).add(metric.job)
    return frozenset(
        (job, matcher.label)
        for count in counts
        if not count.series and count.selector.name
        for job in jobs.get(count.selector.name, ())
        for matcher in count.selector.matchers
        if matcher.label not in ("job", "__name__")
    )


def _label_names(held: Iterable[MetricSchema]) -> dict[str, dict[str, frozenset[tuple[str, bool]]]]:
    jobs: dict[str, dict[str, frozenset[tuple[str, bool]]]] = {}
    for metric in held:
        labels = frozenset((label, count >= metric.series) for label, count in metric.labels.items())
        jobs.setdefault(metric.job, {})[metric.name] = labels
    return jobs


def carriers(wanted: Iterable[tuple[str, str]], held: Sequence[MetricSchema]) -> dict[tuple[str, str], str]:
    """For each (job, label) the metric to read its values from: the one that has it most often, within bounds."""
    wanted = frozenset(wanted)
    best: dict[tuple[str, str], tuple[int, str]] = {}
    for metric in held:
        for label, count in metric.labels.items():
            if (key := (metric.job, label)) in wanted:
                # up to the bound more series show more values; beyond it they only cost more
                rank = -count if count <= CARRIER_SERIES else count
                best[key] = min(best.get(key, (rank, metric.name)), (rank, metric.name))
    return {key: name for key, (_, name) in sorted(best.items())}


def label_values(rows: Iterable[Row], metrics: Mapping[tuple[str, str], str]) -> tuple[LabelValues, ...]:
    """The values of the labels that were asked for, in the order of the question."""
    parts = parts_of(rows)
    out = []
    for number, ((job, label), metric) in enumerate(metrics.items()):
        values = sorted({row.labels[label] for row in parts.get(str(number), []) if label in row.labels})
        out.append(LabelValues(job, label, frozenset(values[:VALUES_KEPT]), metric, len(values) > VALUES_KEPT))
    return tuple(out)


def pipeline(rows: Iterable[Row]) -> tuple[PipelineSample, ...]:
    """Health figures of servers, with the labels that tell rule groups, remotes and pools apart."""
    out = []
    for row in rows:
        labels = {k: v for k, v in row.labels.items() if k not in (METRIC, PART, "job", "instance", "__name__")}
        out.append(PipelineSample(row.labels.get("instance", ""), row.labels.get(METRIC, ""), labels, row.value))
    return tuple(sorted(out, key=lambda s: (s.server, s.metric, sorted(s.labels.items()))))
