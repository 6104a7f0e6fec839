"""A job before and after a release event, as a schema: survivors, added names, dropped names, noise in everything.

What is drawn: levels by the unit in the name, a third of all gauges idle at zero, counters that start again with the
process, Pods that come and go (series), labels that the release adds, TYPE known in half of the events and HELP that
announces the successor in one of eight. Nothing is drawn from the values of a real cluster.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from benchmarks.inference.events import Event
from functions.contract.telemetry import MetricSchema

#: Names that nearly every process exports.
_USUAL = (
    "go_goroutines", "go_memstats_alloc_bytes", "go_threads", "process_cpu_seconds_total", "process_open_fds",
    "process_resident_memory_bytes", "process_start_time_seconds", "http_requests_total", "http_request_duration_seconds",
    "build_info", "log_messages_total", "queue_depth",
)  # fmt: skip
_OWN_LABELS = ("model_name", "device", "resource", "status", "method", "state", "phase", "code", "queue", "interface")


@dataclass(frozen=True)
class World:
    """Two schemas, and the truth about them."""

    before: tuple[MetricSchema, ...]
    after: tuple[MetricSchema, ...]
    truth: dict[str, str]
    dropped: frozenset[str]
    has_help: bool


def world(event: Event, seed: int, limit: int = 60) -> World:
    """One draw. A large release is seen by an exporter's field list: at most `limit` of its names."""
    dice = random.Random(f"{event.system}/{event.version}/{seed}")
    renamed = dice.sample(event.renamed, min(limit, len(event.renamed)))
    others = list(event.vocabulary)
    dice.shuffle(others)
    drops = [*event.removed, *others[: max(1, len(renamed) // 3)]]
    others = others[max(1, len(renamed) // 3) :]
    added, survivors = others[: max(2, len(renamed) // 2)], others[max(2, len(renamed) // 2) :][:30]
    survivors += list(_USUAL)
    draw = _Draw(dice)
    before, after = [], []
    for name in survivors:
        was = draw.family(name)
        before.append(was)
        after.append(draw.later(was, name, 1.0))
    for old, new, factor in renamed:
        was = draw.family(old)
        if draw.help:
            was = replace(was, help=f"Old. DEPRECATED: use {new} instead.")
        before.append(was)
        after.append(draw.later(was, new, factor))
    before += [draw.family(name) for name in drops]
    after += [draw.later(draw.family(name), name, 1.0) for name in added]
    return World(
        tuple(p for f in before for p in draw.stored(f)),
        tuple(p for f in after for p in draw.stored(f)),
        {old: new for old, new, _ in renamed},
        frozenset(drops),
        draw.help,
    )


class _Draw:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.types = dice.random() < 0.5
        self.help = dice.random() < 0.125
        self.targets = dice.choice((1, 2, 3, 8, 40))
        self.restart = 10 ** dice.uniform(-2, 0.2)
        self.gained = dice.choice(((), (), ("engine",), ("pci_bus_id",)))
        # half of all exporters have the same labels on everything (device exporters), the others on most
        self.uniform = dice.random() < 0.5
        self.per_target = dice.choice((1, 1, 4, 8))
        self.pods = dice.choice((1.0, 1.0, 1.0, 0.9, 1.2))

    def family(self, name: str) -> MetricSchema:
        """A family as it may have been before, in one entry: its stored parts are made by `stored`."""
        dice, lower = self.dice, name.lower()
        if lower.endswith(("_total", "_count", "_counter", "errors")):
            type_ = "counter"
        elif lower.endswith(("_seconds", "latencies_summary", "latency_microseconds", "duration")) and dice.random() < 0.6:
            type_ = "histogram"
        else:
            type_ = "gauge"
        own = [] if self.uniform or dice.random() < 0.6 else dice.sample(_OWN_LABELS, dice.choice((1, 1, 2)))
        series = self.targets * self.per_target * (dice.choice((1, 2, 3, 4)) if own else 1)
        level = self._level(lower, type_)
        spread = 0.0 if level in (0.0, 1.0) else dice.choice((0.0, 0.1, 0.6))
        return MetricSchema(
            "job", name, series, self.targets, level * (1 - spread), level * (1 + spread), level,
            dict.fromkeys(("instance", "job", "pod", "namespace", *own), series), type_,
        )  # fmt: skip

    def _level(self, lower: str, type_: str) -> float:
        dice = self.dice
        if dice.random() < (0.3 if type_ == "counter" else 0.2 if type_ == "histogram" else 0.35):
            return 0.0
        if type_ == "gauge" and dice.random() < 0.15:
            return 1.0
        if "ratio" in lower or "util" in lower or "perc" in lower or "active" in lower:
            return dice.uniform(0.05, 0.95)
        if "bytes" in lower or "memory" in lower:
            return float(10 ** dice.uniform(6, 11))
        if "temp" in lower or "celsius" in lower:
            return dice.uniform(30, 80)
        return float(10 ** dice.uniform(0, 7 if type_ == "counter" else 3))

    def later(self, was: MetricSchema, name: str, factor: float) -> MetricSchema:
        """The same quantity after the cut."""
        dice = self.dice
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
        labels = dict(was.labels)
        if dice.random() < 0.08:
            labels["extra"] = was.series
        if dice.random() < 0.05 and len(labels) > 4:
            labels.popitem()
        series = max(1, round(was.series * self.pods)) * (2 if dice.random() < 0.04 else 1)
        labels |= dict.fromkeys(self.gained, series)
        return replace(
            was, name=name, series=series, labels=dict.fromkeys(labels, series), help="",
            mean=mean * ratio, low=(was.low or 0) * ratio, high=(was.high or mean) * ratio,
        )  # fmt: skip

    def stored(self, family: MetricSchema) -> list[MetricSchema]:
        """A histogram as it is stored; TYPE only where this event knows types."""
        type_ = family.type if self.types else ""
        if family.type != "histogram":
            return [replace(family, type=type_)]
        count = family.mean or 0.0
        observed = random.Random(f"{sorted(family.labels)}{self.targets}").uniform(0.01, 3) * self.dice.lognormvariate(0, 0.2)
        parts = [("_bucket", family.series * 10, count / 2), ("_sum", family.series, count * observed), ("_count", family.series, count)]
        return [
            replace(family, name=family.name + suffix, series=series, mean=mean, low=0.0, high=mean, type=type_)
            for suffix, series, mean in parts
        ]
