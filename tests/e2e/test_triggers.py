"""The triggers on a real API server with its controllers: rollouts, drains, restarts, and rights."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from signal import SIGKILL

import pytest
import yaml

from functions.contract.facts import Known, Missing, Why
from functions.contract.signals import Signal
from functions.evidence.kubernetes.source import KubernetesSource, Timing
from functions.settings import Settings
from tests.e2e.control_plane import ControlPlane, kubeconfig, missing_assets
from tests.e2e.workloads import budget, daemon_set, deployment
from triggers.commands import doctor
from triggers.commands._doctor_line import Status
from triggers.replay import MemoryEpisodes
from triggers.watch import Limits, Options, Watcher, sweep

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "-")]

LIMITS = Limits(drain_deadline=timedelta(seconds=4), not_ready_grace=timedelta(seconds=20))
FAST = Options(limits=LIMITS, timer=0.5, backoff=0.2)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), Path(os.environ["KUBEBUILDER_ASSETS"]))

    async def up() -> None:
        await plane.start()
        for number in range(3):
            await plane.node(f"gpu-{number}")
        await plane.wait("node", "--all", "--for=condition=Ready")
        await plane.apply(daemon_set("exporter", "exporter:1"), deployment("server", "server:1"))
        await plane.rolled_out("daemonset/exporter")
        await plane.rolled_out("deployment/server")

    try:
        asyncio.run(up())
        yield plane
    finally:
        asyncio.run(plane.stop())


class Seen:
    """The signals of a watcher, each key once."""

    def __init__(self) -> None:
        self.signals: dict[str, Signal] = {}

    async def __call__(self, signals: Sequence[Signal]) -> None:
        self.signals |= {signal.key: signal for signal in signals}

    def audits(self, kinds: tuple[str, ...] = ("rollout", "drain", "rejoin")) -> list[str]:
        return [f"{s.scope} {s.trigger.phase}" for s in self.signals.values() if s.audit and s.trigger.kind.value in kinds]

    async def until(self, line: str, seconds: float = 60) -> Signal:
        async with asyncio.timeout(seconds):
            while line not in self.audits():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        return [s for s in self.signals.values() if f"{s.scope} {s.trigger.phase}" == line][-1]


@pytest.fixture
async def source(plane: ControlPlane) -> AsyncIterator[KubernetesSource]:
    async with await KubernetesSource.connect(str(plane.kubeconfig), timing=Timing(backoff=0.2)) as source:
        yield source


@asynccontextmanager
async def watching(source: KubernetesSource) -> AsyncIterator[Seen]:
    seen = Seen()
    watcher = Watcher(source, seen, MemoryEpisodes(), FAST)
    task = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(20):
            await watcher.ready.wait()
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_rollouts_end_once_and_scaling_is_none(plane: ControlPlane, source: KubernetesSource) -> None:
    async with watching(source) as seen:
        await plane.kubectl("scale", "deployment/server", "--replicas=4")
        await plane.rolled_out("deployment/server")
        await plane.apply(daemon_set("exporter", "exporter:2"))
        done = await seen.until("DaemonSet/default/exporter complete")
        await plane.kubectl("rollout", "restart", "deployment/server")
        await seen.until("Deployment/default/server complete")
        await asyncio.sleep(1)
    assert seen.audits() == ["DaemonSet/default/exporter complete", "Deployment/default/server complete"]
    assert done.baseline is not None
    assert done.detail["images_before"] == {"main": "exporter:1"}


async def test_a_drain_that_a_budget_blocks_stalls_goes_on_and_returns(plane: ControlPlane, source: KubernetesSource) -> None:
    pods = (await plane.get("pods", "-l", "app=server"))["items"]
    name = pods[0]["spec"]["nodeName"]
    await plane.apply(budget("server", "server", len(pods)))
    async with watching(source) as seen:
        await plane.kubectl("drain", name, "--ignore-daemonsets", "--timeout=3s", check=False)
        stalled = await seen.until(f"node/{name} stalled")
        assert stalled.detail["budgets"] == ["default/server"]
        await plane.kubectl("delete", "pdb", "server")
        await plane.kubectl("drain", name, "--ignore-daemonsets")
        await seen.until(f"node/{name} drained")
        await plane.kubectl("uncordon", name)
        await seen.until(f"node/{name} rejoined")
        await asyncio.sleep(1)
    assert seen.audits(("drain", "rejoin")) == [f"node/{name} {phase}" for phase in ("stalled", "drained", "rejoined")]


async def test_an_api_server_killed_midway_loses_no_end(plane: ControlPlane, source: KubernetesSource) -> None:
    async with watching(source) as seen:
        await plane.apply(daemon_set("exporter", "exporter:3"))
        await asyncio.sleep(1)
        await plane.kill("kube-apiserver", SIGKILL)
        await asyncio.sleep(2)
        plane.start_api()
        await plane.until_ready()
        await seen.until("DaemonSet/default/exporter complete", 90)
    assert seen.audits(("rollout",)) == ["DaemonSet/default/exporter complete"]


async def test_a_node_that_goes_and_comes_is_gone_and_joins(plane: ControlPlane, source: KubernetesSource) -> None:
    await plane.node("gpu-9")
    await plane.wait("node/gpu-9", "--for=condition=Ready")
    await plane.rolled_out("daemonset/exporter")
    async with watching(source) as seen:
        await plane.kubectl("delete", "node", "gpu-9")
        await seen.until("node/gpu-9 gone")
        await plane.node("gpu-9")
        await seen.until("node/gpu-9 rejoined")
        await plane.kubectl("delete", "node", "gpu-9")
    assert seen.audits(("rollout",)) == [], "nodes that come and go are no rollout"


async def test_sweeps_alone_find_what_has_happened_between(plane: ControlPlane, source: KubernetesSource) -> None:
    seen, episodes = Seen(), MemoryEpisodes()
    await sweep(source, seen, episodes, FAST)
    await plane.kubectl("rollout", "restart", "deployment/server")
    await plane.rolled_out("deployment/server")
    await sweep(source, seen, episodes, FAST)
    await sweep(source, seen, episodes, FAST)
    assert seen.audits() == ["Deployment/default/server complete"]


async def test_a_service_account_reads_what_its_role_allows_and_nothing_else(plane: ControlPlane, tmp_path: Path) -> None:
    await plane.kubectl("create", "serviceaccount", "reader")
    await plane.kubectl("create", "clusterrole", "reader", "--verb=get,list,watch", "--resource=pods")
    await plane.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader")
    token = (await plane.kubectl("create", "token", "reader")).stdout.strip()
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig(plane.url, token)))
    async with await KubernetesSource.connect(str(path)) as source:
        assert isinstance(await source.list("Pod"), Known)
        refused = await source.list("Node")
        assert isinstance(refused, Missing)
        assert refused.why is Why.UNAUTHORISED
        assert 'verb "list" on "nodes"' in refused.detail
        assert await source.can_i("list", "Pod")
        assert not await source.can_i("list", "Node")
    lines = {line.what: line for line in await doctor.examined(Settings.read({"KUBECONFIG": str(path)}))}
    assert lines["kubernetes pods"].detail == "may get, list, watch, in every namespace"
    assert lines["kubernetes nodes"].status is Status.FAIL
    assert lines["kubernetes least privilege"].detail == "may not read Secrets and may not write"
    path.write_text(yaml.safe_dump(kubeconfig(plane.url, "wrong")))
    async with await KubernetesSource.connect(str(path)) as source:
        refused = await source.list("Pod")
        assert isinstance(refused, Missing)
        assert "credentials" in refused.detail
