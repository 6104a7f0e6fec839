"""A small cluster written as a bundle, for tests that ask what a person on call would expect of it.

`World` holds objects and bodies in plain words; `write` makes the directory. Everything is sound until a test says
otherwise: Pods have run for two days, both windows show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

NOW, BEFORE, LONG_AGO, JUST_NOW = "2026-11-03T12:00:00Z", "2026-11-03T11:00:00Z", "2026-11-01T08:00:00Z", "2026-11-03T11:20:00Z"
IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"
OPERATOR = "gpu-operator"

Object = dict[str, Any]


def uuid(node: str, index: int) -> str:
    number = sum(ord(c) * 31**i for i, c in enumerate(node)) % 0xFFFFFFFF
    return f"GPU-{number:08x}-0000-4000-8000-00000000000{index}"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device as an exporter sees it. `pod`: namespace/name/container of whom it names."""

    index: int
    uuid: str
    util: float = 0.0
    pod: str = ""
    #: (profile, instance id)
    mig: tuple[str, str] = ("", "")

    def of_pod(self, pod: str = "pod", namespace: str = "namespace", container: str = "container") -> str:
        if not self.pod:
            return ""
        space, name, box = (*self.pod.split("/"), "main")[:3]
        return f',{container}="{box}",{namespace}="{space}",{pod}="{name}"'


Value = Callable[[Gpu], float]
DCGM: Mapping[str, Value] = {
    "DCGM_FI_DEV_SM_CLOCK": lambda g: 1410 if g.util else 210,
    "DCGM_FI_DEV_GPU_TEMP": lambda g: 31 + g.util // 2,
    "DCGM_FI_DEV_POWER_USAGE": lambda g: 61.5 + 3 * g.util,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda g: 59981858 + 7919 * g.util + g.index,
    "DCGM_FI_DEV_GPU_UTIL": lambda g: g.util,
    "DCGM_FI_DEV_MEM_COPY_UTIL": lambda g: g.util // 3,
    "DCGM_FI_DEV_FB_FREE": lambda g: 81000 - 400 * g.util,
    "DCGM_FI_DEV_FB_USED": lambda g: 4 + 400 * g.util,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda g: g.util / 100,
}
#: what a MIG instance has of these
DCGM_MIG = {n: v for n, v in DCGM.items() if n not in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL")}
DCGM_1 = {
    "dcgm_sm_clock": DCGM["DCGM_FI_DEV_SM_CLOCK"],
    "dcgm_gpu_temp": DCGM["DCGM_FI_DEV_GPU_TEMP"],
    "dcgm_power_usage": DCGM["DCGM_FI_DEV_POWER_USAGE"],
    "dcgm_gpu_utilization": DCGM["DCGM_FI_DEV_GPU_UTIL"],
    "dcgm_fb_used": DCGM["DCGM_FI_DEV_FB_USED"],
}
DCGM_49 = {
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": lambda g: (1410 if g.util else 210) * 1e6,
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": DCGM["DCGM_FI_DEV_GPU_TEMP"],
    "DCGM_FI_DEV_BOARD_POWER_WATTS": DCGM["DCGM_FI_DEV_POWER_USAGE"],
    "DCGM_FI_DEV_GPU_UTIL_RATIO": lambda g: g.util / 100,
    "DCGM_FI_DEV_FB_USED_BYTES": lambda g: (4 + 400 * g.util) * 1048576,
}


def dcgm(host: str, gpus: Iterable[Gpu], names: Mapping[str, Value] = DCGM, host_label: str = "Hostname", more: str = "") -> str:
    """A body of dcgm-exporter."""
    gpus = list(gpus)
    lines = []
    for name, value in names.items():
        lines += [f"# HELP {name} as it is called.", f"# TYPE {name} {'counter' if 'ENERGY' in name else 'gauge'}"]
        for g in gpus:
            mig = f',GPU_I_PROFILE="{g.mig[0]}",GPU_I_ID="{g.mig[1]}"' if g.mig[1] else ""
            own = f'gpu="{g.index}",UUID="{g.uuid}",device="nvidia{g.index}",modelName="NVIDIA A100-SXM4-80GB"{mig}'
            lines.append(
                f"{name}{{{own}{f',{host_label}=' if host_label else ''}{chr(34) + host + chr(34) if host_label else ''}{more}{g.of_pod()}}} {value(g):g}"
            )
    return "\n".join(lines) + "\n"


def lines_of(gpus: Iterable[Gpu], names: Mapping[str, Value], own: Callable[[Gpu], str]) -> str:
    """A body of any exporter: `own` gives the labels of a device."""
    gpus = list(gpus)
    return "\n".join(f"{name}{{{own(g)}}} {value(g):g}" for name, value in names.items() for g in gpus) + "\n"


@dataclass
class World:
    """A cluster in the making."""

    objects: list[Object] = field(default_factory=list)
    objects_before: list[Object] | None = None
    bodies: dict[str, list[str]] = field(default_factory=lambda: {"before": [], "after": []})
    rules: list[Object] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    ips: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------ objects

    def add(self, kind: str, name: str, namespace: str = "", spec: Any = None, status: Any = None, **metadata: Any) -> Object:
        about = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}", "creationTimestamp": LONG_AGO, **metadata}
        if namespace:
            about["namespace"] = namespace
        version = {"Node": "v1", "Pod": "v1", "Event": "v1", "ConfigMap": "v1"}.get(kind, "apps/v1")
        made = {
            "apiVersion": version,
            "kind": kind,
            "metadata": about,
            **({"spec": spec} if spec is not None else {}),
            **({"status": status} if status is not None else {}),
        }
        self.objects.append(made)
        return made

    def node(
        self,
        name: str,
        gpus: int = 2,
        resource: str = "nvidia.com/gpu",
        offered: int | None = None,
        *,
        spec: Any = None,
        ready: bool = True,
        **metadata: Any,
    ) -> Object:
        counts = {resource: str(gpus), "cpu": "64"}
        return self.add(
            "Node", name, spec=spec or {},
            status={
                "capacity": counts, "allocatable": {**counts, resource: str(gpus if offered is None else offered)},
                "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
                "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": f"192.168.0.{len(self.objects) + 1}"}],
            },
            **metadata,
        )  # fmt: skip

    def pod(
        self, name: str, node: str, gpus: Mapping[str, int] | int = 1, namespace: str = "ml", *, phase: str = "Running", since: str = LONG_AGO,
        owner: str = "", image: str = "registry/app:1", container: str = "main", ended: str = "", spec: Any = None, **metadata: Any,
    ) -> Object:  # fmt: skip
        wants = {"nvidia.com/gpu": gpus} if isinstance(gpus, int) else dict(gpus)
        limits = {r: str(n) for r, n in wants.items() if n}
        self.ips.setdefault(name, f"10.0.{len(self.ips) // 200}.{len(self.ips) % 200 + 1}")
        state = (
            {"terminated": {"exitCode": 0, "startedAt": since, "finishedAt": ended or NOW}}
            if phase in ("Succeeded", "Failed")
            else {"running": {"startedAt": since}}
        )
        kind, _, owned = owner.partition("/")
        if owner:
            metadata["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": kind, "name": owned, "uid": f"uid-{owned}", "controller": True}
            ]
        return self.add(
            "Pod", name, namespace,
            {"nodeName": node, "containers": [{"name": container, "image": image, "resources": {"limits": limits, "requests": limits}}], **(spec or {})},
            {
                "phase": phase, "podIP": self.ips[name], "startTime": since,
                "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False"}],
                "containerStatuses": [{"name": container, "image": image, "ready": phase == "Running", "restartCount": 0, "state": state}],
            },
            **{"creationTimestamp": since, **metadata},
        )  # fmt: skip

    def exporter(self, node: str, name: str = "", image: str = IMAGE, namespace: str = OPERATOR, owner: str = "dcgm", **more: Any) -> str:
        name = name or f"{owner}-{node}"
        self.pod(name, node, 0, namespace, owner=f"DaemonSet/{owner}", image=image, container="exporter", **more)
        if not any(o["kind"] == "DaemonSet" and o["metadata"]["name"] == owner for o in self.objects):
            self.add("DaemonSet", owner, namespace, {"template": {"spec": {"containers": [{"name": "exporter", "image": image}]}}})
        return name

    def event(self, reason: str, pod: str, namespace: str, at: str) -> None:
        made = self.add("Event", f"{pod}.{reason.lower()}", namespace)
        made |= {
            "involvedObject": {"kind": "Pod", "namespace": namespace, "name": pod},
            "reason": reason,
            "type": "Normal",
            "count": 1,
            "firstTimestamp": at,
            "lastTimestamp": at,
        }

    # ------------------------------------------------------------------------------------------------ telemetry

    def section(
        self,
        pod: str,
        body: str,
        *,
        job: str = "dcgm",
        honor: str = "false",
        namespace: str = OPERATOR,
        node: str = "",
        port: int = 9400,
        **keys: str,
    ) -> str:
        """The section of a Pod's target."""
        ip = self.ips.setdefault(pod, f"10.0.9.{len(self.ips) + 1}")
        labels = {
            "job": job, "instance": f"{ip}:{port}", "namespace": namespace, "pod": pod, "container": "exporter", "node": node, "honor_labels": honor, **keys,
        }  # fmt: skip
        return "# TARGET " + " ".join(f'{k}="{v}"' for k, v in labels.items() if v) + "\n" + body

    def now(self, *sections: str) -> None:
        self.bodies["after"] += sections

    def before(self, *sections: str) -> None:
        self.bodies["before"] += sections

    def both(self, *sections: str) -> None:
        self.now(*sections)
        self.before(*sections)

    def alert(self, name: str, expr: str) -> None:
        self.rules.append({"alert": name, "expr": expr, "for": "5m", "labels": {"severity": "warning"}})

    # ------------------------------------------------------------------------------------------------ the bundle

    def write(self, root: Path) -> Path:
        """The bundle directory."""
        put = {
            "bundle.yaml": yaml.safe_dump(
                {"cluster": "lab", "current": NOW, **({"baseline": BEFORE} if self.bodies["before"] else {}), **self.about}
            )
        }
        put["kubernetes/all.yaml"] = yaml.safe_dump_all(self.objects)
        if self.objects_before is not None:
            put["kubernetes/before/all.yaml"] = yaml.safe_dump_all(self.objects_before)
        for window, sections in self.bodies.items():
            if sections:
                # lines without a target come first in a file of their own
                put |= {f"metrics/{window}/{n:02}.prom": text for n, text in enumerate(sections)}
        if self.rules:
            put["rules/rules.yaml"] = yaml.safe_dump({"groups": [{"name": "g", "rules": self.rules}]})
        for name, text in (put | self.files).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root


def fleet(count: int = 2, busy: float = 70.0, **more: Any) -> World:
    """Nodes n-1 … with two GPUs each, dcgm-exporter on all of them, and one Pod ml/a-N that holds the first GPU of node N."""
    world = World()
    for number in range(1, count + 1):
        node = f"n-{number}"
        world.node(node)
        exporter = world.exporter(node)
        world.pod(f"a-{number}", node, owner="StatefulSet/a")
        gpus = [Gpu(0, uuid(node, 0), busy, f"ml/a-{number}"), Gpu(1, uuid(node, 1))]
        world.both(world.section(exporter, dcgm(node, gpus), node=node, **more))
    world.add(
        "StatefulSet", "a", "ml", {"replicas": count, "template": {"spec": {"containers": [{"name": "main", "image": "registry/app:1"}]}}}
    )
    return world
