"""Workloads that the tests roll out, as people write them."""

from __future__ import annotations

from typing import Any


def template(app: str, image: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 1} | spec,
    }


def daemon_set(name: str, image: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name, image, tolerations=[{"operator": "Exists"}])}
        | spec,
    }


def deployment(name: str, image: str, replicas: int = 3, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, image)} | spec,
    }


def stateful_set(name: str, image: str, replicas: int = 3, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            "podManagementPolicy": "Parallel",
        }
        | spec,
    }


def budget(name: str, app: str, min_available: int, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}},
    }
