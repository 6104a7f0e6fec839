"""The postmortem stub: what a machine can honestly fill in, each line with where it came from; the rest is marked.

Trigger signal, affected workload, trace (or why there is none), device fields, actions observed, recovery time or
"not recovered", and the dimension to add next time. Root cause, impact in words and lessons stay a person's. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from functions.contract.report import instant
from functions.reports import timeline
from functions.reports.groups import lines
from functions.reports.summary import since
from functions.reports.wording import (
    FindingDict,
    Report,
    cause,
    code,
    counted,
    duration,
    headline,
    level,
    listed,
    ordered,
    parsed,
    prose,
    subject_text,
)

TODO = "**‹for a person›**"
_MAX_FINDINGS = 20
#: of one kind; the others are counted
_MAX_OF_A_KIND = 5
_ANNOTATIONS = ("summary", "description", "message", "runbook_url")


def render(report: Report, *, signals: Sequence[Mapping[str, Any]] = (), link: str = "") -> str:
    """The stub as Markdown. `signals` are all signals of the episode (JSON form), the report's own when empty."""
    signals = sorted(signals or report.get("signals", ()), key=lambda s: parsed(s["at"]))
    report = {**report, "signals": signals}
    audit = report["audit"]
    whole = f"[audit `{audit['id']}`]({link})" if link else f"audit `{audit['id']}`"
    parts = [
        f"# Postmortem: {prose(cause(report))} ({prose(audit['cluster'])})",
        f"Draft, made from {whole}. What a machine can't know is marked {TODO}.",
        _section("Summary", [headline(report), *_broken(report), f"Impact on users: {TODO}", f"Severity and commander: {TODO}"]),
        _section("Trigger signal", _trigger(report, signals)),
        _section("Affected workload", _workloads(report)),
        _section("Trace", _traces(report)),
        _section("Device", _devices(report)),
        _section("What could not be followed", _findings(report)),
        _section("Timeline of what was observed (UTC)", timeline.observed(report, signals)),
        _section("Actions observed", _actions(report, signals)),
        _section("Recovery", _recovery(signals)),
        _section("Dimension to add next time", _dimensions(report, signals)),
        _section("Root cause", [TODO]),
        _section("What went well, what went wrong, where we were lucky", [TODO]),
        _section("Follow-ups (owner, date)", [TODO]),
    ]
    return "\n\n".join(parts) + "\n"


def _section(title: str, texts: Iterable[str]) -> str:
    """Lines that begin with two spaces belong to the one above them."""
    return f"## {title}\n" + "\n".join(f"  - {text[2:]}" if text.startswith("  ") else f"- {text}" for text in texts)


def _alerts(signals: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [s for s in signals if s["trigger"]["kind"] == "alert"]


def _detail(signal: Mapping[str, Any]) -> Mapping[str, Any]:
    detail = signal.get("detail")
    return detail if isinstance(detail, Mapping) else {}


# ------------------------------------------------------------------------------------------------ what is known


def _broken(report: Report) -> Iterable[str]:
    for number, line in enumerate([line for line in lines(report["findings"]) if line.level != "unknown"][:4]):
        yield line.text + ("" if number else f" · {since(report, line)}")


def _trigger(report: Report, signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    audit = report["audit"]
    if not signals:
        compared = f"compared with {audit['baseline']}" if audit["baseline"] else "there was nothing to compare with"
        yield f"{prose(cause(report))}; judged at {audit['current']}, {compared}"
    for signal in signals:
        yield f"{code(instant(parsed(signal['at'])))} {prose(timeline.said(signal))}"
        detail = _detail(signal)
        labels = detail.get("labels")
        if isinstance(labels, Mapping) and labels:
            yield f"  labels: {listed([code(f'{k}={v}', 160) for k, v in sorted(labels.items())], 20)}"
        annotations = detail.get("annotations")
        held = annotations if isinstance(annotations, Mapping) else {}
        yield from (f"  {name}: {prose(held[name], 400)}" for name in _ANNOTATIONS if held.get(name))
        if detail.get("doubt"):
            yield f"  {prose(detail['doubt'])}"


def _workloads(report: Report) -> Iterable[str]:
    workloads = report.get("context", {}).get("workloads", [])
    if not workloads:
        yield f"none could be named from the signals and findings: {TODO}"
    for w in workloads:
        pods = counted(len(w["pods"]), "1 Pod", "{n} Pods")
        nodes = f"on {listed(map(code, w['nodes']), 6)}" if w["nodes"] else "on no node"
        restarts = counted(w["restarts"], "1 restart", "{n} restarts")
        kind, _, name = str(w["workload"]).partition("/")
        yield f"{code(kind + ' ' + '/'.join(filter(None, [w['namespace'], name])))}: {pods} {nodes}, {restarts} so far"
        if w["images"]:
            yield f"  image: {listed([code(image) for image in w['images']], 4)}"
        if w["unmapped_pods"]:
            yield f"  no device series names {listed([code(pod) for pod in w['unmapped_pods']], 6)}"


def _traces(report: Report) -> Iterable[str]:
    context = report.get("context", {})
    traces = context.get("traces", {})
    if not traces.get("known"):
        yield f"none: {prose(traces.get('why') or 'no trace backend is configured')}"
        return
    if not traces["slowest"]:
        yield "none: no trace of the affected workloads is known from the time of the audit"
    for trace in traces["slowest"]:
        longest = trace["longest"]
        pod = "/".join(filter(None, [longest["namespace"], longest["pod"]]))
        where = code(pod) if pod else "an unnamed Pod"
        node = f" on {code(longest['node'])}" if longest["node"] else ""
        yield (
            f"{code(trace['trace_id'])} at {trace['start']}: {trace['seconds']} s, of which {longest['seconds']} s "
            f"in {code(longest['name'])} of {where}{node}{_device_of(longest, context)}"
        )


def _device_of(span: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    """Whether the way leads on from the span's Pod to a device."""
    workloads = [w for w in context.get("workloads", []) if w["namespace"] == span["namespace"]]
    held = [code(d["gpu"]) for w in workloads for d in w["devices"] if d["pod"] == span["pod"]]
    if held:
        return f"; its Pod holds {listed(held, 4)}"
    lost = any(span["pod"] in w["unmapped_pods"] for w in workloads)
    return "; **no device series names its Pod**, so the way ends there" if lost else ""


def _devices(report: Report) -> Iterable[str]:
    metrics: dict[str, str] = {}
    for workload in report.get("context", {}).get("workloads", []):
        for device in workload["devices"]:
            instance = f" instance {code(device['gpu_instance'])}" if device["gpu_instance"] else ""
            readings = sorted(device["readings"].items())
            metrics |= {concept: r["metric"] for concept, r in readings}
            values = ", ".join(f"{concept.removeprefix('gpu.')} {_value(r['value'])}" for concept, r in readings)
            yield f"{code(device['node'])} {code(device['gpu'])}{instance}, held by {code(device['pod'])}: {values or 'no reading'}"
        more = workload["devices_total"] - len(workload["devices"])
        if more > 0:
            yield f"… and {more} more devices of {code(workload['namespace'] + '/' + workload['workload'])}"
        if workload["unmapped_pods"]:
            pods = listed([code(pod) for pod in workload["unmapped_pods"]], 6)
            yield f"no device field can be given for {pods}: no series names {'them' if workload['unmapped_pods'][1:] else 'it'}"
    if not metrics:
        yield "no device series names an affected Pod, so no device field can be given"
        return
    pairs = listed([f"{concept.removeprefix('gpu.')} {code(metric)}" for concept, metric in sorted(metrics.items())], 20)
    yield f"read at {report['audit']['current']} from: {pairs}"
    if "gpu.xid" in metrics:
        yield f"an XID is the last one the exporter remembers; when it happened is in the node's kernel log: {TODO}"


def _findings(report: Report) -> Iterable[str]:
    failed = [f for f in ordered(report["findings"]) if level(f) != "unknown"]
    if not failed:
        yield "every link that was checked held"
    left, kinds = _MAX_FINDINGS, lines(failed)
    for line in kinds:
        yield f"{line.text.partition(': ')[0] if len(line.findings) > 1 else line.text}"
        shown = line.findings[: min(left, _MAX_OF_A_KIND)]
        left -= len(shown)
        yield from map(_finding, shown)
        if len(line.findings) > len(shown):
            yield f"  … and {len(line.findings) - len(shown)} more in audit `{report['audit']['id']}`"
    for check in report["checks"]:
        if check["verdict"] == "unknown":
            yield f"`{check['id']}` is unknown, so nothing is proven there: {prose(check['summary'])}"


def _finding(finding: FindingDict) -> str:
    evidence = finding["evidence"][0] if finding["evidence"] else None
    shown = f" · {evidence['source']} {code(evidence['ref'])} {evidence['at']}".rstrip() if evidence else ""
    return f"  `{finding['code']}` {code(subject_text(finding['subject']))}: {prose(finding['observed'], 400)}{shown}"


def _actions(report: Report, signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    found = timeline.actions(report, signals)
    if not found:
        yield "none was seen in Events, rollouts or drains"
    yield from found
    yield f"what people did elsewhere: {TODO}"


def _recovery(signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    alerts = _alerts(signals)
    ends = {_identity(s): parsed(_detail(s).get("endsAt") or s["at"]) for s in alerts if s["trigger"].get("phase") == "resolved"}
    open_now = {_identity(s): s for s in alerts if s["trigger"].get("phase") == "firing" and _identity(s) not in ends}
    started = [parsed(_detail(s).get("startsAt") or s["at"]) for s in alerts]
    if not alerts:
        yield f"no alert marks the beginning or the end; recovery time: {TODO}"
    elif open_now or not ends:
        names = listed([code(_detail(s).get("alertname") or "an alert") for s in open_now.values()], 4)
        yield f"**not recovered** when this was written: {names or 'the alert'} still fires"
    else:
        end = max(ends.values())
        yield f"the last alert resolved at {instant(end)}, {duration((end - min(started)).total_seconds())} after the first began"
    yield "recovered means latency, queue wait and effective throughput are back at the baseline; an ended alert alone does not prove that"


def _identity(signal: Mapping[str, Any]) -> str:
    return str(_detail(signal).get("fingerprint") or signal["scope"])


#: What was missing on the way, and the dimension that would have shown it.
_DIMENSIONS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("label-mapping/pod-missing", "label-mapping/unattributed-use"), "`namespace`, `pod`, `container` on the device series of {where}"),
    (("label-mapping/exporter-pod",), "the workload's own `pod` on the device series of {where}, instead of the exporter's"),
    (("label-mapping/stale-pod", "label-mapping/wrong-node"), "`pod_uid` on the device series of {where}: names return, uids don't"),
    (("label-mapping/shared-device", "label-mapping/shared-zero"), "a value of its own for each Pod that shares a device on {where}"),
    (("label-mapping/device-identity",), "a UUID and instance id that tell the devices of {where} apart"),
    (("label-mapping/hostname-wrong",), "the node's own name on the device series of {where}"),
    (("metric-rename/label-renamed", "metric-rename/label-lost"), "one spelling of {where} in every rule, join and legend"),
    (("metric-rename/rule-dead", "telemetry-gap/alert-blind"), "an absence guard beside {where}, so that a blind rule is heard"),
    (("telemetry-gap/went-silent", "telemetry-gap/field-absent"), "an absence alert on {where}"),
    (("telemetry-gap/device-missing", "telemetry-gap/node-uncovered"), "an alert on devices seen against devices allocatable on {where}"),
    (
        ("telemetry-gap/target-down", "telemetry-gap/bad-exposition", "telemetry-gap/empty-exposition"),
        "an alert on `up` and on the number of scraped samples of {where}",
    ),
)


def _dimensions(report: Report, signals: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    found = False
    failed = [f for f in ordered(report["findings"]) if f["verdict"] == "fail"]
    for codes, text in _DIMENSIONS:
        members = [f for f in failed if f["code"] in codes]
        if members:
            found = True
            yield text.format(where=listed([_place(f["subject"]) for f in members], 4))
    for signal in _alerts(signals):
        labels = _detail(signal).get("labels") or {}
        if labels and not {"pod", "exported_pod", "node", "Hostname", "hostname"} & set(labels):
            found = True
            yield f"`pod` in the grouping of alert {code(labels.get('alertname', '?'))}: it names neither a Pod nor a node"
            break
    if not found:
        yield f"no failed join was found: {TODO}"


def _place(subject: Mapping[str, str]) -> str:
    for part in ("rule", "label", "node", "metric"):
        if part in subject:
            return code(subject[part])
    return code(subject_text(subject))


def _value(value: float) -> str:
    """Six digits at most; large numbers with a unit prefix, as a person reads them."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}"
    return f"{value:.6g}"
