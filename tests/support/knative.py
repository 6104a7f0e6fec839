"""A broker of the tests, and roles as Knative runs them: what they are comes from deploy/knative/base, so that manifests and
code can't drift apart.

The broker does what Knative's in-memory one was measured to do: it takes binary events over TLS, matches exact filters,
waits for its subscribers before it answers, retries what Knative retries by the Trigger's own delivery block, takes an
answer that is an event as a new one and an answer of another kind as a failure, and hands what is left to the dead letter
sink with the reason. Its pauses are shorter.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.ports import free_port
from tests.support.tls import Authority

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "deploy/knative/base"
TOKEN = "roles-token"
OVERRIDES = {"tenant": "gpu"}
RETRIED = {404, 408, 409, 429}
#: how much shorter than Knative's the pauses are
_HASTE = 0.2

Headers = Mapping[str, str]


@lru_cache
def manifests(name: str) -> tuple[dict[str, Any], ...]:
    """The documents of one file of the base."""
    return tuple(yaml.safe_load_all((BASE / name).read_text()))


def seconds_of(duration: str) -> float:
    """An ISO 8601 duration of seconds, as delivery blocks write it."""
    found = re.fullmatch(r"PT([\d.]+)S", duration)
    assert found, f"not a duration that is understood here: {duration}"
    return float(found[1])


@dataclass(frozen=True)
class Delivery:
    """One attempt."""

    trigger: str
    subscriber: str
    id: str
    type: str
    status: int


class Broker:
    """Use `start` and `close`."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.url = ""
        #: where each Service answers
        self.services: dict[str, str] = {}
        self.events: list[dict[str, str]] = []
        self.deliveries: list[Delivery] = []
        #: every event is handed over so often
        self.copies = 1
        self._background: set[asyncio.Task[Any]] = set()
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_post("/telltale/telltale", self._ingress)
        self._server = TestServer(app, scheme="https", host="127.0.0.1")

    async def start(self, folder: Path) -> None:
        await self._server.start_server(ssl=self.authority.server(folder))
        self.url = str(self._server.make_url("/telltale/telltale"))
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))

    async def close(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._session.close()
        await self._server.close()

    async def _ingress(self, request: web.Request) -> web.Response:
        headers = {k.lower(): v for k, v in request.headers.items() if k.lower().startswith("ce-") or k.lower() == "content-type"}
        if not all(headers.get(f"ce-{name}") for name in ("specversion", "id", "source", "type")):
            return web.Response(status=400)
        done = await self.send(headers, await request.read())
        return web.Response(status=202 if done else 500)

    async def send(self, headers: Headers, body: bytes) -> bool:
        """Hand an event to everybody who wants it, and wait for them. False: somebody never took it and no dead letter sink did."""
        headers = {**headers, "ce-knativearrivaltime": "2026-11-17T10:00:00Z"}
        self.events.append(dict(headers))
        wanted = [t for t in manifests("triggers.yaml") if matches(t, headers)]
        done = await asyncio.gather(*(self._deliver(t, headers, body) for t in wanted for _ in range(self.copies)))
        return all(done)

    def later(self, headers: Headers, body: bytes) -> asyncio.Task[bool]:
        """The same, without waiting."""
        task = asyncio.create_task(self.send(headers, body))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _deliver(self, trigger: dict[str, Any], headers: Headers, body: bytes) -> bool:
        delivery, name = trigger["spec"]["delivery"], trigger["metadata"]["name"]
        subscriber = trigger["spec"]["subscriber"]["ref"]["name"]
        pause, factor = seconds_of(delivery["backoffDelay"]) * _HASTE, {"exponential": 2, "linear": 1}[delivery["backoffPolicy"]]
        for attempt in range(delivery["retry"] + 1):
            if attempt:
                await asyncio.sleep(pause * factor ** (attempt - 1))
            status, said = await self._post(name, subscriber, headers, body)
            if 200 <= status < 300:
                return True
            if status < 500 and status not in RETRIED:
                break
        why = {"code": str(status), "dest": f"http://{subscriber}.telltale.svc", "data": base64.b64encode(said[:700]).decode()}
        letter = {**headers, **{f"ce-knativeerror{k}": v for k, v in why.items()}}
        status, _ = await self._post(f"{name} dead letter", delivery["deadLetterSink"]["ref"]["name"], letter, body)
        return 200 <= status < 300

    async def _post(self, trigger: str, subscriber: str, headers: Headers, body: bytes) -> tuple[int, bytes]:
        """One attempt: the status, as Knative counts it, and what was said."""
        sent = {**headers, "Prefer": "reply", "Kn-Namespace": "telltale"}
        try:
            async with self._session.post(self.services[subscriber], headers=sent, data=body, allow_redirects=False) as response:
                status, said, answered = response.status, await response.read(), response.headers
        except aiohttp.ClientError:
            status, said, answered = 500, b"", {}
        if 200 <= status < 300 and said:
            reply = {k.lower(): v for k, v in answered.items() if k.lower().startswith("ce-") or k.lower() == "content-type"}
            status = status if "ce-id" in reply and await self.send(reply, said) else 502
        self.deliveries.append(Delivery(trigger, subscriber, headers["ce-id"], headers["ce-type"], status))
        return status, said

    async def ping(self, name: str) -> bool:
        """A tick of a PingSource."""
        source = next(s for s in manifests("sources.yaml") if s["kind"] == "PingSource" and s["metadata"]["name"] == name)
        headers = {
            "ce-specversion": "1.0",
            "ce-id": os.urandom(8).hex(),
            "ce-source": f"/apis/v1/namespaces/telltale/pingsources/{name}",
            "ce-type": "dev.knative.sources.ping",
            "content-type": source["spec"]["contentType"],
        }
        return await self.send(headers, source["spec"]["data"].encode())

    def changed(self, verb: str, raw: dict[str, Any]) -> asyncio.Task[bool] | None:
        """A change as the ApiServerSource tells it; None: of a kind that it doesn't watch."""
        source = next(s for s in manifests("sources.yaml") if s["kind"] == "ApiServerSource")
        if {"apiVersion": raw["apiVersion"], "kind": raw["kind"]} not in source["spec"]["resources"]:
            return None
        assert source["spec"]["mode"] == "Resource"
        metadata = raw["metadata"]
        headers = {
            "ce-specversion": "1.0",
            "ce-id": os.urandom(8).hex(),
            "ce-source": "https://10.96.0.1:443",
            "ce-type": f"dev.knative.apiserver.resource.{verb}",
            "ce-kind": raw["kind"],
            "ce-apiversion": raw["apiVersion"],
            "ce-name": metadata["name"],
            "ce-namespace": metadata.get("namespace", ""),
            "content-type": "application/json",
        }
        return self.later(headers, json.dumps(raw).encode())


def matches(trigger: dict[str, Any], headers: Headers) -> bool:
    """Whether a Trigger wants an event: all of its filters, of the dialects that the manifests use."""
    return all(_matches(f, headers) for f in trigger["spec"]["filters"])


def _matches(condition: dict[str, Any], headers: Headers) -> bool:
    [(dialect, value)] = condition.items()  # Knative refuses several in one
    if dialect == "any":
        return any(_matches(f, headers) for f in value)
    assert dialect == "exact", f"not a dialect that is understood here: {dialect}"
    return all(headers.get(f"ce-{name}") == wanted for name, wanted in value.items())


@dataclass
class Role:
    """One Service as a process: its arguments and environment from the manifest, and what Knative adds."""

    name: str
    environment: Mapping[str, str]
    folder: Path
    #: its working directory, where that is another one than its log's
    work: Path | None = None
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()

    async def start(self, *, flags: Sequence[str] = ()) -> None:
        """Start it and wait until it is ready."""
        [container] = service(self.name)["spec"]["template"]["spec"]["containers"]
        environment = {**self.environment, "PORT": str(self.port), "K_SERVICE": self.name}
        command = [sys.executable, *flags, "-m", "triggers.cli", *container["args"]]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, env=environment, cwd=self.work or self.folder, stdout=log, stderr=log
            )
        path = container["readinessProbe"]["httpGet"]["path"]
        async with aiohttp.ClientSession() as session:
            for _ in range(600):
                assert self.process.returncode is None, self.log[-2000:]
                try:
                    async with session.get(f"{self.url}{path}") as response:
                        if response.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.05)
        raise AssertionError(f"{self.name} is not ready: {self.log[-2000:]}")

    async def stop(self, how: int = signal.SIGTERM) -> int:
        """End it; its exit status."""
        if self.process is None:
            return 0
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(30):
            return await self.process.wait()


def service(name: str) -> dict[str, Any]:
    """The manifest of a Service."""
    return next(s for s in manifests("services.yaml") if s["metadata"]["name"] == name)


def roles() -> list[str]:
    """All Services, in the order of the manifest."""
    return [s["metadata"]["name"] for s in manifests("services.yaml")]


def environment(name: str, broker: Broker, folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """What a container of a Service finds: nothing of ours but the manifest's, a SinkBinding's and the settings."""
    [container] = service(name)["spec"]["template"]["spec"]["containers"]
    found = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TELLTALE_TOKEN": TOKEN}
    found |= {f"TELLTALE_{k}": v for k, v in settings.items()}
    for variable in container.get("env", ()):
        # the volumes of the manifest are folders here
        found[variable["name"]] = str(folder / Path(variable["value"]).name) if variable["value"].startswith("/etc/") else variable["value"]
    if any(b["spec"]["subject"]["name"] == name for b in manifests("sinkbindings.yaml")):
        found["K_SINK"], found["K_CA_CERTS"] = broker.url, broker.authority.pem
        found["K_CE_OVERRIDES"] = json.dumps({"extensions": OVERRIDES})
    return found
