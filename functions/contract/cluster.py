"""What Kubernetes says, reduced to what a check looks at. Filled from raw JSON by `functions/evidence/objects.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a Pod (init containers that keep running, side-cars, are containers too)."""

    name: str
    image: str = ""
    #: Extended GPU resources it requests, by resource name ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb"): a count.
    gpus: Mapping[str, int] = field(default_factory=dict)
    #: Names of the Pod's resource claims it uses (dynamic resource allocation).
    claims: tuple[str, ...] = ()
    restarts: int = 0
    #: When the running instance started; None when it is not running.
    started_at: datetime | None = None
    #: The containerPorts it declares. A container may listen on others.
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod. `workload` is the owner a person thinks of: Kind/name, the Deployment rather than its ReplicaSet."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    workload: str
    containers: tuple[Container, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    ip: str = ""
    ready: bool = False
    created_at: datetime | None = None
    started_at: datetime | None = None
    #: When its last container ended, for a finished Pod.
    finished_at: datetime | None = None
    #: deletionTimestamp: it is being deleted.
    deleted_at: datetime | None = None
    #: spec name of a claim -> name of the ResourceClaim object that was made for it.
    claims: Mapping[str, str] = field(default_factory=dict)
    #: controller-revision-hash or pod-template-hash, whichever is there.
    revision: str = ""

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def gpus(self) -> Mapping[str, int]:
        """Requested GPU resources over all containers."""
        total: dict[str, int] = {}
        for container in self.containers:
            for resource, count in container.gpus.items():
                total[resource] = total.get(resource, 0) + count
        return total

    @property
    def holds_gpu(self) -> bool:
        """Running on a node with a GPU request or claim: it has a device of its own now."""
        return bool(self.node) and self.phase == "Running" and (any(self.gpus.values()) or bool(self.claims))


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node. `capacity` and `allocatable` hold the extended (accelerator) resources only."""

    name: str
    uid: str = ""
    boot_id: str = ""
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    #: condition type -> status ("True", "False", "Unknown")
    conditions: Mapping[str, str] = field(default_factory=dict)
    #: every address the node lists (InternalIP, Hostname, …)
    addresses: tuple[str, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Deployment, StatefulSet, DaemonSet, ReplicaSet, Job … with its raw template for the checks that read it."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    replicas: int | None = None
    ready: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: the Pod template, raw
    template: Mapping[str, Any] = field(default_factory=dict)
    #: templates of older revisions (ControllerRevisions, ReplicaSets), newest first, raw
    older_templates: tuple[Mapping[str, Any], ...] = ()
    #: Kind/name of the object that controls this one (a ReplicaSet's Deployment), "" where nothing does
    owner: str = ""

    @property
    def ref(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """Only those an audit reads: exporter field lists, dashboards, experiments."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    namespace: str
    name: str
    match_labels: Mapping[str, str]
    allowed: int | None
    current_healthy: int | None = None
    desired_healthy: int | None = None


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    """A core/v1 or events.k8s.io Event, in one shape."""

    uid: str
    reason: str
    type: str
    message: str
    kind: str
    namespace: str
    name: str
    count: int
    first_at: datetime | None
    last_at: datetime | None
    source: str = ""


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """resource.k8s.io ResourceClaim. `devices`: (driver, pool, device) of its allocation; empty when not allocated."""

    namespace: str
    name: str
    devices: tuple[tuple[str, str, str], ...]
    #: (namespace, pod name, pod uid) it is reserved for
    reserved_for: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """resource.k8s.io ResourceSlice. `devices`: name -> attributes as strings (uuid, productName, type, …)."""

    name: str
    node: str
    driver: str
    pool: str
    devices: Mapping[str, Mapping[str, str]]
