"""What a role loads from its start to its first accepted event: nothing heavy that it doesn't use, since a cold start pays for it.

No time is measured here (`python -m benchmarks.cold_start` does); the interpreter itself tells what it imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.cold_start.__main__ import accepted, free_port
from tests.support.redis import Server, valkey_server
from triggers.cli import ROLES

ROOT = Path(__file__).resolve().parents[2]
#: by package; whoever may load it is named. Typed Kubernetes models and data frames are for nobody.
HEAVY = {
    "kubernetes": {"intake", "audit"},
    "kubernetes.aio.client.models.v1_pod": set(),
    "kubernetes.aio.client.api.core_v1_api": set(),
    "kubernetes.client.models.v1_pod": set(),
    "prometheus_api_client": {"audit"},
    # the Kubernetes client brings it
    "requests": {"intake", "audit"},
    "jinja2": {"board"},
    "slack_sdk": set(),
    "jwt": set(),
    "pandas": set(),
    "numpy": set(),
    "matplotlib": set(),
    "dateparser": set(),
}

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    server = Server(valkey_server()).start()
    try:
        yield server.url
    finally:
        server.close()


@pytest.fixture(scope="module")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled once for all roles, as in the image."""
    return tmp_path_factory.mktemp("bytecode")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_loads_nothing_heavy_that_it_does_not_use(role: str, redis_url: str, bytecode: Path, tmp_path: Path) -> None:
    port = free_port()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TELLTALE_", "K_", "KUBE", "PYTHON"))}
    settings = {
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(bytecode),
        "TELLTALE_REDIS_URL": redis_url,
        "TELLTALE_LISTEN": f"127.0.0.1:{port}",
        "TELLTALE_TOKEN": "bench",
        "TELLTALE_PROMETHEUS_URL": "http://127.0.0.1:9",
        "TELLTALE_WEBHOOK_URL": "http://127.0.0.1:9/",
        "K_SINK": "http://127.0.0.1:9/",
    }
    told = tmp_path / "imports"
    with told.open("wb") as log:
        command = [sys.executable, "-X", "importtime", "-m", "triggers.cli", "serve", role]
        process = subprocess.Popen(command, env={**kept, **settings}, stderr=log, stdout=log, cwd=tmp_path)
    try:
        accepted(role, port, process)
    finally:
        process.terminate()
        process.wait(30)
    lines = told.read_text().splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "aiohttp" in loaded, "the interpreter told what it imports"
    unwanted = {package for package, users in HEAVY.items() if role not in users and package in loaded}
    assert not unwanted
