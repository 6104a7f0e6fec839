"""What Kubernetes says for one audit: only the kinds that are needed, each listed once.

Nothing is dropped silently: an object that can't be read becomes a warning on its fact, a list that fails makes
the facts that rest on it `Missing`, and a kind that the server doesn't serve counts as an empty list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from functions.contract.cluster import ConfigMap, Pod, Workload
from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.signals import Scope
from functions.evidence import objects as reduce
from functions.evidence.raw import Unusable, at, items, text
from functions.evidence.sources import ObjectSource, PagedSource
from functions.knowledge.devices import DeviceKnowledge

T = TypeVar("T")
Raw = Mapping[str, Any]

EXPERIMENT = "telltale.dev/experiment"
WORKLOAD_KINDS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
#: Pods elsewhere that a node-scoped audit looks up by name, at most.
LOOKUPS = 20

_SIMPLE: Mapping[str, tuple[str, Callable[[Raw], Any]]] = {
    "nodes": ("Node", reduce.node),
    "budgets": ("PodDisruptionBudget", reduce.budget),
    "events": ("Event", reduce.event),
    "claims": ("ResourceClaim", reduce.claim),
    "slices": ("ResourceSlice", reduce.slice_),
}


class Inventory:
    """The lists of one audit, from one source of objects, each asked for once."""

    def __init__(self, objects: ObjectSource, scope: Scope, knowledge: DeviceKnowledge, at: datetime) -> None:
        self._objects = objects
        self._scope = scope
        self._knowledge = knowledge
        self._at = at
        self._lists: dict[tuple[str, str, str, str], asyncio.Task[Fact[tuple[Raw, ...]]]] = {}

    async def facts(self, needs: frozenset[str]) -> dict[str, Fact[Any]]:
        """The needed facts of `contract.facts.Facts` that rest on Kubernetes alone."""
        jobs = {name: self._simple(name) for name in _SIMPLE if name in needs}
        if "pods" in needs:
            jobs["pods"] = self.pods()
        if "workloads" in needs:
            jobs["workloads"] = self.workloads()
        if "configmaps" in needs:
            jobs["configmaps"] = self.configmaps()
        found = await asyncio.gather(*jobs.values())
        return dict(zip(jobs, found, strict=True))

    async def raw(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Fact[tuple[Raw, ...]]:
        """A list as the source gives it."""
        key = (kind, namespace, labels, fields)
        if key not in self._lists:
            asked = self._objects.list(kind, namespace=namespace, labels=labels, fields=fields)
            self._lists[key] = asyncio.ensure_future(_unserved_is_empty(asked, self._at))
        return await self._lists[key]

    async def pods(self) -> Fact[tuple[Pod, ...]]:
        """Pods with their owners. A node's audit lists that node's Pods alone."""
        fields = f"spec.nodeName={self._scope.name}" if self._scope.kind == "node" else ""
        found = await self._nouns("Pod", reduce.pod, fields)
        return await self._owned(found) if isinstance(found, Known) else found

    async def _owned(self, found: Known[tuple[Pod, ...]]) -> Fact[tuple[Pod, ...]]:
        if any(p.workload.startswith("Job/") for p in found.value):
            jobs = _reduced(await self.raw("Job"), reduce.workload)
            if isinstance(jobs, Known):
                return replace(found, value=reduce.resolve_owners(found.value, jobs.value))
            found = replace(found, warnings=(*found.warnings, f"owners of Jobs are not known: {jobs.detail}"))
        return replace(found, value=reduce.resolve_owners(found.value, ()))

    async def pods_named(self, names: Iterable[tuple[str, str]], held: Fact[tuple[Pod, ...]]) -> Fact[tuple[Pod, ...]]:
        """`held` and, for a node's audit, the Pods of other nodes that are named: (namespace, name)."""
        if self._scope.kind != "node" or not isinstance(held, Known):
            return held
        there = {(p.namespace, p.name) for p in held.value}
        wanted = sorted({n for n in names if all(n)} - there)
        if not wanted:
            return held
        if len(wanted) > LOOKUPS:  # a Pod that was not looked up must not pass for one that is gone
            return Missing(
                Why.TRUNCATED, f"series of this node name {len(wanted)} Pods that are not on it; at most {LOOKUPS} are looked up"
            )
        asked = [self.raw("Pod", namespace=namespace, fields=f"metadata.name={name}") for namespace, name in wanted]
        more: list[Pod] = []
        for answer in await asyncio.gather(*asked):
            if isinstance(answer, Missing):
                return answer
            found = _reduced(answer, reduce.pod)
            more += [p for p in found.value if (p.namespace, p.name) in wanted] if isinstance(found, Known) else []
        return replace(held, value=(*held.value, *more))

    async def workloads(self) -> Fact[tuple[Workload, ...]]:
        """Workloads that nobody else owns, with the templates of their older revisions."""
        lists = await asyncio.gather(*(self.raw(kind) for kind in WORKLOAD_KINDS))
        revisions = await self.raw("ControllerRevision")
        for answer in lists:
            if isinstance(answer, Missing):
                return answer
        known = [answer for answer in lists if isinstance(answer, Known)]
        sets = [raw for answer in known for raw in answer.value if raw.get("kind") == "ReplicaSet"]
        history = [*sets, *(revisions.value if isinstance(revisions, Known) else ())]
        joined = Known(tuple(raw for answer in known for raw in answer.value if not _controlled(raw)), self._at, "kubernetes workloads")
        found = _reduced(joined, reduce.workload)
        if not isinstance(found, Known):
            return found
        warnings = found.warnings if isinstance(revisions, Known) else (*found.warnings, f"older revisions: {revisions.detail}")
        by_owner = _by_owner(history)
        value = tuple(replace(w, older_templates=reduce.older_templates(w, by_owner.get((w.namespace, w.ref), ()))) for w in found.value)
        return replace(found, value=value, warnings=warnings)

    async def configmaps(self) -> Fact[tuple[ConfigMap, ...]]:
        """ConfigMaps that an audit reads: experiments, and those beside an exporter. Never all of a cluster."""
        workloads = await self.workloads()
        if isinstance(workloads, Missing):
            return workloads
        asked = [self.raw("ConfigMap", labels=f"{EXPERIMENT}=true")]
        for namespace in sorted({w.namespace for w in workloads.value if self._exports(w)}):
            asked.append(self.raw("ConfigMap", namespace=namespace))
        for namespace, name in sorted({(w.namespace, n) for w in workloads.value if (n := w.annotations.get(EXPERIMENT))}):
            asked.append(self.raw("ConfigMap", namespace=namespace, fields=f"metadata.name={name}"))
        raw: dict[tuple[str, str], Raw] = {}
        for answer in await asyncio.gather(*asked):
            if isinstance(answer, Missing):
                return answer
            raw |= {_name(item): item for item in answer.value}
        return _reduced(Known(tuple(raw.values()), self._at, "kubernetes ConfigMap"), reduce.configmap)

    def _exports(self, workload: Workload) -> bool:
        containers = items(workload.template, "spec", "containers")
        return any(self._knowledge.is_exporter_image(text(c.get("image"))) for c in containers)

    async def _simple(self, name: str) -> Fact[tuple[Any, ...]]:
        kind, reducer = _SIMPLE[name]
        fields = f"metadata.name={self._scope.name}" if kind == "Node" and self._scope.kind == "node" else ""
        return await self._nouns(kind, reducer, fields)

    async def _nouns(self, kind: str, reducer: Callable[[Raw], T], fields: str) -> Fact[tuple[T, ...]]:
        """What a kind is reduced to. For kinds of which there are many and whose raw objects nothing else reads."""
        if not isinstance(self._objects, PagedSource):
            return _reduced(await self.raw(kind, fields=fields), reducer)
        read = await _unserved_is_empty(self._objects.reduced(kind, lambda raw: _tried(raw, reducer), fields=fields), self._at)
        return _usable(read)


async def _unserved_is_empty(asked: Awaitable[Fact[tuple[T, ...]]], at: datetime) -> Fact[tuple[T, ...]]:
    answer = await asked
    if isinstance(answer, Missing) and answer.why is Why.UNSUPPORTED:
        return Known((), at, answer.source, (answer.detail,))
    return answer


def _reduced(listed: Fact[tuple[Raw, ...]], reducer: Callable[[Raw], T]) -> Fact[tuple[T, ...]]:
    if isinstance(listed, Missing):
        return listed
    tried = tuple(_tried(raw, reducer) for raw in listed.value)
    return _usable(Known(tried, listed.at, listed.source, listed.warnings, listed.lost))


def _tried(raw: Raw, reducer: Callable[[Raw], T]) -> T | Unusable:
    try:
        return reducer(raw)
    except Unusable as error:
        return error


def _usable(read: Fact[tuple[T | Unusable, ...]]) -> Fact[tuple[T, ...]]:
    """The objects that could be read; each that could not is a lost part."""
    if isinstance(read, Missing):
        return read
    odd = (Missing(Why.MALFORMED, f"{read.source}: {error}", read.source) for error in read.value if isinstance(error, Unusable))
    found = tuple(noun for noun in read.value if not isinstance(noun, Unusable))
    return Known(found, read.at, read.source, read.warnings, (*read.lost, *odd))


def _controlled(raw: Raw) -> bool:
    """Made by another workload: a Deployment's ReplicaSet, a CronJob's Job."""
    return any(text(o.get("kind")) in (*WORKLOAD_KINDS, "Rollout") for o in items(raw, "metadata", "ownerReferences"))


def _name(raw: Raw) -> tuple[str, str]:
    metadata = at(raw, "metadata")
    return text(metadata.get("namespace")), text(metadata.get("name"))


def _by_owner(history: Sequence[Raw]) -> dict[tuple[str, str], list[Raw]]:
    found: dict[tuple[str, str], list[Raw]] = {}
    for raw in history:
        for owner in items(raw, "metadata", "ownerReferences"):
            key = (_name(raw)[0] or "default", f"{text(owner.get('kind'))}/{text(owner.get('name'))}")
            found.setdefault(key, []).append(raw)
    return found
