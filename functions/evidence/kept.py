"""The telemetry of one good instant, small enough to keep: the baseline where a server's own history is too short.

A Prometheus that was replaced with the upgrade has nothing from before it. What is kept are the nouns that a comparison
needs (targets, metrics with their labels, devices, counts of selectors), not samples. When it is kept and when it counts
is decided in `functions/baseline.py`.
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

_SOURCE = "the last good inventory"
#: Beyond this many device series an inventory would be too large a value for a store.
_MOST_DEVICES = 100_000


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


_ADAPTER = TypeAdapter(Kept)


def of(facts: Facts) -> Kept | None:
    """What of an audit's facts is worth keeping; None where targets or metrics are not known."""
    if not isinstance(facts.targets, Known) or not isinstance(facts.schema, Known) or not facts.schema.value:
        return None
    devices = facts.devices.value if isinstance(facts.devices, Known) else ()
    selectors = facts.selectors.value if isinstance(facts.selectors, Known) else ()
    held = devices if len(devices) <= _MOST_DEVICES else ()
    return Kept(facts.windows.current, facts.targets.value, facts.schema.value, held, selectors)


def packed(kept: Kept) -> Mapping[str, Any]:
    """As plain JSON values."""
    return dict(_ADAPTER.dump_python(kept, mode="json"))


def unpacked(data: Any) -> Kept | None:
    """The inverse of `packed`; None for what another version wrote in another shape."""
    try:
        return _ADAPTER.validate_python(data)
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
