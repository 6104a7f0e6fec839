"""How long a role takes from nothing to its first accepted event: `python -m benchmarks.cold_start [--rounds N] [--role ROLE]`.

Knative starts a role for one event, so this is what a person waits for. Each role is started as its container starts it, with
a real Redis, a cluster that is configured, and an event that it can answer from Redis; the clock stops at its 202. It is set
against a process that only imports the libraries that any such role needs, since machines differ and libraries are not
ours to make faster. Rounds are interleaved, so that what else the machine does hits all alike; the median counts. The processor time of the same runs
is printed beside it: on a machine that is busy with other things it is the steadier of the two.

The goals are a ratio of 1.5 for each role, and 90 MB at the peak for intake. Missing one is exit status 1.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.redis import BINARIES, Server

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = (
    "import aiohttp.web, redis.asyncio, cloudevents.core.bindings.http, cloudevents.core.formats.json; from pydantic import BaseModel"
)
ROLES = ("intake", "audit", "report", "board", "dead-letter")
RATIO, MEGABYTES = 1.5, {"intake": 90}
TOKEN = "benchmark"

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@dataclass
class Runs:
    """What was measured of one thing."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)


def main() -> int:
    options = argparse.ArgumentParser(prog="benchmarks.cold_start", description=__doc__.partition("\n")[0])
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--role", action="append", choices=ROLES)
    chosen = options.parse_args()
    roles = chosen.role or ROLES
    measured = measure(roles, chosen.rounds)
    rows = summary(measured)
    print(json.dumps(rows, indent=1))
    return 0 if all(row["met"] for row in rows.values()) else 1


def measure(roles: tuple[str, ...] | list[str], rounds: int) -> Mapping[str, Runs]:
    """Interleaved runs of the libraries and of each role; the first round only fills the caches."""
    found = {name: Runs() for name in ("libraries", *roles)}
    with tempfile.TemporaryDirectory(prefix="cold-start-") as name:
        folder = Path(name)
        (folder / "kubeconfig").write_text(KUBECONFIG)
        server = Server(BINARIES["redis"]()).start()
        try:
            for number in range(rounds + 1):
                for what, runs in found.items():
                    got = libraries() if what == "libraries" else role(what, server.url, folder)
                    for kept, value in zip((runs.seconds, runs.processor, runs.megabytes), got, strict=True):
                        kept.extend([value] if number else [])
        finally:
            server.close()
    return found


def summary(measured: Mapping[str, Runs]) -> dict[str, dict[str, float | bool]]:
    """One row each: seconds, the ratio to the libraries alone, the peak, and whether the goals are met."""
    base = statistics.median(measured["libraries"].seconds)
    base_processor = statistics.median(measured["libraries"].processor)
    rows: dict[str, dict[str, float | bool]] = {}
    for name, runs in measured.items():
        seconds, peak = statistics.median(runs.seconds), max(runs.megabytes)
        met = name == "libraries" or (seconds / base <= RATIO and peak <= MEGABYTES.get(name, float("inf")))
        rows[name] = {
            "seconds": round(seconds, 3),
            "ratio": round(seconds / base, 2),
            "processor_ratio": round(statistics.median(runs.processor) / base_processor, 2),
            "peak_megabytes": round(peak),
            "met": met,
        }
    return rows


def libraries() -> tuple[float, float, float]:
    """Seconds until a process has imported them and said so, its processor time and its peak."""
    began = time.perf_counter()
    code = f"{LIBRARIES}; print('ready', flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout
    assert process.stdout.readline() == b"ready\n"
    seconds = time.perf_counter() - began
    processor, peak = processor_of(process.pid), peak_of(process.pid)
    process.communicate(b"\n")
    return seconds, processor, peak


def role(name: str, redis: str, folder: Path) -> tuple[float, float, float]:
    """Seconds until a role has accepted an event, its processor time and its peak."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("TELLTALE_", "K_"))},
        "TELLTALE_REDIS_URL": redis,
        "TELLTALE_PROMETHEUS_URL": "http://127.0.0.1:1",
        "TELLTALE_WEBHOOK_URL": "http://127.0.0.1:1",
        "TELLTALE_TOKEN": TOKEN,
        "TELLTALE_DATA_DIR": str(folder),
        "KUBECONFIG": str(folder / "kubeconfig"),
        "K_SINK": "http://127.0.0.1:1",
        "PORT": str(port),
    }
    began = time.perf_counter()
    with (folder / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "triggers.cli", "serve", name]
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        while not accepts(name, port):
            if process.poll() is not None or time.perf_counter() - began > 60:
                raise RuntimeError(f"{name} does not serve: {(folder / f'{name}.log').read_text()[-1000:]}")
            time.sleep(0.01)
        return time.perf_counter() - began, processor_of(process.pid), peak_of(process.pid)
    finally:
        process.terminate()
        process.wait()


def accepts(name: str, port: int) -> bool:
    """Whether the role answers its first event (the board: its first question) as done."""
    type_ = {"audit": "dev.telltale.audit.due", "report": "dev.telltale.audit.completed"}.get(name, "dev.knative.sources.ping")
    data = b'{"audit": "unknown"}' if name in ("audit", "report") else b'{"kind": "tick"}'
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "benchmark", "ce-type": type_, "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        if name == "board":
            connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
        else:
            connection.request("POST", "/", body=data, headers=headers)
        status = connection.getresponse().status
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()
    if status != (200 if name == "board" else 202):
        raise RuntimeError(f"{name} answered {status}")
    return True


def processor_of(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(pid: int) -> float:
    """The peak of a process' resident memory, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
