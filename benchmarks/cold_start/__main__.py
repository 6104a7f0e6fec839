"""How long a role takes from the start of its process to its first accepted event, and how much memory at most.

python -m benchmarks.cold_start [ROUNDS]

A role that is scaled to zero pays this with its first event. Each round starts every role and, between them, a process
that only imports what any such function imports (aiohttp.web, redis.asyncio, cloudevents, pydantic): the figure that
counts is the ratio of the medians, since a machine's speed and load cancel out. Bytecode is compiled ahead, as in the
image. `cpu` is processor time, which a busy machine disturbs less than the clock. A real Valkey, loopback.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port
from tests.support.redis import Server, valkey_server
from triggers.cli import ROLES

ROOT = Path(__file__).resolve().parents[2]
#: cloudevents and pydantic load what is used of them when it is used: what any such function uses is loaded here
YARDSTICK = "import aiohttp.web, redis.asyncio, cloudevents.core.bindings.http; from pydantic import BaseModel; print('ready', flush=True)"
#: a cluster that is configured, and that no event of the benchmark asks anything
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
RATIO, INTAKE_MB = 1.5, 90.0
_EVENT = (
    b"POST / HTTP/1.1\r\nHost: role\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /bench\r\nce-type: %s\r\n"
    b"Content-Type: application/json\r\nContent-Length: 16\r\nConnection: close\r\n\r\n"
    b'{"kind": "tick"}'
)
_PAGE = b"GET /api/v1/findings HTTP/1.1\r\nHost: board\r\nAuthorization: Bearer bench\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock, seconds of processor time, and the peak of memory in MB."""

    wall: float
    cpu: float
    peak: float


def first_request(role: str) -> bytes:
    """What wakes a role: its own kind of work, with nothing to do."""
    kinds = {"intake": b"dev.knative.sources.ping", "report": b"dev.knative.sources.ping"}
    return _PAGE if role == "board" else _EVENT % kinds.get(role, b"dev.example.nothing")


def accepted(role: str, port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the role has accepted its first event. Raises RuntimeError where it refuses it or ends."""
    request = first_request(role)
    while process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
                s.sendall(request)
                answer = s.recv(64)
        except OSError:
            time.sleep(0.003)
            continue
        if answer.split(b" ")[1:2] not in ([b"202"], [b"200"]):
            raise RuntimeError(f"not accepted: {answer!r}")
        return
    raise RuntimeError(f"the role ended by itself with {process.returncode}")


def _ended(process: subprocess.Popen[bytes], began: float, ready: float) -> Cost:
    process.send_signal(signal.SIGTERM)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(ready - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def start_role(role: str, environment: dict[str, str]) -> Cost:
    """Start a role as its Service does, and stop it after its first accepted event."""
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "triggers.cli", "serve", role],
        env={**environment, "PORT": str(port), "TELLTALE_LISTEN": f"127.0.0.1:{port}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        accepted(role, port, process)
    except RuntimeError:
        process.kill()
        process.wait()
        raise
    return _ended(process, began, time.perf_counter())


def start_yardstick(environment: dict[str, str]) -> Cost:
    """A process that imports what any such function imports."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", YARDSTICK], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        return _ended(process, began, time.perf_counter())


def measure(rounds: int) -> dict[str, list[Cost]]:
    """Interleaved runs, the first of each thrown away: it compiles."""
    found: dict[str, list[Cost]] = {"yardstick": [], **{role: [] for role in ROLES}}
    server = Server(valkey_server()).start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("TELLTALE_", "K_", "PYTHON")) and k != "KUBECONFIG"}
            config = Path(folder, "kubeconfig")
            config.write_text(KUBECONFIG)
            environment = {
                **kept,
                "KUBECONFIG": str(config),
                "PYTHONPATH": str(ROOT),
                "PYTHONPYCACHEPREFIX": folder,
                "TELLTALE_REDIS_URL": server.url,
                "TELLTALE_PROMETHEUS_URL": "http://127.0.0.1:9",
                "TELLTALE_TOKEN": "bench",
                "TELLTALE_WEBHOOK_URL": "http://127.0.0.1:9/",
                "K_SINK": "http://127.0.0.1:9/",
            }
            for _ in range(rounds + 1):
                for name, costs in found.items():
                    costs.append(start_yardstick(environment) if name == "yardstick" else start_role(name, environment))
    finally:
        server.close()
    return {name: costs[1:] for name, costs in found.items()}


def main(arguments: list[str]) -> int:
    """Print a line a role; exit 1 where a goal is missed."""
    found = measure(int(arguments[0]) if arguments else 7)
    typical = {
        name: Cost(*(statistics.median(getattr(c, part) for c in costs) for part in ("wall", "cpu", "peak")))
        for name, costs in found.items()
    }
    yardstick, missed = typical["yardstick"], False
    print(f"{'':12} {'wall':>8} {'ratio':>6} {'cpu':>8} {'ratio':>6} {'peak':>8}")
    for name, cost in typical.items():
        wall, cpu = cost.wall / yardstick.wall, cost.cpu / yardstick.cpu
        print(f"{name:12} {cost.wall:7.3f}s {wall:6.2f} {cost.cpu:7.3f}s {cpu:6.2f} {cost.peak:5.0f} MB")
        missed = missed or wall > RATIO or (name == "intake" and cost.peak > INTAKE_MB)
    print(f"goal: ratio at most {RATIO}, intake at most {INTAKE_MB:.0f} MB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
