"""A real Prometheus for tests: started on a free loopback port with a directory of its own, stopped by its pid.

    async with exporters({"gpu-1": BODY}) as fleet, prometheus([job("dcgm", fleet, "gpu-1")]) as server:
        await server.scraped(2)
        ... PrometheusSource(server.url) ...

`BINARIES` lists what is there: the one on the PATH (2.42 on Debian 12), and a newer one where the environment's
PROMETHEUS3 names it or `~/.cache/prometheus3/*/prometheus` exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.support.exporters import Exporters
from tests.support.ports import free_port

INTERVAL = 1


def binaries() -> dict[str, str]:
    """name -> path of the servers that can be tested against."""
    found = {}
    if path := shutil.which("prometheus", path=os.environ.get("PATH", "") + ":/usr/sbin"):
        found["packaged"] = path
    # PROMETHEUS3 names a directory with the program in it
    newer = os.path.join(os.environ.get("PROMETHEUS3", ""), "prometheus") if os.environ.get("PROMETHEUS3") else ""
    if newer and os.access(newer, os.X_OK):
        found["newer"] = newer
    return found


BINARIES = binaries()


@dataclass(frozen=True)
class Target:
    """One scrape target: where it is, and the labels that Prometheus attaches."""

    address: str
    path: str
    labels: Mapping[str, str] = field(default_factory=dict)


def job(name: str, fleet: Exporters, *targets: str | tuple[str, Mapping[str, str]], **settings: Any) -> dict[str, Any]:
    """A scrape configuration. A target is the exporter's name, or (name, labels); `instance` defaults to the name."""
    pairs = [(t, {}) if isinstance(t, str) else t for t in targets]
    return {
        "job_name": name,
        **settings,
        "static_configs": [
            {"targets": [fleet.address], "labels": {"__metrics_path__": fleet.path(target), "instance": target, **labels}}
            for target, labels in pairs
        ],
    }


class Server:
    """A running Prometheus."""

    def __init__(
        self, url: str, directory: Path, process: asyncio.subprocess.Process, config: dict[str, Any], command: Sequence[str]
    ) -> None:
        self.url = url
        self.directory = directory
        self.process = process
        self.config = config
        self._command = command

    async def api(self, path: str, **params: str) -> Any:
        """The decoded `data` of an API call."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v1/{path}", params=params) as answer:
            body = await answer.json()
            assert body["status"] == "success", body
            return body["data"]

    async def query(self, expr: str) -> list[Any]:
        """The result of an instant query."""
        return list((await self.api("query", query=expr))["result"])

    async def scraped(self, times: int = 1, *, patience: float = 30.0) -> None:
        """Wait until every target was scraped that many times from now on, and the last of it can be queried."""
        began = time.time()
        async with asyncio.timeout(patience):
            while True:
                targets = (await self.api("targets", state="active"))["activeTargets"]
                places = {(t["labels"].get("job", ""), t["labels"].get("instance", "")) for t in targets}
                span = max(1, int(time.time() - began) + 1)
                rows = await self.query(f"count_over_time(up[{span}s]) >= {times} and timestamp(up) > {began!r}")
                if targets and {(r["metric"].get("job", ""), r["metric"].get("instance", "")) for r in rows} >= places:
                    return
                await asyncio.sleep(0.1)

    async def until(self, expr: str, *, patience: float = 30.0) -> list[Any]:
        """Wait until an expression has a result, and give it."""
        async with asyncio.timeout(patience):
            while True:
                if rows := await self.query(expr):
                    return rows
                await asyncio.sleep(0.1)

    async def reload(self, *, scrape: Sequence[dict[str, Any]] | None = None, rules: str | None = None) -> None:
        """Change the scrape configurations or the rules of the running server."""
        if scrape is not None:
            self.config["scrape_configs"] = list(scrape)
        if rules is not None:
            (self.directory / "rules.yaml").write_text(rules)
        (self.directory / "prometheus.yaml").write_text(yaml.safe_dump(self.config))
        async with aiohttp.ClientSession() as session, session.post(f"{self.url}/-/reload") as answer:
            assert answer.status == 200, await answer.text()

    async def stop(self) -> None:
        """Stop it: gently, and after two seconds for good."""
        if self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(2):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    async def start_again(self, *, scrape: Sequence[dict[str, Any]] | None = None, empty: bool = False) -> None:
        """Start it where it was, after `stop`: on the same port, with its data or without."""
        if scrape is not None:
            self.config["scrape_configs"] = list(scrape)
            (self.directory / "prometheus.yaml").write_text(yaml.safe_dump(self.config))
        if empty:
            shutil.rmtree(self.directory / "data")
        with (self.directory / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*self._command, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)
        assert await _ready(self), (self.directory / "log").read_text()[-2000:]


@asynccontextmanager
async def prometheus(
    scrape: Sequence[dict[str, Any]] = (),
    *,
    rules: str = "groups: []\n",
    binary: str = "",
    flags: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    interval: float = INTERVAL,
) -> AsyncIterator[Server]:
    """A server that scrapes as told, every second by default. Retried on another port where the first was taken meanwhile."""
    binary = binary or BINARIES["packaged"]
    every = f"{round(interval * 1000)}ms"
    settings: dict[str, Any] = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": ["rules.yaml"],
        "scrape_configs": list(scrape),
        **(config or {}),
    }
    with tempfile.TemporaryDirectory(prefix="prometheus-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        (directory / "rules.yaml").write_text(rules)
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(settings))
        server = await _started(binary, directory, settings, flags)
        try:
            yield server
        finally:
            await server.stop()


async def _started(binary: str, directory: Path, settings: dict[str, Any], flags: Sequence[str]) -> Server:
    quick = ["--scrape.discovery-reload-interval=100ms"]  # a hidden flag; without it the first scrape is 5 s away
    for attempt in range(4):
        port = free_port()
        log = (directory / "log").open("wb")
        command = [
            binary,
            f"--config.file={directory / 'prometheus.yaml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-lifecycle",
            *quick,
            *flags,
        ]
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=subprocess.STDOUT, cwd=directory)
        log.close()
        server = Server(f"http://127.0.0.1:{port}", directory, process, settings, command)
        if await _ready(server):
            return server
        await server.stop()
        said = (directory / "log").read_text()
        if "unknown long flag" in said and quick:
            quick = []
        elif attempt == 3:
            raise AssertionError(f"{binary} does not start:\n{said[-2000:]}")
    raise AssertionError("unreachable")


async def _ready(server: Server) -> bool:
    async with aiohttp.ClientSession() as session:
        for _ in range(300):
            if server.process.returncode is not None:
                return False
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{server.url}/-/ready") as answer:
                    if answer.status == 200:
                        return True
            await asyncio.sleep(0.05)
    return False
