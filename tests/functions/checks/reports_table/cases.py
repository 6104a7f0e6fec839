"""Public reports as small bundles: reads the tables beside this file and writes each side as a bundle directory.

A case is the cluster in a few words, the exposition that was reported (`wrong`) with the findings it must give, and
the exposition that would have been right, in which no finding of the same checks may appear. Cluster, `before`,
`policy` and `rules` are shared by both sides unless `right` is a mapping that has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NOW, BEFORE = "2026-11-03T12:00:00Z", "2026-11-03T11:00:00Z"
LONG_AGO = "2026-11-01T08:00:00Z"
HERE = Path(__file__).parent

_UUID = {f"U{n}": f"GPU-10000000-0000-4000-8000-00000000000{n}" for n in range(4)}
_GPUS = {
    f"G{n}": f'gpu="{n}",UUID="{_UUID[f"U{n}"]}",device="nvidia{n}",modelName="NVIDIA A100-SXM4-80GB",Hostname="n-1"' for n in range(4)
}


def _target(node: int, honor: str, more: str = "") -> str:
    return (
        f'# TARGET job="dcgm" instance="10.0.{node}.1:9400" namespace="gpu-operator" pod="dcgm-{node}" container="exporter" '
        f'node="n-{node}" honor_labels="{honor}"{more}'
    )


def _scrapes(step: float) -> str:
    """Three scrapes under load, whose values move by the step."""
    lines = []
    for number, second in enumerate(("11:58:00", "11:59:00", "12:00:00")):
        lines.append(_target(1, "false", f' scraped_at="2026-11-03T{second}Z"'))
        for metric, value in (
            ("GPU_UTIL", 80), ("POWER_USAGE", 251.25), ("GPU_TEMP", 61), ("SM_CLOCK", 1395), ("TOTAL_ENERGY_CONSUMPTION", 918273645),
        ):  # fmt: skip
            lines.append(f"DCGM_FI_DEV_{metric}{{$G0,$A}} {value + number * step}")
    return "\n".join(lines)


SHORTHANDS: Mapping[str, str] = {
    "FROZEN": _scrapes(0),
    "MOVING": _scrapes(3),
    "DOWN1": _target(1, "false", ' up="0" error="context deadline exceeded"'),
    "T1": _target(1, "false"),
    "T2": _target(2, "false"),
    "H1": _target(1, "true"),
    **_GPUS,
    "N0": 'gpu="0",UUID="GPU-20000000-0000-4000-8000-000000000000",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="n-2"',
    "M7": f'gpu="0",UUID="{_UUID["U0"]}",device="nvidia0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="n-1"',
    "M8": f'gpu="0",UUID="{_UUID["U0"]}",device="nvidia0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="8",Hostname="n-1"',
    "A": 'container="main",namespace="ml",pod="a-0"',
    "B": 'container="main",namespace="ml",pod="b-0"',
    **_UUID,
}


def expand(text: str) -> str:
    """A text with the shorthands written out (twice: some hold others)."""
    pattern = re.compile(r"\$([A-Z]+\d*)")
    return pattern.sub(lambda m: SHORTHANDS[m[1]], pattern.sub(lambda m: SHORTHANDS[m[1]], text))


@dataclass(frozen=True)
class Case:
    """One side of one report."""

    name: str
    refs: str
    #: what must be found; empty on the right side
    expect: tuple[Mapping[str, Any], ...]
    #: the checks that judge the case
    checks: tuple[str, ...]
    parts: Mapping[str, Any]

    def write(self, folder: Path) -> Path:
        """The case as a bundle directory."""
        header = {"cluster": "table", "current": NOW, "policy": self.parts.get("policy", {})}
        if "before" in self.parts:
            header["baseline"] = BEFORE
            _put(folder / "metrics/before/all.prom", expand(self.parts["before"]))
        _put(folder / "bundle.yaml", yaml.safe_dump(header))
        _put(folder / "metrics/after/all.prom", expand(self.parts["after"]))
        if "rules" in self.parts:
            _put(folder / "rules/rules.yaml", self.parts["rules"])
        _put(folder / "kubernetes/all.yaml", yaml.safe_dump_all(self.objects()))
        return folder

    def objects(self) -> Iterator[dict[str, Any]]:
        """The cluster's objects as kubectl prints them."""
        nodes = self.parts.get("nodes", {"n-1": {"gpus": 2}})
        for name, more in nodes.items():
            yield _node(name, more)
            number = name[-1]
            yield _pod("gpu-operator", f"dcgm-{number}", {"node": name, "container": "exporter", "image": "nvidia/dcgm-exporter:4.8.2"})
        for key, more in self.parts.get("pods", {"ml/a-0": {"node": "n-1", "gpus": 1}}).items():
            namespace, _, name = key.partition("/")
            yield _pod(namespace, name, more)
            if "claim" in more:
                yield from _claim(namespace, name, more["node"], expand(more["claim"]))


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")


def _node(name: str, more: Mapping[str, Any]) -> dict[str, Any]:
    gpus = {more.get("resource", "nvidia.com/gpu"): str(more["gpus"])} if more["gpus"] else {}
    amounts = {"cpu": "64", "memory": "512Gi", **gpus}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": LONG_AGO, "labels": dict(more.get("labels", {}))},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pod(namespace: str, name: str, more: Mapping[str, Any]) -> dict[str, Any]:
    amounts = {more.get("resource", "nvidia.com/gpu"): str(more["gpus"])} if more.get("gpus") else {}
    resources: dict[str, Any] = {"limits": amounts, "requests": amounts}
    phase = more.get("phase", "Running")
    running = {"running": {"startedAt": LONG_AGO}}
    ended = {"terminated": {"exitCode": 0, "finishedAt": more.get("finished", LONG_AGO), "startedAt": LONG_AGO}}
    container = more.get("container", "main")
    spec: dict[str, Any] = {"nodeName": more["node"], "containers": [{"name": container, "image": more.get("image", "example/main:1")}]}
    if "claim" in more:
        resources["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    spec["containers"][0]["resources"] = resources
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": f"uid-{name}", "creationTimestamp": LONG_AGO},
        "spec": spec,
        "status": {
            "phase": phase,
            "startTime": LONG_AGO,
            "containerStatuses": [{"name": container, "ready": phase == "Running", "state": running if phase == "Running" else ended}],
        },
    }


def _claim(namespace: str, pod: str, node: str, uuid: str) -> Iterator[dict[str, Any]]:
    api = "resource.k8s.io/v1"
    device = {"driver": "gpu.nvidia.com", "pool": node, "device": "gpu-0", "request": "gpu"}
    yield {
        "apiVersion": api,
        "kind": "ResourceClaim",
        "metadata": {"namespace": namespace, "name": f"{pod}-gpu", "uid": f"uid-{pod}-gpu"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        "status": {
            "allocation": {"devices": {"results": [device]}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}],
        },
    }
    yield {
        "apiVersion": api,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu", "uid": f"uid-{node}-gpu"},
        "spec": {
            "nodeName": node,
            "driver": "gpu.nvidia.com",
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": uuid}, "type": {"string": "gpu"}}}],
        },
    }


_SHARED = ("nodes", "pods", "before", "policy", "rules")


def _sides(row: Mapping[str, Any], number: int) -> Iterator[Case]:
    shared = {key: row[key] for key in _SHARED if key in row}
    expected = tuple(row["expect"])
    codes = [c for item in expected for c in ([item["code"]] if isinstance(item["code"], str) else item["code"])]
    checks = tuple(row.get("judged_by", sorted({code.partition("/")[0] for code in codes})))
    for side in ("wrong", "right"):
        given = row[side]
        own = {"after": given} if isinstance(given, str) else dict(given)
        if side == "right" and checks != ("label-mapping",):
            own.setdefault("before", shared.get("before", own["after"]))  # in good order before and now
        name = f"{row['row']:02}-{number}-{side}"
        yield Case(name, row["refs"], expected if side == "wrong" else (), checks, {**shared, **own})


def rows() -> list[Mapping[str, Any]]:
    """Every report of both tables."""
    return [row for table in sorted(HERE.glob("*.yaml")) for row in yaml.safe_load(table.read_text(encoding="utf-8"))]


def load() -> list[Case]:
    """Both sides of every report."""
    return [case for number, row in enumerate(rows()) for case in _sides(row, number)]
