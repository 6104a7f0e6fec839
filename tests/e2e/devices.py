"""What a cluster of the test can't have: devices, the kubelet's word on which Pod holds them, and exporters that print it.

kwok runs no containers, so this stands in for them: it reads the real Pods, hands out devices on their nodes as a device
plugin would, and lets each node's exporter answer in the version of the exporter Pod that runs there.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.e2e.control_plane import TOKEN, ControlPlane
from tests.support.exporters import Exporters
from tests.support.main_job import EXPORTER, Exposed, exposed, moving, unmapped

GPUS = 4
OLD, NEW = (f"nvcr.io/nvidia/k8s/dcgm-exporter:{tag}-distroless" for tag in ("4.5.3-4.8.2", "4.6.0-4.9.0"))
_LINE = re.compile(r'^(\w+)\{([^}]*\bgpu="(\d+)"[^}]*)\} (\S+)$', re.MULTILINE)
_USE = re.compile(r"UTIL|ACTIVE|FB_USED|PCIE_RX|NVLINK")


def bodies(window: str) -> dict[str, str]:
    """node -> what its exporter prints, without any Pod."""
    return {t.node: unmapped(t.body) for t in exposed(window) if t.name.startswith(EXPORTER)}


def targets() -> list[Exposed]:
    """One target a node."""
    return [Exposed(f"{EXPORTER}-{node}", body, {"node": node, "namespace": "gpu-operator"}) for node, body in bodies("before").items()]


def held_by(body: str, holders: Mapping[int, tuple[str, str]]) -> str:
    """The body with the Pods (namespace, name) that hold the devices; nobody uses the others."""

    def line(match: re.Match[str]) -> str:
        name, labels, gpu, value = match.groups()
        if holder := holders.get(int(gpu)):
            return f'{name}{{{labels},container="main",namespace="{holder[0]}",pod="{holder[1]}"}} {value}'
        return f"{name}{{{labels}}} {0 if _USE.search(name) else value}"

    return _LINE.sub(line, body)


@dataclass
class Devices:
    """Follows the Pods of a control plane. Use as an async context manager."""

    plane: ControlPlane
    fleet: Exporters
    #: (node, device) -> uid of the Pod that holds it
    held: dict[tuple[str, int], str] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Devices:
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _follow(self) -> None:
        old, new = bodies("before"), bodies("after")
        shown: dict[str, str] = {}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"{self.plane.url}/api/v1/pods", timeout=aiohttp.ClientTimeout(total=2)) as answer:
                        pods = (await answer.json())["items"] if answer.status == 200 else None
                    if pods is not None:
                        for node in old:
                            body = self._body(node, pods, old[node], new[node])
                            if shown.get(node) != body:
                                shown[node] = body
                                self.fleet.serve(f"{EXPORTER}-{node}", moving(body))
                await asyncio.sleep(0.2)

    def _body(self, node: str, pods: list[dict[str, Any]], old: str, new: str) -> str:
        here = [p for p in pods if p["spec"].get("nodeName") == node and p["status"].get("phase") == "Running"]
        exporters = [p for p in here if p["metadata"]["labels"].get("app") == EXPORTER and "deletionTimestamp" not in p["metadata"]]
        version = new if exporters and all(p["spec"]["containers"][0]["image"] == NEW for p in exporters) else old
        users = {p["metadata"]["uid"]: p for p in here if _wanted(p)}
        self.held = {place: uid for place, uid in self.held.items() if place[0] != node or uid in users}
        for uid, pod in users.items():
            while sum(holder == uid for holder in self.held.values()) < _wanted(pod):
                free = next(gpu for gpu in range(GPUS) if (node, gpu) not in self.held)
                self.held[node, free] = uid
        names = {uid: (p["metadata"]["namespace"], p["metadata"]["name"]) for uid, p in users.items()}
        return held_by(version, {gpu: names[uid] for (at, gpu), uid in self.held.items() if at == node})


def _wanted(pod: dict[str, Any]) -> int:
    return sum(int((c.get("resources", {}).get("limits") or {}).get("nvidia.com/gpu", 0)) for c in pod["spec"]["containers"])
