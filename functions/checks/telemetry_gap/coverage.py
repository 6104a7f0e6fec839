"""Whether every GPU node is covered, and every device of it is seen. One finding a node.

Expected are the node's own figures: capacity of GPU resources, a device that several Pods share counted once, MIG
instances counted as instances; under dynamic resource allocation the devices of its ResourceSlices. A target that is
down, planned maintenance, or a node that has only just joined explain what is missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import Part, World, finding
from functions.contract.cluster import Node, ResourceSlice
from functions.contract.findings import Evidence, Finding, Subject, Unjudged, Verdict
from functions.contract.telemetry import DeviceSeries

#: GPU feature discovery counts the whole GPUs of a node under this label.
GPU_COUNT = "nvidia.com/gpu.count"
MIG_STRATEGY = "nvidia.com/mig.strategy"
#: Software that splits devices by its own accounting marks the node with annotations of this prefix, and lists them there.
SPLITTERS = ("hami.io/", "volcano.sh/")
_DEVICE_ID = re.compile(r"\b(?:GPU|MLU|DCU|GCU|NPU)-[0-9A-Za-z-]{6,}")


@dataclass(frozen=True, slots=True)
class Expected:
    """How many devices a node should show, how that was counted, and how many of them it offers."""

    devices: int
    offered: int
    how: str
    #: the figure is an upper bound: a splitter multiplies it in a way that is not written down
    uncertain: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """Devices of one node as one job prints them: instances, and GPUs without instances."""

    leaves: frozenset[tuple[str, str]]
    gpus: frozenset[str]
    job: str


def judge_coverage(world: World, scrapes: Scrapes, slices: Iterable[ResourceSlice], before: Iterable[DeviceSeries] | None) -> Part:
    """Judge every node that has GPUs."""
    part = Part()
    if world.node_list is None or world.device_list is None:
        return part
    seen, seen_before = _seen(world.device_list), _seen(before or ())
    lost_somewhere = any(not s.node for s in world.device_list)
    by_slice = _slice_devices(world, slices)
    for node in world.node_list:
        expected = expected_devices(world, node, by_slice.get(node.name, 0))
        if expected is None:
            continue
        subject = Subject(node=node.name)
        here = seen.get(node.name)
        complete = here is not None and len(here.leaves) >= expected.devices
        if complete or world.planned(node.name):
            part.judged += 1
        elif code := scrapes.broken_nodes.get(node.name):
            part.unjudged.append(Unjudged(subject, f"its exporter can't be read: see telemetry-gap/{code}"))
        elif world.young(node.created_at):
            part.unjudged.append(Unjudged(subject, "the node joined only minutes ago; its exporter may still start"))
        elif here is None and world.target_list is None:
            part.unjudged.append(Unjudged(subject, "no device series, and whether its exporter can be read is not known"))
        elif here is None and lost_somewhere:
            part.unjudged.append(Unjudged(subject, "there are device series whose node can't be told; they may be its own"))
        else:
            part.judged += 1
            part.findings.append(
                _uncovered(world, node, expected) if here is None else _missing(world, node, expected, here, seen_before.get(node.name))
            )
    return part


def expected_devices(world: World, node: Node, in_slices: int = 0) -> Expected | None:
    """What the node should show; None where it has no GPUs."""
    whole = offered = instances = instances_offered = 0
    kinds = world.knowledge.devices
    replicas = replicas_of(world, node)
    for resource, count in node.capacity.items():
        kind = kinds.resource_kind(resource)
        copies = _copies(node, resource, replicas)
        if kind == "device":
            whole += count // copies
            offered += node.allocatable.get(resource, 0) // copies
        elif kind == "instance":
            instances += count // copies
            instances_offered += node.allocatable.get(resource, 0) // copies
    if not whole + instances:
        return Expected(in_slices, in_slices, f"{in_slices} devices in its ResourceSlices") if in_slices else None
    how = f"capacity {', '.join(f'{r} {n}' for r, n in sorted(node.capacity.items()) if n)}"
    if replicas > 1:
        how += f", {replicas} shares a device"
    counted = node.labels.get(GPU_COUNT, "")
    if counted.isdigit() and 0 < int(counted) < whole and node.labels.get(MIG_STRATEGY) != "single":
        whole, offered = int(counted), min(offered, int(counted))
        how += f", {GPU_COUNT} {counted}"
    if listed := _listed(node):
        whole, offered = min(whole, listed), min(offered, listed)
        how += f", {listed} in its device list"
    split = any(key.startswith(SPLITTERS) for key in node.annotations)
    return Expected(whole + instances, offered + instances_offered, how, split and not listed and not counted.isdigit())


def _listed(node: Node) -> int:
    """Devices that a splitter lists in the node's annotations; 0 where it lists none."""
    lists = [value for key, value in node.annotations.items() if key.startswith(SPLITTERS)]
    return max((len(set(_DEVICE_ID.findall(value))) for value in lists), default=0)


def replicas_of(world: World, node: Node) -> int:
    """How many Pods may share one GPU of the node."""
    declared = [int(v) for label in world.knowledge.mapping.replica_labels if (v := node.labels.get(label, "")).isdigit()]
    return max([1, *declared])


def _copies(node: Node, resource: str, replicas: int) -> int:
    """Shares a unit of this resource is: a MIG resource has a replicas label of its own."""
    own = node.labels.get(f"{resource.removesuffix('.shared')}.replicas", "")
    if own.isdigit():
        return max(1, int(own))
    return replicas if "/mig-" not in resource else 1


def _slice_devices(world: World, slices: Iterable[ResourceSlice]) -> Mapping[str, int]:
    """node -> whole GPUs that its drivers announce."""
    drivers = world.knowledge.mapping.claim_drivers
    found: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    for slice_ in slices:
        if slice_.node and slice_.driver in drivers:
            whole = [name for name, attributes in slice_.devices.items() if attributes.get("type", "gpu") == "gpu"]
            found[slice_.node] |= {(slice_.driver, slice_.pool, name) for name in whole}
    return {node: len(devices) for node, devices in found.items()}


def _seen(series: Iterable[DeviceSeries]) -> dict[str, Seen]:
    """node -> the devices that the job which sees most of it prints. Two exporters may spell one device differently."""
    by_job: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for item in series:
        if item.node and item.gpu:
            by_job[item.node, item.job].add((item.gpu, item.gpu_instance))
    best: dict[str, Seen] = {}
    for (node, job), devices in sorted(by_job.items()):
        split = {gpu for gpu, instance in devices if instance}
        leaves = frozenset(d for d in devices if d[1] or d[0] not in split)
        if node not in best or len(leaves) > len(best[node].leaves):
            best[node] = Seen(leaves, frozenset(gpu for gpu, _ in devices), job)
    return best


def _uncovered(world: World, node: Node, expected: Expected) -> Finding:
    exporters, here = world.exporters_on.get(node.name, []), world.targets_on.get(node.name, [])
    scraped = [t for t in here if t.up and (pod := world.pod_of(t)) and pod in exporters]
    targets = [t for t in here if t.job in world.device_jobs]
    hint = (
        "Check nodeSelector, tolerations and affinity of the exporter's DaemonSet against the labels and taints of this node, "
        "and that its Pod there is selected by the ServiceMonitor."
    )
    if targets:
        observed = f"target {targets[0].instance} is up and tells of no device"
    elif scraped:
        observed = f"target {scraped[0].instance} of job {scraped[0].job} is up, and none of its metrics is known as a device's"
        hint = (
            f"Look at the metric names of job {scraped[0].job}: a prefix that this site adds belongs in the policy (signals.rewrite); "
            "else look for a relabelling that drops them, or for devices that the exporter can't see."
        )
    elif exporters:
        observed = f"no device series; exporter Pod {exporters[0].namespace}/{exporters[0].name} is {exporters[0].phase} and has no target"
    elif world.pod_list is None:
        observed = "no device series and no target of a GPU exporter"
    else:
        observed = "no device series, no target and no Pod of a known GPU exporter"
    not_ready = "" if node.ready else " The node is NotReady: bring it back first."
    return finding(
        "node-uncovered",
        Subject(node=node.name),
        f"nothing tells about the GPUs of node {node.name}",
        observed=observed,
        expected=f"{expected.devices} devices ({expected.how})",
        hint=hint + not_ready,
        evidence=[Evidence("kubernetes", f"Node/{node.name}", expected.how, world.at)],
    )


def _missing(world: World, node: Node, expected: Expected, here: Seen, before: Seen | None) -> Finding:
    gone = sorted(before.leaves - here.leaves) if before and before.job == here.job else []
    named = ", ".join(f"{gpu} instance {instance}" if instance else gpu for gpu, instance in gone)
    withheld = len(here.leaves) >= expected.offered
    unsure = withheld or expected.uncertain
    observed = f"job {here.job} shows {len(here.leaves)} of {expected.devices} devices"
    if gone:
        observed += f"; gone since the baseline: {named}"
    if withheld:
        observed += f"; the node itself offers only {expected.offered}, so the rest may be withheld as broken"
    return finding(
        "device-missing",
        Subject(node=node.name),
        f"{expected.devices - len(here.leaves)} of {expected.devices} devices of node {node.name} have no series",
        observed=observed,
        expected=f"{expected.devices} devices ({expected.how})",
        hint="Compare nvidia-smi -L (or the vendor's tool) on the node with the exporter's device list: DCGM_EXPORTER_DEVICES_STR or -d "
        "may restrict it, a GPU may have fallen off the bus, or the exporter enumerated before the driver was complete; restart its Pod.",
        verdict=Verdict.UNKNOWN if unsure else Verdict.FAIL,
        evidence=[
            Evidence("kubernetes", f"Node/{node.name}", expected.how, world.at),
            Evidence(
                "prometheus",
                f'group by (UUID, GPU_I_ID) ({{job="{here.job}", __name__=~"{world.knowledge.devices.metric_pattern}"}})',
                ", ".join(sorted(here.gpus))[:300],
                world.at,
            ),
        ],
    )
