"""Recorded changes of a cluster through the triggers, without one: `telltale replay`, and the tests with real streams.

The clock is the recording's: each change happens at the time it was recorded, or at the latest time that its object
knows of. Signals are returned; states live in memory.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from functions.contract.signals import Signal, Subject
from triggers import rollouts, schedule
from triggers.exempt import Exempt
from triggers.observer import Limits, Observer, State, version_of
from triggers.view import Raw, View, trim

_TIMES = frozenset(
    {"creationTimestamp", "lastTransitionTime", "lastUpdateTime", "lastTimestamp", "eventTime", "lastObservedTime", "time", "timeAdded"}
)
_EPOCH = datetime.fromtimestamp(0, UTC)


class MemoryEpisodes:
    """States of one process, forgotten with it."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[State, int]] = {}
        self._next = 0

    async def get(self, key: str) -> tuple[State | None, str]:
        state, version = self._states.get(key, (None, 0))
        return copy.deepcopy(state), str(version)

    async def put(self, key: str, state: State | None, version: str) -> bool:
        if str(self._states.get(key, (None, 0))[1]) != version:
            return False
        self._next += 1
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = (copy.deepcopy(state), self._next)
        return True


class RecordedLookup:
    """What surrounds an object, as far as the recording has shown it."""

    def __init__(self, view: View) -> None:
        self._view = view

    def _all(self, kind: str) -> list[Raw] | None:
        return [raw for raw in self._view.workloads.values() if raw["kind"] == kind] if self._view.knows(kind) else None

    async def pods_on(self, node: str) -> Sequence[Raw] | None:
        return self._view.pods_on(node)

    async def pods_of(self, workload: Raw) -> Sequence[Raw] | None:
        return self._view.pods_of(workload["metadata"].get("uid", ""))

    async def nodes(self) -> Sequence[Raw] | None:
        return list(self._view.nodes.values()) if self._view.knows("Node") else None

    async def revisions(self, workload: Raw) -> Sequence[Raw] | None:
        found, uid = self._all("ControllerRevision"), workload["metadata"].get("uid")
        if found is None:
            return None
        return [r for r in found if any(o.get("uid") == uid for o in r["metadata"].get("ownerReferences") or ())]

    async def budgets(self) -> Sequence[Raw] | None:
        return self._all("PodDisruptionBudget")

    async def daemon_sets(self) -> frozenset[str] | None:
        return self._view.daemon_sets()

    async def workload_of(self, namespace: str, pod: str) -> Subject | None:
        return self._view.owner(namespace, pod)


class Replay:
    """One recording. Feed it changes in their order."""

    def __init__(self, limits: Limits = Limits(), exempt: Exempt = Exempt()) -> None:  # noqa: B008
        self.view = View()
        self.now = _EPOCH
        self._out: list[Signal] = []
        self._observer = Observer(
            RecordedLookup(self.view), self._take, MemoryEpisodes(), clock=lambda: self.now, limits=limits, exempt=exempt
        )

    async def _take(self, signals: Sequence[Signal]) -> None:
        self._out += signals

    async def listed(self, objects: Sequence[Raw], at: datetime | None = None) -> list[Signal]:
        """What a first look finds: the state so far, and one signal for all of it."""
        self.now = max([self.now, at or _EPOCH, *(latest_time(raw) for raw in objects)])
        by_kind: dict[str, list[Raw]] = {}
        for raw in objects:
            by_kind.setdefault(raw["kind"], []).append(trim(raw))
        for kind, found in by_kind.items():
            self.view.replace(kind, found)
        for raw in (raw for found in by_kind.values() for raw in found):
            await self._judge(raw, gone=False)
        self._observer.since = self.now
        return [schedule.first_start(self.now, len(objects)), *self._taken()]

    async def change(self, type_: str, raw: Raw, at: datetime | None = None) -> list[Signal]:
        """A change as a watch says it: ADDED, MODIFIED or DELETED."""
        self.now = max(self.now, at or latest_time(raw))
        if raw["kind"] == "Event":
            if type_ != "DELETED":
                await self._observer.event(raw)
            return self._taken()
        kept, gone = trim(raw), type_ == "DELETED"
        if self._is_older(kept):
            return self._taken()
        if not self.view.knows(raw["kind"]):
            self.view.replace(raw["kind"], [])
        self.view.remove(kept) if gone else self.view.put(kept)
        await self._judge(kept, gone=gone)
        await self.look()
        return self._taken()

    async def cloudevent(self, type_: str, data: Any, at: datetime | None = None) -> list[Signal]:
        """A change as an ApiServerSource says it. Events that hold no whole object say nothing here."""
        verb = {"add": "ADDED", "update": "MODIFIED", "delete": "DELETED"}.get(type_.removeprefix("dev.knative.apiserver.resource."))
        if (
            verb is None
            or not isinstance(data, dict)
            or not isinstance(data.get("kind"), str)
            or not (data.get("metadata") or {}).get("name")
        ):
            return []
        return await self.change(verb, data, at)

    def _is_older(self, raw: Raw) -> bool:
        """Whether a later copy of the object was seen: Knative's events come out of order."""
        known = self.view.like(raw)
        return known is not None and version_of(raw) < version_of(known)

    async def pass_time(self, now: datetime) -> list[Signal]:
        """Nothing happens until `now`."""
        self.now = max(self.now, now)
        await self.look()
        return self._taken()

    async def look(self) -> None:
        """Look again at everything that is under way."""
        for key in sorted(self._observer.open):
            sort, _, name = key.partition("/")
            if sort == "node":
                await self._observer.node(name, self.view.nodes.get(name))
            elif raw := self.view.workloads.get(name):
                await self._observer.workload(raw)

    async def _judge(self, raw: Raw, *, gone: bool) -> None:
        if raw["kind"] == "Node":
            await self._observer.node(raw["metadata"]["name"], None if gone else raw)
        elif raw["kind"] in rollouts.KINDS:
            await self._observer.workload(raw, gone=gone)

    def _taken(self) -> list[Signal]:
        out, self._out = self._out, []
        return out


def latest_time(raw: Any) -> datetime:
    """The latest time that an object knows of."""
    return max(_times(raw), default=_EPOCH)


def _times(value: Any) -> Iterator[datetime]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _TIMES and isinstance(inner, str):
                try:
                    time = datetime.fromisoformat(inner)
                except ValueError:
                    continue
                if time.tzinfo:
                    yield time
            else:
                yield from _times(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _times(inner)
