"""From stored series to devices: who the exporters are, what a series names, and which series are of one device.

Nothing is judged here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from functions.checks.label_mapping.world import Device, DeviceKey, Indices, Naming, PodKey
from functions.contract.cluster import Pod
from functions.contract.telemetry import DeviceReading, DeviceSeries, Target
from functions.knowledge.devices import DeviceKnowledge
from functions.knowledge.mapping import MappingKnowledge as Rules
from functions.knowledge.signals import Signals

T = TypeVar("T")

# --- who the exporters are, and what a series names ----------------------------------------------------------------


def find_exporters(series: Iterable[DeviceSeries], pods: tuple[Pod, ...], spellings: DeviceKnowledge) -> frozenset[PodKey]:
    """The exporters' own Pods: what the targets are, and what runs a known exporter image.

    An engine that exposes the GPUs it holds itself (Triton's `nv_gpu_*`) is a workload, not an exporter.
    """
    by_key = {(p.namespace, p.name): p for p in pods}
    found: set[PodKey] = set()
    for item in series:
        key = (item.target_namespace, item.target_pod)
        if item.target_pod and not (key in by_key and by_key[key].holds_gpu):
            found.add(key)
    for pod in pods:
        if not pod.holds_gpu and any(spellings.is_exporter_image(c.image) for c in pod.containers):
            found.add((pod.namespace, pod.name))
    return frozenset(found)


def names_of(series: tuple[DeviceSeries, ...], before: tuple[DeviceSeries, ...], exporters: frozenset[PodKey]) -> tuple[Naming, ...]:
    """What each series names, once labels that belong to the target by right are told apart."""
    owned = _target_labels([*series, *before], exporters)
    return tuple(_naming(item, owned, exporters) for item in series)


def _is_exporter(namespace: str, pod: str, exporters: frozenset[PodKey]) -> bool:
    return (namespace, pod) in exporters or (bool(pod) and not namespace and any(name == pod for _, name in exporters))


def _target_labels(series: Iterable[DeviceSeries], exporters: frozenset[PodKey]) -> frozenset[tuple[str, str]]:
    """(job, label) that hold the target's Pod by right: another label of the same job names workloads beside it."""
    names = {name for _, name in exporters}
    found: set[tuple[str, str]] = set()
    for item in series:
        own = item.spelling.get("pod", "")
        if item.pod and item.pod not in names:
            found |= {(item.job, label) for label, value in item.labels.items() if label != own and value in names}
    return frozenset(found)


def _naming(series: DeviceSeries, owned: frozenset[tuple[str, str]], exporters: frozenset[PodKey]) -> Naming:
    label = series.spelling.get("pod", "pod")
    if series.pod:
        if not _is_exporter(series.namespace, series.pod, exporters):
            return Naming(series, series.namespace, series.pod, series.container or _left_container(series))
        by_right = (series.job, label) in owned or (series.honor_labels is False and not label.startswith("exported_"))
        return Naming(series) if by_right else Naming(series, series.namespace, series.pod, series.container, exporter=True)
    target = (series.target_namespace, series.target_pod)
    left = series.labels.get("pod", "")
    if not left or left != series.target_pod:
        return Naming(series)
    if not _is_exporter(*target, exporters):  # an engine that exports the GPUs it holds
        return Naming(series, *target, series.target_container)
    if series.honor_labels is False or (series.job, "pod") in owned:
        return Naming(series)
    return Naming(series, *target, series.target_container, exporter=True)


def order(series: DeviceSeries) -> tuple[object, ...]:
    """A place for each series, so that the same facts give the same findings in any order."""
    return (series.job, series.instance, series.device, series.namespace, series.pod, series.container, sorted(series.labels.items()))


def once(told: Callable[[DeviceSeries], T]) -> Callable[[DeviceSeries], T]:
    """What is told of a series, worked out once: all readings of a device share one series."""
    held: dict[int, tuple[DeviceSeries, T]] = {}  # with the series, so that no other gets its id

    def of(series: DeviceSeries) -> T:
        if (known := held.get(id(series))) is None:
            known = held[id(series)] = (series, told(series))
        return known[1]

    return of


def current_series(series: tuple[DeviceSeries, ...], targets: tuple[Target, ...] | None) -> tuple[DeviceSeries, ...]:
    """The series less those of targets that are gone, where the target that took their place shows the device too.

    Right after a rollout a server may still answer with both for as long as its look-back.
    """
    if not targets:
        return series
    live = {(t.job, t.instance) for t in targets}
    seen = {(s.job, *key_of(s)) for s in series if (s.job, s.instance) in live}
    return tuple(s for s in series if (s.job, s.instance) in live or (s.job, *key_of(s)) not in seen)


def _left_container(series: DeviceSeries) -> str:
    """The target's container, where honor_labels leaves it beside the workload's Pod."""
    left = series.labels.get("container", "")
    plain = series.spelling.get("pod") == "pod"
    return left if plain and series.honor_labels and left == series.target_container else ""


# --- devices ----------------------------------------------------------------------------------------------------


def fold(gpu: str) -> str:
    """A UUID in the form that two exporters agree on."""
    text = gpu.strip().lower()
    return text.removeprefix("gpu-")


def key_of(series: DeviceSeries, uuids: Indices | None = None) -> DeviceKey:
    """The folded identity. `uuids`: (node, index) -> folded UUID, for exporters that print the index alone."""
    gpu = fold(series.gpu)
    return (series.node, (uuids or {}).get((series.node, gpu), gpu), series.gpu_instance)


def uuids_by_index(series: Iterable[DeviceSeries]) -> dict[tuple[str, str], str]:
    """(node, index or device name) -> UUID, where it is unambiguous."""
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in series:
        gpu = fold(item.gpu)
        indices = {item.labels.get(label, "").lower() for role, label in item.spelling.items() if role == "index"}
        indices |= {item.labels.get("device", "").lower(), item.labels.get("gpu", "").lower()}
        for index in indices - {"", gpu}:
            seen[(item.node, index)].add(gpu)
    return {key: next(iter(found)) for key, found in seen.items() if len(found) == 1}


def put_together(names: tuple[Naming, ...], load: Mapping[DeviceKey, tuple[bool, str]], uuids: Indices) -> dict[DeviceKey, Device]:
    """Devices from their series. A series without a GPU identity belongs to none."""
    grouped: dict[DeviceKey, list[Naming]] = defaultdict(list)
    for name in names:
        if name.series.gpu:
            grouped[key_of(name.series, uuids)].append(name)
    split = {(node, gpu) for node, gpu, instance in grouped if instance}
    devices: dict[DeviceKey, Device] = {}
    for key, members in grouped.items():
        printed = max((m.series.gpu for m in members), key=lambda g: (len(g), g))
        busy, text = load.get(key, (None, ""))
        parent = not key[2] and key[:2] in split
        devices[key] = Device(key, key[0], printed, key[2], tuple(members), parent, busy, text)
    return devices


def load_of(
    readings: Iterable[DeviceReading], rules: Rules, signals: Signals, rewrite: Mapping[str, str], uuids: Indices
) -> dict[DeviceKey, tuple[bool, str]]:
    """Device -> (busy, the reading that says so), from the concepts that show load."""
    found: dict[DeviceKey, tuple[bool, str]] = {}
    units: dict[str, str] = {}
    place = once(lambda series: key_of(series, uuids))
    for reading in readings:
        if reading.metric not in units:
            signal = signals.of(reading.metric, rewrite)
            units[reading.metric] = signal.unit if signal else ""
        busy = rules.busy(reading.concept, reading.metric, reading.value, units[reading.metric])
        if busy is None:
            continue
        key = place(reading.source)
        if key not in found or (busy and not found[key][0]):
            found[key] = (busy, f"{reading.metric} {reading.value:g}")
    return found
