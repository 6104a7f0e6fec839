"""Small builders of facts for the tests of label-mapping: a cluster of a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.checks import base
from functions.checks.label_mapping.check import CHECK
from functions.contract.cluster import Container, KubernetesEvent, Node, Pod
from functions.contract.facts import Facts, Known, Windows
from functions.contract.findings import CheckResult, Finding, Verdict
from functions.contract.policy import Policy
from functions.contract.telemetry import DeviceReading, DeviceSeries, Target
from functions.knowledge import load

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=2)
A, B, C = (f"GPU-{letter * 8}-0000-4000-8000-00000000000{n}" for n, letter in enumerate("abc"))


def known(value: Any) -> Known[Any]:
    return Known(value, NOW, "test")


def node(name: str, gpus: int = 2, resource: str = "nvidia.com/gpu", **more: Any) -> Node:
    return Node(name, capacity={resource: gpus}, allocatable={resource: gpus}, **more)


def pod(name: str, node: str = "n-1", *, namespace: str = "ml", gpus: Mapping[str, int] | int = 1, **more: Any) -> Pod:
    requests = {"nvidia.com/gpu": gpus} if isinstance(gpus, int) else gpus
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "phase": "Running",
        "workload": f"Deployment/{name.rpartition('-')[0] or name}",
        "containers": (Container("main", gpus={r: n for r, n in requests.items() if n}, started_at=more.get("started_at", LONG_AGO)),),
        "created_at": LONG_AGO,
        "started_at": LONG_AGO,
    }
    return Pod(namespace=namespace, name=name, node=node, **{**values, **more})


def exporter(name: str, node: str) -> Pod:
    image = "nvcr.io/nvidia/k8s/dcgm-exporter:4.8.2"
    containers = (Container("exporter", image=image, started_at=LONG_AGO),)
    return pod(name, node, namespace="gpu-operator", gpus=0, workload="DaemonSet/dcgm", containers=containers)


def series(
    gpu: str,
    node: str = "n-1",
    name: str = "",
    *,
    namespace: str = "ml",
    container: str = "main",
    part: str = "",
    at: str = "",
    **more: Any,
) -> DeviceSeries:
    """A series as it is resolved under honor_labels="false". `part` is a MIG instance, `at` the target's instance."""
    host = more.get("host", node)
    labels = {"gpu": "0", "UUID": gpu, "Hostname": host, "pod": f"dcgm-{node}", "namespace": "gpu-operator", "container": "exporter"}
    spelling = {"gpu": "UUID", "index": "gpu", "host": "Hostname"}
    if name:
        labels |= {"exported_pod": name, "exported_namespace": namespace, "exported_container": container}
        spelling |= {"pod": "exported_pod", "namespace": "exported_namespace", "container": "exported_container"}
    if part:
        labels["GPU_I_ID"] = part
        spelling["gpu_instance"] = "GPU_I_ID"
    extra_labels = more.pop("extra", {})
    spelling |= more.pop("spell", {})
    values: dict[str, Any] = {
        "job": "dcgm",
        "instance": at or f"10.0.0.{node[-1:] or 0}:9400",
        "labels": labels | extra_labels,
        "series": 12,
        "spelling": spelling,
        "node": node,
        "gpu": gpu,
        "gpu_instance": part,
        "host": host,
        "namespace": namespace if name else "",
        "pod": name,
        "container": container if name else "",
        "target_namespace": "gpu-operator",
        "target_pod": f"dcgm-{node}",
        "target_container": "exporter",
        "honor_labels": False,
    }
    return DeviceSeries(**{**values, **more})


def util(source: DeviceSeries, value: float, metric: str = "DCGM_FI_DEV_GPU_UTIL", count: int = 1) -> DeviceReading:
    return DeviceReading("gpu.utilization", metric, value, count, source)


def target(node: str = "n-1", *, up: bool = True, **more: Any) -> Target:
    labels = {"namespace": "gpu-operator", "pod": f"dcgm-{node}", "node": node}
    return Target("dcgm", f"10.0.0.{node[-1:]}:9400", labels, up, interval=30, honor_labels=False, **more)


def killed(name: str, ago: float, namespace: str = "ml") -> KubernetesEvent:
    when = NOW - timedelta(seconds=ago)
    return KubernetesEvent("u", "Killing", "Normal", "", "Pod", namespace, name, 1, when, when)


def judge(*, policy: Policy | None = None, **facts: Any) -> CheckResult:
    """Run the check; facts are plain values. Nodes n-1 and n-2 and their exporters are there unless others are given."""
    for name, value in {"nodes": (node("n-1"), node("n-2")), "events": (), "readings": ()}.items():
        facts.setdefault(name, value)
    facts["pods"] = (exporter("dcgm-n-1", "n-1"), exporter("dcgm-n-2", "n-2"), *facts.get("pods", ()))
    given = {name: value if hasattr(value, "detail") else known(value) for name, value in facts.items()}
    settings = {"policy": policy or Policy(), "knowledge": load(), "cluster": "lab"}
    return base.run(CHECK, Facts(Windows(None, NOW), **given), settings)


def codes(result: CheckResult) -> list[str]:
    return sorted(f.code.partition("/")[2] for f in result.findings)


def only(result: CheckResult, code: str) -> Finding:
    """The one finding of the result, which must be of that code."""
    assert codes(result) == [code], [(f.code, f.observed) for f in result.findings]
    return result.findings[0]


def passes(result: CheckResult) -> None:
    assert result.verdict is Verdict.PASS, (result.summary, [f.observed for f in result.findings], result.unjudged)
