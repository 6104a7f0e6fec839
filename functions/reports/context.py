"""What a postmortem needs beside the findings: the affected workloads with their devices, requests, and what was done.

Computed once, at audit time, from the same facts as the findings; kept in the report. Never guesses: what is not
known is absent here, and the postmortem says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from functions.contract.cluster import Pod
from functions.contract.facts import Facts, Known
from functions.contract.findings import Finding
from functions.contract.report import instant
from functions.contract.requests import Trace
from functions.contract.signals import Scope, Signal, TriggerKind
from functions.contract.telemetry import DeviceReading, DeviceSeries

MAX_WORKLOADS = 6
MAX_DEVICES = 16
MAX_TRACES = 3

#: Event reasons that say what people or controllers did
_ACTIONS = frozenset(
    {
        "SuccessfulCreate",
        "SuccessfulDelete",
        "ScalingReplicaSet",
        "Killing",
        "NodeNotSchedulable",
        "NodeSchedulable",
        "Rebooted",
        "Evicted",
        "Preempted",
        "TaintManagerEviction",
        "DeploymentRollback",
    }
)


def context(facts: Facts, findings: Sequence[Finding], signals: Sequence[Signal]) -> dict[str, Any]:
    """The JSON context of one audit."""
    pods = facts.pods.value if isinstance(facts.pods, Known) else ()
    affected = list(_affected(pods, findings, signals))[:MAX_WORKLOADS]
    traces = facts.traces.value if isinstance(facts.traces, Known) else ()
    return {
        "workloads": [_workload(ns, name, pods, facts) for ns, name in affected],
        "traces": {
            "known": isinstance(facts.traces, Known),
            "why": "" if isinstance(facts.traces, Known) else facts.traces.detail,
            "slowest": [_trace(t) for t in _slowest(traces, {ns for ns, _ in affected}, facts)],
        },
        "actions": list(_actions(facts, signals)),
    }


def _affected(pods: Iterable[Pod], findings: Sequence[Finding], signals: Sequence[Signal]) -> Iterable[tuple[str, str]]:
    """(namespace, workload) in order: those that an alert names, those whose devices findings are about, the changed one."""
    holders = [p for p in pods if p.holds_gpu and not p.finished]
    held = {(p.namespace, p.workload) for p in holders}
    on_node: dict[str, dict[tuple[str, str], None]] = {}
    for pod in holders:
        on_node.setdefault(pod.node, {})[pod.namespace, pod.workload] = None
    seen: dict[tuple[str, str], None] = {}
    seen.update((pair, None) for signal in signals if signal.trigger.kind is TriggerKind.ALERT for pair in _alerted(signal.scope, holders))
    seen.update((pair, None) for finding in findings for pair in _hit(finding, held, on_node))
    # what holds no device comes last: an exporter that a finding or the change is about
    named = [f.subject for f in findings if f.subject.namespace and f.subject.workload]
    seen.update(((s.namespace or "", s.workload or ""), None) for s in named)
    changed = [s.trigger.subject for s in signals if s.trigger.kind is TriggerKind.ROLLOUT and s.trigger.subject is not None]
    seen.update(((s.namespace, f"{s.kind}/{s.name}"), None) for s in changed)
    return seen


def _alerted(scope: Scope, holders: Iterable[Pod]) -> Iterable[tuple[str, str]]:
    """The workloads of an alert: its own, or those with devices in its namespace or on its node."""
    if scope.kind in ("namespace", "node"):
        return [(p.namespace, p.workload) for p in holders if scope.name == (p.namespace if scope.kind == "namespace" else p.node)]
    return [(scope.namespace, f"{scope.kind}/{scope.name}")] if scope.namespace else []


def _hit(
    finding: Finding, held: Collection[tuple[str, str]], on_node: Mapping[str, Iterable[tuple[str, str]]]
) -> Iterable[tuple[str, str]]:
    """The workload of a finding where it holds a device; else those that hold the devices of the finding's node."""
    own = (finding.subject.namespace or "", finding.subject.workload or "")
    return [own] if own in held else on_node.get(finding.subject.node or "", ())


def _workload(namespace: str, workload: str, pods: Iterable[Pod], facts: Facts) -> dict[str, Any]:
    own = [p for p in pods if p.namespace == namespace and p.workload == workload and not p.finished]
    names = {p.name for p in own}
    devices = facts.devices.value if isinstance(facts.devices, Known) else ()
    readings = facts.readings.value if isinstance(facts.readings, Known) else ()
    held: dict[tuple[str, str, str], DeviceSeries] = {}
    for d in devices:
        if d.namespace == namespace and d.pod in names:
            held.setdefault(d.device, d)
    return {
        "namespace": namespace,
        "workload": workload,
        "pods": sorted(names),
        "nodes": sorted({p.node for p in own if p.node}),
        "images": sorted({c.image for p in own for c in p.containers if c.image}),
        "restarts": sum(c.restarts for p in own for c in p.containers),
        "devices": _devices(list(held.values())[:MAX_DEVICES], readings),
        "devices_total": len(held),
        "unmapped_pods": sorted(p.name for p in own if p.holds_gpu and p.name not in {d.pod for d in held.values()}),
    }


def _devices(devices: Sequence[DeviceSeries], readings: Iterable[DeviceReading]) -> list[dict[str, Any]]:
    shown: dict[tuple[str, str, str], dict[str, Any]] = {d.device: {} for d in devices}
    for reading in readings if shown else ():
        if (own := shown.get(reading.source.device)) is not None:
            own[reading.concept] = {"metric": reading.metric, "value": reading.value}
    return [{"node": d.node, "gpu": d.gpu, "gpu_instance": d.gpu_instance, "pod": d.pod, "readings": shown[d.device]} for d in devices]


def _slowest(traces: Sequence[Trace], namespaces: set[str], facts: Facts) -> list[Trace]:
    """The slowest of what was going on after the baseline, in the affected namespaces where any are known."""
    recent = [
        t for t in traces if t.start >= _beginning(facts) and (not namespaces or any(s.namespace in namespaces for s in t.spans if s.pod))
    ]
    return sorted(recent, key=lambda t: t.duration, reverse=True)[:MAX_TRACES]


def _beginning(facts: Facts) -> datetime:
    """The baseline; without one, an hour before."""
    return facts.windows.baseline or facts.windows.current - timedelta(hours=1)


def _trace(trace: Trace) -> Mapping[str, Any]:
    longest = max(trace.spans, key=lambda s: (s.parent_id != "", s.duration))
    return {
        "trace_id": trace.trace_id,
        "start": instant(trace.start),
        "seconds": round(trace.duration, 3),
        "longest": {
            "name": longest.name,
            "seconds": round(longest.duration, 3),
            "namespace": longest.namespace,
            "pod": longest.pod,
            "node": longest.node,
        },
    }


def _actions(facts: Facts, signals: Sequence[Signal]) -> Iterable[dict[str, str]]:
    """What was seen to be done, oldest first: transitions and Events. Nothing a person did elsewhere is in it."""
    lines = [(s.at, s.summary or f"{s.trigger.kind} {s.trigger.phase}", "signal") for s in signals]
    since = _beginning(facts) - timedelta(minutes=1)
    for event in facts.events.value if isinstance(facts.events, Known) else ():
        if event.reason in _ACTIONS and event.last_at and since <= event.last_at <= facts.windows.current:
            lines.append((event.last_at, f"{event.reason} {event.kind} {event.namespace}/{event.name}: {event.message[:160]}", "event"))
    for at, what, source in sorted(lines, key=lambda line: line[0])[-60:]:
        yield {"at": instant(at) or "", "what": what, "source": source}
