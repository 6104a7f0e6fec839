"""`required-label-missing`: correlation labels that the policy demands, on device, workload and request series.

Roles (gpu, host, pod_uid …) are looked for under whatever label the series spells them; other names are label names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from functions.checks.label_mapping.codes import Said, finding
from functions.checks.label_mapping.world import Device, Naming, World
from functions.contract.facts import Fact, Missing
from functions.contract.findings import Evidence, Finding, Subject, Unjudged
from functions.contract.telemetry import MetricSchema
from functions.knowledge.signals import Signals

_ROLES = frozenset({"gpu", "gpu_instance", "profile", "index", "host", "namespace", "pod", "container", "pod_uid"})
#: Roles that say something about the Pod: a device that names none is pod-missing or unattributed-use.
_OF_A_POD = frozenset({"namespace", "pod", "container", "pod_uid"})
_OF_AN_INSTANCE = frozenset({"gpu_instance", "profile"})


def judge_required(world: World, schema: Fact[tuple[MetricSchema, ...]], signals: Signals) -> tuple[list[Finding], list[Unjudged]]:
    """Nothing where the policy demands nothing."""
    required = world.policy.labels.required
    findings = [f for device in world.devices.values() for role in required.device if role in _ROLES for f in _device(world, device, role)]
    plain = {
        "device": [label for label in required.device if label not in _ROLES],
        "workload": list(required.workload),
        "request": list(required.request),
    }
    if not any(plain.values()):
        return findings, []
    if isinstance(schema, Missing):
        return findings, [Unjudged(Subject(label=label), schema.detail) for labels in plain.values() for label in labels]
    return findings + _by_schema(world, schema.value, signals, plain), []


def _device(world: World, device: Device, role: str) -> Iterable[Finding]:
    if role in _OF_AN_INSTANCE and not device.instance:
        return
    names = device.named if role in _OF_A_POD else device.names
    without = [n for n in names if not _has(n, role)]
    if without:
        count = sum(n.series.series for n in without)
        yield finding(
            "required-label-missing",
            Subject(**device.subject, label=without[0].series.spelling.get(role, role)),
            Said(
                f"{role} is absent or empty on {count} series of {device}",
                f"{role} on every device series (policy: labels.required.device)",
                _hint(role),
            ),
            (world.series_evidence(without[0].series),),
        )


def _has(naming: Naming, role: str) -> bool:
    series = naming.series
    direct = {"gpu": series.gpu, "gpu_instance": series.gpu_instance, "profile": series.profile, "host": series.host}
    named = {"namespace": naming.namespace, "pod": naming.pod, "container": naming.container}
    return bool(direct.get(role) or named.get(role) or series.labels.get(series.spelling.get(role, role)))


def _by_schema(world: World, schema: tuple[MetricSchema, ...], signals: Signals, plain: dict[str, list[str]]) -> list[Finding]:
    """Plain labels: one finding a layer, job and label, with the metrics that lack it."""
    lacking: dict[tuple[str, str, str], list[MetricSchema]] = defaultdict(list)
    for metric in schema:
        signal = signals.of(metric.name, world.policy.signals.rewrite)
        for label in plain.get(signal.layer, ()) if signal else ():
            if metric.labels.get(_spelled(world, label, metric), 0) < metric.series:
                lacking[(signal.layer if signal else "", metric.job, label)].append(metric)
    findings = []
    for (layer, job, label), metrics in sorted(lacking.items(), key=lambda item: item[0]):
        names = sorted(m.name for m in metrics)
        short = sum(m.series - m.labels.get(label, 0) for m in metrics)
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        findings.append(
            finding(
                "required-label-missing",
                Subject(job=job, label=label, metric=names[0] if len(names) == 1 else None),
                Said(
                    f"{label} is absent or empty on {short} series of job {job}: {shown}",
                    f"{label} on every series of the {layer} layer (policy: labels.required.{layer})",
                    _hint(label),
                ),
                (Evidence("prometheus", f'count by (__name__) ({{job="{job}", {label}=""}})', shown, world.now),),
            )
        )
    return findings


def _spelled(world: World, label: str, metric: MetricSchema) -> str:
    """The label under which the metric has a required role; the label itself where it is no role."""
    if label not in _ROLES:
        return label
    return next((s for s in world.spellings.spellings(label, world.policy) if metric.labels.get(s)), label)


def _hint(label: str) -> str:
    if label == "pod_uid":
        return "Set DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID=true and give the exporter a service account that may read Pods."
    if label == "host":
        return "Set NODE_NAME on the exporter and remove -n (no hostname), or relabel __meta_kubernetes_pod_node_name to node."
    return (
        "If it is a label of the Pod, set DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS=true with permission to read Pods (without it the "
        "labels are left out silently); if the target knows it, attach it in the ServiceMonitor; else look for a relabelling that drops it."
    )
