"""Every role as its own process, joined by a broker that follows the manifests: what Knative does to them, and what comes out.

The parts are real (Redis, Prometheus, TLS, the processes); Kubernetes and the broker are played at the wire.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support import main_job as job
from tests.support.knative import OVERRIDES, TOKEN, Broker, Role, environment, manifests, roles, service
from tests.support.kubernetes import FakeKubernetes
from tests.support.redis import BINARIES, Server
from tests.support.tls import Authority

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

INCIDENT = job.INCIDENT
QUIET = "telltale-quiet"


class Gate:
    """Prometheus behind a gate: what is asked while it is shut waits. An audit can so be caught midway."""

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self.opened = asyncio.Event()
        self.opened.set()
        self.waiting = 0

    async def pass_on(self, request: web.Request) -> web.Response:
        self.waiting += 1
        await self.opened.wait()
        self.waiting -= 1
        headers = {"Content-Type": request.headers.get("Content-Type", "")} if request.can_read_body else {}
        async with aiohttp.ClientSession() as session:
            target = f"{self._behind}{request.rel_url}"
            async with session.request(request.method, target, data=await request.read(), headers=headers) as answer:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)


@dataclass
class World:
    """Telltale on Knative, and what it talks to."""

    cluster: FakeKubernetes
    parts: job.MainJob
    gate: Gate
    broker: Broker
    redis: Server
    roles: dict[str, Role]
    told: int = field(default=0)

    def changes(self, first: int) -> list[tuple[str, dict[str, Any]]]:
        """What the ApiServerSource would tell of the cluster's history from there on."""
        verbs = {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}
        return [(verbs[type_], raw) for _, type_, _, raw in self.cluster.history[first:]]

    async def tell(self, changes: list[tuple[str, dict[str, Any]]]) -> None:
        await asyncio.gather(*filter(None, (self.broker.changed(verb, raw) for verb, raw in changes)))

    async def until(self, wanted: Callable[[], Any], seconds: float = 40) -> Any:
        """Tick as the PingSource does, only faster, until something is so."""
        async with asyncio.timeout(seconds):
            while True:
                found = wanted()
                found = await found if asyncio.iscoroutine(found) else found
                if found:
                    return found
                self.broker.later(*self._tick())
                await asyncio.sleep(0.4)

    def _tick(self) -> tuple[dict[str, str], bytes]:
        self.told += 1
        return {
            "ce-specversion": "1.0",
            "ce-id": f"tick-{self.told}",
            "ce-source": "/apis/v1/namespaces/telltale/pingsources/tick",
            "ce-type": "dev.knative.sources.ping",
            "content-type": "application/json",
        }, b'{"kind": "tick"}'

    async def board(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(self.roles["board"].url + path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def audits(self, kind: str) -> list[dict[str, Any]]:
        return [a for a in (await self.board("/api/v1/audits"))["audits"] if a["trigger"]["kind"] == kind]

    async def alert(self, name: str) -> None:
        """Alertmanager posts an alert, whose audit is due at once."""
        alert = {
            "status": "firing",
            "labels": {"alertname": name, "namespace": name},
            "annotations": {},
            "startsAt": datetime.now(UTC).isoformat(),
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "",
            "fingerprint": name,
        }
        body = {"version": "4", "groupKey": name, "status": "firing", "receiver": "telltale", "groupLabels": {}, "commonLabels": {}}
        body |= {"commonAnnotations": {}, "externalURL": "", "truncatedAlerts": 0, "alerts": [alert]}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"{self.roles['intake'].url}/alertmanager"
        async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()

    def summaries(self, kind: str) -> list[dict[str, Any]]:
        return [m for m in self.parts.chat.messages if m["kind"] == "summary" and job.about(m)[0] == kind]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder: Path = tmp_path_factory.mktemp("roles")
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(FakeKubernetes())
        cluster.put_now(*job.BEFORE)
        (folder / "kubeconfig").write_text(cluster.kubeconfig())
        (folder / "policy.yaml").write_text(yaml.safe_dump(job.POLICY))
        parts = await stack.enter_async_context(job.main_job(folder / "kubeconfig", folder, start=False))
        gate = Gate(parts.server.url)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", gate.pass_on)
        gated = TestServer(app)
        await gated.start_server()
        stack.push_async_callback(gated.close)
        broker = Broker(Authority())
        await broker.start(folder)
        stack.push_async_callback(broker.close)
        redis = Server(BINARIES["redis"](), durable=True).start()
        stack.callback(redis.close)
        settings = {
            "CLUSTER": "lab",
            "REDIS_URL": redis.url,
            "PROMETHEUS_URL": str(gated.make_url("")).rstrip("/"),
            "WEBHOOK_URL": parts.chat.url,
            "SETTLE": "3",
            "LEASE": "4",
            "RETRY": "1",
            "RULES": str(INCIDENT / "rules/gpu.yaml"),
            "DASHBOARDS": str(INCIDENT / "dashboards"),
        }
        found = {name: Role(name, environment(name, broker, folder, settings), folder) for name in roles()}
        for name, role in found.items():
            if service(name)["spec"]["template"]["spec"]["serviceAccountName"] != QUIET:
                role.environment = {**role.environment, "KUBECONFIG": str(folder / "kubeconfig")}
            broker.services[name] = role.url
            stack.push_async_callback(role.stop, signal.SIGKILL)
        await asyncio.gather(*(role.start() for role in found.values()))
        await parts.server.until("min(count_over_time(up[10s])) >= 5")
        yield World(cluster, parts, gate, broker, redis, found)


async def test_a_rollout_told_twice_and_out_of_order_is_posted_once_and_is_on_the_board(world: World) -> None:
    broker = world.broker
    assert await broker.ping("sweep"), "the first look: the state so far"
    await world.until(lambda: world.audits("schedule"))

    first = len(world.cluster.history)
    broker.copies = 2

    async def midway() -> None:
        await world.tell(world.changes(first))
        world.parts.serve(job.exposed("after"))
        await world.parts.discover(job.exposed("after"))

    await job.roll(world.cluster, midway)
    changes = world.changes(first)  # with what was told already
    random.Random(7).shuffle(changes)
    for change in changes:
        await world.tell([change])
    broker.copies = 1
    told = (await world.until(lambda: world.summaries("rollout")))[0]

    assert told["report"]["audit"]["trigger"]["phase"] == "complete"
    assert {"metric-rename/renamed", "metric-rename/label-renamed", "metric-rename/rule-dead"} <= job.codes(told)
    [audit] = await world.audits("rollout")
    assert audit["id"] == told["audit"]
    assert "metric-rename/rule-dead" in {f["code"] for f in (await world.board("/api/v1/findings?limit=500"))["findings"]}

    # what is ours carries what the SinkBinding says, and the sweep has nothing to add
    ours = [e for e in broker.events if e["ce-type"].startswith("dev.telltale.")]
    assert {e["ce-type"] for e in ours} >= {"dev.telltale.audit.due", "dev.telltale.audit.completed", "dev.telltale.postmortem.drafted"}
    assert all(e["ce-tenant"] == OVERRIDES["tenant"] for e in ours)
    await broker.ping("sweep")
    await asyncio.sleep(4)  # past the settling time: an audit of its own would be due
    assert await broker.ping("baseline")
    assert await broker.ping("tick")
    assert len(await world.audits("rollout")) == 1
    assert len(world.summaries("rollout")) == 1


async def test_nothing_was_answered_in_a_way_that_loses_an_event(world: World) -> None:
    """Of what the tests before it have sent."""
    assert len(world.broker.deliveries) > 30
    assert {d.status for d in world.broker.deliveries} <= {200, 202, 503}
    assert {d.trigger for d in world.broker.deliveries} == {t["metadata"]["name"] for t in manifests("triggers.yaml")}


async def test_a_redis_that_is_away_costs_retries_and_no_event(world: World) -> None:
    before = len(world.broker.deliveries)
    [node] = [raw for (kind, _, name), raw in world.cluster.objects.items() if kind == "Node" and name == "gpu-h1"]

    first = len(world.cluster.history)
    await world.cluster.put({**node, "spec": {**node.get("spec", {}), "unschedulable": True}})
    world.redis.stop()
    sent = asyncio.create_task(world.tell(world.changes(first)))
    async with asyncio.timeout(20):
        while not [d for d in world.broker.deliveries[before:] if d.status == 503]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    world.redis.start()
    await sent
    attempts = [d.status for d in world.broker.deliveries[before:] if d.trigger == "kubernetes"]
    assert set(attempts) == {202, 503}
    assert attempts[-1] == 202


async def test_an_audit_that_is_told_to_end_ends_first_and_its_answer_arrives(world: World) -> None:
    audit = world.roles["audit"]
    done = len([e for e in world.broker.events if e["ce-type"] == "dev.telltale.audit.completed"])
    world.gate.opened.clear()
    await world.alert("EndsInGoodOrder")
    await world.until(lambda: world.gate.waiting)
    ending = asyncio.create_task(audit.stop(signal.SIGTERM))
    await asyncio.sleep(0.3)
    assert not ending.done(), "it waits for the audit under way"
    world.gate.opened.set()
    assert await ending == 0
    completed = [e for e in world.broker.events if e["ce-type"] == "dev.telltale.audit.completed"]
    assert len(completed) == done + 1
    await audit.start()


async def test_an_audit_that_is_killed_is_done_by_another_once_its_lease_is_over(world: World) -> None:
    audit = world.roles["audit"]
    before = {a["id"] for a in await world.audits("alert")}
    world.gate.opened.clear()
    await world.alert("IsKilledMidway")
    await world.until(lambda: world.gate.waiting)
    await audit.stop(signal.SIGKILL)
    world.gate.opened.set()
    await audit.start()

    async def finished() -> set[str]:
        return {a["id"] for a in await world.audits("alert")} - before

    new = await world.until(finished)
    assert len(new) == 1
    sent = [e["ce-id"] for e in world.broker.events if e["ce-type"] == "dev.telltale.audit.due" and e["ce-id"] in new]
    assert len(sent) >= 2, "the same event, sent again under its id"


async def test_what_can_not_be_read_is_a_dead_letter_at_once_with_its_reason(world: World) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "broken",
        "ce-source": "https://10.96.0.1:443",
        "ce-type": "dev.knative.apiserver.resource.update",
        "content-type": "application/json",
    }
    before = len(world.broker.deliveries)
    assert await world.broker.send(headers, b'{"kind": "Node", ')
    mine = [(d.subscriber, d.status) for d in world.broker.deliveries[before:] if d.id == "broken"]
    assert mine == [("intake", 400), ("dead-letter", 202)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "triggers.cli", "dead-letters", "--format", "json"),
        env=dict(world.roles["board"].environment),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    [letter] = json.loads(out)["letters"]
    assert letter["why"].startswith("400: the data is not JSON")
