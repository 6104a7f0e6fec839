"""The postmortem stub: what a machine can honestly fill in, each line with where it came from; the rest is marked.

Trigger signal, affected workload, trace (or why there is none), device fields, actions observed, recovery time or
"not recovered", and the dimension to add next time. Root cause, impact in words and lessons stay a person's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from functions.contract.report import instant
from functions.reports.summary import Report, headline, subject_text, what_happened

TODO = "‹for a person›"
_MAX_FINDINGS = 20


def render(report: Report, *, signals: Sequence[Mapping[str, Any]] = (), link: str = "") -> str:
    """The stub as Markdown. `signals` are all signals of the episode (JSON form), the report's own when empty."""
    signals = sorted(signals or report.get("signals", ()), key=lambda s: str(s["at"]))
    audit = report["audit"]
    parts = [
        f"# Postmortem: {what_happened(audit)} ({audit['cluster']})",
        f"_Draft made from audit `{audit['id']}`{f' ({link})' if link else ''}. {TODO} marks what a machine can't know._",
        _section("Summary", [headline(report), f"Impact on users: {TODO}"]),
        _section("Trigger signal", _trigger(audit, signals)),
        _section("Affected workload", _workloads(report)),
        _section("Trace", _traces(report)),
        _section("Device", _devices(report)),
        _section("What could not be followed", _findings(report)),
        _section("Actions observed", _actions(report, signals)),
        _section("Recovery", _recovery(signals)),
        _section("Dimension to add next time", _dimensions(report, signals)),
        _section("Root cause", [TODO]),
        _section("What went well, what went wrong, where we were lucky", [TODO]),
        _section("Follow-ups (owner, date)", [TODO]),
    ]
    return "\n\n".join(parts) + "\n"


def _section(title: str, lines: Iterable[str]) -> str:
    return f"## {title}\n" + "\n".join(f"- {line}" for line in lines)


def _alerts(signals: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [s for s in signals if s["trigger"]["kind"] == "alert"]


def _trigger(audit: Mapping[str, Any], signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    if not signals:
        yield f"{what_happened(audit)}; compared {audit['baseline'] or 'with nothing (no baseline)'} with {audit['current']}"
    for signal in signals:
        text = signal.get("summary") or f"{signal['trigger']['kind']} {signal['trigger'].get('phase', '')}".strip()
        labels = (signal.get("detail") or {}).get("labels")
        shown = f" · labels: {', '.join(f'`{k}={v}`' for k, v in sorted(labels.items()))}" if isinstance(labels, Mapping) else ""
        yield f"{_time(signal['at'])} {text}{shown}"


def _workloads(report: Report) -> Iterable[str]:
    workloads = report.get("context", {}).get("workloads", [])
    if not workloads:
        yield f"none could be named from the signals and findings: {TODO}"
    for w in workloads:
        facts = [f"{len(w['pods'])} Pods on {', '.join(w['nodes']) or 'no node'}", f"{w['restarts']} restarts"]
        facts += [f"image `{image}`" for image in w["images"]]
        yield f"{w['namespace']}/{w['workload']}: {'; '.join(facts)}"
        if w["unmapped_pods"]:
            yield f"  no device series names {', '.join(w['unmapped_pods'])}"


def _traces(report: Report) -> Iterable[str]:
    traces = report.get("context", {}).get("traces", {})
    if not traces.get("known"):
        yield f"none: {traces.get('why') or 'no trace backend is configured'}"
        return
    if not traces["slowest"]:
        yield "none: the trace backend has no trace of the affected workloads in the hour before the audit"
    for trace in traces["slowest"]:
        longest = trace["longest"]
        where = "/".join(filter(None, [longest["namespace"], longest["pod"]])) or "an unnamed Pod"
        node = f" on {longest['node']}" if longest["node"] else ""
        yield (
            f"`{trace['trace_id']}` at {trace['start']}: {trace['seconds']} s, of which {longest['seconds']} s "
            f"in `{longest['name']}` of {where}{node}"
        )


def _devices(report: Report) -> Iterable[str]:
    any_device = False
    for workload in report.get("context", {}).get("workloads", []):
        for device in workload["devices"]:
            any_device = True
            instance = f" instance {device['gpu_instance']}" if device["gpu_instance"] else ""
            values = ", ".join(f"{concept} {_value(r['value'])} (`{r['metric']}`)" for concept, r in sorted(device["readings"].items()))
            yield f"{device['node']} `{device['gpu']}`{instance}, held by {device['pod']}: {values or 'no reading'}"
        more = workload["devices_total"] - len(workload["devices"])
        if more > 0:
            yield f"… and {more} more devices of {workload['namespace']}/{workload['workload']}"
    if not any_device:
        yield "no device series names an affected Pod, so no device field can be given"


def _findings(report: Report) -> Iterable[str]:
    failed = [f for f in report["findings"] if f["verdict"] == "fail"]
    if not failed:
        yield "every link that was checked held"
    order = {"critical": 0, "warning": 1, "info": 2}
    for finding in sorted(failed, key=lambda f: order[f["severity"]])[:_MAX_FINDINGS]:
        evidence = finding["evidence"][0] if finding["evidence"] else None
        shown = f" · {evidence['source']}: `{evidence['ref']}` {evidence['at']}".rstrip() if evidence else ""
        yield f"`{finding['code']}` {subject_text(finding['subject'])}: {finding['observed']}{shown}"
    if len(failed) > _MAX_FINDINGS:
        yield f"… and {len(failed) - _MAX_FINDINGS} more in audit `{report['audit']['id']}`"
    for check in report["checks"]:
        if check["verdict"] == "unknown":
            yield f"`{check['id']}` is unknown: {check['summary']}"


def _actions(report: Report, signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    lines = {(a["at"], a["what"]) for a in report.get("context", {}).get("actions", [])}
    lines |= {(_time(s["at"]), s.get("summary") or s["trigger"]["kind"]) for s in signals}
    if not lines:
        yield f"none was seen in Events, rollouts or drains; what people did elsewhere: {TODO}"
        return
    for at, what in sorted(lines):
        yield f"{at} {what}"
    yield f"what people did elsewhere: {TODO}"


def _recovery(signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    alerts = _alerts(signals)
    started = [_parse(s["detail"]["startsAt"]) for s in alerts if (s.get("detail") or {}).get("startsAt")]
    resolved = [s for s in alerts if s["trigger"].get("phase") == "resolved"]
    firing = {(s.get("detail") or {}).get("fingerprint") for s in alerts if s["trigger"].get("phase") == "firing"}
    ended = {(s.get("detail") or {}).get("fingerprint") for s in resolved}
    if not alerts:
        yield f"no alert marks the beginning or the end; recovery time: {TODO}"
    elif firing - ended or not resolved:
        yield "**not recovered** when this was written: the alert is still firing"
    else:
        end = max(_parse((s.get("detail") or {}).get("endsAt") or s["at"]) for s in resolved)
        took = f" after {_duration((end - min(started)).total_seconds())}" if started else ""
        yield f"the alert resolved at {instant(end)}{took}"
    yield "recovery means latency, queue wait and effective throughput back at the baseline: an ended alert alone does not prove that"


#: What was missing on the way, and the dimension that would have shown it: the first code that applies names it.
_DIMENSIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("label-mapping/pod-missing", "label-mapping/unattributed-use"), "`namespace`, `pod`, `container` on the device series of {where}"),
    (("label-mapping/exporter-pod",), "the workload's own `pod` on the device series of {where}, instead of the exporter's"),
    (("label-mapping/shared-device", "label-mapping/shared-zero"), "a value of its own for each Pod that shares a device on {where}"),
    (("label-mapping/device-identity",), "a UUID and instance id that tell the devices of {where} apart"),
    (("metric-rename/label-renamed", "metric-rename/label-lost"), "one spelling of {where} in every rule, join and legend"),
    (("metric-rename/rule-dead", "telemetry-gap/alert-blind"), "an absence guard beside {where}, so that a blind rule is heard"),
    (("telemetry-gap/device-missing", "telemetry-gap/node-uncovered"), "an alert on devices seen against devices allocatable on {where}"),
)


def _dimensions(report: Report, signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    found = False
    for codes, text in _DIMENSIONS:
        members = [f for f in report["findings"] if f["code"] in codes and f["verdict"] == "fail"]
        if members:
            found = True
            places = list(dict.fromkeys(_place(f["subject"]) for f in members))
            yield text.format(where=", ".join(places[:4]) + (" …" if len(places) > 4 else ""))
    for signal in _alerts(signals):
        labels = (signal.get("detail") or {}).get("labels") or {}
        if labels and not {"pod", "exported_pod", "node", "Hostname", "hostname"} & set(labels):
            found = True
            yield f"`pod` in the grouping of alert {labels.get('alertname', '?')}: it names neither a Pod nor a node"
            break
    if not found:
        yield f"no failed join was found: {TODO}"


def _place(subject: Mapping[str, str]) -> str:
    for part in ("rule", "label", "node", "metric"):
        if part in subject:
            return f"`{subject[part]}`"
    return subject_text(subject)


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _time(text: str) -> str:
    return instant(_parse(text)) or text


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min"), (rest, "s")) if n) or "0 s"


def _value(value: float) -> str:
    return f"{value:.6g}"
