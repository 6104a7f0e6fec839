"""What is kept of an instant for later comparisons: what a server does not tell of its past.

- The inventory (`Kept`) of a good instant is the baseline where a server's own history is too short: a Prometheus that was
  replaced with the upgrade has nothing from before it. It holds the nouns that a comparison needs (targets, metrics with
  their labels, devices, counts of selectors), not samples.
- The texts (`Texts`): TYPE, HELP and UNIT of every name. A server tells those of now only, and a name that a rename took
  away is no longer among them.

When they are kept and which counts is decided in `functions/baseline.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from functions.contract.facts import Facts, Known
from functions.contract.rules import SelectorCount
from functions.contract.signals import Scope
from functions.contract.telemetry import DeviceSeries, LabelValues, MetricSchema, Target
from functions.evidence.assemble import VALUES_KEPT
from functions.evidence.request import Found
from functions.evidence.sources import Metadata

_SOURCE = "the last good inventory"
#: Beyond this many device series an inventory would be too large a value for a store.
_MOST_DEVICES = 100_000
#: Characters of a HELP text that are kept; likeness is told by far fewer.
_LONGEST_HELP = 500


@dataclass(frozen=True, slots=True)
class Kept:
    """What was stored at one instant."""

    at: datetime
    targets: tuple[Target, ...]
    schema: tuple[MetricSchema, ...]
    devices: tuple[DeviceSeries, ...] = ()
    selectors: tuple[SelectorCount, ...] = ()

    @property
    def jobs(self) -> frozenset[str]:
        return frozenset(t.job for t in self.targets) | {m.job for m in self.schema}

    def facts(self, scope: Scope, instances: frozenset[str]) -> Found:
        """The facts of the baseline. For a node's audit those of its targets (`instances`); counts by job don't tell nodes apart."""
        if scope.kind == "node":
            own = [t for t in self.targets if t.instance in instances]
            devices = [d for d in self.devices if d.instance in instances or d.node == scope.name]
            return {"targets_before": self._known(tuple(own)), "devices_before": self._known(tuple(devices))}
        return {
            "targets_before": self._known(self.targets),
            "schema_before": self._known(self.schema),
            "devices_before": self._known(self.devices),
            "selectors_before": self._known(self.selectors),
            "label_values_before": self._known(_label_values(self.devices)),
        }

    def _known(self, value: tuple[Any, ...]) -> Known[Any]:
        return Known(value, self.at, f"{_SOURCE}, taken {self.at:%Y-%m-%d %H:%M:%S} UTC")


@dataclass(frozen=True, slots=True)
class Texts:
    """TYPE, HELP and UNIT at one instant: job -> stored name -> those three."""

    at: datetime
    by_job: Mapping[str, Mapping[str, tuple[str, str, str]]]

    @property
    def metadata(self) -> Mapping[tuple[str, str], Metadata]:
        return {(job, name): Metadata(*texts) for job, held in self.by_job.items() for name, texts in held.items()}


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was kept from before a change."""

    inventory: Kept | None = None
    texts: Texts | None = None


_INVENTORY, _TEXTS = TypeAdapter(Kept), TypeAdapter(Texts)


def of(facts: Facts) -> Kept | None:
    """What of an audit's facts is worth keeping; None where targets or metrics are not known."""
    if not isinstance(facts.targets, Known) or not isinstance(facts.schema, Known) or not facts.schema.value:
        return None
    devices = facts.devices.value if isinstance(facts.devices, Known) else ()
    selectors = facts.selectors.value if isinstance(facts.selectors, Known) else ()
    held = devices if len(devices) <= _MOST_DEVICES else ()
    return Kept(facts.windows.current, facts.targets.value, facts.schema.value, held, selectors)


def texts_of(facts: Facts) -> Texts | None:
    """The texts of an audit's instant; None where none is known."""
    if not isinstance(facts.schema, Known):
        return None
    found: dict[str, dict[str, tuple[str, str, str]]] = {}
    for metric in facts.schema.value:
        if metric.type or metric.help:
            found.setdefault(metric.job, {})[metric.name] = (metric.type, metric.help[:_LONGEST_HELP], metric.unit)
    return Texts(facts.windows.current, found) if found else None


def packed(kept: Kept | Texts) -> Mapping[str, Any]:
    """As plain JSON values."""
    adapter: TypeAdapter[Any] = _INVENTORY if isinstance(kept, Kept) else _TEXTS
    return dict(adapter.dump_python(kept, mode="json"))


def unpacked(data: Any) -> Kept | None:
    """The inverse of `packed`; None for what another version wrote in another shape."""
    try:
        return _INVENTORY.validate_python(data)
    except ValidationError:
        return None


def unpacked_texts(data: Any) -> Texts | None:
    """The same of texts."""
    try:
        return _TEXTS.validate_python(data)
    except ValidationError:
        return None


def _label_values(devices: tuple[DeviceSeries, ...]) -> tuple[LabelValues, ...]:
    """The values of the labels that tell devices and workloads: those whose spelling a change of exporter changes."""
    found: dict[tuple[str, str], set[str]] = {}
    for device in devices:
        for label, value in device.labels.items():
            found.setdefault((device.job, label), set()).add(value)
    return tuple(
        LabelValues(job, label, frozenset(sorted(values)[:VALUES_KEPT]), "", len(values) > VALUES_KEPT)
        for (job, label), values in sorted(found.items())
    )
