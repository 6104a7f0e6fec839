"""The questions of an audit. Their number is constant: it grows neither with Pods and devices nor with rules.

Pure: what to ask, given what is known so far. `gather.py` asks in stages, `assemble.py` reads the answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from functions.contract.rules import Matcher
from functions.evidence.questions import METRIC, Question, one_of
from functions.knowledge.pipeline import ABOUT_TARGETS, SYNTHETIC, load_pipeline

#: Asked with all their labels, once a target.
TARGET_SERIES = (*ABOUT_TARGETS[:4], "scrape_timeout_seconds", "process_start_time_seconds")

#: Seconds over which counters of a server's own health are read.
PIPELINE_WINDOW = 600

EVERYTHING = (Matcher("__name__", "=~", ".+"),)


def relevance(devices: Matcher, known: Iterable[str]) -> Question:
    """Which jobs matter: those with device metrics or known signals; and which targets are broken, of any job."""
    return Question.union(
        "relevance",
        [
            Question("stored", "count", (), (Matcher("__name__", "=", "up"),)),
            Question("devices", "group", ("job",), (devices,)),
            # what the part above has looked at is left out
            Question("signals", "group", ("job",), (one_of("__name__", known), Matcher("__name__", "!~", devices.value))),
            Question("down", "", (), (Matcher("__name__", "=", "up"),), keep=("==", 0)),
            Question("empty", "", (), (Matcher("__name__", "=", "scrape_samples_scraped"),), keep=("==", 0)),
        ],
    )


def anything() -> Question:
    """Whether anything is stored."""
    return Question("anything", "count", (), EVERYTHING)


def target_series(where: Sequence[Matcher]) -> Question:
    """What Prometheus wrote about each target."""
    return Question("targets", "", (), (one_of("__name__", TARGET_SERIES), *where))


def label_names(where: Sequence[Matcher], back: float = 0) -> Question:
    """Every label name of the selected series in so many seconds (a server may list a few that are gone)."""
    return Question("labels", "labels", (), tuple(where), over=("last_over_time", math.ceil(back)) if back else None)


def stored(where: Sequence[Matcher]) -> tuple[Matcher, ...]:
    """The selection without what Prometheus writes by itself."""
    return (*where, Matcher("__name__", "!~", "|".join(sorted(SYNTHETIC))))


def figures(where: Sequence[Matcher]) -> Question:
    """Per job and metric: series, targets, and lowest, highest and summed value. Buckets are only counted."""
    by, selected = ("job", "__name__"), stored(where)
    valued = (*selected, Matcher("__name__", "!~", ".+_bucket"))
    return Question.union(
        "schema",
        [
            Question("series", "count", by, selected),
            Question("targets", "count", by, selected, within=("instance",)),
            Question("low", "min", by, valued),
            Question("high", "max", by, valued),
            Question("sum", "sum", by, valued),
        ],
    )


def finite_figures(where: Sequence[Matcher], names: Iterable[str]) -> Question:
    """The same over finite values alone, for the few metrics that also have others: filtering them all is dear."""
    by, selected = ("job", "__name__"), (*where, one_of("__name__", names))
    parts = (("low", "min"), ("high", "max"), ("sum", "sum"), ("finite", "count"))
    return Question.union("finite", [Question(id, op, by, selected, finite=True) for id, op in parts])


def samples(where: Sequence[Matcher]) -> Question:
    """One series of every metric of a job, to see which labels it has."""
    return Question("samples", "topk", ("job", "__name__"), stored(where))


def devices(where: Sequence[Matcher], names: Matcher, by: Sequence[str]) -> Question:
    """Device series, grouped by everything that tells the device and the workload."""
    return Question("devices", "count", tuple(by), (names, *where))


def readings(where: Sequence[Matcher], names: Iterable[str], by: Sequence[str]) -> Question:
    """The highest value of each device in each metric, and where more than one series stands for it."""
    selected = (one_of("__name__", names), *where)
    grouped = ("__name__", *by)
    return Question.union(
        "readings",
        [Question("value", "max", grouped, selected), Question("copies", "count", grouped, selected, after=(">", 1))],
    )


def extremes(where: Sequence[Matcher], names: Iterable[str], by: Sequence[str], threshold: float) -> Question:
    """The devices whose value is at or above the smallest code that means "no value"."""
    return Question("extremes", "max", ("__name__", *by), (one_of("__name__", names), *where), above=threshold)


def standstill(where: Sequence[Matcher], names: Sequence[str], window: int) -> Question:
    """Per target and metric: series that did not move in the window, all series, and the scrapes it held."""
    by, selected, named = ("job", "instance", METRIC), tuple(where), tuple(names)
    return Question.union(
        "standstill",
        [
            Question("still", "count", by, selected, names=named, over=("changes", window), keep=("==", 0), alive=True),
            Question("total", "count", by, selected, names=named, over=("changes", window), alive=True),
            Question("scrapes", "max", by, selected, names=named, over=("count_over_time", window), alive=True),
        ],
    )


def instances(where: Sequence[Matcher], names: Iterable[str]) -> Question:
    """Which targets have each of the metrics."""
    return Question("instances", "group", ("job", "__name__", "instance"), (one_of("__name__", names), *where))


def bearers(where: Sequence[Matcher], metrics: Mapping[tuple[str, str], str]) -> Question:
    """Which targets have a metric with a label on it, and which have it at all: (job, label) -> metric."""
    parts = []
    for number, ((job, label), metric) in enumerate(metrics.items()):
        of_metric = (one_of("__name__", [metric]), Matcher("job", "=", job), *where)
        parts += [
            Question(f"{number}", "group", ("job", "instance"), of_metric),
            Question(f"{number}/label", "group", ("job", "instance"), (*of_metric, Matcher(label, "!=", ""))),
        ]
    return Question.union("bearers", parts)


def label_values(where: Sequence[Matcher], metrics: Mapping[tuple[str, str], str]) -> Question:
    """The values of labels: (job, label) -> the metric to read them from."""
    parts = [
        Question(
            f"{number}",
            "group",
            ("job", label),
            (one_of("__name__", [metric]), Matcher("job", "=", job), Matcher(label, "!=", ""), *where),
        )
        for number, ((job, label), metric) in enumerate(metrics.items())
    ]
    return Question.union("label-values", parts)


def pipeline() -> Question:
    """The health of the servers themselves: counters as rates, the other figures as they are."""
    names = load_pipeline().names
    return Question.union(
        "pipeline",
        [
            Question("rate", names=tuple(n for n in names if n.endswith("_total")), over=("rate", PIPELINE_WINDOW)),
            Question("value", names=tuple(n for n in names if not n.endswith("_total")), over=("last_over_time", PIPELINE_WINDOW)),
        ],
    )
