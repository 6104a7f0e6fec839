"""Everyday life with real parts: what is well is not talked about, a healthy change gets one line, and a node's return is
judged by what came back with it.

One Prometheus and one `telltale run` serve all tests of this file. Each leaves the cluster in order.
"""

from __future__ import annotations

import asyncio
import copy
import re
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.support.alertmanager import alertmanager
from tests.support.inbox import Message
from tests.support.kubernetes import FakeKubernetes
from tests.support.main_job import BEFORE, EXPORTER, TOKEN, Exposed, MainJob, about, codes, exposed, main_job, replaced, roll, unmapped

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

Raw = dict[str, Any]
NODE = "gpu-h2"
#: Seconds between scheduled audits: so long that none comes, or so short that some do.
SELDOM, OFTEN = "900", "3"


@dataclass
class Day:
    """A cluster at the wire, and Telltale on it."""

    cluster: FakeKubernetes
    job: MainJob
    targets: list[Exposed]

    def get(self, kind: str, name: str, namespace: str = "") -> Raw:
        return copy.deepcopy(self.cluster.objects[kind, namespace, name])

    def messages(self, since: int) -> list[Message]:
        return self.job.chat.messages[since:]

    async def restart(self, schedule: str) -> None:
        """Stop Telltale as a deployment does, and start it with another interval of scheduled audits."""
        await self.job.stop(signal.SIGTERM)
        self.job.settings = {**self.job.settings, "SCHEDULE": schedule}
        await self.job.start()

    async def expose(self, targets: Sequence[Exposed]) -> None:
        self.targets = list(targets)
        self.job.serve(targets)
        await self.job.discover(targets)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def day(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Day]:
    folder = tmp_path_factory.mktemp("day")
    async with FakeKubernetes() as cluster:
        cluster.put_now(*BEFORE)
        (folder / "kubeconfig").write_text(cluster.kubeconfig())
        async with main_job(folder / "kubeconfig", folder, TICK="0.1", SWEEP="1", SCHEDULE=SELDOM) as job:
            await job.audited("schedule", "first-start")
            yield Day(cluster, job, exposed("before"))


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready(raw: Raw, yes: bool) -> Raw:
    """The object with its Ready condition as told, since now."""
    for condition in raw["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition |= {"status": "True" if yes else "False", "lastTransitionTime": stamp()}
    return raw


def event(number: int, reason: str, pod: Raw) -> Raw:
    involved = {"kind": "Pod", "namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"event-{number}", "namespace": pod["metadata"]["namespace"], "uid": f"event-{number}"},
        "involvedObject": involved,
        "reason": reason,
        "type": "Normal",
        "message": reason,
        "count": 1,
        "firstTimestamp": stamp(),
        "lastTimestamp": stamp(),
    }


async def churn(day: Day, number: int) -> None:
    """What goes on in a cluster in which nothing happens: one round of it."""
    cluster = day.cluster
    for node in [raw for (kind, _, _), raw in cluster.objects.items() if kind == "Node"]:
        beat = copy.deepcopy(node)
        for condition in beat["status"]["conditions"]:
            condition["lastHeartbeatTime"] = stamp()
        await cluster.put(beat)
    server = next(copy.deepcopy(raw) for (kind, space, _), raw in cluster.objects.items() if kind == "Pod" and space == "chat-prod")
    server["status"].setdefault("containerStatuses", [{"name": "vllm"}])[0]["restartCount"] = number
    await cluster.put(ready(server, number % 2 == 1), event(number, ("Started", "Pulled", "Created")[number % 3], server))
    exporters = day.get("DaemonSet", EXPORTER, "gpu-operator")
    exporters["status"]["numberAvailable"] = exporters["status"]["numberReady"] = 3 - (number % 2 == 0)
    await cluster.put(exporters)
    models = day.get("Deployment", "assist-32b", "assist-prod")
    models["spec"]["replicas"] = models["status"]["replicas"] = models["status"]["updatedReplicas"] = 2 + number % 2
    models["metadata"]["generation"] += 1
    models["status"]["observedGeneration"] = models["metadata"]["generation"]
    await cluster.put(models)
    batch = {
        "kind": "Pod",
        "metadata": {
            "name": f"nightly-{number}",
            "namespace": "batch",
            "ownerReferences": [{"kind": "Job", "name": "nightly", "uid": "j", "controller": True}],
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "job:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    await cluster.put(batch, batch | {"status": {"phase": "Succeeded"}})
    await cluster.delete("Pod", f"nightly-{number}", "batch")


async def test_of_an_hour_in_which_nothing_happens_nothing_is_said_and_all_is_kept(day: Day) -> None:
    await day.restart(OFTEN)
    begun, audits = len(day.job.chat.messages), len(await day.job.audits("schedule", "periodic"))
    sweeps = len(day.cluster.asked("/pods"))
    for number in range(60):  # as many rounds as an hour has minutes
        await churn(day, number + 1)
        await asyncio.sleep(0.1)
    await day.job.audited("schedule", "periodic", more_than=audits)
    assert len([q for q in day.cluster.asked("/pods")[sweeps:] if "watch" not in q]) >= 5, "no sweeps, nothing shown"
    assert day.messages(begun) == []
    found = (await day.job.get("/api/v1/audits"))["audits"]
    assert {a["trigger"]["kind"] for a in found} == {"schedule"}
    assert {a["verdict"] for a in found} == {"pass"}

    await day.restart(SELDOM)
    await churn(day, 61)
    await asyncio.sleep(3)  # a sweep and then some
    kept = (await day.job.get("/api/v1/audits"))["audits"]
    assert {a["id"] for a in found} <= {a["id"] for a in kept}
    assert len(await day.job.audits("schedule", "first-start")) == 1, "a restart is no first look"
    assert day.messages(begun) == []


async def test_a_healthy_rollout_gets_one_line_that_says_what_was_proven(day: Day) -> None:
    begun = len(day.job.chat.messages)
    await roll(day.cluster, lambda: day.expose(replaced(day.targets)))
    told = await day.job.told("summary", "rollout", "complete")
    await asyncio.sleep(1)
    assert day.messages(begun) == [told]
    assert told["report"]["audit"]["verdict"] == "pass"
    [line] = told["text"].strip().splitlines()
    assert f"rollout complete: DaemonSet gpu-operator/{EXPORTER}" in line
    assert "10 devices on 3 nodes name the Pods that hold them" in line
    assert "metrics of 2 jobs compared" in line


class Return:
    """A node's way out and home: gpu-h2 holds one Pod of a model, whose successor waits for the node to come back."""

    def __init__(self, day: Day, successor: str) -> None:
        self.day, self.successor = day, successor
        [self.pod] = [
            copy.deepcopy(raw)
            for (kind, space, _), raw in day.cluster.objects.items()
            if kind == "Pod" and space == "chat-prod" and raw["spec"].get("nodeName") == NODE
        ]
        self.name = self.pod["metadata"]["name"]
        self.targets = day.targets

    async def leave(self) -> None:
        """Cordoned, evicted, deleted."""
        day, node = self.day, self.day.get("Node", NODE)
        node["spec"] = {
            "unschedulable": True,
            "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": stamp()}],
        }
        await day.cluster.put(node)
        await asyncio.sleep(0.5)
        leaving = copy.deepcopy(self.pod)
        leaving["metadata"]["deletionTimestamp"] = stamp()
        evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": stamp()}
        leaving["status"]["conditions"].append(evicted)
        await day.cluster.put(leaving)
        await asyncio.sleep(0.5)
        await day.cluster.delete("Pod", self.name, "chat-prod")
        waiting = copy.deepcopy(self.pod)
        waiting["metadata"] |= {"name": self.successor, "uid": f"uid-{self.successor}", "creationTimestamp": stamp()}
        waiting["spec"].pop("nodeName")
        waiting["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        await day.cluster.put(waiting)
        await day.expose(
            [replace(t, body=idle(t.body)) if self.is_exporter(t) else t for t in self.targets if t.labels["pod"] != self.name]
        )

    def is_exporter(self, target: Exposed) -> bool:
        return target.node == NODE and target.name.startswith(EXPORTER)

    async def come_back(self, *, mapped: bool) -> None:
        """Uncordoned, and minutes later its devices are there; the waiting Pod gets some."""
        day, node = self.day, self.day.get("Node", NODE)
        node["spec"] = {}
        whole = copy.deepcopy(node)
        node["status"]["allocatable"]["nvidia.com/gpu"] = "0"
        await day.cluster.put(node)
        running = copy.deepcopy(self.pod)
        running["metadata"] |= {"name": self.successor, "uid": f"uid-{self.successor}", "creationTimestamp": stamp()}
        running["status"]["startTime"] = stamp()
        await day.cluster.put(running)
        await self.expose(mapped=mapped)
        await day.cluster.put(whole)

    async def expose(self, *, mapped: bool) -> None:
        """What the targets of the node expose once it is back."""
        named = [
            replace(
                t,
                body=t.body.replace(self.name, self.successor),
                labels={**t.labels, "pod": t.labels["pod"].replace(self.name, self.successor)},
            )
            for t in self.targets
        ]
        self.day.targets = named
        await self.day.expose([replace(t, body=unmapped(t.body)) if self.is_exporter(t) and not mapped else t for t in named])
        self.day.targets = named


def idle(body: str) -> str:
    """The body of an exporter whose devices nobody uses."""
    quiet = re.compile(r"^(DCGM_\w*(?:UTIL|ACTIVE|FB_USED|PCIE_RX|NVLINK)\w*\{[^}]*\}) \S+$", re.MULTILINE)
    return quiet.sub(r"\1 0", unmapped(body))


async def test_a_drained_node_that_comes_back_whole_gets_a_line_for_each_way(day: Day) -> None:
    begun = len(day.job.chat.messages)
    node = Return(day, "chat-70b-j688xh7sz-wxk4p")
    await node.leave()
    await day.job.told("summary", "drain", "drained")
    await node.come_back(mapped=True)
    told = await day.job.told("summary", "rejoin", "rejoined")
    await asyncio.sleep(1)
    assert [(m["kind"], about(m)) for m in day.messages(begun)] == [("summary", ("drain", "drained")), ("summary", ("rejoin", "rejoined"))]
    assert all(len(m["text"].strip().splitlines()) == 1 for m in day.messages(begun))
    assert told["report"]["audit"]["scope"] == f"node/{NODE}"
    assert "2 devices on 1 node name the Pods that hold them" in told["text"]


async def test_a_node_that_comes_back_without_its_mapping_is_told_and_the_repair_too(day: Day) -> None:
    begun = len(day.job.chat.messages)
    node = Return(day, "chat-70b-j688xh7sz-zd9vn")
    drained = len(await day.job.audits("drain", "drained"))
    await node.leave()
    await day.job.audited("drain", "drained", more_than=drained)
    await node.come_back(mapped=False)
    told = await day.job.chat.wait(lambda m: m["kind"] == "summary" and "fail" in m["report"]["audit"]["verdict"])
    assert about(told) == ("rejoin", "rejoined")
    assert codes(told) == {"label-mapping/pod-missing"}
    assert f"chat-prod/{node.successor}` on `{NODE}`" in told["text"]
    [finding] = await day.job.finding("label-mapping/pod-missing")
    assert (finding["subject"]["pod"], finding["subject"]["node"]) == (node.successor, NODE)
    assert finding["evidence"], "a statement without evidence"
    report = await day.job.get(f"/api/v1/audits/{told['audit']}")
    assert [f["fingerprint"] for f in report["findings"]] == [finding["fingerprint"]]

    pager = alertmanager(day.job.folder / "alertmanager", f"{day.job.url}/alertmanager", TOKEN)
    async with pager as url, aiohttp.ClientSession() as session:
        alert = {"labels": {"alertname": "VllmRequestLatencyP95High", "namespace": "chat-prod", "severity": "critical"}}
        async with session.post(f"{url}/api/v2/alerts", json=[alert]) as response:
            assert response.status == 200
        stub = await day.job.chat.wait(lambda m: m["kind"] == "postmortem")
    assert f"node {NODE} has rejoined" in stub["text"]
    assert f"`label-mapping/pod-missing` `chat-prod/{node.successor} on {NODE}`" in stub["text"]

    await node.expose(mapped=True)
    await day.restart(OFTEN)
    ended = await day.job.chat.wait(lambda m: m["kind"] == "resolved")
    assert "`label-mapping/pod-missing`" in ended["text"]
    assert await day.job.finding("label-mapping/pod-missing") == []
    failed = [m for m in day.messages(begun) if m["kind"] == "summary" and codes(m)]
    assert failed == [told]
    await day.restart(SELDOM)
