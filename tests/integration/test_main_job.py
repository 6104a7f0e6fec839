"""The main job with real parts: a real Prometheus and Alertmanager, a Valkey of Telltale's own, exporters over HTTP, and
`telltale run` as a process. Only the Kubernetes API is played, at the wire. Nothing patches Telltale.

Here is what goes wrong: a rollout that breaks the way, processes that are killed, a Prometheus that is away or new. Each
story has a world of its own. They wait more than they work, so they run side by side, and each test awaits its own.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from functions.ending import end
from tests.support.alertmanager import alertmanager
from tests.support.inbox import Message
from tests.support.kubernetes import FakeKubernetes
from tests.support.main_job import BEFORE, TOKEN, MainJob, about, codes, exposed, main_job, replaced, roll, scrape

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]
_AT_ONCE = 3


@dataclass
class World:
    cluster: FakeKubernetes
    job: MainJob

    async def break_the_way(self) -> None:
        """The rollout of the incident, and what its exporters expose afterwards."""
        self.job.serve(exposed("after"))
        await roll(self.cluster, lambda: self.job.discover(exposed("after")))

    def told(self, kind: str = "summary") -> list[Message]:
        return [m for m in self.job.chat.messages if m["kind"] == kind and about(m)[0] == "rollout"]


@asynccontextmanager
async def world(folder: Path, **settings: str) -> AsyncIterator[World]:
    async with FakeKubernetes() as cluster:
        cluster.put_now(*BEFORE)
        (folder / "kubeconfig").write_text(cluster.kubeconfig())
        async with main_job(folder / "kubeconfig", folder, **settings) as job:
            await job.audited("schedule", "first-start")
            yield World(cluster, job)


async def a_rollout_that_breaks_the_way_is_told_once_with_what_to_change_and_an_alert_finds_its_workload(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.break_the_way()
        told = await here.job.told("summary", "rollout", "complete")
        assert told["schema"] == "telltale.dev/message/v1"
        expected = {"metric-rename/renamed", "metric-rename/label-renamed", "metric-rename/rule-dead", "label-mapping/pod-missing"}
        assert expected <= codes(told)
        renamed = {
            f["subject"]["metric"]: f["subject"]["renamed_to"] for f in told["report"]["findings"] if f["code"] == "metric-rename/renamed"
        }
        assert renamed["DCGM_FI_DEV_GPU_TEMP"] == "DCGM_FI_DEV_GPU_TEMP_CELSIUS"
        assert "GPUTemperatureHigh" in told["text"]
        assert await here.job.finding("metric-rename/rule-dead")
        stub = await here.job.chat.wait(lambda m: m["kind"] == "postmortem")
        for part in ("Trigger signal", "Affected workload", "Trace", "Device", "Actions observed", "Recovery", "Dimension to add"):
            assert part in stub["text"]

        url = f"{here.job.url}/alertmanager"
        async with alertmanager(tmp_path / "alertmanager", url, TOKEN) as pager, aiohttp.ClientSession() as session:
            alert = {"labels": {"alertname": "VllmRequestLatencyP95High", "namespace": "chat-prod", "severity": "critical"}}
            async with session.post(f"{pager}/api/v2/alerts", json=[alert]) as response:
                assert response.status == 200
            audit = await here.job.audited("alert", "firing")
        assert audit["scope"] == "namespace/chat-prod"
        assert len(here.told()) == 1


async def killed_while_a_rollout_happens_it_is_audited_once_and_posted_once(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.break_the_way()
        await here.job.stop(signal.SIGKILL)
        await here.job.start()
        await here.job.told("summary", "rollout", "complete")
        await asyncio.sleep(3)
        assert len(await here.job.audits("rollout", "complete")) == 1
        assert len({m["key"] for m in here.told()}) == 1


async def a_rollout_while_prometheus_is_away_is_unknown_and_judged_by_itself_when_it_is_back(tmp_path: Path) -> None:
    async with world(tmp_path, SETTLE="5") as here:
        await here.job.server.stop()
        here.job.serve(exposed("after"))
        await roll(here.cluster)
        unknown = await here.job.told("summary", "rollout", "complete")
        assert unknown["report"]["audit"]["verdict"] == "unknown"
        assert "unknown**, which is not healthy" in unknown["text"]
        assert here.job.server.url in unknown["text"], "it does not say what can't be reached"
        again = await here.job.audited("rollout", "complete", more_than=1)
        assert again["verdict"] == "unknown"
        assert len(here.told()) == 1, "one outage is told once"

        await here.job.server.start_again(scrape=scrape(here.job.fleet, exposed("after")))
        judged = await here.job.told("update", "rollout", "complete")
        assert {"metric-rename/renamed", "metric-rename/rule-dead", "label-mapping/pod-missing"} <= codes(judged)
        assert not codes(judged) & {"metric-rename/dual-emitted", "telemetry-gap/target-down"}, "it was judged before it had settled"
        assert judged["report"]["audit"]["baseline"] == unknown["report"]["audit"]["baseline"]


async def what_prometheus_could_not_show_is_resolved_when_it_is_back_and_all_is_well(tmp_path: Path) -> None:
    async with world(tmp_path, SETTLE="5") as here:
        await here.job.server.stop()
        await roll(here.cluster)
        await here.job.told("summary", "rollout", "complete")
        await here.job.server.start_again(scrape=scrape(here.job.fleet, replaced(exposed("before"))))
        ended = await here.job.told("resolved", "rollout", "complete")
        assert ended["report"]["audit"]["verdict"] == "pass"
        assert [m["kind"] for m in here.job.chat.messages] == ["summary", "resolved"]


async def a_prometheus_that_is_new_since_the_upgrade_is_compared_with_what_was_kept(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.job.server.stop()
        await here.job.server.start_again(empty=True)
        await here.break_the_way()
        told = await here.job.told("summary", "rollout", "complete")
        assert {"metric-rename/renamed", "metric-rename/unit-changed", "metric-rename/rule-dead", "label-mapping/pod-missing"} <= codes(
            told
        )
        labels = {
            f["subject"]["label"]: f["subject"]["renamed_to"]
            for f in told["report"]["findings"]
            if f["code"] == "metric-rename/label-renamed"
        }
        assert labels["Hostname"] == "hostname"
        [line] = told["report"]["audit"]["coverage"]
        assert "compared with the last good inventory" in line
        assert line.endswith(f"of {told['report']['audit']['baseline'].replace('T', ' ').replace('Z', ' UTC')}")


STORIES: dict[str, Callable[[Path], Awaitable[None]]] = {
    f"test_{story.__name__}": story
    for story in (
        a_rollout_that_breaks_the_way_is_told_once_with_what_to_change_and_an_alert_finds_its_workload,
        killed_while_a_rollout_happens_it_is_audited_once_and_posted_once,
        a_rollout_while_prometheus_is_away_is_unknown_and_judged_by_itself_when_it_is_back,
        what_prometheus_could_not_show_is_resolved_when_it_is_back_and_all_is_well,
        a_prometheus_that_is_new_since_the_upgrade_is_compared_with_what_was_kept,
    )
}
Stories = dict[str, asyncio.Task[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stories(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stories]:
    """The stories of the tests that were chosen, begun."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def tell(name: str) -> None:
        async with turns:
            await STORIES[name](tmp_path_factory.mktemp(name[:30]))

    chosen = [item.name for item in request.session.items if item.name in STORIES]
    tasks = {name: asyncio.create_task(tell(name), name=name) for name in chosen}
    yield tasks
    await end(tasks.values())


async def test_a_rollout_that_breaks_the_way_is_told_once_with_what_to_change_and_an_alert_finds_its_workload(stories: Stories) -> None:
    await stories["test_a_rollout_that_breaks_the_way_is_told_once_with_what_to_change_and_an_alert_finds_its_workload"]


async def test_killed_while_a_rollout_happens_it_is_audited_once_and_posted_once(stories: Stories) -> None:
    await stories["test_killed_while_a_rollout_happens_it_is_audited_once_and_posted_once"]


async def test_a_rollout_while_prometheus_is_away_is_unknown_and_judged_by_itself_when_it_is_back(stories: Stories) -> None:
    await stories["test_a_rollout_while_prometheus_is_away_is_unknown_and_judged_by_itself_when_it_is_back"]


async def test_what_prometheus_could_not_show_is_resolved_when_it_is_back_and_all_is_well(stories: Stories) -> None:
    await stories["test_what_prometheus_could_not_show_is_resolved_when_it_is_back_and_all_is_well"]


async def test_a_prometheus_that_is_new_since_the_upgrade_is_compared_with_what_was_kept(stories: Stories) -> None:
    await stories["test_a_prometheus_that_is_new_since_the_upgrade_is_compared_with_what_was_kept"]
