"""A sweep finds once what no event has told, and the next report says that the watch may have missed something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from functions.audit import coverage_line
from functions.contract.policy import Policy
from functions.envelope import Event
from functions.evidence.kubernetes.source import KubernetesSource
from functions.settings import Settings
from functions.store import Store, connect
from tests.support.kubernetes import FakeKubernetes
from tests.support.main_job import BEFORE, STREAM, roll
from tests.support.redis import BINARIES, Server
from triggers.roles import PING, Parts

SWEEP = Event("1", "/apis/v1/namespaces/telltale/pingsources/sweep", PING, "", {"kind": "sweep"})
BEGIN = datetime.fromisoformat("2026-11-17T09:55:00+00:00")


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    running = Server(BINARIES["redis"]()).start()
    yield running
    running.close()


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
async def world(redis: Server, tmp_path: Path) -> AsyncIterator[tuple[Parts, FakeKubernetes, Clock]]:
    client = await connect(redis.url)
    await client.flushall()
    store, clock = Store(client, "default"), Clock()
    await store.check()
    async with FakeKubernetes() as cluster:
        cluster.put_now(*BEFORE)
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        async with KubernetesSource.later(str(tmp_path / "kubeconfig")) as objects:
            yield Parts(Settings(), store, Policy(), objects=objects, clock=clock), cluster, clock
    await store.close()


async def test_what_a_sweep_finds_late_is_audited_once_and_said(world: tuple[Parts, FakeKubernetes, Clock]) -> None:
    parts, cluster, clock = world
    await parts.intake_event(SWEEP)
    pending = (await parts.store.queue.waiting(clock.now))["pending"]
    assert pending == 1, "the first look is the state so far"
    assert await parts.store.notes.gaps() == {}, "and no gap"

    await roll(cluster)
    clock.now = BEGIN + timedelta(minutes=20)
    for _ in range(2):
        await parts.intake_event(SWEEP)
    assert (await parts.store.queue.waiting(clock.now))["pending"] == pending + 1
    [gap] = (await parts.store.notes.gaps()).values()
    assert coverage_line(gap) == (
        "changes between 2026-11-17T09:55:00Z and 2026-11-17T10:15:00Z may have gone unseen: "
        "a sweep found 1 that no event had told, the first of DaemonSet/gpu-operator/nvidia-dcgm-exporter"
    )


async def test_what_an_event_has_told_is_no_gap(world: tuple[Parts, FakeKubernetes, Clock]) -> None:
    parts, cluster, clock = world
    await parts.intake_event(SWEEP)
    await roll(cluster)
    clock.now = BEGIN + timedelta(minutes=20)
    raw = cluster.objects["DaemonSet", "gpu-operator", "nvidia-dcgm-exporter"]
    await parts.intake_event(Event("2", "https://10.96.0.1:443", "dev.knative.apiserver.resource.update", "", raw))
    await parts.intake_event(SWEEP)
    assert (await parts.store.queue.waiting(clock.now))["pending"] == 2
    assert await parts.store.notes.gaps() == {}


async def test_what_comes_with_time_alone_is_no_gap(world: tuple[Parts, FakeKubernetes, Clock]) -> None:
    parts, cluster, clock = world
    key = ("DaemonSet", "gpu-operator", "nvidia-dcgm-exporter")
    await parts.intake_event(SWEEP)
    for line in STREAM[len(BEFORE) :]:
        if line["at"] < "2026-11-17T10:00:40" and line["type"] != "DELETED" and line["object"]["kind"] != "Event":
            await cluster.put(line["object"])
    clock.now = BEGIN + timedelta(minutes=6)
    await parts.intake_event(Event("2", "https://10.96.0.1:443", "dev.knative.apiserver.resource.update", "", cluster.objects[key]))
    clock.now = BEGIN + timedelta(hours=1)
    await parts.intake_event(SWEEP)
    assert (await parts.store.queue.waiting(clock.now))["pending"] == 2, "it has stalled"
    assert await parts.store.notes.gaps() == {}
