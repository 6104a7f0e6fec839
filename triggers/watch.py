"""The live source where there is no Knative: list and compare, then watch, for as long as the process runs.

Each kind is listed, compared and watched by one task, which lists again at every sweep and when the API server has
forgotten the resource version; a second task judges what has changed; a third looks again at what may change with time
alone. Nothing is dropped when the store or the API is away: what has not been judged stays due. `sweep` and
`from_cloudevent` (see `sweep.py`) run the same state machines over the same kept states.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from functions.evidence.kubernetes.answers import Change
from functions.evidence.kubernetes.errors import Expired, KubernetesError
from functions.evidence.kubernetes.source import KubernetesSource
from triggers import rollouts, schedule
from triggers.exempt import Exempt
from triggers.looking import FOR_GOOD, KINDS, MARK, OVERLAP, Gap, Options, Sweep
from triggers.lookups import MemoryLookup
from triggers.observer import Contended, Episodes, Limits, Observer, Sink
from triggers.sweep import DEFAULTS, from_cloudevent, is_after, mark_of, seen_in, sweep
from triggers.view import Raw, View, trim

__all__ = ["Episodes", "Exempt", "Gap", "Limits", "Options", "Sink", "Sweep", "Watcher", "from_cloudevent", "sweep"]

T = TypeVar("T")
log = logging.getLogger(__name__)

_MAX_WAITING_EVENTS = 5000
_LONGEST_BACKOFF = 60.0
#: An API server that has just started refuses everybody until it has read who may do what (measured, Kubernetes 1.36).
_REFUSAL_PASSES = timedelta(seconds=60)
_MARK_EVERY = timedelta(seconds=60)
_EVENT = "Event"


class Watcher:
    """Watches one cluster. `run` until it is cancelled."""

    def __init__(self, source: KubernetesSource, sink: Sink, episodes: Episodes, options: Options = DEFAULTS) -> None:
        self._source = source
        self._sink = sink
        self._episodes = episodes
        self._options = options
        #: what is known of the cluster; also ties the labels of alerts to objects
        self.view = View()
        #: kinds that can't be read now, and why
        self.trouble: dict[str, str] = {}
        #: set once the cluster was looked at as a whole
        self.ready = asyncio.Event()
        exempt, limits = options.exempt, options.limits
        lookup = MemoryLookup(self.view, source)
        self._observer = Observer(lookup, sink, episodes, clock=options.clock, limits=limits, exempt=exempt)
        #: what has to be judged: key -> the object where the view no longer has it
        self._due: dict[str, Raw | None] = {}
        self._wake = asyncio.Event()
        self._pending = {*KINDS}
        self._listed = asyncio.Event()
        self._mark: dict[str, Any] | None = None
        self._marked_at: datetime | None = None

    async def run(self) -> None:
        """List, compare, watch. Returns never; what the API or the store can't do now is tried again."""
        self._mark = (await self._insist(lambda: self._episodes.get(MARK)))[0]
        self._observer.since = seen_in(self._mark)
        await self._note_downtime()
        async with asyncio.TaskGroup() as group:
            for kind in (*KINDS, _EVENT):
                group.create_task(self._follow(kind), name=f"watch {kind}")
            group.create_task(self._judge(), name="judge")
            group.create_task(self._time(), name="timers")

    async def _note_downtime(self) -> None:
        seen, now = seen_in(self._mark), self._options.clock()
        if seen is not None and now - seen > 2 * _MARK_EVERY:
            await self._gap(Gap("", seen, now, "Telltale was not watching"))

    async def _gap(self, gap: Gap) -> None:
        """Say that something may have gone unseen; a store that is away is waited for."""
        await self._insist(lambda: self._options.on_gap(gap))

    async def _follow(self, kind: str) -> None:
        """List and watch one kind, again and again."""
        backoff, options = self._options.backoff, self._options
        heard: datetime | None = seen_in(self._mark)
        lost = ""
        could = options.clock() - _REFUSAL_PASSES  # what was never readable is done without at once
        while True:
            asked = options.clock()
            try:
                version = await self._list(kind, heard)
                backoff, could = options.backoff, asked
                if lost and heard is not None:
                    await self._gap(Gap(kind, heard, asked, lost))
                heard, lost = asked, ""
                async with asyncio.timeout(options.sweep * random.uniform(0.9, 1.1)):
                    async for change in self._source.watch(kind, version, on_trouble=lambda detail: self._note(kind, detail)):
                        self._apply(kind, change)
                        heard = could = options.clock()
            except TimeoutError:
                continue  # time for the next sweep
            except Expired as expired:
                lost = expired.detail
            except KubernetesError as error:
                self._note(kind, error.detail)
                if error.why in FOR_GOOD and options.clock() - could >= _REFUSAL_PASSES:
                    self.view.forget(kind)
                    self._is_listed(kind)
                    await asyncio.sleep(options.sweep)
                else:
                    lost = error.detail
                    await asyncio.sleep(backoff * random.uniform(0.8, 1.2))
                    backoff = min(_LONGEST_BACKOFF, backoff * 2)

    async def _list(self, kind: str, heard: datetime | None) -> str:
        if kind == _EVENT:
            events, version = await self._source.collect(kind, lambda raw: raw if heard and is_after(raw, heard - OVERLAP) else None)
            for event in filter(None, events):
                self._take_event(event)
        else:
            objects, version = await self._source.collect(kind, trim)
            for old in self.view.replace(kind, objects):
                self._touch(old, gone=True)
            for raw in objects:
                self._touch(raw)
        self._note(kind, "")
        self._is_listed(kind)
        return version

    def _apply(self, kind: str, change: Change) -> None:
        if kind == _EVENT:
            if change.type != "DELETED":
                self._take_event(change.object)
            return
        raw = trim(change.object)
        if change.type == "DELETED":
            self.view.remove(raw)
        else:
            self.view.put(raw)
        self._touch(raw, gone=change.type == "DELETED")

    def _touch(self, raw: Raw, *, gone: bool = False) -> None:
        """Mark what a changed object may decide as due."""
        metadata = raw["metadata"]
        if raw["kind"] == "Node":
            self._demand(f"node/{metadata['name']}")
        elif raw["kind"] != "Pod":
            self._demand(f"rollout/{raw['kind']}/{metadata.get('namespace', '')}/{metadata['name']}", raw if gone else None)
        else:
            owner: Raw = next((o for o in metadata["ownerReferences"] if o.get("controller")), {})
            places = [f"node/{raw['spec'].get('nodeName', '')}"]
            if owner.get("kind") in rollouts.KINDS:
                places.append(f"rollout/{owner['kind']}/{metadata.get('namespace', '')}/{owner['name']}")
            for key in places:
                if key in self._observer.open:
                    self._demand(key)

    def _take_event(self, event: Raw) -> None:
        waiting = [key for key in self._due if key.startswith("event/")] if len(self._due) > _MAX_WAITING_EVENTS else []
        if len(waiting) > _MAX_WAITING_EVENTS:
            del self._due[waiting[0]]  # the oldest hint; transitions don't hang on it
            self._note(_EVENT, "too many Events wait to be judged; the oldest are dropped")
        self._demand(f"event/{event['metadata'].get('uid', '')}", event)

    def _demand(self, key: str, raw: Raw | None = None) -> None:
        self._due[key] = raw
        self._wake.set()

    def _note(self, kind: str, detail: str) -> None:
        if detail and self.trouble.get(kind) != detail:
            log.warning("watch of %s: %s", kind, detail)
        if detail:
            self.trouble[kind] = detail
        else:
            self.trouble.pop(kind, None)

    def _is_listed(self, kind: str) -> None:
        self._pending.discard(kind)
        if not self._pending:
            self._listed.set()

    async def _judge(self) -> None:
        """Judge what is due. The first time: everything, once all that surrounds it is known."""
        await self._listed.wait()
        for name in set((self._mark or {}).get("nodes", ())) - self.view.nodes.keys():
            self._demand(f"node/{name}")
        looked = self._options.clock()
        await self._insist(self._empty)
        if self._mark is None:
            first = schedule.first_start(self._options.clock(), len(self.view.nodes) + len(self.view.workloads))
            await self._insist(lambda: self._sink([first]))
        self._observer.since = looked
        await self._insist(self._keep_mark)
        self.ready.set()
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._options.debounce)
            self._wake.clear()
            await self._insist(self._empty)
            if self._marked_at is None or self._options.clock() - self._marked_at >= _MARK_EVERY:
                await self._insist(self._keep_mark)

    async def _empty(self) -> None:
        """Judge everything that is due; what fails stays due."""
        while self._due:
            key, raw = next(iter(self._due.items()))
            del self._due[key]
            try:
                await self._look(key, raw)
            except self._options.passing:
                self._due.setdefault(key, raw)
                raise
            except Exception as error:  # one odd object must not blind the watch of all others
                log.exception("%s can't be judged", key)
                now = self._options.clock()
                await self._gap(Gap(key, now, now, f"it can't be judged ({type(error).__name__}: {error})"))

    async def _look(self, key: str, raw: Raw | None) -> None:
        sort, _, name = key.partition("/")
        if sort == "event":
            assert raw is not None
            await self._observer.event(raw)
        elif sort == "node":
            if self.view.knows("Node"):
                await self._observer.node(name, self.view.nodes.get(name))
        elif living := self.view.workloads.get(name):
            await self._observer.workload(living)
        elif raw is not None:
            await self._observer.workload(raw, gone=True)

    async def _keep_mark(self) -> None:
        now = self._options.clock()
        _, version = await self._episodes.get(MARK)
        await self._episodes.put(MARK, mark_of(self.view, now), version)
        self._marked_at = now

    async def _time(self) -> None:
        while True:
            await asyncio.sleep(self._options.interval)
            for key in self._observer.open:
                self._due.setdefault(key, None)
            self._wake.set()

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works, waiting longer each time for what is away."""
        backoff = self._options.backoff
        while True:
            try:
                return await attempt()
            except self._options.passing as error:
                if not isinstance(error, Contended):
                    log.warning("signals wait: %s: %s", type(error).__name__, error)
                await asyncio.sleep(backoff * random.uniform(0.8, 1.2))
                backoff = min(_LONGEST_BACKOFF, backoff * 2)
