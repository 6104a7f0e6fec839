"""What surrounds an object: from memory where a watch keeps it there, from the API where an event came alone.

What the API refuses is None: nothing is concluded from it. What it can't say just now raises, so that the look is
repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from functions.contract.facts import Why
from functions.contract.signals import Subject
from functions.evidence.kubernetes.errors import KubernetesError
from functions.evidence.kubernetes.source import KubernetesSource
from triggers.view import Raw, View, trim, workload_of

_FOR_GOOD = (Why.UNAUTHORISED, Why.UNSUPPORTED)


class ApiLookup:
    """Asks the API each time."""

    def __init__(self, source: KubernetesSource) -> None:
        self._source = source

    async def pods_on(self, node: str) -> Sequence[Raw] | None:
        return await self._list("Pod", fields=f"spec.nodeName={node}")

    async def pods_of(self, workload: Raw) -> Sequence[Raw] | None:
        uid = workload["metadata"].get("uid", "")
        found = await self._list("Pod", namespace=workload["metadata"].get("namespace", ""), labels=_selector(workload))
        return None if found is None else [p for p in found if _owned_by(p, uid)]

    async def nodes(self) -> Sequence[Raw] | None:
        return await self._list("Node")

    async def revisions(self, workload: Raw) -> Sequence[Raw] | None:
        metadata = workload["metadata"]
        found = await self._list("ControllerRevision", namespace=metadata.get("namespace", ""), labels=_selector(workload))
        return None if found is None else [r for r in found if _owned_by(r, metadata.get("uid", ""))]

    async def budgets(self) -> Sequence[Raw] | None:
        return await self._list("PodDisruptionBudget")

    async def daemon_sets(self) -> frozenset[str] | None:
        found = await self._list("DaemonSet")
        return None if found is None else frozenset(f"{d['metadata']['namespace']}/{d['metadata']['name']}" for d in found)

    async def workload_of(self, namespace: str, pod: str) -> Subject | None:
        try:
            found = await self._source.get("Pod", pod, namespace)
        except KubernetesError as error:
            if error.why in _FOR_GOOD:
                return None
            raise
        return workload_of(found) if found else None

    async def _list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Sequence[Raw] | None:
        try:
            found, _ = await self._source.collect(kind, _reduced, namespace=namespace, labels=labels, fields=fields)
        except KubernetesError as error:
            if error.why in _FOR_GOOD:
                return None
            raise
        return found


class NoLookup:
    """No cluster is configured: an event is all there is."""

    async def pods_on(self, node: str) -> Sequence[Raw] | None:
        return None

    async def pods_of(self, workload: Raw) -> Sequence[Raw] | None:
        return None

    async def nodes(self) -> Sequence[Raw] | None:
        return None

    async def revisions(self, workload: Raw) -> Sequence[Raw] | None:
        return None

    async def budgets(self) -> Sequence[Raw] | None:
        return None

    async def daemon_sets(self) -> frozenset[str] | None:
        return None

    async def workload_of(self, namespace: str, pod: str) -> Subject | None:
        return None


class MemoryLookup:
    """Takes Pods, nodes and DaemonSets from the view; asks the API for what is wanted seldom."""

    def __init__(self, view: View, source: KubernetesSource) -> None:
        self._view = view
        self._api = ApiLookup(source)
        #: (workload uid, its generation) -> revisions: a new revision comes with a new generation only
        self._revisions: dict[tuple[str, int], Sequence[Raw] | None] = {}

    async def pods_on(self, node: str) -> Sequence[Raw] | None:
        return self._view.pods_on(node)

    async def pods_of(self, workload: Raw) -> Sequence[Raw] | None:
        return self._view.pods_of(workload["metadata"].get("uid", ""))

    async def nodes(self) -> Sequence[Raw] | None:
        return list(self._view.nodes.values()) if self._view.knows("Node") else None

    async def revisions(self, workload: Raw) -> Sequence[Raw] | None:
        key = (str(workload["metadata"].get("uid", "")), int(workload["metadata"].get("generation") or 0))
        if key not in self._revisions:
            if len(self._revisions) >= 256:
                self._revisions.clear()
            self._revisions[key] = await self._api.revisions(workload)
        return self._revisions[key]

    async def budgets(self) -> Sequence[Raw] | None:
        return await self._api.budgets()

    async def daemon_sets(self) -> frozenset[str] | None:
        return self._view.daemon_sets()

    async def workload_of(self, namespace: str, pod: str) -> Subject | None:
        return self._view.owner(namespace, pod)


def _reduced(raw: Raw) -> Raw:
    return trim(raw) if raw.get("kind") in ("Pod", "Node") else raw


def _selector(workload: Raw) -> str:
    """The plain part of a workload's selector; who owns what is decided by uid."""
    labels = (workload["spec"].get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _owned_by(raw: Raw, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in raw["metadata"].get("ownerReferences") or ())
