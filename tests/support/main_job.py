"""`telltale run` as a process, with everything around it: a real Prometheus, exporters over HTTP, a chat, a Kubernetes API.

The cluster is the one of the demo's incident: three nodes with four GPUs each, a DaemonSet of exporters, two models. Its
exporters answer with values that move from scrape to scrape, as living devices do. Which Kubernetes API it is, is the
test's business: `kubeconfig` is all that is needed of it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from functions.evidence.exposition import sections
from tests.support.exporters import Exporters, exporters
from tests.support.inbox import Inbox, Message, inbox
from tests.support.kubernetes import FakeKubernetes
from tests.support.ports import free_port
from tests.support.prometheus import Server, job, prometheus

ROOT = Path(__file__).resolve().parents[2]
INCIDENT = ROOT / "triggers/demo/incident"
STREAM = [json.loads(line) for line in (ROOT / "triggers/demo/watch.jsonl").read_text().splitlines()]
#: the objects before anything happened
BEFORE = [line["object"] for line in STREAM if line["at"] == STREAM[0]["at"]]
RULES = (INCIDENT / "rules/inference.yaml").read_text()
TOKEN = "integration-token"
EXPORTER, ENGINE = "nvidia-dcgm-exporter", "vllm"
#: What lets minutes pass in seconds. The baseline of audits that no change fixes is two seconds ago.
QUICK = {
    "SETTLE": "3",
    "SWEEP": "3",
    "TICK": "0.3",
    "LEASE": "20",
    "RETRY": "1",
    "NOT_READY_GRACE": "2",
    "DRAIN_DEADLINE": "3",
    "RULES": str(INCIDENT / "rules/gpu.yaml"),
    "DASHBOARDS": str(INCIDENT / "dashboards"),
}
POLICY = {"windows": {"baseline": 2}}
_SCRAPED = 0.5
#: Prometheus shows a series for so long after its last sample; shorter than SETTLE, as five minutes are by default.
_LOOK_BACK = "--query.lookback-delta=2500ms"
_RESTLESS = re.compile(r"^(DCGM_\w*(?:POWER|TEMP|ENERGY|CLOCK|UTIL|ACTIVE)\w*\{[^}]*\}) (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Exposed:
    """What one target exposes, and the labels that service discovery attaches."""

    name: str
    body: str
    labels: Mapping[str, str]

    @property
    def node(self) -> str:
        return self.labels.get("node", "")


def exposed(window: str) -> list[Exposed]:
    """The incident's targets before or after the rollout. A target is known by job and number, since Pods change."""
    found = []
    for file in sorted((INCIDENT / "metrics" / window).glob("*.prom")):
        for number, section in enumerate(sections(file.read_text())):
            labels = dict(section.target or {})
            kept = {name: labels[name] for name in ("namespace", "pod", "container", "node") if name in labels}
            found.append(Exposed(f"{labels['job']}-{number}", section.body, kept))
    return found


def replaced(targets: Sequence[Exposed]) -> list[Exposed]:
    """The targets with the same bodies in the Pods that the rollout made."""
    new = {target.name: target.labels for target in exposed("after")}
    return [replace(target, labels=new[target.name]) for target in targets]


def moving(body: str) -> Callable[[], str]:
    """The body with device values that differ at each scrape by a little."""
    turns = itertools.cycle((0.0, 0.004, 0.007, 0.002))

    def answer() -> str:
        by = next(turns)
        return _RESTLESS.sub(lambda m: f"{m[1]} {float(m[2]) * (1 + by):.6f}", body)

    return answer


def unmapped(body: str) -> str:
    """The body of an exporter that doesn't know any more whose devices they are."""
    return re.sub(r',?(container|namespace|pod)="[^"]*"', "", body)


@dataclass
class MainJob:
    """Telltale, and what it talks to."""

    kubeconfig: Path
    fleet: Exporters
    server: Server
    chat: Inbox
    folder: Path
    settings: Mapping[str, str]
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "telltale.log").read_text()

    def environment(self) -> dict[str, str]:
        policy = self.folder / "policy.yaml"
        policy.write_text(yaml.safe_dump(POLICY))
        settings = {
            "CLUSTER": "lab",
            "PROMETHEUS_URL": self.server.url,
            "DATA_DIR": str(self.folder / "data"),
            "LISTEN": f"127.0.0.1:{self.port}",
            "TOKEN": TOKEN,
            "WEBHOOK_URL": self.chat.url,
            "POLICY": str(policy),
            **QUICK,
            **self.settings,
        }
        own = {k: v for k, v in os.environ.items() if not k.startswith(("TELLTALE_", "K_"))}
        return own | {"PYTHONPATH": str(ROOT), "KUBECONFIG": str(self.kubeconfig)} | {f"TELLTALE_{k}": v for k, v in settings.items()}

    async def start(self) -> None:
        """Start `telltale run` and wait until it serves."""
        with (self.folder / "telltale.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "triggers.cli", "run", env=self.environment(), cwd=self.folder, stdout=log, stderr=log
            )
        async with aiohttp.ClientSession() as session:
            for _ in range(300):
                try:
                    async with session.get(f"{self.url}/health/readiness") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)
        raise AssertionError(self.log[-2000:])

    async def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process and self.process.returncode is None:
            self.process.send_signal(how)
            try:
                async with asyncio.timeout(30):  # what Kubernetes grants a Pod
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                raise AssertionError(f"it does not end: {self.log[-2000:]}") from None

    async def get(self, path: str) -> Any:
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session, session.get(self.url + path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def audits(self, kind: str, phase: str) -> list[dict[str, Any]]:
        """Finished audits of one trigger, newest first."""
        found = (await self.get("/api/v1/audits"))["audits"]
        return [a for a in found if a["trigger"]["kind"] == kind and a["trigger"].get("phase") == phase]

    async def audited(self, kind: str, phase: str, *, seconds: float = 60, more_than: int = 0) -> dict[str, Any]:
        """The latest audit of one trigger, once there are more than so many."""
        for _ in range(int(seconds * 5)):
            if len(found := await self.audits(kind, phase)) > more_than:
                return found[0]
            await asyncio.sleep(0.2)
        raise AssertionError(f"no audit of {kind} {phase}: {self.log[-3000:]}")

    async def told(self, kind: str, trigger: str, phase: str, seconds: float = 60) -> Message:
        """The first message of a kind ("summary", "resolved" …) about one trigger."""
        return await self.chat.wait(lambda m: m["kind"] == kind and about(m) == (trigger, phase), seconds)

    async def finding(self, code: str) -> list[dict[str, Any]]:
        """The open findings of a code."""
        return [f for f in (await self.get("/api/v1/findings?limit=500"))["findings"] if f["code"] == code]

    def serve(self, targets: Sequence[Exposed]) -> None:
        """Switch what the targets answer with."""
        for target in targets:
            self.fleet.serve(target.name, moving(target.body))

    async def discover(self, targets: Sequence[Exposed]) -> None:
        """Scrape these and no others, as service discovery has it: the server takes up to five seconds to follow."""
        await self.server.reload(scrape=scrape(self.fleet, targets))
        wanted = {(t.name, t.labels["pod"]) for t in targets}
        async with asyncio.timeout(30):
            while True:
                active = (await self.server.api("targets", state="active"))["activeTargets"]
                if {(t["labels"]["instance"], t["labels"]["pod"]) for t in active if t["health"] == "up"} == wanted and len(active) == len(
                    wanted
                ):
                    return
                await asyncio.sleep(0.1)


async def roll(cluster: FakeKubernetes, midway: Callable[[], Awaitable[None]] | None = None) -> None:
    """The rollout of the exporters, as the API server tells it, in seconds. `midway` is done once it has started."""
    for line in STREAM[len(BEFORE) :]:
        raw = line["object"]
        if raw["kind"] == "Event" or line["at"] > "2026-11-17T10:05":
            continue
        if line["type"] == "DELETED":
            await cluster.delete(raw["kind"], raw["metadata"]["name"], raw["metadata"].get("namespace", ""))
        else:
            await cluster.put(raw)
        await asyncio.sleep(0.3 if raw["kind"] == "DaemonSet" else 0)
        if midway and line["type"] == "DELETED":
            await midway()
            midway = None


def about(message: Message) -> tuple[str, str]:
    """What led to the audit that a message is about."""
    trigger = message.get("report", {}).get("audit", {}).get("trigger", {})
    return str(trigger.get("kind", "")), str(trigger.get("phase", ""))


def codes(message: Message) -> set[str]:
    """What fails, by code; of a message without a report, nothing."""
    return {f["code"] for f in message.get("report", {}).get("findings", ()) if f["verdict"] == "fail"}


def scrape(fleet: Exporters, targets: Sequence[Exposed]) -> list[dict[str, Any]]:
    """The scrape configurations of targets."""
    jobs = (EXPORTER, ENGINE)
    return [job(j, fleet, *((t.name, t.labels) for t in targets if t.name.startswith(j))) for j in jobs]


@asynccontextmanager
async def main_job(
    kubeconfig: Path, folder: Path, *, targets: Sequence[Exposed] = (), rules: str = RULES, start: bool = True, **settings: str
) -> AsyncIterator[MainJob]:
    """The main job on that cluster. `targets`: what there is to scrape first; `settings`: without their prefix."""
    async with AsyncExitStack() as stack:
        first = targets or exposed("before")
        fleet = await stack.enter_async_context(exporters())
        for target in first:
            fleet.serve(target.name, moving(target.body))
        server = await stack.enter_async_context(prometheus(scrape(fleet, first), rules=rules, interval=_SCRAPED, flags=[_LOOK_BACK]))
        chat = await stack.enter_async_context(inbox())
        here = MainJob(kubeconfig, fleet, server, chat, folder, settings)
        stack.push_async_callback(here.stop)
        if start:
            # so much history that a look back finds something
            await server.until(f"min(count_over_time(up[10s])) >= {round(POLICY['windows']['baseline'] / _SCRAPED) + 1}")
            await here.start()
        yield here
