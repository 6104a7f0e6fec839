"""From stored rows to devices: which node, which GPU, and which workload's Pod a series names.

Exporters and pipelines spell labels differently; the spellings are knowledge (`devices.yaml`). The collision rule of
Prometheus is undone here: a label that is the target's by right names no workload. Nothing is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from functions.contract.cluster import Node, Pod
from functions.contract.policy import Policy
from functions.contract.telemetry import DeviceSeries, Row, Target
from functions.knowledge import Knowledge

_ROLES = ("gpu", "gpu_instance", "profile", "index", "host", "pod_uid")


@dataclass(frozen=True, slots=True)
class _World:
    targets: Mapping[tuple[str, str], Target]
    nodes: Mapping[str, str]
    pod_nodes: Mapping[tuple[str, str], str]
    ips: Mapping[str, str]


def resolve(
    rows: Iterable[Row], targets: Iterable[Target], nodes: Sequence[Node], pods: Sequence[Pod], knowledge: Knowledge, policy: Policy
) -> tuple[DeviceSeries, ...]:
    """One `DeviceSeries` a row. Rows are grouped by identity and attribution labels; their value is a number of series."""
    world = _World(
        {(t.job, t.instance): t for t in targets},
        {spelling.lower(): node.name for node in nodes for spelling in _names(node)},
        {(p.namespace, p.name): p.node for p in pods},
        {p.ip: p.node for p in pods if p.ip and p.node},
    )
    return tuple(_device(row, world, knowledge, policy) for row in rows)


def _names(node: Node) -> Iterable[str]:
    yield from node.addresses
    if hostname := node.labels.get("kubernetes.io/hostname"):
        yield hostname
    yield node.name


def _device(row: Row, world: _World, knowledge: Knowledge, policy: Policy) -> DeviceSeries:
    labels = {k: v for k, v in row.labels.items() if v}
    job, instance = labels.pop("job", ""), labels.pop("instance", "")
    target = world.targets.get((job, instance))
    attached: Mapping[str, str] = target.labels if target else {}
    honor = target.honor_labels if target else None
    spelling: dict[str, str] = {}
    values: dict[str, str] = {}
    for role in _ROLES:
        name = next((n for n in knowledge.devices.spellings(role, policy) if labels.get(n)), "")
        if name:
            spelling[role], values[role] = name, labels[name]
    gpu = values.get("gpu") or values.get("index", "")
    namespace, pod, container = _named(labels, attached, honor, knowledge, spelling)
    return DeviceSeries(
        job,
        instance,
        labels,
        int(row.value),
        spelling,
        node_of(attached, values.get("host", ""), instance, world, knowledge),
        gpu,
        values.get("gpu_instance", ""),
        values.get("profile", ""),
        values.get("host", ""),
        namespace,
        pod,
        container,
        attached.get("namespace", ""),
        attached.get("pod", ""),
        attached.get("container", ""),
        honor,
    )


def _named(
    labels: Mapping[str, str], attached: Mapping[str, str], honor: bool | None, knowledge: Knowledge, spelling: dict[str, str]
) -> tuple[str, str, str]:
    """The workload that a series names, after what is the target's by right is taken away."""
    for family in knowledge.devices.attribution:
        pod = labels.get(family.pod)
        if not pod:
            continue
        if family.family == "plain" and attached.get(family.pod) and (honor is False or pod == attached[family.pod]):
            continue  # the target's own label
        spelling |= {
            role: name
            for role, name in (("namespace", family.namespace), ("pod", family.pod), ("container", family.container))
            if labels.get(name)
        }
        return labels.get(family.namespace, ""), pod, labels.get(family.container, "")
    return "", "", ""


def node_of(attached: Mapping[str, str], host: str, instance: str, world: _World, knowledge: Knowledge) -> str:
    """The node of a target: its node label, its host label, its exporter Pod, its address; "" where none tells."""
    for candidate in (*(attached.get(name, "") for name in knowledge.devices.target_node), host):
        if candidate and (node := world.nodes.get(candidate.lower())):
            return node
    if node := world.pod_nodes.get((attached.get("namespace", ""), attached.get("pod", ""))):
        return node
    address = instance.rpartition(":")[0].strip("[]") or instance
    return world.ips.get(address) or world.nodes.get(address.lower(), "")
