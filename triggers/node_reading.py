"""What a raw Node and the Pods on it say about a disruption. Pure reading, no memory: `drains.py` remembers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functions.contract.times import text_time

Raw = Mapping[str, Any]

#: NVIDIA/k8s-operator-libs pkg/upgrade/consts.go: the operator walks the node through these states
UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
_UPGRADE_IDLE = frozenset({"", "upgrade-done", "upgrade-required", "upgrade-failed"})
_UPGRADE_DRAINS = frozenset({"pod-deletion-required", "drain-required"})
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_MIRROR = "kubernetes.io/config.mirror"
#: why a Pod gets the condition DisruptionTarget when its node is emptied
_DRAIN_REASONS = frozenset({"EvictionByEvictionAPI", "DeletionByTaintManager"})
#: Node conditions of KEP-5683, set by whoever maintains the node
_PLANNED = ("MaintenancePlanned", "MaintenanceInProgress", "GracefulNodeShutdownInProgress", "DrainInProgress", "Drained")


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a Node."""

    name: str
    uid: str = ""
    boot: str = ""
    created: datetime | None = None
    ready: bool = False
    ready_reason: str = ""
    ready_since: datetime | None = None
    #: the last the kubelet said
    heartbeat: datetime | None = None
    unschedulable: bool = False
    cordoned_at: datetime | None = None
    #: extended resources by domain ("nvidia.com"): how many there are
    devices: Mapping[str, int] = field(default_factory=dict)
    #: "nvidia.com/gpu: 6 of 8 allocatable"
    short: tuple[str, ...] = ()
    upgrade: str = ""
    drained: bool = False
    drain_in_progress: bool = False
    in_maintenance: bool = False
    #: the conditions that announce this absence
    planned: tuple[str, ...] = ()

    @property
    def upgrading(self) -> bool:
        return self.upgrade not in _UPGRADE_IDLE

    @property
    def upgrade_drains(self) -> bool:
        return self.upgrade in _UPGRADE_DRAINS

    @property
    def upgrade_failed(self) -> bool:
        return self.upgrade == "upgrade-failed"


def read(node: Raw) -> Reading:
    """What the Node object says."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    true = {name for name, condition in conditions.items() if condition.get("status") == "True"}
    taints = spec.get("taints") or ()
    capacity, allocatable = _extended(status.get("capacity")), _extended(status.get("allocatable"))
    names = sorted(capacity.keys() | allocatable.keys())
    return Reading(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        boot=(status.get("nodeInfo") or {}).get("bootID", ""),
        created=text_time(metadata.get("creationTimestamp")),
        ready="Ready" in true,
        ready_reason=str(ready.get("reason", "")),
        ready_since=text_time(ready.get("lastTransitionTime")),
        heartbeat=text_time(ready.get("lastHeartbeatTime")),
        unschedulable=bool(spec.get("unschedulable")),
        cordoned_at=next((text_time(t.get("timeAdded")) for t in taints if t.get("key") == _CORDON_TAINT), None),
        devices=_by_domain(capacity),
        short=tuple(
            f"{name}: {allocatable.get(name, 0)} of {capacity.get(name, 0)} allocatable"
            for name in names
            if allocatable.get(name, 0) != capacity.get(name, 0)
        ),
        upgrade=(metadata.get("labels") or {}).get(UPGRADE_LABEL, ""),
        drained="Drained" in true,
        drain_in_progress="DrainInProgress" in true,
        in_maintenance="MaintenanceInProgress" in true,
        planned=tuple(name for name in _PLANNED if name in true),
    )


def _extended(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Resources that device plugins register: counted in whole numbers, named by a domain that isn't Kubernetes' own."""
    out = {}
    for name, quantity in (quantities or {}).items():
        domain, slash, _ = name.partition("/")
        if slash and not domain.endswith("kubernetes.io") and str(quantity).isdigit():
            out[name] = int(quantity)
    return out


def _by_domain(resources: Mapping[str, int]) -> dict[str, int]:
    """Totals by domain: repartitioning moves devices from one resource name to another of the same vendor."""
    totals: dict[str, int] = {}
    for name, count in resources.items():
        domain = name.partition("/")[0]
        totals[domain] = totals.get(domain, 0) + count
    return {domain: count for domain, count in totals.items() if count}


def evictable(pods: Iterable[Raw]) -> list[Raw]:
    """Pods that a drain has to move: not a DaemonSet's, no mirror of a static Pod, not finished."""
    return [
        pod
        for pod in pods
        if not _daemon_set_of(pod)
        and _MIRROR not in (pod["metadata"].get("annotations") or {})
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]


def _daemon_set_of(pod: Raw) -> str:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == "DaemonSet" and owner.get("controller"):
            return f"{pod['metadata'].get('namespace', '')}/{owner['name']}"
    return ""


def daemon_sets(pods: Iterable[Raw]) -> frozenset[str]:
    """The DaemonSets that have a Pod here, as namespace/name."""
    return frozenset(filter(None, map(_daemon_set_of, pods)))


def fingerprint(pods: Iterable[Raw]) -> str:
    """Identity of a set of Pods, short enough to keep."""
    return hashlib.sha256(" ".join(sorted(str(p["metadata"].get("uid", "")) for p in pods)).encode()).hexdigest()[:16]


def leaving_until(pods: Iterable[Raw]) -> datetime | None:
    """Until when the slowest Pod that is being removed may take; None if none is.

    deletionTimestamp is the end of the grace period. An eviction also leaves the condition DisruptionTarget; a drain
    with `--disable-eviction` deletes and leaves none.
    """
    times: list[datetime | None] = []
    for pod in pods:
        if until := text_time(pod["metadata"].get("deletionTimestamp")):
            times.append(until)
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
                times.append(text_time(condition.get("lastTransitionTime")))
    return max((time for time in times if time), default=None)


def being_drained(pods: Sequence[Raw]) -> bool:
    """Whether somebody removes Pods because of the node, not because a controller replaces one of its own.

    The mark is the reason that an eviction or a NoExecute taint leaves on a Pod. `kubectl drain --disable-eviction`
    leaves none, but asks for all of them at once.
    """
    return any(
        condition.get("type") == "DisruptionTarget" and condition.get("status") == "True" and condition.get("reason") in _DRAIN_REASONS
        for pod in pods
        for condition in (pod.get("status") or {}).get("conditions") or ()
    ) or (bool(pods) and all(pod["metadata"].get("deletionTimestamp") for pod in pods))


def blocking(pods: Sequence[Raw], budgets: Iterable[Raw]) -> tuple[list[str], bool]:
    """The PodDisruptionBudgets (namespace/name) that allow no disruption of one of the Pods, and whether every Pod that
    isn't leaving already is held by one."""
    strict = [b for b in budgets if int((b.get("status") or {}).get("disruptionsAllowed") or 0) <= 0]
    names: set[str] = set()
    held = True
    for pod in pods:
        metadata = pod["metadata"]
        holders = {
            f"{metadata.get('namespace', '')}/{b['metadata']['name']}"
            for b in strict
            if b["metadata"].get("namespace", "") == metadata.get("namespace", "")
            and _selects((b.get("spec") or {}).get("selector"), metadata.get("labels") or {})
        }
        held = held and bool(holders or metadata.get("deletionTimestamp"))
        names |= holders
    return sorted(names), held


def _selects(selector: Raw | None, labels: Mapping[str, str]) -> bool:
    """A label selector; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    return all(_expression(e, labels) for e in selector.get("matchExpressions") or ())


def _expression(expression: Raw, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def missing(seen: Reading, state: Mapping[str, Any], pods: Sequence[Raw] | None, living: frozenset[str] | None) -> list[str]:
    """What a node that is Ready and schedulable still lacks, in words; empty when it is wholly back."""
    lacks = list(seen.short)
    for domain, before in sorted(state["gpus"].items()):
        if before and not seen.devices.get(domain):
            lacks.append(f"no {domain} devices registered ({before} before)")
    if seen.upgrading:
        lacks.append(f"GPU driver upgrade: {seen.upgrade}")
    if seen.in_maintenance:
        lacks.append("in maintenance")
    if pods is None:
        return lacks
    unready = {_daemon_set_of(p) for p in pods if not _is_ready(p)} - {""}
    lacks += [f"DaemonSet {name} not Ready here" for name in sorted(unready)]
    expected = set(state["daemons"]) if living is None else set(state["daemons"]) & living
    lacks += [f"no Pod of DaemonSet {name}" for name in sorted(expected - daemon_sets(pods))]
    return lacks


def _is_ready(pod: Raw) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in (pod.get("status") or {}).get("conditions") or ())
