"""The live source against an API server at the wire: nothing is repeated and nothing missed, whatever breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.contract.signals import Signal
from functions.evidence.kubernetes.errors import KubernetesError
from functions.evidence.kubernetes.source import KubernetesSource, Timing
from tests.support.kubernetes import FakeKubernetes, status
from triggers.replay import MemoryEpisodes
from triggers.watch import Exempt, Gap, Limits, Options, Watcher, from_cloudevent, sweep

LIMITS = Limits(timedelta(seconds=60), timedelta(seconds=0.5), timedelta(seconds=0.3))


class Away(Exception):
    """The store can't be reached just now."""


class Intake:
    """Takes signals as the intake does: once a key. Can be away."""

    def __init__(self) -> None:
        self.signals: dict[str, Signal] = {}
        self.repeats: list[str] = []
        self.away = False

    async def __call__(self, signals: Sequence[Signal]) -> None:
        if self.away:
            raise Away
        self.repeats += [s.key for s in signals if s.key in self.signals]
        self.signals |= {s.key: s for s in signals}

    @property
    def audits(self) -> list[str]:
        return [f"{s.scope} {s.trigger.kind.value} {s.trigger.phase}" for s in self.signals.values() if s.audit]

    async def until(self, count: int, seconds: float = 5) -> list[str]:
        """Wait for that many audits, and a little longer for one too many."""
        async with asyncio.timeout(seconds):
            while len(self.audits) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.15)
        return self.audits


class Store(MemoryEpisodes):
    away = False

    async def get(self, key: str) -> Any:
        if self.away:
            raise Away
        return await super().get(key)

    async def put(self, key: str, state: Any, version: str) -> bool:
        if self.away:
            raise Away
        return await super().put(key, state, version)


class World:
    """A cluster at the wire, a store, an intake, and the watcher between them."""

    def __init__(self, cluster: FakeKubernetes, source: KubernetesSource) -> None:
        self.cluster, self.source = cluster, source
        self.store, self.intake, self.gaps = Store(), Intake(), list[Gap]()

    def options(self, **more: Any) -> Options:
        async def note(gap: Gap) -> None:
            self.gaps.append(gap)

        given: dict[str, Any] = {
            "limits": LIMITS,
            "sweep": 60,
            "debounce": 0.02,
            "timer": 0.1,
            "backoff": 0.05,
            "again": (Away,),
            "on_gap": note,
        }
        return Options(**given | more)

    @asynccontextmanager
    async def watching(self, **more: Any) -> AsyncIterator[Watcher]:
        watcher = Watcher(self.source, self.intake, self.store, self.options(**more))
        task = asyncio.create_task(watcher.run())
        try:
            async with asyncio.timeout(5):
                await watcher.ready.wait()
            yield watcher
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def sweep(self) -> list[str]:
        done = await sweep(self.source, self.intake, self.store, self.options())
        return [f"{s.scope} {s.trigger.kind.value} {s.trigger.phase}" for s in done.signals if s.audit]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with FakeKubernetes() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        cluster.put_now(node("gpu-1"), node("gpu-2"), daemon_set(1), pod("exporter-1", "gpu-1", "DaemonSet"), pod("server-1", "gpu-1"))
        async with await KubernetesSource.connect(str(path), timing=Timing(request=5, watch=30, backoff=0.02)) as source:
            yield World(cluster, source)


def node(name: str, *, cordoned: bool = False) -> dict[str, Any]:
    resources = {"nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": [ready], "capacity": resources, "allocatable": resources, "nodeInfo": {"bootID": "b"}},
    }


def daemon_set(template: int, updated: int = 2, name: str = "exporter") -> dict[str, Any]:
    return {
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": "gpu",
            "generation": template,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"deprecated.daemonset.template.generation": str(template)},
        },
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"containers": [{"name": "main", "image": f"{name}:{template}"}]}},
        },
        "status": {
            "observedGeneration": template,
            "desiredNumberScheduled": 2,
            "updatedNumberScheduled": updated,
            "numberAvailable": updated,
        },
    }


def pod(name: str, on: str, owner: str = "ReplicaSet") -> dict[str, Any]:
    owners = [{"kind": owner, "name": name.rpartition("-")[0], "uid": f"uid-{owner}-{name.rpartition('-')[0]}", "controller": True}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "gpu", "labels": {}, "ownerReferences": owners},
        "spec": {"nodeName": on},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def event(reason: str, name: str, at: str = "2036-01-01T00:00:00Z", uid: str = "e1") -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {"name": f"{name}.{uid}", "namespace": "gpu", "uid": uid},
        "involvedObject": {"kind": "Pod", "name": name, "namespace": "gpu"},
        "reason": reason,
        "message": "m",
        "type": "Warning",
        "lastTimestamp": at,
    }


FIRST = "cluster schedule first-start"
COMPLETE = "DaemonSet/gpu/exporter rollout complete"


async def test_what_a_first_start_finds_is_audited_once_as_a_whole(world: World) -> None:
    world.cluster.put_now(node("gpu-3", cordoned=True), event("Evicted", "server-1", "2026-01-01T00:00:00Z"))
    async with world.watching():
        assert await world.intake.until(1) == [FIRST]
    async with world.watching():
        assert await world.intake.until(1) == [FIRST]
    assert world.intake.repeats == []


async def test_a_rollout_is_followed_live(world: World) -> None:
    async with world.watching():
        await world.cluster.put(daemon_set(2, updated=0))
        await world.cluster.put(daemon_set(2, updated=1))
        await world.cluster.put(daemon_set(2))
        assert await world.intake.until(2) == [FIRST, COMPLETE]
    assert any(s.trigger.phase == "started" for s in world.intake.signals.values())


async def test_a_drain_and_the_return_are_followed_live(world: World) -> None:
    async with world.watching():
        await world.cluster.put(node("gpu-1", cordoned=True))
        await asyncio.sleep(0.1)
        await world.cluster.delete("Pod", "server-1", "gpu")
        await world.intake.until(2)
        await world.cluster.put(node("gpu-1"))
        assert await world.intake.until(3) == [FIRST, "node/gpu-1 drain drained", "node/gpu-1 rejoin rejoined"]


async def test_a_stalled_drain_is_found_by_the_timer_and_names_the_budget(world: World) -> None:
    blocked = pod("server-1", "gpu-1")
    blocked["metadata"]["labels"] = {"app": "server"}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "gpu"},
        "spec": {"selector": {"matchLabels": {"app": "server"}}},
    }
    world.cluster.put_now(blocked, budget | {"status": {"disruptionsAllowed": 0}})
    async with world.watching():
        await world.cluster.put(node("gpu-1", cordoned=True))
        assert await world.intake.until(2) == [FIRST, "node/gpu-1 drain stalled"]
    assert list(world.intake.signals.values())[-1].detail["budgets"] == ["gpu/b"]


async def test_an_event_is_a_hint_for_its_workload(world: World) -> None:
    async with world.watching():
        await world.cluster.put(event("Evicted", "exporter-1"))
        await world.cluster.put(event("Evicted", "exporter-1") | {"count": 2})
        assert await world.intake.until(2) == [FIRST, "DaemonSet/gpu/exporter kubernetes-event Evicted"]


async def test_what_happens_while_nobody_watches_is_found_at_the_next_start(world: World) -> None:
    async with world.watching():
        await world.intake.until(1)
    await world.cluster.put(daemon_set(2), event("Evicted", "exporter-1"))
    await world.cluster.delete("Node", "gpu-2")
    async with world.watching():
        audits = await world.intake.until(4)
    assert set(audits) == {FIRST, COMPLETE, "node/gpu-2 drain gone", "DaemonSet/gpu/exporter kubernetes-event Evicted"}
    assert world.intake.repeats == []


async def test_a_rollout_that_spans_a_restart_is_neither_repeated_nor_missed(world: World) -> None:
    async with world.watching():
        await world.cluster.put(daemon_set(2, updated=1))
        await asyncio.sleep(0.2)
    await world.cluster.put(daemon_set(2))
    async with world.watching():
        assert await world.intake.until(2) == [FIRST, COMPLETE]
    assert sorted(s.trigger.phase for s in world.intake.signals.values()) == ["complete", "first-start", "started"]


async def test_a_forgotten_version_is_listed_again_and_the_gap_is_told(world: World) -> None:
    async with world.watching():
        world.cluster.put_now(daemon_set(2))
        world.cluster.compact()
        world.cluster.drop_watches()
        assert await world.intake.until(2) == [FIRST, COMPLETE]
    assert {gap.kind for gap in world.gaps} >= {"DaemonSet", "Event"}
    assert all(gap.since <= gap.until for gap in world.gaps)


async def test_an_api_server_that_restarts_loses_nothing(world: World) -> None:
    async with world.watching():
        world.cluster.fault(lambda _request: status(503, "starting"), times=20)
        world.cluster.drop_watches()
        await world.cluster.put(daemon_set(2))
        assert await world.intake.until(2) == [FIRST, COMPLETE]


@pytest.mark.parametrize("part", ["store", "intake"])
async def test_a_store_that_is_away_loses_nothing(world: World, part: str) -> None:
    broken: Any = getattr(world, part)
    async with world.watching():
        broken.away = True
        await world.cluster.put(daemon_set(2, updated=1))
        await asyncio.sleep(0.1)
        await world.cluster.put(daemon_set(2))
        await asyncio.sleep(0.2)
        assert world.intake.audits == [FIRST]
        broken.away = False
        assert await world.intake.until(2) == [FIRST, COMPLETE]


async def test_a_start_without_store_or_cluster_waits_for_them(world: World) -> None:
    world.store.away = True
    world.cluster.fault(lambda _request: status(503, "starting"), times=30)
    watcher = Watcher(world.source, world.intake, world.store, world.options())
    task = asyncio.create_task(watcher.run())
    await asyncio.sleep(0.3)
    assert not task.done()
    world.store.away = False
    assert await world.intake.until(1) == [FIRST]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_periodic_sweeps_repeat_nothing(world: World) -> None:
    async with world.watching(sweep=0.1):
        await asyncio.sleep(0.5)
        await world.cluster.put(daemon_set(2))
        assert await world.intake.until(2) == [FIRST, COMPLETE]
        await asyncio.sleep(0.5)
    assert world.intake.audits == [FIRST, COMPLETE]
    assert len(world.cluster.asked("/daemonsets")) > 6
    assert world.gaps == []


async def test_a_kind_that_is_not_allowed_is_done_without_and_said(world: World) -> None:
    world.cluster.allowed = lambda resource: resource != "pods"
    async with world.watching() as watcher:
        await world.cluster.put(node("gpu-1", cordoned=True))
        await world.cluster.put(daemon_set(2))
        assert await world.intake.until(2) == [FIRST, COMPLETE]
        assert "pods" in watcher.trouble["Pod"]
        await world.cluster.put(node("gpu-1"))
        await asyncio.sleep(0.2)
    assert world.intake.audits == [FIRST, COMPLETE]


async def test_two_watchers_signal_each_transition_under_one_key(world: World) -> None:
    async with world.watching(), world.watching():
        await world.cluster.put(daemon_set(2, updated=1))
        await world.cluster.put(node("gpu-1", cordoned=True))
        await world.cluster.delete("Pod", "server-1", "gpu")
        await world.cluster.put(daemon_set(2))
        audits = await world.intake.until(3)
    assert sorted(audits) == sorted([FIRST, COMPLETE, "node/gpu-1 drain drained"])


async def test_exempt_workloads_start_nothing(world: World) -> None:
    async with world.watching(exempt=Exempt(workloads=("DaemonSet/gpu/exp*",))):
        await world.cluster.put(daemon_set(2), daemon_set(1, name="telltale-agent"), event("Evicted", "exporter-1"))
        await asyncio.sleep(0.3)
    assert world.intake.audits == [FIRST]


async def test_a_new_workload_is_a_rollout_and_a_deleted_one_is_forgotten(world: World) -> None:
    fresh = daemon_set(1, name="agent")
    fresh["metadata"]["creationTimestamp"] = "2036-01-01T00:00:00Z"
    async with world.watching():
        await world.cluster.put(fresh)
        assert (await world.intake.until(2))[1] == "DaemonSet/gpu/agent rollout complete"
        await world.cluster.delete("DaemonSet", "agent", "gpu")
        await asyncio.sleep(0.2)
    assert (await world.store.get("rollout/DaemonSet/gpu/agent"))[0] is None


async def test_the_view_ties_alerts_to_objects(world: World) -> None:
    async with world.watching() as watcher:
        owner = watcher.view.owner("gpu", "exporter-1")
        assert owner is not None
        assert str(owner.scope) == "DaemonSet/gpu/exporter"
        assert watcher.view.node("gpu-1") == "gpu-1"
        assert watcher.view.node("10.9.9.9") is None


async def test_a_sweep_alone_finds_what_was_lost(world: World) -> None:
    assert await world.sweep() == [FIRST]
    assert await world.sweep() == []
    await world.cluster.put(daemon_set(2), node("gpu-1", cordoned=True), event("Evicted", "exporter-1"))
    await world.cluster.delete("Pod", "server-1", "gpu")
    await world.cluster.delete("Node", "gpu-2")
    found = await world.sweep()
    assert sorted(found) == sorted(
        ["node/gpu-1 drain drained", COMPLETE, "DaemonSet/gpu/exporter kubernetes-event Evicted", "node/gpu-2 drain gone"]
    )
    assert await world.sweep() == []


async def test_a_sweep_without_the_cluster_or_the_store_fails_and_the_next_makes_up(world: World) -> None:
    await world.sweep()
    await world.cluster.put(daemon_set(2))
    world.cluster.fault(lambda _request: status(500, "no"), times=4)
    with pytest.raises(KubernetesError):
        await world.sweep()
    world.intake.away = True
    with pytest.raises(Away):
        await world.sweep()
    world.intake.away = False
    assert await world.sweep() == [COMPLETE]


Tell = Callable[..., Any]


@pytest.fixture
def tell(world: World) -> Tell:
    async def tell(verb: str, data: Any, mode: str = "resource") -> list[str]:
        signals = await from_cloudevent(
            f"dev.knative.apiserver.{mode}.{verb}", data, world.source, world.intake, world.store, world.options()
        )
        return [f"{s.scope} {s.trigger.kind.value} {s.trigger.phase}" for s in signals]

    return tell


async def test_knatives_events_are_observations(world: World, tell: Tell) -> None:
    await world.sweep()
    await world.cluster.put(daemon_set(2))
    stored = world.cluster.objects["DaemonSet", "gpu", "exporter"]
    assert await tell("update", stored) == ["DaemonSet/gpu/exporter rollout started", COMPLETE]
    assert await tell("update", stored) == []
    assert await world.sweep() == []


async def test_knatives_events_tell_a_drain(world: World, tell: Tell) -> None:
    await world.sweep()
    await world.cluster.put(node("gpu-1", cordoned=True))
    assert await tell("update", world.cluster.objects["Node", "", "gpu-1"]) == ["node/gpu-1 drain cordoned"]
    server = world.cluster.objects["Pod", "gpu", "server-1"]
    await world.cluster.delete("Pod", "server-1", "gpu")
    assert await tell("delete", server) == ["node/gpu-1 drain drained"]
    await world.cluster.put(node("gpu-1"))
    assert (await tell("update", world.cluster.objects["Node", "", "gpu-1"]))[-1] == "node/gpu-1 rejoin rejoined"
    gone = world.cluster.objects["Node", "", "gpu-2"]
    await world.cluster.delete("Node", "gpu-2")
    assert await tell("delete", gone) == ["node/gpu-2 drain gone"]


async def test_an_older_copy_of_an_object_is_passed_over(world: World, tell: Tell) -> None:
    await world.sweep()
    old = dict(world.cluster.objects["DaemonSet", "gpu", "exporter"])
    await world.cluster.put(daemon_set(2))
    await tell("update", world.cluster.objects["DaemonSet", "gpu", "exporter"])
    assert await tell("update", old) == []
    assert world.intake.audits == [FIRST, COMPLETE]


async def test_references_are_looked_up(world: World, tell: Tell) -> None:
    await world.sweep()
    await world.cluster.put(daemon_set(2))
    reference = {"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "exporter", "namespace": "gpu"}
    assert (await tell("update", reference, "ref"))[-1] == COMPLETE
    assert (await tell("add", event("Evicted", "exporter-1")))[0].endswith("Evicted")


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "x",
        {},
        {"kind": "Node"},
        {"kind": "Node", "metadata": {}},
        {"kind": 7, "metadata": {"name": "a"}},
        {"kind": "Secret", "metadata": {"name": "a"}},
    ],
)
async def test_data_without_an_object_of_interest_gives_nothing(world: World, tell: Tell, data: Any) -> None:
    assert await tell("update", data) == []


async def test_settled_pods_cost_no_request(world: World, tell: Tell) -> None:
    await world.sweep()
    before = len(world.cluster.requests)
    await tell("update", world.cluster.objects["Pod", "gpu", "server-1"])
    await tell("update", world.cluster.objects["Node", "", "gpu-1"])
    assert len(world.cluster.requests) == before


async def test_one_odd_object_blinds_nobody_else_and_is_said(world: World) -> None:
    odd = daemon_set(1, name="odd")
    odd["status"] = {"desiredNumberScheduled": "many"}
    world.cluster.put_now(odd)
    async with world.watching():
        await world.cluster.put(daemon_set(2, updated=0))
        await world.cluster.put(daemon_set(2))
        assert await world.intake.until(2) == ["cluster schedule first-start", "DaemonSet/gpu/exporter rollout complete"]
    assert {gap.kind for gap in world.gaps} == {"rollout/DaemonSet/gpu/odd"}
    assert "ValueError" in world.gaps[0].why


async def test_a_gap_while_the_store_is_away_waits_and_ends_nothing(world: World) -> None:
    refused = 2

    async def note(gap: Gap) -> None:
        nonlocal refused
        if refused:
            refused -= 1
            raise Away
        world.gaps.append(gap)

    async with world.watching(on_gap=note):
        world.cluster.compact()
        await world.cluster.put(daemon_set(2, updated=0))
        world.cluster.compact()
        world.cluster.drop_watches()
        await world.cluster.put(daemon_set(2))
        await world.intake.until(2)
        async with asyncio.timeout(5):
            while not world.gaps:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert refused == 0


async def test_an_api_server_that_refuses_everybody_just_after_its_start_blinds_nobody(world: World) -> None:
    async with world.watching() as watcher:
        world.cluster.allowed = lambda _resource: False
        world.cluster.compact()
        world.cluster.drop_watches()
        async with asyncio.timeout(5):
            while len(watcher.trouble) < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert watcher.view.knows("Pod")
        world.cluster.allowed = lambda _resource: True
        await world.cluster.put(daemon_set(2, updated=0))
        await world.cluster.put(daemon_set(2))
        assert await world.intake.until(2) == ["cluster schedule first-start", "DaemonSet/gpu/exporter rollout complete"]
    assert "DaemonSet" in {gap.kind for gap in world.gaps}
