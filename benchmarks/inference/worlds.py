"""A job before and after a release event, as a schema: survivors, added names, dropped names, noise in everything.

What is drawn: levels by the unit in the name, a third of all gauges idle at zero, counters that start again with the
process, Pods that come and go (series), labels by exporter or by the object that a metric is about, labels that the
release adds or respells, types that it changes, histograms with a few bucket layouts, and in one event of eight new names
that were already exposed beside the old ones. Siblings in the same job are dropped and added too, and some releases
rename nothing. Nothing is drawn from the values of a real cluster.

The same world is seen with three kinds of metadata, since that is what differs in practice:
- `bodies`: TYPE and HELP before and after, as a bundle has them, and a server's audit with what an earlier one kept;
- `server`: those of now alone, as /api/v1/metadata tells them after the old Pods are gone: an audit without an earlier one;
- `stored`: none, as behind remote write or federation.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum

from benchmarks.inference.events import NO_RENAME, Event
from benchmarks.inference.texts import Habit
from functions.contract.telemetry import MetricSchema

#: Names that nearly every process exports.
_USUAL = (
    "go_goroutines", "go_memstats_alloc_bytes", "go_threads", "process_cpu_seconds_total", "process_open_fds",
    "process_resident_memory_bytes", "process_start_time_seconds", "http_requests_total", "http_request_duration_seconds",
    "build_info", "log_messages_total", "queue_depth",
)  # fmt: skip
_OWN_LABELS = ("model_name", "device", "resource", "status", "method", "state", "phase", "code", "queue", "interface")
_LAYOUTS = (8, 11, 12, 15, 20)


class Metadata(StrEnum):
    """What is known of TYPE and HELP."""

    BODIES = "bodies"
    SERVER = "server"
    STORED = "stored"


@dataclass(frozen=True)
class World:
    """Two schemas, and the truth about them."""

    before: tuple[MetricSchema, ...]
    after: tuple[MetricSchema, ...]
    truth: dict[str, str]
    dropped: frozenset[str]
    #: HELP announced the successors, so that nothing is left to infer
    announced: bool


@dataclass(frozen=True)
class _Drawn:
    """A family in one entry, with what its stored parts need."""

    schema: MetricSchema
    buckets: int
    observed: float


def world(event: Event, seed: int, metadata: Metadata, limit: int = 60) -> World:
    """One draw. A large release is seen by an exporter's field list: at most `limit` of its names."""
    dice = random.Random(f"{event.system}/{event.version}/{seed}")
    renamed = dice.sample(event.renamed, min(limit, len(event.renamed)))
    others = list(event.vocabulary)
    dice.shuffle(others)
    gone, come = (4, 6) if event.version == NO_RENAME else (max(1, len(renamed) // 3), max(2, len(renamed) // 2))
    drops, others = [*event.removed, *others[:gone]], others[gone:]
    added, survivors = others[:come], [*others[come:][:30], *_USUAL]
    draw = _Draw(dice, event.project)
    before: list[_Drawn] = []
    after: list[_Drawn] = []
    for name in survivors:
        was = draw.family(name)
        before.append(was)
        after.append(draw.later(was, name, 1.0))
    for old, new, factor in renamed:
        was = draw.family(old, factor)
        if draw.announced:
            was = replace(was, schema=replace(was.schema, help=f"Old. DEPRECATED: use {new} instead."))
        before.append(was)
        if draw.overlapped:
            before.append(replace(was, schema=draw.scaled(was.schema, new, factor)))
        after.append(draw.later(was, new, factor))
    before += [draw.family(name) for name in drops]
    after += [draw.later(draw.family(name), name, 1.0) for name in added]
    return World(
        tuple(p for f in before for p in draw.stored(f, known=metadata is Metadata.BODIES)),
        tuple(p for f in after for p in draw.stored(f, known=metadata is not Metadata.STORED)),
        {old: new for old, new, _ in renamed},
        frozenset(drops),
        draw.announced and metadata is Metadata.BODIES,
    )


class _Draw:
    def __init__(self, dice: random.Random, salt: str) -> None:
        self.dice = dice
        self.texts = Habit(dice, salt)
        self.announced = dice.random() < 0.125
        self.overlapped = dice.random() < 0.125
        self.targets = dice.choice((1, 2, 3, 8, 40))
        self.restart = 10 ** dice.uniform(-2, 0.2)
        self.gained = dice.choice(((), (), ("engine",), ("pci_bus_id",)))
        self.respelled = dice.choice(({}, {}, {"namespace": "kube_namespace"}, {"instance": "Instance"}))
        # device exporters have the same labels on everything; others by the object that a metric is about (its first
        # words), so that siblings share them; and with some nearly every metric has labels of its own
        self.style = dice.choice(("uniform", "objects", "loose"))
        self.objects: dict[tuple[str, ...], tuple[list[str], int]] = {}
        self.per_target = dice.choice((1, 1, 4, 8))
        self.pods = dice.choice((1.0, 1.0, 1.0, 0.9, 1.2))
        self.layouts = dice.sample(_LAYOUTS, dice.choice((1, 2, 3)))

    def family(self, name: str, factor: float = 1.0) -> _Drawn:
        """A family as it may have been before."""
        dice, lower = self.dice, name.lower()
        if lower.endswith(("_total", "_count", "_counter", "errors")):
            type_ = "counter"
        elif lower.endswith(("_seconds", "latencies_summary", "latency_microseconds", "duration")) and dice.random() < 0.6:
            type_ = "histogram"
        else:
            type_ = "gauge"
        own, many = self._object(name)
        series = self.targets * self.per_target * many
        level = self._level(lower, type_)
        spread = 0.0 if level in (0.0, 1.0) or (level.is_integer() and dice.random() < 0.7) else dice.choice((0.0, 0.1, 0.6))
        schema = MetricSchema(
            "job", name, series, self.targets, level * (1 - spread), level * (1 + spread), level,
            dict.fromkeys(("instance", "job", "pod", "namespace", *own), series), type_, self.texts.text(name, factor),
        )  # fmt: skip
        return _Drawn(schema, dice.choice(self.layouts), dice.uniform(0.01, 3))

    def _object(self, name: str) -> tuple[list[str], int]:
        """The labels that a metric has of its own, and how many series they make."""
        dice = self.dice
        if self.style == "uniform":
            return [], 1
        if self.style == "loose":
            own = [] if dice.random() < 0.6 else dice.sample(_OWN_LABELS, dice.choice((1, 1, 2)))
            return own, dice.choice((1, 2, 3, 4)) if own else 1
        about = tuple(name.lower().replace(":", "_").split("_")[:3])
        if about not in self.objects:
            own = dice.sample(_OWN_LABELS, dice.choice((0, 1, 2, 3)))
            self.objects[about] = own, dice.choice((1, 2, 3, 5, 8, 20)) if own else 1
        own, many = self.objects[about]
        return own, many

    def _level(self, lower: str, type_: str) -> float:
        dice = self.dice
        if dice.random() < (0.3 if type_ == "counter" else 0.2 if type_ == "histogram" else 0.35):
            return 0.0
        if type_ == "gauge" and dice.random() < 0.15:
            return 1.0
        if type_ == "gauge" and dice.random() < 0.2:
            return float(
                dice.choice((2, 3, 4, 5, 8, 10, 16, 20, 32, 64, 100, 128, 256, 512, 1000, 1024, 4096))
            )  # a setting or a small count
        if "ratio" in lower or "util" in lower or "perc" in lower or "active" in lower:
            return dice.uniform(0.05, 0.95)
        if "bytes" in lower or "memory" in lower:
            return float(10 ** dice.uniform(6, 11))
        if "temp" in lower or "celsius" in lower:
            return dice.uniform(30, 80)
        return float(10 ** dice.uniform(0, 7 if type_ == "counter" else 3))

    def scaled(self, was: MetricSchema, name: str, factor: float) -> MetricSchema:
        """The new name at the same instant as the old one."""
        ratio = factor if was.type != "histogram" else 1.0
        mean, low, high = ((v or 0.0) * ratio for v in (was.mean, was.low, was.high))
        return replace(was, name=name, mean=mean, low=low, high=high, help=self.texts.later(was.help, name, factor))

    def later(self, drawn: _Drawn, name: str, factor: float) -> _Drawn:
        """The same quantity after the cut."""
        dice, was = self.dice, drawn.schema
        mean = was.mean or 0.0
        if was.type == "gauge":
            noise = dice.lognormvariate(0, dice.choice((0.0, 0.05, 0.2, 1.0)))
            if dice.random() < 0.07:
                noise = 0.0
            elif mean == 0 and dice.random() < 0.1:
                mean = 1.0
        else:
            noise = self.restart * dice.lognormvariate(0, 0.4)
        ratio = noise * (factor if was.type != "histogram" else 1.0)
        labels = self._labels(was)
        series = max(1, round(was.series * self.pods)) * (2 if dice.random() < 0.04 else 1)
        text = was.help if name == was.name else self.texts.later(self.texts.text(was.name, factor), name, factor)
        retyped = name != was.name and was.type != "histogram" and dice.random() < 0.04
        schema = replace(
            was, name=name, series=series, labels=dict.fromkeys(labels, series), help=text,
            mean=mean * ratio, low=(was.low or 0) * ratio, high=(was.high or mean) * ratio,
            type={"gauge": "counter", "counter": "gauge"}[was.type] if retyped else was.type,
        )  # fmt: skip
        buckets = dice.choice(self.layouts) if dice.random() < 0.15 else drawn.buckets
        return _Drawn(schema, buckets, drawn.observed * dice.lognormvariate(0, 0.2))

    def _labels(self, was: MetricSchema) -> list[str]:
        dice = self.dice
        labels = [self.respelled.get(label, label) for label in was.labels]
        if dice.random() < 0.08:
            labels.append("extra")
        if dice.random() < 0.05 and len(labels) > 4:
            labels.pop()
        return [*labels, *self.gained]

    def stored(self, drawn: _Drawn, *, known: bool) -> list[MetricSchema]:
        """A histogram as it is stored; TYPE and HELP only where they are known."""
        family = drawn.schema if known else replace(drawn.schema, help="", type="")
        if drawn.schema.type != "histogram":
            return [family]
        count = family.mean or 0.0
        shape = replace(family, type="histogram")
        parts = [("_bucket", family.series * drawn.buckets, count / 2), ("_sum", family.series, count * drawn.observed)]
        return [
            replace(shape, name=family.name + suffix, series=series, mean=mean, low=0.0, high=mean)
            for suffix, series, mean in (*parts, ("_count", family.series, count))
        ]
