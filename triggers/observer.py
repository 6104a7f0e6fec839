"""Runs the state machines over what is seen: load the state, judge, hand the signals over, keep the new state.

The order matters: signals are handed over before the state that they led to is kept. If either fails, the next look
judges the same again and the signals come once more under the same keys, which the intake knows already. Two processes
that look at once are told apart by compare-and-swap.

Where an object's surroundings come from (memory or the API) is the `Lookup`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from functions.contract.signals import Signal, Subject
from triggers import drains, kubernetes_events, rollouts
from triggers.exempt import Exempt
from triggers.view import Raw

State = dict[str, Any]
Sink = Callable[[Sequence[Signal]], Awaitable[None]]

_RACES = 5
_REPLICA_SET = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}$")


class Contended(Exception):
    """Other processes kept changing the state; look again later."""


class Episodes(Protocol):
    """Where states are kept. Raises what the watcher was told to take as "again later" when it is away."""

    async def get(self, key: str) -> tuple[State | None, str]:
        """The state and its version (any text; of an absent one as well)."""
        ...

    async def put(self, key: str, state: State | None, version: str) -> bool:
        """Keep the state (None: forget it) if its version is still this one."""
        ...


class Lookup(Protocol):
    """What surrounds an object. None: it can't be told."""

    async def pods_on(self, node: str) -> Sequence[Raw] | None: ...

    async def pods_of(self, workload: Raw) -> Sequence[Raw] | None: ...

    async def nodes(self) -> Sequence[Raw] | None: ...

    async def revisions(self, workload: Raw) -> Sequence[Raw] | None: ...

    async def budgets(self) -> Sequence[Raw] | None: ...

    async def daemon_sets(self) -> frozenset[str] | None: ...

    async def workload_of(self, namespace: str, pod: str) -> Subject | None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Patience of the state machines."""

    rollout_deadline: timedelta = rollouts.DEADLINE
    drain_deadline: timedelta = drains.Limits().deadline
    not_ready_grace: timedelta = drains.Limits().grace

    @property
    def node(self) -> drains.Limits:
        return drains.Limits(self.drain_deadline, self.not_ready_grace)


class Observer:
    """One process' look at a cluster. `since`: when the whole cluster was looked at before (see the sources)."""

    def __init__(
        self, lookup: Lookup, sink: Sink, episodes: Episodes, *, clock: Callable[[], datetime], limits: Limits, exempt: Exempt
    ) -> None:
        self._lookup = lookup
        self._sink = sink
        self._episodes = episodes
        self._clock = clock
        self._limits = limits
        self._exempt = exempt
        self._cache: dict[str, tuple[State | None, str]] = {}
        self.since: datetime | None = None
        #: keys of what may change with time alone
        self.open: set[str] = set()

    async def workload(self, raw: Raw, *, gone: bool = False, ordered: bool = True) -> list[Signal]:
        """Look at a Deployment, StatefulSet or DaemonSet. `ordered` False: it may be an older copy of the object."""
        if self._exempt.covers(raw):
            return []
        metadata = raw["metadata"]

        async def judge(state: State | None) -> tuple[State | None, list[Signal]]:
            if gone:
                same = state is None or state["uid"] == metadata.get("uid", "")
                return (None if same else state), []
            around = await self._around_workload(raw, state)
            deadline = self._limits.rollout_deadline
            return rollouts.observe(state, raw, self._clock(), around=around, deadline=deadline, since=self.since)

        key = f"rollout/{raw['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        return await self._step(key, judge, rollouts.is_open, raw, ordered=ordered)

    async def node(self, name: str, raw: Raw | None, *, ordered: bool = True) -> list[Signal]:
        """Look at a node; `raw` None: it is gone."""

        async def judge(state: State | None) -> tuple[State | None, list[Signal]]:
            around = await self._around_node(name, raw, state)
            return drains.observe(state, name, raw, self._clock(), around=around, limits=self._limits.node, since=self.since)

        return await self._step(f"node/{name}", judge, drains.is_open, raw, ordered=ordered)

    async def event(self, raw: Raw) -> list[Signal]:
        """Take an Event as a hint."""
        hint = kubernetes_events.read(raw)
        if kubernetes_events.row_of(hint) is None or self._exempt.names(hint.subject):
            return []
        owner = await self._owner(hint.subject)
        if self._exempt.names(owner):
            return []

        async def judge(state: State | None) -> tuple[State | None, list[Signal]]:
            return kubernetes_events.observe(state, raw, self._clock(), owner=owner)

        key = kubernetes_events.key_of(hint, owner)
        signals = await self._step(key, judge, lambda _state: False, None, ordered=True)
        self._cache.pop(key, None)  # there is no end of them
        return signals

    async def is_open(self, key: str) -> bool:
        """Whether an episode is under way under this key, as far as the store knows."""
        state, _ = await self._episodes.get(key)
        return drains.is_open(state) if key.startswith("node/") else rollouts.is_open(state)

    async def _owner(self, subject: Subject) -> Subject:
        if subject.kind == "Pod":
            return await self._lookup.workload_of(subject.namespace, subject.name) or subject
        if subject.kind == "ReplicaSet" and (match := _REPLICA_SET.search(subject.name)):
            return Subject("Deployment", subject.name[: match.start()], subject.namespace)
        return subject

    async def _around_workload(self, raw: Raw, state: State | None) -> rollouts.Surroundings:
        """Pods and nodes matter where the status alone can't tell; not for a workload that is settled."""
        by_hand = (raw["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"
        if not (by_hand or raw["kind"] == "DaemonSet") or (state is not None and not rollouts.is_open(state)):
            return rollouts.Surroundings()
        status = raw.get("status") or {}
        want = int(status.get("desiredNumberScheduled") or 0)
        if not by_hand and min(int(status.get("updatedNumberScheduled") or 0), int(status.get("numberAvailable") or 0)) >= want:
            return rollouts.Surroundings()
        revisions = await self._lookup.revisions(raw) if raw["kind"] == "DaemonSet" else None
        return rollouts.Surroundings(await self._lookup.pods_of(raw), revisions, await self._lookup.nodes())

    async def _around_node(self, name: str, raw: Raw | None, state: State | None) -> drains.Around:
        if raw is None:
            return drains.Around()
        settled = state is not None and not state["open"]
        if settled and not (raw.get("spec") or {}).get("unschedulable") and _is_ready(raw):
            return drains.Around()
        budgets = await self._lookup.budgets() if drains.wants_budgets(state, self._clock(), self._limits.node) else None
        return drains.Around(await self._lookup.pods_on(name), budgets, await self._lookup.daemon_sets())

    async def _step(
        self,
        key: str,
        judge: Callable[[State | None], Awaitable[tuple[State | None, list[Signal]]]],
        is_open: Callable[[State | None], bool],
        raw: Raw | None,
        *,
        ordered: bool,
    ) -> list[Signal]:
        for _ in range(_RACES):
            state, version = self._cache.get(key) or await self._episodes.get(key)
            if not ordered and raw is not None and state is not None and version_of(raw) < state.get("rv", 0):
                return []  # an older copy, late or sent again
            new, signals = await judge(state)
            if signals:
                await self._sink(signals)
            (self.open.add if is_open(new) else self.open.discard)(key)
            if new == state:
                self._cache[key] = (state, version)
                return signals
            if new is not None and raw is not None:
                new["rv"] = version_of(raw)
            self._cache.pop(key, None)
            if await self._episodes.put(key, new, version):
                return signals
        raise Contended(f"the state {key} keeps changing")


def version_of(raw: Mapping[str, Any]) -> int:
    """resourceVersion as a number; the API has promised since 1.35 that they can be compared."""
    text = str(raw["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


def _is_ready(node: Raw) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in (node.get("status") or {}).get("conditions") or ())
