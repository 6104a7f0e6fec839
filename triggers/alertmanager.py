"""Alertmanager webhooks (version 4): each alert becomes one signal on the scope that its labels point at.

Pure. What it knows: an alert is sent again at every repeat and by every replica, so its identity is fingerprint, start
and status, whichever group brings it. Labels of a scraped exporter may name the exporter instead of the workload:
where Prometheus kept the exporter's own `pod` it moved the workload's to `exported_pod` (honor_labels: false), which
therefore wins; a `pod` that looks like an exporter's is not believed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from functions.contract.signals import CLUSTER, Scope, Signal, Subject, Trigger, TriggerKind

#: One webhook starts at most this many audits; beyond it they are widened to namespaces, then to the cluster.
MAX_SCOPES = 20
#: They fire for good (a dead man's switch) or only inhibit others.
_NOT_ABOUT_A_FAULT = frozenset({"Watchdog", "DeadMansSwitch", "InfoInhibitor"})
_OWN = re.compile(r"telltale", re.IGNORECASE)
#: Names of Pods that report on devices which other Pods use.
_EXPORTER = re.compile(r"(exporter|cadvisor|device-plugin|dcgm)", re.IGNORECASE)
_STATE_EXPORTER = "kube-state-metrics"
_DEVICES = ("UUID", "uuid", "gpu", "gpu_uuid", "device_uuid", "gpu_id", "modelName", "GPU_I_ID", "Hostname")
_WORKLOADS = (
    ("deployment", "Deployment"),
    ("statefulset", "StatefulSet"),
    ("daemonset", "DaemonSet"),
    ("cronjob", "CronJob"),
    ("job_name", "Job"),
)
_NODES = ("exported_node", "node", "Hostname", "hostname", "exported_hostname", "kubernetes_node", "nodename", "node_name", "host")
_PODS = (("exported_pod", "exported_namespace"), ("pod", "namespace"), ("pod_name", "pod_namespace"), ("podname", "namespace"))


class NotAWebhook(ValueError):
    """This can't be read as an Alertmanager webhook; sending it again won't help."""


class Status(StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"


class Alert(BaseModel):
    """One alert. Further fields are Alertmanager's business."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: Status
    labels: dict[str, str]
    annotations: dict[str, str] = Field(default_factory=dict)
    startsAt: AwareDatetime
    endsAt: AwareDatetime | None = None
    generatorURL: str = ""
    fingerprint: str = ""

    @property
    def identity(self) -> str:
        """The fingerprint, or what it is made of where an old sender leaves it out."""
        if self.fingerprint:
            return self.fingerprint
        return hashlib.sha256(repr(sorted(self.labels.items())).encode()).hexdigest()[:16]


class Webhook(BaseModel):
    """The body of a webhook."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: str
    groupKey: str = ""
    truncatedAlerts: int = Field(default=0, ge=0)
    status: Status
    receiver: str = ""
    externalURL: str = ""
    alerts: tuple[Alert, ...]


class Directory(Protocol):
    """What is known of the cluster, so that labels can be tied to objects."""

    def owner(self, namespace: str, pod: str) -> Subject | None:
        """The workload of a Pod, if it is known."""
        ...

    def node(self, text: str) -> str | None:
        """The node with this name, host name or address, if it is known."""
        ...


class Nothing:
    """No cluster at hand: labels are taken at their word."""

    def owner(self, namespace: str, pod: str) -> Subject | None:
        return None

    def node(self, text: str) -> str | None:
        return None


def read(body: bytes | str) -> Webhook:
    """The webhook in a request body. Raises NotAWebhook, saying what is wrong and never the labels' content."""
    try:
        webhook = Webhook.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise NotAWebhook(f"{where}: {first['msg']}") from None
    if webhook.version != "4":
        raise NotAWebhook(f"webhook version {webhook.version[:10]!r}, only 4 is known")
    return webhook


def observe(webhook: Webhook, now: datetime, directory: Directory | None = None) -> list[Signal]:
    """One signal for each alert that is about a fault of something else than Telltale."""
    directory = directory or Nothing()
    signals = [_signal(alert, webhook, now, directory) for alert in webhook.alerts if _is_relevant(alert)]
    signals = _bounded(list({signal.key: signal for signal in signals}.values()))
    if webhook.truncatedAlerts and signals:
        signals.append(_truncated(webhook, signals, now))
    return signals


def _is_relevant(alert: Alert) -> bool:
    labels = alert.labels
    if labels.get("alertname", "") in _NOT_ABOUT_A_FAULT:
        return False
    return not any(_OWN.match(labels.get(name, "")) for name in ("alertname", "job", "service"))


def _signal(alert: Alert, webhook: Webhook, now: datetime, directory: Directory) -> Signal:
    subject, scope, doubt = locate(alert.labels, directory)
    name = alert.labels.get("alertname", "unnamed")
    detail: dict[str, Any] = {
        "alertname": name,
        "status": alert.status.value,
        "fingerprint": alert.identity,
        "startsAt": alert.startsAt.isoformat(),
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "groupKey": webhook.groupKey,
    }
    if alert.generatorURL:
        detail["generatorURL"] = alert.generatorURL
    if alert.status is Status.RESOLVED and alert.endsAt:
        detail["endsAt"] = alert.endsAt.isoformat()
    if doubt:
        detail["doubt"] = doubt
    return Signal(
        key=f"alert/{alert.identity}/{alert.startsAt.isoformat()}/{alert.status.value}",
        trigger=Trigger(TriggerKind.ALERT, alert.status.value, subject),
        scope=scope,
        at=min(now, alert.startsAt) if alert.status is Status.FIRING else min(now, alert.endsAt or now),
        urgent=alert.status is Status.FIRING,
        summary=f"alert {name} {alert.status.value} on {scope}",
        detail=detail,
    )


def locate(labels: Mapping[str, str], directory: Directory) -> tuple[Subject | None, Scope, str]:
    """What an alert is about, the scope to audit, and why its labels may not mean what they say."""
    namespace = labels.get("exported_namespace") or labels.get("namespace", "")
    for label, kind in _WORKLOADS:
        if labels.get(label) and namespace:
            subject = Subject(kind, labels[label], namespace)
            return subject, subject.scope, ""
    doubt = ""
    for pod_label, namespace_label in _PODS:
        pod, where = labels.get(pod_label, ""), labels.get(namespace_label) or labels.get("namespace", "")
        if not pod or not where:
            continue
        if pod_label in ("pod", "pod_name") and _is_exporter(pod, labels):
            doubt = f"the label {pod_label} names {pod}, which looks like the exporter's own Pod"
            continue
        subject = directory.owner(where, pod) or Subject("Pod", pod, where)
        return subject, subject.scope, doubt
    if node := _node(labels, directory):
        subject = Subject("Node", node)
        return subject, subject.scope, doubt
    if namespace and not doubt:
        return Subject("Namespace", namespace), Scope("namespace", "", namespace), ""
    return None, CLUSTER, doubt


def _is_exporter(pod: str, labels: Mapping[str, str]) -> bool:
    """The alert is about a device or a node, and the Pod looks like the one that reports on it.

    An exporter's Pod may also be what an alert is about (it is down, it restarts); then no device is named.
    """
    if _STATE_EXPORTER in pod:
        return any(labels.get(name) for name in _NODES)
    if not any(labels.get(name) for name in _DEVICES):
        return False
    job = labels.get("job", "").rpartition("/")[2]
    return bool(_EXPORTER.search(pod)) or (bool(job) and pod.startswith(f"{job}-"))


def _node(labels: Mapping[str, str], directory: Directory) -> str:
    for name in _NODES:
        if value := labels.get(name):
            return directory.node(value) or value
    host = labels.get("instance", "").rpartition(":")[0] or labels.get("instance", "")
    return directory.node(host.strip("[]")) or "" if host else ""


def _bounded(signals: list[Signal]) -> list[Signal]:
    """A storm becomes one audit a namespace, or one of the cluster: each alert is kept, its scope is widened."""
    for widen in (_to_namespace, lambda _signal: CLUSTER):
        if len({signal.scope for signal in signals}) <= MAX_SCOPES:
            break
        signals = [_rescoped(signal, widen(signal)) for signal in signals]
    return signals


def _to_namespace(signal: Signal) -> Scope:
    return Scope("namespace", "", signal.scope.namespace) if signal.scope.namespace else signal.scope


def _rescoped(signal: Signal, scope: Scope) -> Signal:
    return Signal(
        key=signal.key,
        trigger=signal.trigger,
        scope=scope,
        at=signal.at,
        urgent=signal.urgent,
        summary=signal.summary,
        detail=signal.detail,
    )


def _truncated(webhook: Webhook, signals: Sequence[Signal], now: datetime) -> Signal:
    """Alertmanager cut alerts off: nobody knows what they are about, so the cluster is looked at."""
    seen = hashlib.sha256(" ".join([webhook.groupKey, *sorted(s.key for s in signals)]).encode()).hexdigest()[:16]
    return Signal(
        key=f"alert-truncated/{seen}",
        trigger=Trigger(TriggerKind.ALERT, "truncated"),
        scope=CLUSTER,
        at=now,
        urgent=True,
        summary=f"{webhook.truncatedAlerts} further alerts of a group were cut off by Alertmanager",
        detail={"truncatedAlerts": webhook.truncatedAlerts, "groupKey": webhook.groupKey},
    )
