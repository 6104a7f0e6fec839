"""Whose changes start nothing."""

from __future__ import annotations

from typing import Any

import pytest

from functions.contract.signals import Subject
from triggers.exempt import Exempt


def raw(name: str = "server", namespace: str = "llm", **metadata: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "metadata": {"name": name, "namespace": namespace} | metadata}


@pytest.mark.parametrize(
    "own",
    [
        raw(namespace="knative-eventing"),
        raw(labels={"eventing.knative.dev/source": "apiserver-source-controller", "eventing.knative.dev/sourceName": "objects"}),
        raw(
            "apiserversource-objects-0815",
            ownerReferences=[{"apiVersion": "sources.knative.dev/v1", "kind": "ApiServerSource", "name": "objects"}],
        ),
        raw(labels={"app.kubernetes.io/part-of": "telltale"}),
        raw("telltale-intake-00001-deployment", labels={"serving.knative.dev/service": "telltale-intake"}),
    ],
)
def test_knatives_and_our_own_workloads_are_exempt(own: dict[str, Any]) -> None:
    assert Exempt().covers(own)


@pytest.mark.parametrize(
    "theirs",
    [
        raw(),
        raw(
            labels={"serving.knative.dev/service": "llama"},
            ownerReferences=[{"apiVersion": "serving.knative.dev/v1", "kind": "Revision", "name": "llama-00001"}],
        ),
    ],
)
def test_workloads_that_people_run_on_knative_are_not(theirs: dict[str, Any]) -> None:
    assert not Exempt().covers(theirs)


def test_the_policy_adds_namespaces_and_workloads() -> None:
    policy = Exempt(namespaces=("ci-*",), workloads=("DaemonSet/*/log-*",))
    assert policy.names(Subject("Deployment", "x", "ci-17"))
    assert policy.names(Subject("DaemonSet", "log-agent", "mon"))
    assert not policy.names(Subject("DaemonSet", "exporter", "mon"))
    assert not policy.names(Subject("Node", "gpu-1"))
