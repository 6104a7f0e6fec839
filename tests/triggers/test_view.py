"""What is kept of a cluster, and who owns a Pod."""

from __future__ import annotations

from typing import Any

import pytest

from triggers.view import View, trim, workload_of


def pod(name: str = "p", owner: tuple[str, str] | None = None, created: str = "2026-12-01T10:00:00Z", **labels: str) -> dict[str, Any]:
    owners = [{"kind": owner[0], "name": owner[1], "uid": "u", "controller": True}] if owner else []
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "llm",
            "uid": name,
            "labels": labels,
            "creationTimestamp": created,
            "ownerReferences": owners,
        },
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]},
    }


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (pod(), "Pod/llm/p"),
        (pod(owner=("ReplicaSet", "server-5d8f"), **{"pod-template-hash": "5d8f"}), "Deployment/llm/server"),
        (pod(owner=("ReplicaSet", "bare")), "ReplicaSet/llm/bare"),
        (pod(owner=("DaemonSet", "exporter")), "DaemonSet/llm/exporter"),
        # 29934839 minutes after 1970 is 2026-12-01
        (pod(owner=("Job", "report-29934839")), "CronJob/llm/report"),
        (pod(owner=("Job", "train-20261201")), "Job/llm/train-20261201"),
        (pod(owner=("Job", "train")), "Job/llm/train"),
    ],
)
def test_a_pod_belongs_to_the_workload_a_person_thinks_of(raw: dict[str, Any], expected: str) -> None:
    assert str(workload_of(raw).scope) == expected


def test_a_pod_is_found_by_node_and_owner_and_forgotten_when_it_moves_or_goes() -> None:
    view = View()
    assert view.pods_on("gpu-1") is None, "never listed: not known"
    first = trim(pod(owner=("DaemonSet", "exporter")))
    view.replace("Pod", [first])
    assert view.pods_on("gpu-1") == [first]
    assert view.pods_of("u") == [first]
    moved = {**first, "spec": {"nodeName": "gpu-2"}}
    view.put(moved)
    assert view.pods_on("gpu-1") == []
    assert view.pods_on("gpu-2") == [moved]
    assert view.replace("Pod", []) == [moved]
    assert view.pods_of("u") == []


def test_only_what_decides_is_kept_of_a_pod() -> None:
    kept = trim(pod() | {"junk": 1})
    assert "containers" not in kept["spec"]
    assert [c["type"] for c in kept["status"]["conditions"]] == ["Ready"]


def test_a_kind_that_can_t_be_read_any_more_is_not_known() -> None:
    view = View()
    view.replace("Pod", [])
    view.forget("Pod")
    assert view.pods_on("gpu-1") is None
