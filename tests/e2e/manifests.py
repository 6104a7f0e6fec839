"""The installation's manifests on a real API server with Knative's own definitions (`KNATIVE_CRDS`: a file of them)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.control_plane import ControlPlane, missing_assets

Raw = dict[str, Any]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy/knative"
OVERLAYS = ("quickstart", "production")
NAMESPACE = "telltale"
ROLES = ("intake", "audit", "report", "board", "dead-letter")


def missing_definitions() -> str:
    """Why the manifests can't be tried; empty if they can."""
    file = os.environ.get("KNATIVE_CRDS", "")
    if not file:
        return missing_assets() or "KNATIVE_CRDS is not set: a file with Knative's CustomResourceDefinitions"
    return missing_assets() or ("" if Path(file).is_file() else f"KNATIVE_CRDS: there is no file {file}")


def render(folder: Path) -> list[Raw]:
    """What `kubectl apply -k` would send."""
    kubectl = Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl"
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, timeout=60, check=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def overlay(name: str) -> Path:
    return DEPLOY / "overlays" / name


async def define(plane: ControlPlane) -> None:
    """Give the API server Knative's definitions, and the two of the Prometheus operator by name."""
    await plane.kubectl("apply", "--server-side", "-f", os.environ["KNATIVE_CRDS"])
    await plane.apply(*map(_operator_definition, ("ServiceMonitor", "PrometheusRule")))
    await plane.wait("crd", "--all", "--for=condition=Established")


def _operator_definition(kind: str) -> Raw:
    """The Prometheus operator's kinds, without their schemas: what is in them is judged elsewhere."""
    plural, anything = f"{kind.lower()}s", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def names(objects: Iterable[Raw]) -> set[str]:
    """`kind.group/name` of each object, as kubectl takes it."""
    return {f"{o['kind']}.{_group(o)}/{o['metadata']['name']}".replace("./", "/") for o in objects}


def _group(raw: Raw) -> str:
    group, slash, _ = raw["apiVersion"].partition("/")
    return group if slash else ""


async def versions(plane: ControlPlane, objects: Iterable[Raw]) -> dict[str, str]:
    """The resource version of each of the objects that exists. A list a kind: kubectl takes its time with single ones."""
    wanted = names(objects)
    kinds = ",".join(sorted({name.partition("/")[0] for name in wanted}))
    items = json.loads((await plane.kubectl("get", kinds, "-n", NAMESPACE, "-o", "json")).stdout)["items"]
    found = {name: item["metadata"]["resourceVersion"] for item in items for name in names([item])}
    return {name: version for name, version in found.items() if name in wanted}


async def gone(plane: ControlPlane, objects: Iterable[Raw], seconds: float = 90) -> None:
    """Wait until none of the objects exists."""
    objects = list(objects)
    async with asyncio.timeout(seconds):
        while await versions(plane, objects):  # noqa: ASYNC110
            await asyncio.sleep(0.5)


def pods(objects: Iterable[Raw]) -> dict[str, Raw]:
    """A Pod of each workload's template, by the workload's kind and name."""
    found = {}
    for raw in objects:
        template = (raw.get("spec") or {}).get("template") or {}
        if "containers" not in (template.get("spec") or {}):
            continue
        # Knative's own fields of a revision are no part of a Pod
        spec = {k: v for k, v in template["spec"].items() if k not in ("timeoutSeconds", "containerConcurrency")}
        claims = [{"name": c["metadata"]["name"], "emptyDir": {}} for c in raw["spec"].get("volumeClaimTemplates", ())]
        spec["volumes"] = [*spec.get("volumes", ()), *claims]
        name = raw["metadata"]["name"]
        metadata = {"name": f"try-{name}", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
        found[f"{raw['kind']}/{name}"] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return found
