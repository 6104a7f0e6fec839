"""A running cluster to audit: exporters that change their bodies, an API server, a real Prometheus, and a recorder.

All of it but Prometheus lives in the benchmark's own process; the audits that are measured run in others.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.scale.fleet import Fleet
from benchmarks.scale.objects import objects
from benchmarks.scale.run import PATIENCE
from tests.support.exporters import Exporters, exporters
from tests.support.kubernetes import FakeKubernetes
from tests.support.prometheus import Server, job, prometheus

#: bodies that the exporters serve in turn, so that values move
_BODIES = 2


class Recorder:
    """A proxy that keeps every request it passes on, so that the very same can be sent again."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.requests: list[dict[str, Any]] = []
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self.server = TestServer(app)

    async def _pass(self, request: web.Request) -> web.Response:
        body = (await request.read()).decode()
        kept = {k: v for k, v in request.headers.items() if k in ("Content-Type", "Accept")}
        sent = {"method": request.method, "url": f"{self.upstream}{request.path_qs}", "body": body, "headers": kept}
        self.requests.append(sent)
        async with aiohttp.ClientSession() as session, session.request(sent["method"], sent["url"], data=body, headers=kept) as answer:
            return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)

    async def __aenter__(self) -> Recorder:
        await self.server.start_server()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.server.close()

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")


@dataclass
class Cluster:
    """What is running, and the two instants to compare."""

    fleet: Fleet
    server: Server
    kubernetes: FakeKubernetes
    directory: Path
    baseline: datetime
    current: datetime

    def kubeconfig(self, url: str = "") -> str:
        """The path of a kubeconfig that points at the API server, or at what stands before it."""
        direct = str(self.kubernetes.server.make_url("")).rstrip("/")
        path = self.directory / f"kubeconfig-{'recorded' if url else 'direct'}"
        path.write_text(self.kubernetes.kubeconfig().replace(direct, url or direct))
        return str(path)

    @property
    def kubernetes_url(self) -> str:
        return str(self.kubernetes.server.make_url("")).rstrip("/")


@asynccontextmanager
async def cluster(fleet: Fleet, interval: float, binary: str = "") -> AsyncIterator[Cluster]:
    """The fleet, scraped under its old names and then under its new ones."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        async with exporters() as served, FakeKubernetes() as kubernetes:
            kubernetes.put_now(*objects(fleet))
            kubernetes.history.clear()
            turning = asyncio.create_task(_turn(served, fleet, interval, after=False))
            try:
                scrape = [job(name, served, *targets) for name, targets in fleet.targets().items()]
                async with prometheus(
                    scrape, rules=fleet.rule_file(), binary=binary, interval=interval, flags=[f"--query.timeout={PATIENCE}s"]
                ) as server:
                    await _scraped(served, server, "DCGM_FI_DEV_GPU_TEMP", 2)
                    baseline = datetime.now(UTC)
                    turning.cancel()
                    turning = asyncio.create_task(_turn(served, fleet, interval, after=True))
                    await _scraped(served, server, "DCGM_FI_DEV_GPU_TEMP_CELSIUS", 3)
                    yield Cluster(fleet, server, kubernetes, Path(directory), baseline, datetime.now(UTC))
            finally:
                turning.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await turning


async def _turn(served: Exporters, fleet: Fleet, interval: float, *, after: bool) -> None:
    """Serve one set of bodies after the other, one a scrape interval."""
    held = [fleet.bodies(after=after, scrape=n + (_BODIES if after else 0)) for n in range(_BODIES)]
    while True:
        for bodies in held:
            for name, body in bodies.items():
                served.serve(name, body)
            await asyncio.sleep(interval)


async def _scraped(served: Exporters, server: Server, name: str, times: int) -> None:
    """Wait until every exporter was scraped so often from now on, and the last of it can be queried."""
    while not served.targets:  # noqa: ASYNC110 - filled by another process's requests
        await asyncio.sleep(0.05)
    await served.scraped(times, patience=PATIENCE)
    await server.until(f"count({name})", patience=PATIENCE)
