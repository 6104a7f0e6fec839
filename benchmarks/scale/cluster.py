"""A running cluster to audit: exporters that change their bodies, an API server, and a real Prometheus.

All of it but Prometheus lives in the benchmark's own process; the audits that are measured run in others.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.scale.fleet import Fleet
from benchmarks.scale.objects import objects
from benchmarks.scale.run import PATIENCE
from tests.support.exporters import Exporters, exporters
from tests.support.kubernetes import FakeKubernetes
from tests.support.prometheus import Server, job, prometheus

#: bodies that the exporters serve in turn, so that values move
_BODIES = 2


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
            turning = _turning(served, fleet, interval, after=False)
            try:
                scrape = [job(name, served, *targets) for name, targets in fleet.targets().items()]
                async with prometheus(
                    scrape, rules=fleet.rule_file(), binary=binary, interval=interval, flags=[f"--query.timeout={PATIENCE}s"]
                ) as server:
                    await _scraped(served, server, "DCGM_FI_DEV_GPU_TEMP", 2)
                    baseline = datetime.now(UTC)
                    turning.cancel()
                    turning = _turning(served, fleet, interval, after=True)
                    await _scraped(served, server, "DCGM_FI_DEV_GPU_TEMP_CELSIUS", 3)
                    yield Cluster(fleet, server, kubernetes, Path(directory), baseline, datetime.now(UTC))
            finally:
                turning.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await turning


def _turning(served: Exporters, fleet: Fleet, interval: float, *, after: bool) -> asyncio.Task[None]:
    """Serve one set of bodies after the other, one a scrape interval."""
    held = [fleet.bodies(after=after, scrape=n + (_BODIES if after else 0)) for n in range(_BODIES)]

    def serve(number: int) -> None:
        for name, body in held[number % _BODIES].items():
            served.serve(name, body)

    async def turn() -> None:
        for number in itertools.count(1):
            await asyncio.sleep(interval)
            serve(number)

    serve(0)
    return asyncio.create_task(turn())


async def _scraped(served: Exporters, server: Server, name: str, times: int) -> None:
    """Wait until every exporter was scraped so often from now on, and the last of it can be queried."""
    await served.scraped(times, patience=PATIENCE)
    await server.until(f"count({name})", patience=PATIENCE)
