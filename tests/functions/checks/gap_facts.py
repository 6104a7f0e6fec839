"""Small builders of facts for the tests of telemetry-gap: a node or two, an exporter on each, a few names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.checks import base
from functions.checks.telemetry_gap.check import CHECK
from functions.contract.cluster import ConfigMap, Container, Node, Pod, Workload
from functions.contract.facts import Facts, Known, Windows
from functions.contract.findings import CheckResult, Finding, Verdict
from functions.contract.policy import Policy
from functions.contract.signals import CLUSTER, Scope
from functions.contract.telemetry import DeviceReading, DeviceSeries, Extreme, MetricSchema, Standstill, Target
from functions.knowledge import load

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
BEFORE = NOW - timedelta(hours=1)
LONG_AGO = NOW - timedelta(days=2)
JOB = "dcgm"


def known(value: Any) -> Known[Any]:
    return Known(value, NOW, "test")


def node(name: str = "n-1", gpus: int = 2, resource: str = "nvidia.com/gpu", *, offered: int | None = None, **more: Any) -> Node:
    allocatable = {resource: gpus if offered is None else offered}
    return Node(name, capacity={resource: gpus}, allocatable=allocatable, **{"created_at": LONG_AGO, **more})


def exporter(number: int = 1, name: str = "", **more: Any) -> Pod:
    started = more.pop("container_started", LONG_AGO)
    values: dict[str, Any] = {
        "uid": f"uid-{name or number}",
        "phase": "Running",
        "workload": "DaemonSet/dcgm",
        "containers": (Container("exporter", image="nvidia/dcgm-exporter:4.8.2", started_at=started),),
        "created_at": LONG_AGO,
        "started_at": LONG_AGO,
        "ready": True,
        "ip": f"10.0.{number}.1",
    }
    return Pod(namespace="gpu-operator", name=name or f"dcgm-{number}", node=f"n-{number}", **{**values, **more})


def target(number: int = 1, *, job: str = JOB, pod: str = "", instance: str = "", **more: Any) -> Target:
    instance = instance or f"10.0.{number}.1:9400"
    labels = {
        "job": job, "instance": instance, "namespace": "gpu-operator", "pod": pod or f"dcgm-{number}",
        "container": "exporter", "node": f"n-{number}",
    }  # fmt: skip
    values: dict[str, Any] = {"up": True, "samples": 100, "samples_kept": 100, "scraped_at": NOW - timedelta(seconds=10), "interval": 15.0}
    return Target(job, instance, more.pop("labels", labels), **{**values, **more})


def series(gpu: str, number: int = 1, *, instance: str = "", node: str | None = None, job: str = JOB) -> DeviceSeries:
    where = f"n-{number}" if node is None else node
    return DeviceSeries(job, f"10.0.{number}.1:9400", {"UUID": gpu}, 1, {"gpu": "UUID"}, where, gpu, instance)


def metric(name: str, *, job: str = JOB, count: int = 2, targets: int = 1, high: float = 50.0, **more: Any) -> MetricSchema:
    return MetricSchema(
        job, name, count, targets, 0.0, high, high / 2, **{"labels": {"UUID": count, "Hostname": count}, "type": "gauge", **more}
    )


def still(name: str, quiet: int, total: int = 2, scrapes: int = 10, number: int = 1) -> Standstill:
    return Standstill(JOB, f"10.0.{number}.1:9400", name, f"n-{number}", quiet, total, scrapes)


def util(gpu: str, value: float, number: int = 1) -> DeviceReading:
    return DeviceReading("gpu.utilization", "DCGM_FI_DEV_GPU_UTIL", value, 1, series(gpu, number))


def extreme(name: str, high: float, number: int = 1, gpu: str = "GPU-a") -> Extreme:
    return Extreme(JOB, f"10.0.{number}.1:9400", name, high, f"n-{number}", {"UUID": gpu})


def daemonset(*, env: Mapping[str, str] | None = None, args: tuple[str, ...] = (), config: str = "", at: str = "") -> Workload:
    container: dict[str, Any] = {
        "name": "exporter",
        "image": "nvidia/dcgm-exporter:4.8.2",
        "args": list(args),
        "env": [{"name": k, "value": v} for k, v in (env or {}).items()],
    }
    spec: dict[str, Any] = {"containers": [container]}
    if config:
        container["volumeMounts"] = [{"name": "list", "mountPath": at, "subPath": at.rpartition("/")[2]}]
        spec["volumes"] = [{"name": "list", "configMap": {"name": config}}]
    return Workload("DaemonSet", "gpu-operator", "dcgm", template={"spec": spec})


def fields(text: str, name: str = "counters", key: str = "counters.csv", namespace: str = "gpu-operator") -> ConfigMap:
    return ConfigMap(namespace, name, {}, {key: text})


NAMES = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE")


def healthy() -> dict[str, Any]:
    """A node with two GPUs, its exporter, three names, the same before and now."""
    return {
        "nodes": known((node(),)),
        "pods": known((exporter(),)),
        "pods_before": known((exporter(),)),
        "workloads": known((daemonset(),)),
        "configmaps": known(()),
        "slices": known(()),
        "targets": known((target(),)),
        "targets_before": known((target(),)),
        "schema": known(tuple(metric(n) for n in NAMES)),
        "schema_before": known(tuple(metric(n) for n in NAMES)),
        "partial_losses": known(()),
        "devices": known((series("GPU-a"), series("GPU-b"))),
        "devices_before": known((series("GPU-a"), series("GPU-b"))),
        "readings": known((util("GPU-a", 80), util("GPU-b", 70))),
        "extremes": known(()),
        "standstill": known(()),
        "pipeline": known(()),
        "bodies": known(()),
        "rules": known(()),
        "dashboards": known(()),
        "selectors": known(()),
        "selectors_before": known(()),
    }


def judge(*, policy: Policy | None = None, scope: Scope = CLUSTER, jobs: frozenset[str] | None = None, **facts: Any) -> CheckResult:
    """The check on the healthy facts with these changed; a tuple is a known value."""
    given = {name: known(value) if isinstance(value, tuple) else value for name, value in facts.items()}
    everything = replace(Facts(Windows(BEFORE, NOW), jobs=jobs), **{**healthy(), **given})
    return base.run(CHECK, everything, {"policy": policy or Policy(), "knowledge": load(), "scope": scope, "cluster": "lab"})


def codes(result: CheckResult) -> set[str]:
    return {f.code.partition("/")[2] for f in result.findings}


def only(result: CheckResult, code: str) -> Finding:
    """The one finding of the result, which must have this code."""
    assert [f.code for f in result.findings] == [f"telemetry-gap/{code}"], [(f.code, f.observed) for f in result.findings]
    return result.findings[0]


def passes(result: CheckResult) -> None:
    assert result.verdict is Verdict.PASS, (result.summary, result.findings, result.unjudged)
