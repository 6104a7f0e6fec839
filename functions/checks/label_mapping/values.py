"""Whether the values of one device are counted once: `shared-device`, `shared-zero`, `duplicate-series`.

Copies that differ by Pod are `shared-device` (or `shared-zero`, where the copies are 0 and the device works); the same
identity twice, or a device series beside its per-Pod parts, is `duplicate-series`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from functions.checks.label_mapping.codes import Said, finding
from functions.checks.label_mapping.names import find_pod
from functions.checks.label_mapping.series import key_of, once
from functions.checks.label_mapping.world import Device, DeviceKey, Indices, Naming, World
from functions.contract.facts import Fact, Missing
from functions.contract.findings import Evidence, Finding, Subject, Unjudged
from functions.contract.telemetry import DeviceReading, DeviceSeries

#: A person in a device: namespace, Pod, container. Empty for a series that names nobody.
Holder = tuple[str, str, str]
NOBODY: Holder = ("", "", "")


@dataclass(frozen=True, slots=True)
class Value:
    reading: DeviceReading
    holder: Holder


@dataclass(frozen=True, slots=True)
class Copies:
    """All values of one metric on one device."""

    concept: str
    metric: str
    values: tuple[Value, ...]

    @property
    def targets(self) -> set[tuple[str, str]]:
        return {(v.reading.source.job, v.reading.source.instance) for v in self.values}

    @property
    def holders(self) -> dict[Holder, float]:
        """Holder -> its highest value; the series that name nobody left out. One holder may have several series."""
        found: dict[Holder, float] = {}
        for value in self.values:
            if value.holder != NOBODY:
                found[value.holder] = max(value.reading.value, found.get(value.holder, value.reading.value))
        return found

    @property
    def whole(self) -> float | None:
        """The value of the series that names nobody."""
        return max((v.reading.value for v in self.values if v.holder == NOBODY), default=None)

    def sample(self) -> str:
        parts = [f"{_who(v.holder)}={v.reading.value:g}" + (f" (x{v.reading.series})" if v.reading.series > 1 else "") for v in self.values]
        return f"{self.metric}: {', '.join(parts[:6])}"


def _who(holder: Holder) -> str:
    return "/".join(p for p in holder[:2] if p) or "(no Pod)"


def judge_values(
    world: World, names: Iterable[Naming], readings: Fact[tuple[DeviceReading, ...]], uuids: Indices
) -> tuple[list[Finding], list[Unjudged]]:
    """One finding a device at most: the kind that is nearest to the cause."""
    if isinstance(readings, Missing):
        what = "whether devices that name no Pod are in use, and whether each value is counted once"
        return [], [Unjudged(Subject(), f"{what}: {readings.detail} ({readings.why})")] if world.devices else []
    findings = []
    for key, copies in _by_device(world, names, readings.value, uuids).items():
        device = world.devices.get(key)
        if device is not None and (found := _judge_device(world, device, copies)):
            findings.append(found)
    return findings, []


def _by_device(world: World, names: Iterable[Naming], readings: Iterable[DeviceReading], uuids: Indices) -> dict[DeviceKey, list[Copies]]:
    """The values that can be copies of one another, by device and metric."""
    named = {_identity(n.series): n for n in names}

    def place(series: DeviceSeries) -> tuple[DeviceKey, Holder] | None:
        naming = named.get(_identity(series)) if series.gpu else None
        holder = _holder(world, naming) if naming else None
        return None if holder is None else (key_of(series, uuids), holder)

    placed = once(place)
    grouped: dict[tuple[DeviceKey, str, str], list[Value]] = defaultdict(list)
    for reading in readings:
        if reading.concept not in world.rules.single_valued or math.isnan(reading.value):
            continue  # a value that is none can't be compared
        if where := placed(reading.source):
            grouped[(where[0], reading.concept, reading.metric)].append(Value(reading, where[1]))
    grouped = {key: _once(world, values) for key, values in grouped.items()}
    result: dict[DeviceKey, list[Copies]] = defaultdict(list)
    for (key, concept, metric), values in grouped.items():
        result[key].append(Copies(concept, metric, tuple(values)))
    return result


def _once(world: World, values: list[Value]) -> list[Value]:
    """The values less those that another server of a pair stored of the same series."""
    marks = frozenset(world.spellings.server_replicas)
    found: dict[tuple[object, ...], Value] = {}
    for value in values:
        source = value.reading.source
        labels = tuple(sorted((k, v) for k, v in source.labels.items() if k not in marks))
        kept = found.setdefault((source.job, source.instance, labels), value)
        if value.reading.value > kept.reading.value:
            found[source.job, source.instance, labels] = value
    return list(found.values())


def _identity(series: DeviceSeries) -> tuple[object, ...]:
    return (
        series.job,
        series.instance,
        series.device,
        series.namespace,
        series.pod,
        series.container,
        tuple(sorted(series.labels.items())),
    )


def _holder(world: World, naming: Naming) -> Holder | None:
    """Whom a series names; None for a Pod that has ended, which `stale-pod` speaks of."""
    if not naming.pod or naming.exporter:
        return NOBODY
    pod = find_pod(world, naming)
    if pod is None or pod.finished:
        return None
    return (naming.namespace, naming.pod, naming.container)


def _judge_device(world: World, device: Device, copies: list[Copies]) -> Finding | None:
    if zero := next((c for c in copies if _silent_zero(c)), None):
        return _zero(world, device, zero, zero.whole)
    telling = [row.concept for row in world.rules.load]  # utilisation first: it is what people sum
    copies = sorted(copies, key=lambda c: telling.index(c.concept) if c.concept in telling else len(telling))
    shared = [c for c in copies if len(c.holders) > 1 and not world.rules.per_container(c.metric)]
    deciding = [c for c in shared if c.concept in world.rules.process_concepts] or shared
    parts = [c for c in deciding if len(set(c.holders.values())) > 1]
    if deciding and not parts and (equal := next((c for c in deciding if max(c.holders.values()) > 0), None)):
        return _shared(world, device, equal)
    if deciding and not parts and device.busy:
        return _zero(world, device, deciding[0], None)
    twice = next((c for c in copies if _twice(c)), None)
    return _duplicate(world, device, twice) if twice else None


def _silent_zero(copies: Copies) -> bool:
    """Per-Pod series of 0 beside a device series that is not."""
    return bool(copies.holders) and not any(copies.holders.values()) and bool(copies.whole)


def _twice(copies: Copies) -> bool:
    """Whether one value is there more than once: the same identity, or the whole beside its parts."""
    by_holder: dict[Holder, int] = defaultdict(int)
    for value in copies.values:
        by_holder[value.holder] += max(value.reading.series, 1)
    return max(by_holder.values()) > 1 or (len(by_holder) > 1 and NOBODY in by_holder)


def _shared(world: World, device: Device, copies: Copies) -> Finding:
    count, value = len(copies.holders), next(iter(copies.holders.values()))
    who = ", ".join(sorted(_who(h) for h in copies.holders))
    return _finding(
        world,
        device,
        copies,
        "shared-device",
        Said(
            f"{device} has {copies.metric} {value:g} once for each of {count} holders ({who})",
            "each Pod's own share, or the device's value once",
            f"A sum over Pods counts the device {count} times: aggregate with max by (UUID, GPU_I_ID) first. For the Pods' own shares use "
            "dcgm-exporter 4.8.2 or later with KUBERNETES_VIRTUAL_GPUS=true, hostPID: true and permission to read Pods (utilisation and "
            "memory only); under MIG sharing, memory only.",
        ),
    )


def _zero(world: World, device: Device, copies: Copies, whole: float | None) -> Finding:
    shown = f"{copies.metric} {whole:g}" if whole is not None else device.load
    return _finding(
        world,
        device,
        copies,
        "shared-zero",
        Said(
            f"{device} works ({shown}), and each of its {len(copies.holders)} per-Pod series of {copies.metric} is 0",
            "shares of the Pods that add up to the device's value",
            "The exporter cannot match processes with Pods: set hostPID: true (gpu-operator: dcgmExporter.hostPID, OpenShift: an SCC that "
            "allows it), mount the service account token and let it read Pods.",
        ),
    )


def _duplicate(world: World, device: Device, copies: Copies) -> Finding:
    targets = sorted(f"{job} {instance}" for job, instance in copies.targets)
    if len(targets) > 1:
        what, hint = (
            f"from {len(targets)} targets ({', '.join(targets)})",
            (
                "Scrape each exporter once: remove the second ServiceMonitor, PodMonitor or static target, or the second exporter; until "
                "then select one job in every query."
            ),
        )
    elif any(v.holder == NOBODY for v in copies.values) and copies.holders:
        what, hint = (
            "for the device and again for its Pods",
            (
                'Take one of the two in every query (pod="" for devices, pod!="" for Pods); a series with and one without the Pod label '
                "must not live at one instant."
            ),
        )
    else:
        what, hint = (
            "more than once with the same identity",
            (
                'A label tells the copies apart that is no part of the identity (vgpu, hpc_job, a replica): aggregate with "max without" '
                "over it, or drop it in metric_relabel_configs."
            ),
        )
    return _finding(
        world,
        device,
        copies,
        "duplicate-series",
        Said(
            f"{device} has {copies.metric} {what}",
            "one series a metric and device",
            hint,
        ),
    )


def _finding(world: World, device: Device, copies: Copies, what: str, said: Said) -> Finding:
    series = [v.reading.source for v in copies.values]
    ref = f"{copies.metric}{{{_selector(series[0])}}}"
    evidence = (Evidence("prometheus", ref, copies.sample(), world.now), *(world.series_evidence(s) for s in series[:2]))
    return finding(what, Subject(**device.subject), said, evidence)


def _selector(series: DeviceSeries) -> str:
    roles = [series.spelling[r] for r in ("gpu", "gpu_instance") if r in series.spelling]
    return ", ".join(f'{label}="{series.labels[label]}"' for label in roles if label in series.labels)
