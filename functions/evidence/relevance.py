"""Which jobs, targets and metric names an audit is about. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from functions.contract.cluster import Node, Pod
from functions.contract.policy import Policy
from functions.contract.rules import Matcher
from functions.contract.signals import Scope
from functions.contract.telemetry import Target
from functions.knowledge import Knowledge
from functions.knowledge.devices import ATTRIBUTION, ROLES
from functions.places import host_of

#: Concepts whose value is read device by device.
READ = (
    "gpu.utilization",
    "gpu.engine_active",
    "gpu.power",
    "gpu.temperature",
    "gpu.memory.used",
    "gpu.memory.free",
    "gpu.energy",
    "gpu.clock.sm",
    "gpu.xid",
)


@dataclass(frozen=True, slots=True)
class Names:
    """The metric and label names that an audit looks for, as they are stored."""

    #: metrics of single devices
    devices: Matcher
    #: leaves out series that carry a device label and are about something else (links, switches, CPUs)
    one_device: tuple[Matcher, ...]
    #: labels that tell a device and a workload, job and instance included
    by: tuple[str, ...]
    #: metrics that are read device by device -> their concept
    read: Mapping[str, str]
    #: every metric of the catalogue that tells of devices, workloads or requests, with the suffixes of its type
    signals: frozenset[str]


def names(knowledge: Knowledge, policy: Policy) -> Names:
    """The names, with the spellings and prefixes that the policy adds."""
    devices, rewrite = knowledge.devices, policy.signals.rewrite
    roles = [label for role in (*ROLES, *ATTRIBUTION) for label in devices.spellings(role, policy)]
    read = {name: concept for concept in READ for family in knowledge.signals.metrics(concept, rewrite) for name in _counted(family)}
    told = [signal for signal in knowledge.signals.signals if signal.layer != "telemetry"]  # that every job has
    stored = {s for signal in told for s in (*signal.spellings, *_rewritten(signal.spellings, rewrite))}
    return Names(
        devices=Matcher("__name__", "=~", devices.pattern_for(policy)),
        one_device=tuple(Matcher(label, "=", "") for label in devices.other_entities),
        by=tuple(dict.fromkeys(["job", "instance", *roles, *devices.target_node, *devices.server_replicas, *devices.clusters])),
        read=read,
        signals=frozenset(n for name in stored for n in (*_counted(name), f"{name}_count", f"{name}_bucket")),
    )


def _counted(name: str) -> tuple[str, str]:
    """A counter is stored with or without `_total`, by the format and the client library that wrote it."""
    return name, name.removesuffix("_total") if name.endswith("_total") else f"{name}_total"


def _rewritten(spellings: Iterable[str], rewrite: Mapping[str, str]) -> list[str]:
    return [stored + s.removeprefix(printed) for s in spellings for stored, printed in rewrite.items() if s.startswith(printed)]


def concerned(pods: Iterable[Pod], scope: Scope, knowledge: Knowledge) -> frozenset[tuple[str, str]]:
    """Pods whose targets matter even while they show nothing: exporters, and those that the audit is about."""

    def matters(pod: Pod) -> bool:
        if any(knowledge.devices.is_exporter_image(c.image) for c in pod.containers):
            return True
        if scope.kind == "namespace":
            return pod.namespace == scope.name
        return pod.namespace == scope.namespace and pod.workload == f"{scope.kind}/{scope.name}"

    return frozenset((p.namespace, p.name) for p in pods if matters(p))


def jobs_of(labels: Iterable[Mapping[str, str]], pods: frozenset[tuple[str, str]], knowledge: Knowledge) -> frozenset[str]:
    """Jobs of the targets that belong to those Pods, or that are named after an exporter."""
    exporters = tuple(row.part.rpartition("/")[2] for row in knowledge.devices.exporter_images)
    return frozenset(
        job
        for target in labels
        if (job := target.get("job", ""))
        and ((target.get("namespace", ""), target.get("pod", "")) in pods or any(part in job.lower() for part in exporters))
    )


def on_node(targets: Iterable[Target], name: str, nodes: Sequence[Node], pods: Sequence[Pod]) -> tuple[Target, ...]:
    """Targets of one node: by a label that names it, by an address of it, or by a Pod that runs there."""
    here = [p for p in pods if p.node == name]
    addresses = {a for n in nodes if n.name == name for a in n.addresses} | {p.ip for p in here if p.ip} | {name}
    running = {(p.namespace, p.name) for p in here}
    return tuple(
        t
        for t in targets
        if name in t.labels.values()
        or host_of(t.instance) in addresses
        or (t.labels.get("namespace", ""), t.labels.get("pod", "")) in running
    )


def moved_away(target: Target, scraped: frozenset[str], name: str, pods: Sequence[Pod]) -> bool:
    """Whether a target of a node went with its Pod: neither it nor another Pod of its workload is on the node any more."""
    pod = target.labels.get("pod", "")
    if not pod or target.instance in scraped:
        return False
    here = [p for p in pods if p.node == name and p.namespace == target.labels.get("namespace", "")]
    return not any(p.name == pod or (p.workload and pod.startswith(f"{p.workload.partition('/')[2]}-")) for p in here)
