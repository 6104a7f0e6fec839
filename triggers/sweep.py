"""One look at the whole cluster, or at what one event of Knative's says, compared with the kept states.

An ApiServerSource sends nothing for what exists at its start and loses what happens while it is away (measured), so
its events are hints, and the sweep is what finds the rest. What the first look of all finds is the state so far: it is
audited once, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from functions.contract.signals import Signal
from functions.evidence.kubernetes.errors import KubernetesError
from functions.evidence.kubernetes.source import KubernetesSource
from triggers import rollouts, schedule
from triggers.kubernetes_events import read as read_event
from triggers.looking import FOR_GOOD, KINDS, MARK, OVERLAP, Options, Sweep
from triggers.lookups import ApiLookup, MemoryLookup, NoLookup
from triggers.observer import Episodes, Lookup, Observer, Sink
from triggers.view import Raw, View, trim

DEFAULTS = Options()


async def sweep(source: KubernetesSource, sink: Sink, episodes: Episodes, options: Options = DEFAULTS) -> Sweep:
    """List everything, compare it with the kept states, hand over what has happened since.

    Raises what `options.passing` names when the API or the store is away: the next sweep makes up for it.
    """
    view, missing = View(), {}
    started = options.clock()
    for kind in KINDS:
        try:
            found, _ = await source.collect(kind, trim)
            view.replace(kind, found)
        except KubernetesError as error:
            if error.why not in FOR_GOOD:
                raise
            missing[kind] = error.detail
    mark, version = await episodes.get(MARK)
    observer = _observer(MemoryLookup(view, source), sink, episodes, options)
    observer.since = seen_in(mark)
    signals = await _compare(view, observer, mark)
    if mark is not None:
        signals += await _events_since(source, observer, observer.since or started, missing)
    signals += await _first(sink, mark, view, options)
    await episodes.put(MARK, mark_of(view, started), version)
    return Sweep(mark is None, len(view.nodes) + len(view.workloads), tuple(signals), observer.since, missing)


async def from_cloudevent(
    type_: str, data: Any, source: KubernetesSource | None, sink: Sink, episodes: Episodes, options: Options = DEFAULTS
) -> list[Signal]:
    """What one ApiServerSource event says: `dev.knative.apiserver.{resource,ref}.{add,update,delete}`.

    Events come late, twice and out of order; an older copy than the one that was judged last is passed over. Data that
    holds no object of interest gives nothing. Without a `source` what surrounds the object is unknown. Raises what `options.passing` names.
    """
    _, _, rest = type_.partition("dev.knative.apiserver.")
    mode, _, verb = rest.partition(".")
    raw = _object_in(data)
    if mode not in ("resource", "ref") or raw is None:
        return []
    observer = _observer(ApiLookup(source) if source else NoLookup(), sink, episodes, options)
    mark, _ = await episodes.get(MARK)
    observer.since = seen_in(mark)
    if mode == "ref":
        if source is None:
            return []
        raw = await _resolve(raw, source, gone=verb == "delete")
    return await _observe_one(raw, observer, source, gone=verb == "delete") if raw else []


async def _observe_one(raw: Raw, observer: Observer, source: KubernetesSource | None, *, gone: bool) -> list[Signal]:
    kind, metadata = raw["kind"], raw["metadata"]
    if kind in rollouts.KINDS:
        return await observer.workload(trim(raw), gone=gone, ordered=False)
    if kind == "Node":
        return await observer.node(metadata["name"], None if gone else trim(raw), ordered=False)
    if kind == "Event":
        return [] if gone else await observer.event(raw)
    if kind != "Pod" or source is None:
        return []
    signals: list[Signal] = []
    node = (raw.get("spec") or {}).get("nodeName")
    if node and await observer.is_open(f"node/{node}"):
        signals += await observer.node(node, await source.get("Node", node))
    owner: Raw = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), {})
    if owner.get("kind") in rollouts.KINDS:
        key = f"rollout/{owner['kind']}/{metadata.get('namespace', '')}/{owner['name']}"
        if await observer.is_open(key) and (workload := await source.get(owner["kind"], owner["name"], metadata.get("namespace", ""))):
            signals += await observer.workload({**workload, "kind": owner["kind"]})
    return signals


def _object_in(data: Any) -> Raw | None:
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        return None
    if isinstance(data.get("name"), str) and "metadata" not in data:
        return {"kind": data["kind"], "metadata": {"name": data["name"], "namespace": data.get("namespace") or ""}}
    metadata = data.get("metadata")
    return data if isinstance(metadata, dict) and isinstance(metadata.get("name"), str) else None


async def _resolve(raw: Raw, source: KubernetesSource, *, gone: bool) -> Raw | None:
    """The object that a reference points at; of a deleted one the reference is all there is."""
    if raw["kind"] not in (*KINDS, "Event"):
        return None
    if gone:
        return raw if raw["kind"] == "Node" else None
    found = await source.get(raw["kind"], raw["metadata"]["name"], raw["metadata"].get("namespace", ""))
    return {**found, "kind": raw["kind"]} if found else None


def _observer(lookup: Lookup, sink: Sink, episodes: Episodes, options: Options) -> Observer:
    return Observer(lookup, sink, episodes, clock=options.clock, limits=options.limits, exempt=options.exempt)


async def _compare(view: View, observer: Observer, mark: Mapping[str, Any] | None) -> list[Signal]:
    signals: list[Signal] = []
    if view.knows("Node"):
        for name in sorted(set((mark or {}).get("nodes", ())) - view.nodes.keys()):
            signals += await observer.node(name, None)
    for name, raw in list(view.nodes.items()):
        signals += await observer.node(name, raw)
    for raw in list(view.workloads.values()):
        signals += await observer.workload(raw)
    return signals


async def _events_since(source: KubernetesSource, observer: Observer, since: datetime, missing: dict[str, str]) -> list[Signal]:
    try:
        found, _ = await source.collect("Event", lambda raw: raw)
    except KubernetesError as error:
        if error.why not in FOR_GOOD:
            raise
        missing["Event"] = error.detail
        return []
    signals: list[Signal] = []
    for raw in found:
        if is_after(raw, since - OVERLAP):
            signals += await observer.event(raw)
    return signals


def is_after(event: Raw, instant: datetime) -> bool:
    """Whether the Event happened (last) after the instant."""
    at = read_event(event).last_at
    return at is not None and at > instant


async def _first(sink: Sink, mark: Mapping[str, Any] | None, view: View, options: Options) -> list[Signal]:
    if mark is not None:
        return []
    signal = schedule.first_start(options.clock(), len(view.nodes) + len(view.workloads))
    await sink([signal])
    return [signal]


def seen_in(mark: Mapping[str, Any] | None) -> datetime | None:
    return datetime.fromisoformat(mark["seen"]) if mark else None


def mark_of(view: View, at: datetime) -> dict[str, Any]:
    return {"seen": at.isoformat(), "nodes": sorted(view.nodes)}
