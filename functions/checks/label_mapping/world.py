"""What label-mapping looks at, put together once: devices with the Pods their series name, Pods, nodes, exporters.

A device is one GPU or one MIG instance of a node. Two exporters may print it differently (`GPU-1a2b`, `1a2b`, an
index), so devices are keyed by a folded form while the subject keeps the form as printed. Nothing is judged here.
"""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from functions.contract.cluster import Node, Pod
from functions.contract.findings import Evidence, Subject
from functions.contract.policy import Policy
from functions.contract.report import instant
from functions.contract.telemetry import DeviceSeries, Target
from functions.knowledge.devices import DeviceKnowledge
from functions.knowledge.mapping import MappingKnowledge as Rules
from functions.places import Places

PodKey = tuple[str, str]
#: (node, index or device name) -> folded UUID
Indices = Mapping[tuple[str, str], str]
DeviceKey = tuple[str, str, str]

#: Seconds between two scrapes where no target says; the default of a stock Prometheus.
DEFAULT_INTERVAL = 60.0
#: Seconds after which Prometheus forgets a series that is no longer scraped.
STALENESS = 300.0


@dataclass(frozen=True, slots=True)
class Naming:
    """One device series, and the Pod it names to a person who reads it. `exporter`: that Pod is an exporter's own."""

    series: DeviceSeries
    namespace: str = ""
    pod: str = ""
    container: str = ""
    exporter: bool = False

    @property
    def key(self) -> PodKey:
        return (self.namespace, self.pod)

    @property
    def uid(self) -> str:
        return self.series.labels.get(self.series.spelling.get("pod_uid", ""), "")


@dataclass(frozen=True, slots=True)
class Device:
    """All series of one device. `parent`: a GPU that is split into instances, which are the devices people hold."""

    key: DeviceKey
    node: str
    gpu: str
    instance: str
    names: tuple[Naming, ...]
    parent: bool = False
    #: None where no reading tells
    busy: bool | None = None
    #: the reading that shows the load, for a person
    load: str = ""

    @property
    def named(self) -> tuple[Naming, ...]:
        """The series that name a Pod which is not an exporter's."""
        return tuple(n for n in self.names if n.pod and not n.exporter)

    @property
    def subject(self) -> dict[str, str]:
        parts = {"node": self.node, "gpu": self.gpu, "gpu_instance": self.instance}
        return {k: v for k, v in parts.items() if v}

    def __str__(self) -> str:
        instance = f" instance {self.instance}" if self.instance else ""
        return f"GPU {self.gpu or '(unnamed)'}{instance} of {self.node or 'a node that is not told'}"


@dataclass(frozen=True)
class World:
    """Everything the rules of label-mapping share. Built by `functions/checks/label_mapping/check.py`."""

    at: datetime
    policy: Policy
    rules: Rules
    spellings: DeviceKnowledge
    pod_list: tuple[Pod, ...]
    node_list: tuple[Node, ...]
    devices: Mapping[DeviceKey, Device]
    targets: tuple[Target, ...] | None
    exporters: frozenset[PodKey]
    #: jobs that have device series, now or before
    jobs: frozenset[str]

    @cached_property
    def pods(self) -> Mapping[PodKey, Pod]:
        return {(p.namespace, p.name): p for p in self.pod_list}

    @cached_property
    def pods_by_name(self) -> Mapping[str, tuple[Pod, ...]]:
        grouped: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.pod_list:
            grouped[pod.name].append(pod)
        return {name: tuple(pods) for name, pods in grouped.items()}

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {n.name: n for n in self.node_list}

    @cached_property
    def places(self) -> Places:
        return Places(self.node_list, self.pod_list, self.spellings)

    @cached_property
    def on_node(self) -> Mapping[str, tuple[Device, ...]]:
        """Node -> its devices, those that are split left out."""
        grouped: dict[str, list[Device]] = defaultdict(list)
        for device in self.devices.values():
            if not device.parent:
                grouped[device.node].append(device)
        return {node: tuple(devices) for node, devices in grouped.items()}

    @cached_property
    def pods_of_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Node -> the Pods there, finished ones too."""
        grouped: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.pod_list:
            grouped[pod.node].append(pod)
        return {node: tuple(pods) for node, pods in grouped.items()}

    def holders(self, node: str) -> tuple[Pod, ...]:
        """The Pods that hold a device of the node."""
        return tuple(p for p in self.pods_of_node.get(node, ()) if p.holds_gpu)

    @cached_property
    def jobs_that_name(self) -> frozenset[str]:
        """Jobs that name a Pod somewhere."""
        return frozenset(n.series.job for d in self.devices.values() for n in d.named)

    @cached_property
    def down(self) -> Mapping[str, str]:
        """Node -> an instance of a device job there whose last scrape failed."""
        found: dict[str, str] = {}
        for target in self.targets or ():
            exporter = (target.labels.get("namespace", ""), target.labels.get("pod", "")) in self.exporters
            if target.up or not (target.job in self.jobs or exporter):
                continue
            node = self.places.node_of(target.labels, target.instance)
            named = {target.labels.get(label, "") for label in self.spellings.target_node}
            found |= dict.fromkeys({node, *named} - {""}, target.instance)
        return found

    @cached_property
    def exporter_namespaces(self) -> frozenset[str]:
        return frozenset(namespace for namespace, _ in self.exporters)

    @cached_property
    def interval(self) -> float:
        """The slowest scrape interval of the device jobs."""
        known = [t.interval for t in self.targets or () if t.job in self.jobs and t.interval]
        return max(known, default=DEFAULT_INTERVAL)

    @property
    def grace(self) -> float:
        """Seconds for which a Pod that has ended may still be named: two scrapes and the exporter's own period."""
        return 2 * self.interval + self.rules.exporter_period

    @property
    def youth(self) -> float:
        """Seconds after its start in which a Pod need not be named yet: a scrape and the staleness time."""
        return self.interval + STALENESS

    def age(self, moment: datetime | None) -> float | None:
        """Seconds from a moment to now; None where it isn't known."""
        return None if moment is None else (self.at - moment).total_seconds()

    def young(self, pod: Pod) -> bool:
        """Whether the Pod's series can't be expected yet."""
        started = [c.started_at for c in pod.containers if c.started_at and (any(c.gpus.values()) or c.claims)]
        since = self.age(max(started, default=None) or pod.started_at or pod.created_at)
        return since is not None and since < self.youth

    def exempt(self, pod: Pod) -> bool:
        """Whether the policy takes the Pod out of every judgement."""
        if any(fnmatch.fnmatchcase(pod.namespace, glob) for glob in self.policy.exempt.namespaces):
            return True
        kind, _, name = pod.workload.partition("/")
        return any(fnmatch.fnmatchcase(f"{kind}/{pod.namespace}/{name}", glob) for glob in self.policy.exempt.workloads)

    def infrastructure(self, pod: Pod) -> bool:
        """Whether the Pod is part of the GPU stack itself: it sees every GPU of its node and holds none."""
        key = (pod.namespace, pod.name)
        if key in self.exporters or pod.namespace in self.rules.infrastructure_namespaces:
            return True
        if pod.namespace in self.exporter_namespaces and pod.workload.startswith("DaemonSet/"):
            return True
        return any(part in c.image for c in pod.containers for part in self.rules.infrastructure_images)

    def replicas(self, node: str) -> int:
        """How many Pods may share one device of the node (time-slicing, MPS); 1 where none is shared."""
        found = self.nodes.get(node)
        if found is None:
            return 1
        declared = [int(v) for k in self.rules.replica_labels if (v := found.labels.get(k, "")).isdigit()]
        shared = any(r.endswith(".shared") for r in found.capacity)
        marked = any(found.labels.get(k, "").upper().endswith("-SHARED") for k in self.rules.product_labels)
        return max([1, *declared, 2 if shared or marked else 1])

    def expected(self, node: str) -> int:
        """Devices the node should show: its capacity of GPU resources, a shared device once."""
        found = self.nodes.get(node)
        if found is None:
            return 0
        gpus = sum(n for resource, n in found.capacity.items() if self.spellings.resource_kind(resource))
        return gpus // self.replicas(node)

    @property
    def now(self) -> str:
        return instant(self.at) or ""

    def series_evidence(self, series: DeviceSeries) -> Evidence:
        """The label set of a series as stored, with a selector that finds it."""
        shown = ", ".join(f'{k}="{v}"' for k, v in sorted(series.labels.items()) if k not in ("job", "instance"))
        return Evidence("prometheus", f'{{job="{series.job}", instance="{series.instance}"}}', f"{{{shown}}}", self.now)

    def pod_evidence(self, pod: Pod) -> Evidence:
        """The Pod as the API server has it."""
        wants = ", ".join(f"{c.name}: {r}={n}" for c in pod.containers for r, n in c.gpus.items() if n)
        claims = ", ".join(pod.claims.values())
        parts = [f"phase {pod.phase}", f"node {pod.node or '(none)'}"]
        parts += [f"requests {wants}"] if wants else [f"claims {claims}"] if claims else ["requests no GPU"]
        return Evidence("kubernetes", f"Pod {pod.namespace}/{pod.name}", ", ".join(parts), self.now)


def pod_subject(pod: Pod, **more: str) -> Subject:
    """A subject for a Pod that exists."""
    workload = {"workload": pod.workload} if pod.workload else {}
    return Subject(namespace=pod.namespace, pod=pod.name, **workload, **more)
