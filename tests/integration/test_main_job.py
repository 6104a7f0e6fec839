"""The main job with real parts: a real Prometheus and Alertmanager, a Valkey of Telltale's own, exporters over HTTP, and
`telltale run` as a process. Only the Kubernetes API is played, at the wire. Nothing patches Telltale.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from functions.evidence.exposition import sections
from tests.support.alertmanager import alertmanager, free_port
from tests.support.exporters import Exporters, exporters
from tests.support.inbox import Inbox, inbox
from tests.support.kubernetes import FakeKubernetes
from tests.support.prometheus import Server, job, prometheus

ROOT = Path(__file__).resolve().parents[2]
INCIDENT = ROOT / "triggers/demo/incident"
STREAM = [json.loads(line) for line in (ROOT / "triggers/demo/watch.jsonl").read_text().splitlines()]
RULES = (INCIDENT / "rules/inference.yaml").read_text()
TOKEN = "integration-token"

pytestmark = pytest.mark.real


@dataclass
class World:
    """Everything around Telltale, and Telltale."""

    kubernetes: FakeKubernetes
    fleet: Exporters
    server: Server
    chat: Inbox
    folder: Path
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start `telltale run` and wait until it serves."""
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(self.kubernetes.kubeconfig())
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("TELLTALE_", "K_"))},
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(kubeconfig),
            "TELLTALE_CLUSTER": "lab",
            "TELLTALE_PROMETHEUS_URL": self.server.url,
            "TELLTALE_DATA_DIR": str(self.folder / "data"),
            "TELLTALE_LISTEN": f"127.0.0.1:{self.port}",
            "TELLTALE_TOKEN": TOKEN,
            "TELLTALE_SETTLE": "6",
            "TELLTALE_SWEEP": "5",
            "TELLTALE_TICK": "1",
            "TELLTALE_WEBHOOK_URL": self.chat.url,
            "TELLTALE_RULES": str(INCIDENT / "rules/gpu.yaml"),
            "TELLTALE_DASHBOARDS": str(INCIDENT / "dashboards"),
            "TELLTALE_LEASE": "20",
        }
        log = (self.folder / "telltale.log").open("ab")
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "triggers.cli", "run", env=environment, cwd=self.folder, stdout=log, stderr=log
        )
        log.close()
        async with aiohttp.ClientSession() as session:
            for _ in range(150):
                try:
                    async with session.get(f"{self.url}/health/readiness") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientError:
                    await asyncio.sleep(0.1)
        raise AssertionError((self.folder / "telltale.log").read_text()[-2000:])

    async def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process and self.process.returncode is None:
            self.process.send_signal(how)
            await self.process.wait()

    async def get(self, path: str) -> Any:
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session, session.get(self.url + path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def audits(self, kind: str, phase: str) -> list[dict[str, Any]]:
        found = (await self.get("/api/v1/audits"))["audits"]
        return [a for a in found if a["trigger"]["kind"] == kind and a["trigger"].get("phase") == phase]

    async def audited(self, kind: str, phase: str, seconds: float = 60) -> dict[str, Any]:
        for _ in range(int(seconds * 4)):
            if found := await self.audits(kind, phase):
                return found[0]
            await asyncio.sleep(0.25)
        raise AssertionError(f"no audit of {kind} {phase}: {(self.folder / 'telltale.log').read_text()[-2000:]}")

    def expose(self, window: str) -> None:
        """Serve what the incident's targets exposed before or after the rollout."""
        for name, body, _ in bodies(window):
            self.fleet.serve(name, body)

    async def roll(self) -> None:
        """The rollout, as the API server tells it."""
        for line in STREAM:
            raw = line["object"]
            if line["at"] == STREAM[0]["at"] or raw["kind"] == "Event" or line["at"] > "2026-11-17T10:05":
                continue
            if line["type"] == "DELETED":
                await self.kubernetes.delete(raw["kind"], raw["metadata"]["name"], raw["metadata"].get("namespace", ""))
            else:
                await self.kubernetes.put(raw)
            await asyncio.sleep(0.4 if raw["kind"] == "DaemonSet" else 0)


def bodies(window: str) -> list[tuple[str, str, dict[str, str]]]:
    """(name, body, target labels) of the incident; a target is known by job and node, since Pods change."""
    found = []
    for file in sorted((INCIDENT / "metrics" / window).glob("*.prom")):
        for number, section in enumerate(sections(file.read_text())):
            labels = {
                k: v
                for k, v in (section.target or {}).items()
                if k not in ("honor_labels", "up", "duration", "scraped_at", "error", "instance")
            }
            found.append((f"{labels.pop('job')}-{number}", section.body, labels))
    return found


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        kubernetes = await stack.enter_async_context(FakeKubernetes())
        kubernetes.put_now(*(line["object"] for line in STREAM if line["at"] == STREAM[0]["at"]))
        fleet = await stack.enter_async_context(exporters({}))
        for name, body, _ in bodies("before"):
            fleet.serve(name, body)
        jobs = ("nvidia-dcgm-exporter", "vllm")
        scrape = [job(j, fleet, *((n, labels) for n, _, labels in bodies("after") if n.startswith(j))) for j in jobs]
        server = await stack.enter_async_context(prometheus(scrape, rules=RULES))
        chat = await stack.enter_async_context(inbox())
        await server.scraped(3)
        here = World(kubernetes, fleet, server, chat, folder)
        try:
            await here.start()
            yield here
        finally:
            await here.stop()


def codes(message: dict[str, Any]) -> set[str]:
    return {f["code"] for f in message["report"]["findings"] if f["verdict"] == "fail"}


async def test_a_rollout_that_breaks_the_way_is_told_once_with_what_to_change_and_an_alert_finds_its_workload(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.audited("schedule", "first-start")
        await asyncio.sleep(3)
        here.expose("after")
        await here.roll()
        told = await here.chat.wait(lambda m: m["kind"] == "summary" and m["report"]["audit"]["trigger"]["kind"] == "rollout", 90)
        assert told["schema"] == "telltale.dev/message/v1"
        assert told["report"]["audit"]["trigger"]["phase"] == "complete"
        assert {"metric-rename/renamed", "metric-rename/label-renamed", "metric-rename/rule-dead", "label-mapping/pod-missing"} <= codes(
            told
        )
        renamed = {
            f["subject"]["metric"]: f["subject"]["renamed_to"] for f in told["report"]["findings"] if f["code"] == "metric-rename/renamed"
        }
        assert renamed["DCGM_FI_DEV_GPU_TEMP"] == "DCGM_FI_DEV_GPU_TEMP_CELSIUS"
        assert "GPUTemperatureHigh" in told["text"]
        stored = (await here.get("/api/v1/findings?limit=500"))["findings"]
        assert "metric-rename/rule-dead" in {f["code"] for f in stored}
        stub = await here.chat.wait(lambda m: m["kind"] == "postmortem")
        for part in ("Trigger signal", "Affected workload", "Trace", "Device", "Actions observed", "Recovery", "Dimension to add"):
            assert part in stub["text"]

        async with alertmanager(tmp_path / "alertmanager", f"{here.url}/alertmanager", TOKEN) as url, aiohttp.ClientSession() as session:
            alert = {"labels": {"alertname": "VllmRequestLatencyP95High", "namespace": "chat-prod", "severity": "critical"}}
            async with session.post(f"{url}/api/v2/alerts", json=[alert]) as response:
                assert response.status == 200
            audit = await here.audited("alert", "firing")
        assert audit["scope"] == "namespace/chat-prod"
        rollouts = [m for m in here.chat.messages if m["kind"] == "summary" and m["report"]["audit"]["trigger"]["kind"] == "rollout"]
        assert len(rollouts) == 1


async def test_killed_while_a_rollout_happens_it_is_audited_once_and_posted_once(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await here.audited("schedule", "first-start")
        await asyncio.sleep(2)
        here.expose("after")
        await here.roll()
        await asyncio.sleep(0.5)
        await here.stop(signal.SIGKILL)
        await here.start()
        await here.audited("rollout", "complete", 90)
        await here.chat.wait(lambda m: m["kind"] == "summary" and m["report"]["audit"]["trigger"]["kind"] == "rollout", 60)
        await asyncio.sleep(5)
        assert len(await here.audits("rollout", "complete")) == 1
        assert (
            len(
                {
                    m["key"]
                    for m in here.chat.messages
                    if m.get("report", {}).get("audit", {}).get("trigger", {}).get("kind") == "rollout" and m["kind"] == "summary"
                }
            )
            == 1
        )
