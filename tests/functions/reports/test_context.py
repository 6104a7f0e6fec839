"""The context of a postmortem: whom it affects, on which devices, which requests, what was done; nothing guessed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from functions import wiring
from functions.checks import CHECKS
from functions.checks.base import union_of_needs
from functions.contract.facts import Facts, Known, Missing, Why
from functions.contract.findings import Finding
from functions.contract.requests import Span, Trace
from functions.contract.signals import CLUSTER, AuditRequest, Scope, Signal, TriggerKind
from functions.evidence.bundle.reading import Bundle
from functions.reports.context import MAX_TRACES, MAX_WORKLOADS, context
from tests.support.reports import finding, signal
from triggers.commands.demo import DEMO

CHAT = Scope("namespace", "", "chat-prod")


@pytest.fixture(scope="module")
def incident() -> Bundle:
    return Bundle.read(Path(DEMO / "incident"))


@pytest.fixture
async def facts(incident: Bundle) -> Facts:
    """The facts of the recorded incident, as an audit has them."""
    request = AuditRequest("a", CLUSTER, incident.trigger, incident.baseline)
    gather = wiring.bundle_gather(incident, wiring.bundle_standards(incident, CHECKS))
    return await gather(request, None, union_of_needs(CHECKS))  # type: ignore[arg-type]


def alert(scope: Scope) -> Signal:
    return signal("alert", scope, TriggerKind.ALERT, "firing")


def named(found: dict[str, Any]) -> list[str]:
    return [f"{w['namespace']}/{w['workload']}" for w in found["workloads"]]


def lost(workload: str = "Deployment/assist-32b", namespace: str = "assist-prod") -> Finding:
    return finding(namespace=namespace, workload=workload)


def test_those_that_an_alert_names_come_before_those_of_findings_and_of_the_change(facts: Facts) -> None:
    found = context(facts, [lost()], [signal("rollout"), alert(CHAT)])
    assert named(found) == [
        "chat-prod/Deployment/chat-70b",
        "assist-prod/Deployment/assist-32b",
        "gpu-operator/DaemonSet/nvidia-dcgm-exporter",
    ]


def test_an_alert_on_a_workload_names_that_workload_and_one_on_a_node_those_with_devices_there(facts: Facts) -> None:
    assert named(context(facts, [], [alert(Scope("Deployment", "chat-prod", "chat-70b"))])) == ["chat-prod/Deployment/chat-70b"]
    assert named(context(facts, [], [alert(Scope("node", "", "gpu-h2"))])) == ["chat-prod/Deployment/chat-70b"]
    assert named(context(facts, [], [alert(CLUSTER)])) == []


def test_a_fault_of_a_node_or_of_its_exporter_affects_those_who_hold_its_devices(facts: Facts) -> None:
    exporter = finding("label-mapping/exporter-pod", node="gpu-h2", namespace="gpu-operator", workload="DaemonSet/nvidia-dcgm-exporter")
    assert named(context(facts, [exporter], [])) == ["chat-prod/Deployment/chat-70b", "gpu-operator/DaemonSet/nvidia-dcgm-exporter"]
    down = finding("telemetry-gap/target-down", node="gpu-h3")
    assert sorted(named(context(facts, [down], []))) == ["assist-prod/Deployment/assist-32b", "chat-prod/Deployment/chat-70b"]


def test_a_workload_has_its_pods_nodes_images_devices_and_what_no_series_names(facts: Facts) -> None:
    [chat] = context(facts, [], [alert(CHAT)])["workloads"]
    assert chat["nodes"] == ["gpu-h1", "gpu-h2", "gpu-h3"]
    assert chat["images"] == ["vllm/vllm-openai:v0.14.1"]
    assert len(chat["pods"]) == 3
    assert chat["unmapped_pods"] == [pod for pod in chat["pods"] if pod not in {d["pod"] for d in chat["devices"]}] != []
    assert chat["devices_total"] == len(chat["devices"]) == 4
    for device in chat["devices"]:
        assert device["readings"]["gpu.temperature"]["metric"] == "DCGM_FI_DEV_GPU_TEMP_CELSIUS"


def test_without_pods_or_devices_there_are_names_and_nothing_made_up(facts: Facts) -> None:
    away = Missing(Why.UNREACHABLE, "gone")
    [assist] = context(replace(facts, pods=away, devices=away, readings=away), [lost()], [])["workloads"]
    assert (assist["pods"], assist["devices"], assist["unmapped_pods"], assist["restarts"]) == ([], [], [], 0)


def test_the_number_of_workloads_is_bounded(facts: Facts) -> None:
    found = context(facts, [lost(f"Deployment/w-{n}") for n in range(40)], [])
    assert len(found["workloads"]) == MAX_WORKLOADS


def a_trace(facts: Facts, seconds: float, before: float, namespace: str = "chat-prod") -> Trace:
    start = facts.windows.current - timedelta(seconds=before)
    root = Span("1" * 32, "1" * 16, "", "POST /v1", "gateway", start, seconds, namespace, "gw")
    work = Span("1" * 32, "2" * 16, "1" * 16, "llm_request", "vllm", start, seconds - 0.5, namespace, "p-1", "gpu-h1")
    return Trace("1" * 32, (root, work))


def test_the_slowest_requests_since_the_baseline_are_kept_with_their_longest_inner_span(facts: Facts) -> None:
    traces = [
        a_trace(facts, 2, 60),
        a_trace(facts, 9, 120),
        a_trace(facts, 99, 86_400),
        a_trace(facts, 50, 60, "other"),
        a_trace(facts, 3, 60),
        a_trace(facts, 1, 60),
    ]
    found = context(replace(facts, traces=Known(tuple(traces), facts.windows.current, "t")), [], [alert(CHAT)])["traces"]
    assert [t["seconds"] for t in found["slowest"]] == [9, 3, 2]
    assert len(found["slowest"]) == MAX_TRACES
    assert found["slowest"][0]["longest"] == {
        "name": "llm_request",
        "seconds": 8.5,
        "namespace": "chat-prod",
        "pod": "p-1",
        "node": "gpu-h1",
    }


def test_without_traces_there_is_the_reason(facts: Facts) -> None:
    found = context(replace(facts, traces=Missing(Why.NOT_CONFIGURED, "no trace backend")), [], [])["traces"]
    assert found == {"known": False, "why": "no trace backend", "slowest": []}


def test_actions_are_those_of_the_window_in_their_order(facts: Facts) -> None:
    assert isinstance(facts.events, Known)
    old = replace(facts.events.value[0], reason="Killing", last_at=facts.windows.current - timedelta(days=1))
    found = context(
        replace(facts, events=replace(facts.events, value=(*facts.events.value, old))), [], [signal("s", at=facts.windows.current)]
    )["actions"]
    assert [a["at"] for a in found] == sorted(a["at"] for a in found)
    assert {a["source"] for a in found} == {"event", "signal"}
    assert not [a for a in found if a["what"].startswith("Killing")]
    assert [a for a in found if a["what"].startswith("SuccessfulCreate DaemonSet gpu-operator/nvidia-dcgm-exporter")]
