"""How far a Deployment, StatefulSet or DaemonSet has come with its current template, read from raw objects.

Pure reading, no memory: what has changed since is `rollouts.py`'s business. The conditions are those of the
controllers themselves; `kubectl rollout status`, kstatus and Argo CD disagree on OnDelete, paused and partitions,
and all three call an OnDelete set complete too early (kubernetes/kubernetes#73492).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functions.contract.times import text_time

Raw = Mapping[str, Any]

KINDS = ("Deployment", "StatefulSet", "DaemonSet")
#: progressDeadlineSeconds with this value means: no deadline
_NO_DEADLINE = 2**31 - 1
#: Node conditions of KEP-5683; set by whoever maintains the node
_MAINTENANCE = ("MaintenanceInProgress", "DrainInProgress", "Drained")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known around a workload. None: not looked at, so nothing is concluded from it."""

    #: the workload's own Pods
    pods: Sequence[Raw] | None = None
    #: its ControllerRevisions
    revisions: Sequence[Raw] | None = None
    #: every Node
    nodes: Sequence[Raw] | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """One reading. `revision` is the server's own name of the template, empty where there is none."""

    revision: str
    template: str
    generation: int
    want: int
    updated: int
    available: int
    complete: bool
    #: Pods of an old template are being replaced
    rolling: bool
    paused: bool = False
    failure: str = ""
    #: identity of the failure condition: one that was there before the rollout says nothing about it
    failure_mark: str = ""
    failure_final: bool = False
    #: whether a timer of ours should run now
    timed: bool = True
    #: how many batches the strategy needs; None where people set the pace
    waves: int | None = 1
    #: StatefulSet partition
    stage: int = 0
    #: nodes that could not take part, and why
    excluded: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)

    @property
    def score(self) -> int:
        """Grows with every step forward."""
        return 2 * self.updated + self.available


def read(workload: Raw, around: Surroundings) -> Progress:
    """How far the workload has come. Its kind is one of KINDS."""
    return {"Deployment": _deployment, "StatefulSet": _stateful_set, "DaemonSet": _daemon_set}[workload["kind"]](workload, around)


def created_at(workload: Raw) -> datetime | None:
    return text_time(workload["metadata"].get("creationTimestamp"))


def template_changed_at(workload: Raw) -> datetime | None:
    """When a manager of the template last wrote it, by the server's clock; None where it keeps no record."""
    times = [
        text_time(entry.get("time"))
        for entry in workload["metadata"].get("managedFields") or ()
        if not entry.get("subresource") and "f:template" in (entry.get("fieldsV1") or {}).get("f:spec", {})
    ]
    return max((time for time in times if time), default=None)


def _common(workload: Raw, revision: str) -> dict[str, Any]:
    template = workload["spec"].get("template") or {}
    spec = template.get("spec") or {}
    canonical = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return {
        "revision": revision,
        "template": hashlib.sha256(canonical.encode()).hexdigest(),
        "generation": _count(workload["metadata"], "generation"),
        "images": {c.get("name", ""): c.get("image", "") for c in spec.get("containers") or ()},
    }


def _count(holder: Raw, key: str, default: int = 0) -> int:
    value = holder.get(key)
    return default if value is None else int(value)


def _deployment(workload: Raw, _around: Surroundings) -> Progress:
    spec, status = workload["spec"], workload.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    progressing = conditions.get("Progressing") or {}
    refused = conditions.get("ReplicaFailure") or {}
    want, updated = _count(spec, "replicas", 1), _count(status, "updatedReplicas")
    replicas, available = _count(status, "replicas"), _count(status, "availableReplicas")
    # stays True for good once it was reached, also when a Pod is lost later
    reached = progressing.get("reason") == "NewReplicaSetAvailable"
    replaced = updated >= want and replicas <= updated
    gave_up = progressing if progressing.get("status") == "False" else {}
    failure = gave_up or (refused if refused.get("status") == "True" else {})
    deadline = spec.get("progressDeadlineSeconds")
    annotations = workload["metadata"].get("annotations") or {}
    return Progress(
        **_common(workload, annotations.get("deployment.kubernetes.io/revision", "")),
        want=want,
        updated=updated,
        available=available,
        complete=replaced and (reached or available >= want),
        rolling=not reached and not (replaced and available >= want),
        paused=bool(spec.get("paused")),
        failure=_reason(failure),
        failure_mark=f"{failure.get('type')} {failure.get('reason')} {failure.get('lastUpdateTime')}" if failure else "",
        failure_final=bool(gave_up),
        timed=deadline is None or int(deadline) >= _NO_DEADLINE,
        waves=max(1, want),
    )


def _reason(condition: Raw) -> str:
    message = " ".join(str(condition.get("message", "")).split())[:200]
    return f"{condition.get('reason', '')}: {message}".strip(": ")


def _stateful_set(workload: Raw, around: Surroundings) -> Progress:
    spec, status = workload["spec"], workload.get("status") or {}
    strategy = spec.get("updateStrategy") or {}
    by_hand = strategy.get("type") == "OnDelete"
    partition = 0 if by_hand else _count(strategy.get("rollingUpdate") or {}, "partition")
    revision = status.get("updateRevision", "")
    want, updated = _count(spec, "replicas", 1), _count(status, "updatedReplicas")
    ready = _count(status, "availableReplicas" if spec.get("minReadySeconds") else "readyReplicas")
    same = status.get("currentRevision") == revision
    due = max(0, want - partition)
    complete, timed = ready >= want and updated >= due and (same or partition > 0), True
    if by_hand:
        # currentRevision never catches up; each Pod tells for itself
        mine = around.pods
        current = [p for p in mine or () if _hash_of(p) == revision and not _leaving(p)]
        updated = len(current) if mine is not None else updated
        complete = updated >= want and ready >= want
        timed = any(not _is_ready(p) for p in current)
    return Progress(
        **_common(workload, revision),
        want=want,
        updated=updated,
        available=ready,
        complete=complete,
        rolling=updated < due,
        timed=timed,
        waves=None if by_hand else max(1, want),
        stage=partition,
    )


def _daemon_set(workload: Raw, around: Surroundings) -> Progress:
    metadata, spec, status = workload["metadata"], workload["spec"], workload.get("status") or {}
    generation = (metadata.get("annotations") or {}).get("deprecated.daemonset.template.generation", "")
    strategy = spec.get("updateStrategy") or {}
    by_hand = strategy.get("type") == "OnDelete"
    want, updated = _count(status, "desiredNumberScheduled"), _count(status, "updatedNumberScheduled")
    available = _count(status, "numberAvailable")
    complete, timed = updated >= want and available >= want, not by_hand
    excluded: dict[str, str] = {}
    if around.pods is not None:
        names = _newest(around.revisions)
        current = [p for p in around.pods if _is_current(p, names, generation) and not _leaving(p)]
        if by_hand:
            timed = any(not _is_ready(p) for p in current)
            complete = complete and len(current) >= want
        if around.nodes is not None and not complete:
            complete, excluded = _on_eligible(workload, around.pods, current, around.nodes, want)
    return Progress(
        **_common(workload, generation),
        want=want,
        updated=updated,
        available=available,
        complete=complete,
        rolling=updated < want and not complete,
        timed=timed,
        waves=None if by_hand else _waves(strategy.get("rollingUpdate") or {}, want),
        excluded=excluded if complete else {},
    )


def _waves(rolling: Raw, want: int) -> int:
    """Nodes ÷ how many may be replaced at once (a surge stands in for 0 unavailable)."""
    batch = max(_share(rolling.get("maxUnavailable", 1), want), _share(rolling.get("maxSurge", 0), want), 1)
    return max(1, math.ceil(want / batch))


def _share(value: Any, total: int) -> int:
    text = str(value or 0)
    return math.ceil(total * float(text[:-1]) / 100) if text.endswith("%") else int(text)


def _newest(revisions: Sequence[Raw] | None) -> frozenset[str]:
    """The names under which Pods may call the newest ControllerRevision."""
    if not revisions:
        return frozenset()
    newest = max(revisions, key=lambda r: _count(r, "revision"))["metadata"]
    labels = newest.get("labels") or {}
    return frozenset({newest["name"], labels.get("controller-revision-hash"), labels.get("controller.kubernetes.io/hash")} - {None})


def _hash_of(pod: Raw) -> str:
    return str((pod["metadata"].get("labels") or {}).get("controller-revision-hash", ""))


def _is_current(pod: Raw, names: frozenset[str], generation: str) -> bool:
    if names:
        return _hash_of(pod) in names
    return bool(generation) and (pod["metadata"].get("labels") or {}).get("pod-template-generation") == generation


def _leaving(pod: Raw) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _is_ready(pod: Raw) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in (pod.get("status") or {}).get("conditions") or ())


def _on_eligible(
    workload: Raw, pods: Sequence[Raw], current: Sequence[Raw], nodes: Sequence[Raw], want: int
) -> tuple[bool, dict[str, str]]:
    """Whether every node that can take part is done, and the nodes that can't."""
    done = {_node_of(p) for p in current if _is_ready(p)}
    holding = {_node_of(p) for p in pods}
    out = {n["metadata"]["name"]: _cause(n) for n in nodes if _cause(n)}
    gone = holding - {n["metadata"]["name"] for n in nodes} - {""}
    selector = ((workload["spec"].get("template") or {}).get("spec") or {}).get("nodeSelector") or {}
    chosen = {n["metadata"]["name"] for n in nodes if selector.items() <= (n["metadata"].get("labels") or {}).items()}
    excluded = {name: cause for name, cause in out.items() if name not in done and (name in holding or name in chosen)}
    waiting = holding - done - set(out) - gone - {""}
    return bool(excluded) and not waiting and want - len(done - {""}) <= len(excluded), excluded


def _node_of(pod: Raw) -> str:
    """The node of a Pod, also of one that is still pending: the DaemonSet controller pins it by affinity."""
    if name := (pod.get("spec") or {}).get("nodeName"):
        return str(name)
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ():
        for match in term.get("matchFields") or ():
            if match.get("key") == "metadata.name" and match.get("values"):
                return str(match["values"][0])
    return ""


def _cause(node: Raw) -> str:
    """Why a node can't take part in a rollout now; empty if it can."""
    conditions = {c["type"]: c["status"] for c in (node.get("status") or {}).get("conditions") or ()}
    if any(conditions.get(name) == "True" for name in _MAINTENANCE):
        return "in maintenance"
    if conditions.get("Ready") != "True":
        return "NotReady"
    return "cordoned" if (node.get("spec") or {}).get("unschedulable") else ""
