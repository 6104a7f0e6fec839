"""Alertmanager webhooks: identity, scope, and whom to believe about labels."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.contract.signals import Subject
from triggers.alertmanager import MAX_SCOPES, NotAWebhook, locate, observe, read
from triggers.alertmanager import Nothing as NoDirectory

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)


def alert(status: str = "firing", fingerprint: str = "f1", start: str = "2026-12-01T09:55:00Z", **labels: str) -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": "GpuHot"} | labels,
        "annotations": {"runbook_url": "https://example.org"},
        "startsAt": start,
        "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else "2026-12-01T09:58:00Z",
        "generatorURL": "http://prometheus",
        "fingerprint": fingerprint,
    }


def body(*alerts: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(
        {
            "version": "4",
            "groupKey": "{}:{}",
            "truncatedAlerts": 0,
            "status": "firing",
            "receiver": "telltale",
            "groupLabels": {},
            "alerts": list(alerts),
        }
        | more
    ).encode()


class Cluster:
    def owner(self, namespace: str, pod: str) -> Subject | None:
        return Subject("Deployment", "server", namespace) if pod.startswith("server-") else None

    def node(self, text: str) -> str | None:
        return {"10.0.0.1": "gpu-1", "gpu-1.example.org": "gpu-1", "gpu-1": "gpu-1"}.get(text)


def scope(**labels: str) -> str:
    return str(locate(labels, Cluster())[1])


def test_an_alert_is_urgent_and_keeps_what_it_said() -> None:
    (signal,) = observe(read(body(alert(namespace="llm", pod="server-x"))), NOW, Cluster())
    assert signal.urgent
    assert signal.audit
    assert str(signal.scope) == "Deployment/llm/server"
    assert signal.detail["labels"]["alertname"] == "GpuHot"
    assert signal.trigger.phase == "firing"


def test_a_repeat_is_the_same_signal_and_a_change_another() -> None:
    def key(**more: Any) -> str:
        return observe(read(body(alert(**more))), NOW)[0].key

    assert key() == observe(read(body(alert(), groupKey="other", receiver="b")), NOW)[0].key
    assert len({key(), key(status="resolved"), key(fingerprint="f2"), key(start="2026-12-01T09:56:00Z")}) == 4


def test_a_resolved_alert_is_audited_after_settling() -> None:
    (signal,) = observe(read(body(alert("resolved"), status="resolved")), NOW)
    assert signal.trigger.phase == "resolved"
    assert signal.audit
    assert not signal.urgent


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"namespace": "llm", "deployment": "server"}, "Deployment/llm/server"),
        ({"namespace": "llm", "statefulset": "db", "pod": "kube-state-metrics-x"}, "StatefulSet/llm/db"),
        ({"namespace": "llm", "pod": "server-x"}, "Deployment/llm/server"),
        ({"namespace": "llm", "pod": "unknown-x"}, "Pod/llm/unknown-x"),
        ({"namespace": "gpu", "pod": "dcgm-exporter-x", "exported_namespace": "llm", "exported_pod": "server-x"}, "Deployment/llm/server"),
        ({"namespace": "gpu", "pod": "dcgm-exporter-x", "UUID": "GPU-1", "Hostname": "gpu-1"}, "node/gpu-1"),
        ({"namespace": "gpu", "pod": "dcgm-exporter-x", "gpu": "0", "instance": "10.0.0.1:9400"}, "node/gpu-1"),
        ({"namespace": "gpu", "pod": "dcgm-exporter-x", "job": "dcgm-exporter"}, "Pod/gpu/dcgm-exporter-x"),
        ({"namespace": "mon", "pod": "kube-state-metrics-x", "node": "gpu-1"}, "node/gpu-1"),
        ({"Hostname": "gpu-1.example.org"}, "node/gpu-1"),
        ({"instance": "10.0.0.1:9100", "job": "node-exporter"}, "node/gpu-1"),
        ({"instance": "10.9.9.9:9100"}, "cluster"),
        ({"namespace": "llm"}, "namespace/llm"),
        ({"node": "new-node"}, "node/new-node"),
        ({}, "cluster"),
    ],
)
def test_labels_point_at_a_scope(labels: dict[str, str], expected: str) -> None:
    assert scope(**labels) == expected


def test_labels_that_may_be_the_exporters_own_are_said_to_be() -> None:
    _, _, doubt = locate({"namespace": "gpu", "pod": "dcgm-exporter-x", "UUID": "GPU-1", "Hostname": "gpu-1"}, NoDirectory())
    assert "dcgm-exporter-x" in doubt


def test_what_is_about_no_fault_or_about_us_is_ignored() -> None:
    webhook = read(
        body(alert(alertname="Watchdog"), alert(alertname="TelltaleDown"), alert(job="telltale-intake"), alert(alertname="InfoInhibitor"))
    )
    assert observe(webhook, NOW) == []


def test_a_group_of_many_alerts_is_bounded() -> None:
    def scopes(alerts: list[dict[str, Any]]) -> set[str]:
        signals = observe(read(body(*alerts)), NOW)
        assert len(signals) == len(alerts), "each alert is kept"
        return {str(s.scope) for s in signals}

    many = MAX_SCOPES * 3
    assert scopes([alert(fingerprint=str(n), namespace="llm", pod=f"p-{n}") for n in range(many)]) == {"namespace/llm"}
    assert scopes([alert(fingerprint=str(n), namespace=f"ns-{n}", pod="p") for n in range(many)]) == {"cluster"}
    assert scopes([alert(fingerprint=str(n), node=f"n-{n}") for n in range(many)]) == {"cluster"}


def test_alerts_that_were_cut_off_make_the_cluster_be_looked_at() -> None:
    signals = observe(read(body(alert(node="gpu-1"), truncatedAlerts=7)), NOW)
    assert [str(s.scope) for s in signals] == ["node/gpu-1", "cluster"]
    assert signals[1].detail["truncatedAlerts"] == 7


def test_unknown_fields_are_fine() -> None:
    assert observe(read(body(alert() | {"new": 1}, newer={"a": 1})), NOW)


def test_an_old_sender_without_fingerprints_still_has_an_identity() -> None:
    first, second = alert(node="a"), alert(node="b")
    del first["fingerprint"], second["fingerprint"]
    assert len({s.key for s in observe(read(body(first, second, first)), NOW)}) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (body(version="3"), "version"),
        (body(alert(start="yesterday")), "startsAt"),
        (body(alert(start="2026-12-01T09:55:00")), "startsAt"),
        (body(alert(status="burning")), "status"),
        (body(alert() | {"labels": {"a": 1}}), "labels"),
        (body(alert() | {"labels": ["secret"]}), "labels"),
        (json.dumps({"version": "4", "status": "firing"}).encode(), "alerts"),
    ],
)
def test_what_is_no_webhook_is_refused_with_the_reason(text: bytes, says: str) -> None:
    with pytest.raises(NotAWebhook, match=says) as refused:
        read(text)
    assert "secret" not in str(refused.value)


def test_a_group_without_alerts_is_nothing() -> None:
    assert observe(read(body()), NOW) == []
