"""What the triggers know of a cluster, in memory: nodes, workloads, and Pods cut down to what decides a transition.

The state machines ask it what surrounds an object, and Alertmanager's labels are tied to objects by it. A whole Pod is
some 4 kB of JSON; of 10,000 of them only a few fields matter here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from functions.contract.signals import Subject

Raw = Mapping[str, Any]

_CONDITIONS = frozenset({"Ready", "DisruptionTarget"})
_MIRROR = "kubernetes.io/config.mirror"
_CRON_SUFFIX = re.compile(r"-(\d{8})$")


def trim(raw: Raw) -> Raw:
    """The object as it is kept."""
    return _TRIMS.get(str(raw.get("kind", "")), _trim_workload)(raw)


def _trim_pod(raw: Raw) -> Raw:
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    kept: dict[str, Any] = {
        k: metadata[k] for k in ("name", "namespace", "uid", "deletionTimestamp", "creationTimestamp", "resourceVersion") if k in metadata
    }
    kept["labels"] = metadata.get("labels") or {}
    if _MIRROR in (metadata.get("annotations") or {}):
        kept["annotations"] = {_MIRROR: ""}
    kept["ownerReferences"] = [
        {k: o[k] for k in ("apiVersion", "kind", "name", "uid", "controller") if k in o} for o in metadata.get("ownerReferences") or ()
    ]
    place: dict[str, Any] = {"nodeName": spec["nodeName"]} if spec.get("nodeName") else {"affinity": spec.get("affinity") or {}}
    conditions = [c for c in status.get("conditions") or () if c.get("type") in _CONDITIONS]
    return {"kind": "Pod", "metadata": kept, "spec": place, "status": {"phase": status.get("phase", ""), "conditions": conditions}}


def _trim_node(raw: Raw) -> Raw:
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    return {
        "kind": "Node",
        "metadata": {k: metadata[k] for k in ("name", "uid", "creationTimestamp", "labels", "resourceVersion") if k in metadata},
        "spec": {k: spec[k] for k in ("unschedulable", "taints") if k in spec},
        "status": {k: status[k] for k in ("conditions", "capacity", "allocatable", "addresses") if k in status}
        | {"nodeInfo": {"bootID": (status.get("nodeInfo") or {}).get("bootID", "")}},
    }


def _trim_workload(raw: Raw) -> Raw:
    metadata = dict(raw["metadata"])
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    metadata["annotations"] = annotations
    return {**raw, "metadata": metadata}


_TRIMS = {"Pod": _trim_pod, "Node": _trim_node}


class View:
    """The cluster as last seen. A kind that was never listed is None to those who ask for it."""

    def __init__(self) -> None:
        self.nodes: dict[str, Raw] = {}
        self.workloads: dict[str, Raw] = {}
        self._pods: dict[str, Raw] = {}
        self._on_node: dict[str, set[str]] = {}
        self._of_owner: dict[str, set[str]] = {}
        self._listed: set[str] = set()

    def knows(self, kind: str) -> bool:
        """Whether the kind was listed, so that what isn't here doesn't exist."""
        return kind in self._listed

    def replace(self, kind: str, objects: Iterable[Raw]) -> list[Raw]:
        """Take a whole list; what it no longer holds is forgotten and returned."""
        fresh = {_key(raw): raw for raw in objects}
        old = [raw for key, raw in self._of_kind(kind) if key not in fresh]
        for raw in old:
            self.remove(raw)
        for raw in fresh.values():
            self.put(raw)
        self._listed.add(kind)
        return old

    def forget(self, kind: str) -> None:
        """The kind can't be read any more: nothing may be concluded from its absence."""
        self._listed.discard(kind)

    def _of_kind(self, kind: str) -> list[tuple[str, Raw]]:
        holder = {"Pod": self._pods, "Node": self.nodes}.get(kind, self.workloads)
        return [(key, raw) for key, raw in holder.items() if raw.get("kind") == kind]

    def put(self, raw: Raw) -> None:
        """Take a (trimmed) object."""
        kind, key = raw["kind"], _key(raw)
        if kind == "Pod":
            self._unlink(key)
            self._pods[key] = raw
            for index, name in self._places(raw):
                index.setdefault(name, set()).add(key)
        elif kind == "Node":
            self.nodes[key] = raw
        else:
            self.workloads[key] = raw

    def remove(self, raw: Raw) -> None:
        kind, key = raw["kind"], _key(raw)
        if kind == "Pod":
            self._unlink(key)
            self._pods.pop(key, None)
        elif kind == "Node":
            self.nodes.pop(key, None)
        else:
            self.workloads.pop(key, None)

    def _unlink(self, key: str) -> None:
        if old := self._pods.get(key):
            for index, name in self._places(old):
                if keys := index.get(name):
                    keys.discard(key)
                    if not keys:
                        del index[name]

    def _places(self, pod: Raw) -> list[tuple[dict[str, set[str]], str]]:
        places = [(self._of_owner, str(owner["uid"])) for owner in pod["metadata"].get("ownerReferences") or () if owner.get("uid")]
        if node := pod["spec"].get("nodeName"):
            places.append((self._on_node, node))
        return places

    def like(self, raw: Raw) -> Raw | None:
        """The kept object with this kind, namespace and name."""
        return {"Pod": self._pods, "Node": self.nodes}.get(raw["kind"], self.workloads).get(_key(raw))

    def pods_on(self, node: str) -> list[Raw] | None:
        """The Pods on a node; None if Pods are not known."""
        return [self._pods[key] for key in self._on_node.get(node, ())] if self.knows("Pod") else None

    def pods_of(self, uid: str) -> list[Raw] | None:
        """The Pods that the object with this uid owns itself; None if Pods are not known."""
        return [self._pods[key] for key in self._of_owner.get(uid, ())] if self.knows("Pod") else None

    def daemon_sets(self) -> frozenset[str] | None:
        """The DaemonSets that exist, as namespace/name; None if they are not known."""
        if not self.knows("DaemonSet"):
            return None
        return frozenset(
            f"{w['metadata']['namespace']}/{w['metadata']['name']}" for w in self.workloads.values() if w["kind"] == "DaemonSet"
        )

    def pod(self, namespace: str, name: str) -> Raw | None:
        return self._pods.get(f"{namespace}/{name}")

    def owner(self, namespace: str, pod: str) -> Subject | None:
        """The workload of a Pod, if the Pod is known."""
        found = self.pod(namespace, pod)
        return workload_of(found) if found else None

    def node(self, text: str) -> str | None:
        """The node with this name, host name or address, if it is known."""
        if text in self.nodes:
            return text
        for name, raw in self.nodes.items():
            addresses = {a.get("address") for a in raw["status"].get("addresses") or ()}
            if text in addresses or text == (raw["metadata"].get("labels") or {}).get("kubernetes.io/hostname"):
                return name
        return None


def _key(raw: Raw) -> str:
    metadata = raw["metadata"]
    if raw["kind"] == "Node":
        return str(metadata["name"])
    place = f"{metadata.get('namespace', '')}/{metadata['name']}"
    return place if raw["kind"] == "Pod" else f"{raw['kind']}/{place}"


def workload_of(pod: Raw) -> Subject:
    """The workload a person thinks of: the Deployment rather than its ReplicaSet, the CronJob rather than its Job."""
    metadata = pod["metadata"]
    namespace = metadata.get("namespace", "")
    owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    if owner is None:
        return Subject("Pod", metadata["name"], namespace)
    kind, name = str(owner["kind"]), str(owner["name"])
    suffix = f"-{(metadata.get('labels') or {}).get('pod-template-hash', '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return Subject("Deployment", name.removesuffix(suffix), namespace)
    if kind == "Job" and _made_by_cron(name, metadata.get("creationTimestamp")):
        return Subject("CronJob", name.rpartition("-")[0], namespace)
    return Subject(kind, name, namespace)


def _made_by_cron(job: str, created: Any) -> bool:
    """A CronJob names its Jobs after the scheduled minute; a date in a name has eight digits as well."""
    match = _CRON_SUFFIX.search(job)
    if match is None or not isinstance(created, str):
        return False
    try:
        minutes = datetime.fromisoformat(created).timestamp() / 60
    except ValueError:
        return False
    return abs(minutes - int(match.group(1))) < 7 * 24 * 60
