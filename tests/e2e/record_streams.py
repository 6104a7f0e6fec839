"""Records what a real API server sends while something is done to it: `python -m tests.e2e.record_streams`.

The streams are replayed by tests/triggers/test_streams.py. Run it again for a new Kubernetes release. What no trigger
reads is left out.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from functions.evidence.kubernetes.source import KubernetesSource
from tests.e2e.control_plane import ControlPlane, missing_assets
from tests.e2e.workloads import budget, daemon_set, deployment, stateful_set

STREAMS = Path(__file__).parent.parent / "triggers" / "streams"
KINDS = ("Node", "Pod", "Deployment", "StatefulSet", "DaemonSet", "ControllerRevision", "PodDisruptionBudget", "Event")
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")


def reduce(kind: str, raw: dict[str, Any]) -> dict[str, Any]:
    """The object without what no trigger reads: it is a tenth of the size, and holds no prose of others."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    fields = [f for f in metadata.pop("managedFields", ()) if kind in WORKLOADS and "f:template" in f["fieldsV1"].get("f:spec", {})]
    if fields:
        metadata["managedFields"] = [f | {"fieldsV1": {"f:spec": {"f:template": {}}}} for f in fields]
    for condition in (raw, *(status.get("conditions") or ())):
        condition.pop("message", None)
    if kind == "Pod":
        raw["spec"] = {k: v for k, v in raw["spec"].items() if k in ("nodeName", "affinity")}
        status.pop("containerStatuses", None)
    return raw


@asynccontextmanager
async def recording(source: KubernetesSource, name: str) -> AsyncIterator[None]:
    lines: list[str] = []

    def keep(kind: str, type_: str, raw: dict[str, Any]) -> None:
        line = {"at": datetime.now(UTC).isoformat(), "type": type_, "object": reduce(kind, raw)}
        lines.append(json.dumps(line, separators=(",", ":"), sort_keys=True))

    async def follow(kind: str, version: str) -> None:
        async for change in source.watch(kind, version):
            keep(kind, change.type, dict(change.object))

    tasks = []
    for kind in KINDS:
        found, version = await source.collect(kind, dict)
        if kind != "Event":
            for raw in found:
                keep(kind, "LISTED", raw)
        tasks.append(asyncio.create_task(follow(kind, version)))
    await asyncio.sleep(0.5)
    try:
        yield
        await asyncio.sleep(2)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    STREAMS.mkdir(exist_ok=True)
    (STREAMS / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    print(name, len(lines))


async def roll_daemon_set(plane: ControlPlane) -> None:
    await plane.apply(daemon_set("exporter", "exporter:2"))
    await plane.rolled_out("daemonset/exporter")


async def roll_deployment(plane: ControlPlane) -> None:
    await plane.kubectl("set", "image", "deployment/server", "main=server:2")
    await plane.rolled_out("deployment/server")
    await plane.kubectl("scale", "deployment/server", "--replicas=5")
    await plane.rolled_out("deployment/server")
    await plane.kubectl("rollout", "undo", "deployment/server")
    await plane.rolled_out("deployment/server")
    await plane.kubectl("rollout", "restart", "deployment/server")
    await plane.rolled_out("deployment/server")
    await plane.kubectl("annotate", "deployment/server", "note=edited")
    await plane.kubectl("rollout", "pause", "deployment/server")
    await plane.kubectl("set", "image", "deployment/server", "main=server:4")
    await asyncio.sleep(1)
    await plane.kubectl("rollout", "resume", "deployment/server")
    await plane.rolled_out("deployment/server")


async def fail_deployment(plane: ControlPlane) -> None:
    await plane.apply(deployment("greedy", "greedy:1", replicas=1, progressDeadlineSeconds=10))
    await plane.rolled_out("deployment/greedy")
    await plane.kubectl(
        "patch",
        "deployment/greedy",
        "-p",
        json.dumps({"spec": {"template": {"spec": {"nodeSelector": {"no-such": "node"}}}}}),
    )
    await plane.wait("deployment/greedy", "--for=condition=Progressing=False", seconds=30)
    await plane.kubectl("rollout", "undo", "deployment/greedy")
    await plane.rolled_out("deployment/greedy")
    await plane.kubectl("delete", "deployment/greedy")


async def roll_stateful_set(plane: ControlPlane) -> None:
    await plane.kubectl("set", "image", "statefulset/index", "main=index:2")
    await plane.rolled_out("statefulset/index")
    await plane.kubectl("rollout", "undo", "statefulset/index")
    await plane.rolled_out("statefulset/index")
    await plane.kubectl("scale", "statefulset/index", "--replicas=4")
    await plane.rolled_out("statefulset/index")


async def drain_and_return(plane: ControlPlane) -> None:
    await plane.kubectl("drain", "gpu-1", "--ignore-daemonsets", "--force", "--delete-emptydir-data")
    await asyncio.sleep(1)
    await plane.kubectl("uncordon", "gpu-1")


async def drain_blocked(plane: ControlPlane) -> None:
    """A PodDisruptionBudget that allows nothing: the drain gets HTTP 429 and gives up."""
    await plane.apply(budget("server", "server", 5))
    await plane.kubectl("drain", "gpu-0", "gpu-1", "gpu-2", "--ignore-daemonsets", "--force", "--timeout=6s", check=False)
    await plane.kubectl("delete", "pdb", "server")
    await plane.kubectl("uncordon", "gpu-0", "gpu-1", "gpu-2")


async def cordon_only(plane: ControlPlane) -> None:
    await plane.kubectl("cordon", "gpu-0")
    await asyncio.sleep(2)
    await plane.kubectl("uncordon", "gpu-0")


async def by_hand(plane: ControlPlane) -> None:
    """An OnDelete DaemonSet, as GPU drivers have: each Pod is deleted by a person."""
    await plane.apply(daemon_set("driver", "driver:1", updateStrategy={"type": "OnDelete"}))
    await plane.wait("pod", "-l", "app=driver", "--for=condition=Ready")
    await plane.apply(daemon_set("driver", "driver:2", updateStrategy={"type": "OnDelete"}))
    for pod in (await plane.get("pods", "-l", "app=driver"))["items"]:
        await asyncio.sleep(1)
        await plane.kubectl("delete", "pod", pod["metadata"]["name"])
    await asyncio.sleep(2)
    await plane.wait("pod", "-l", "app=driver", "--for=condition=Ready")


STORIES: tuple[Callable[[ControlPlane], Awaitable[None]], ...] = (
    roll_daemon_set,
    roll_deployment,
    fail_deployment,
    roll_stateful_set,
    drain_and_return,
    drain_blocked,
    cordon_only,
    by_hand,
)


async def main(only: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder))
        try:
            await plane.start()
            for number in range(3):
                await plane.node(f"gpu-{number}")
            await plane.wait("node", "--all", "--for=condition=Ready")
            await plane.apply(daemon_set("exporter", "exporter:1"), deployment("server", "server:1"), stateful_set("index", "index:1"))
            for workload in ("daemonset/exporter", "deployment/server", "statefulset/index"):
                await plane.rolled_out(workload)
            async with await KubernetesSource.connect(str(plane.kubeconfig)) as source:
                for story in STORIES:
                    if not only or story.__name__ in only:
                        async with recording(source, story.__name__):
                            await story(plane)
        finally:
            await plane.stop()


if __name__ == "__main__":
    if why := missing_assets():
        sys.exit(why)
    asyncio.run(main(sys.argv[1:]))
