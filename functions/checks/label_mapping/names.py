"""Whether the Pod that a device names is the right one: `exporter-pod`, `stale-pod`, `wrong-node`, `wrong-container`,
`unrequested-use`. Each device is looked at once; the first fault of a named Pod is the one that is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from functions.checks.label_mapping.codes import Said, finding
from functions.checks.label_mapping.world import Device, Naming, PodKey, World
from functions.contract.cluster import KubernetesEvent, Pod
from functions.contract.findings import Evidence, Finding, Severity, Subject, Unjudged
from functions.contract.report import instant


@dataclass
class Names:
    """What the rules found. `wrong`: node -> number of its devices that name a wrong Pod; they explain absent ones."""

    findings: list[Finding] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    #: Pods that at least one series names rightly
    mapped: set[PodKey] = field(default_factory=set)
    #: Pods that a finding of this module speaks of already
    blamed: set[PodKey] = field(default_factory=set)
    wrong: dict[str, int] = field(default_factory=dict)
    judged: int = 0
    #: devices that name their Pod rightly
    right: int = 0


def judge_names(world: World, events: tuple[KubernetesEvent, ...] | None) -> Names:
    """All devices against the Pods they name. `events`: None where they are not known."""
    result = Names()
    for device in world.devices.values():
        if device.parent and not device.named:
            continue
        result.judged += 1
        if any(n.exporter for n in device.names) and not device.named:
            result.findings.append(_exporter_pod(world, device))
            result.wrong[device.node] = result.wrong.get(device.node, 0) + 1
            continue
        faulty = False
        for naming in _distinct(device):
            found = _judge_one(world, device, naming, events, result)
            if isinstance(found, Finding):
                faulty = True
                result.findings.append(found)
            elif isinstance(found, Unjudged):
                result.unjudged.append(found)
        if faulty:
            result.wrong[device.node] = result.wrong.get(device.node, 0) + 1
        elif device.named:
            result.right += 1
    return result


def _distinct(device: Device) -> Iterator[Naming]:
    """One naming for each (Pod, container, uid) of the device."""
    seen: set[tuple[str, ...]] = set()
    for naming in device.named:
        key = (*naming.key, naming.container, naming.uid)
        if key not in seen:
            seen.add(key)
            yield naming


def _judge_one(
    world: World, device: Device, naming: Naming, events: tuple[KubernetesEvent, ...] | None, result: Names
) -> Finding | Unjudged | None:
    pod = find_pod(world, naming)
    if pod is None or pod.finished or not pod.node or (naming.uid and pod.uid and naming.uid != pod.uid):
        found = _stale(world, device, naming, pod, events)
        if pod is not None and not pod.finished:
            result.blamed.add((pod.namespace, pod.name))
        return found
    key = (pod.namespace, pod.name)
    if device.node and pod.node != device.node:
        if world.young(pod):
            return None  # a Pod of the same name has just come up elsewhere; the next scrape tells
        result.blamed.add(key)
        return _wrong_node(world, device, naming, pod)
    result.mapped.add(key)
    if world.exempt(pod):
        return None
    if wrong := _wrong_container(world, device, naming, pod):
        return wrong
    asks = any(pod.gpus.values()) or any(c.claims for c in pod.containers) or pod.claims
    if not asks and not world.infrastructure(pod):
        return _unrequested(world, device, naming, pod)
    return None


def find_pod(world: World, naming: Naming) -> Pod | None:
    """The Pod a series means: by namespace and name, or by the name alone where no namespace is printed."""
    if naming.namespace:
        return world.pods.get(naming.key)
    named = world.pods_by_name.get(naming.pod, ())
    here = [p for p in named if p.node == naming.series.node] or list(named)
    return here[0] if here else None


def _subject(device: Device, naming: Naming, pod: Pod | None = None, **more: str) -> Subject:
    parts = {**device.subject, "namespace": naming.namespace or (pod.namespace if pod else ""), "pod": naming.pod, **more}
    if pod is not None and pod.workload:
        parts["workload"] = pod.workload
    return Subject(**{k: v for k, v in parts.items() if v})


def _exporter_pod(world: World, device: Device) -> Finding:
    naming = next(n for n in device.names if n.exporter)
    label = naming.series.spelling.get("pod") or "pod"
    busy = device.busy is not False
    holders = world.holders(device.node)
    owners = ", ".join(f"{p.namespace}/{p.name}" for p in holders[:4])
    load = f" while it is in use ({device.load})" if device.busy else ""
    exporter = world.pods.get(naming.key)
    evidence = [world.series_evidence(naming.series), *([world.pod_evidence(exporter)] if exporter else [])]
    return finding(
        "exporter-pod",
        _subject(device, naming, exporter),
        Said(
            f'{device} has {label}="{naming.pod}"{load}: that is the exporter\'s own Pod',
            f"the Pod that holds the device ({owners})" if owners else "no Pod label on a device that nobody holds",
            _exporter_hint(naming, bool(owners)),
        ),
        (*evidence, *(world.pod_evidence(p) for p in holders[:2])),
        severity=Severity.CRITICAL if busy else Severity.WARNING,
    )


def _exporter_hint(naming: Naming, held: bool) -> str:
    if naming.series.pod and naming.series.honor_labels is False:
        return (
            "The exporter prints its own Pod: drop the Pod labels it attaches to itself (a Pod-metadata relabelling or the "
            "downward API), and set DCGM_EXPORTER_KUBERNETES=true."
        )
    cause = (
        "The series carry no Pod of their own, so the target's label is left: set honorLabels: false in the ServiceMonitor and read "
        "exported_pod (Google Managed Prometheus: a ClusterPodMonitoring with an empty list of metadata labels)."
    )
    if not held:
        return cause
    return (
        f"{cause} Then restore the mapping: DCGM_EXPORTER_KUBERNETES=true, the pod-resources socket, and "
        "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE=device-name where the device plugin speaks of nvidia0 (GKE)."
    )


def _stale(
    world: World, device: Device, naming: Naming, pod: Pod | None, events: tuple[KubernetesEvent, ...] | None
) -> Finding | Unjudged | None:
    state, ended = _end_of(world, naming, pod, events or ())
    if ended is not None and ended < world.grace:
        return None
    if pod is None and events is None:
        why = f"{device} names {naming.namespace}/{naming.pod}, which is gone; it may have ended just now, Events are not known"
        return Unjudged(_subject(device, naming), why)
    elsewhere = [p for p in world.pods_by_name.get(naming.pod, ()) if p.namespace != naming.namespace] if pod is None else []
    note = f"; a Pod of that name lives in {elsewhere[0].namespace}" if elsewhere else ""
    known = world.pod_evidence(pod) if pod else Evidence("kubernetes", f"Pod {naming.namespace}/{naming.pod}", "not found", world.now)
    return finding(
        "stale-pod",
        _subject(device, naming),
        Said(
            f"{device} names {naming.namespace}/{naming.pod}, {state}{note}",
            "the Pod that holds the device now, or no Pod",
            "The exporter still has an old list of the kubelet: restart the exporter Pod of this node; where it returns, upgrade "
            "dcgm-exporter, and compare the kubelet's pod-resources list (old kubelets list ended Pods, kubernetes/kubernetes#119423). "
            "For Pods whose names return (StatefulSets), set DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID=true and join on pod_uid.",
        ),
        (world.series_evidence(naming.series), known),
    )


def _end_of(world: World, naming: Naming, pod: Pod | None, events: tuple[KubernetesEvent, ...]) -> tuple[str, float | None]:
    """How the named Pod ended, for a person, and how many seconds ago; None where nothing says when."""
    if pod is None:
        told = [e.last_at for e in events if e.kind == "Pod" and (e.namespace, e.name) == naming.key and e.last_at]
        ended = world.age(max(told)) if told else None
        return "which is gone" + (f" (last Event {instant(max(told))})" if told else ""), ended
    if pod.finished:
        when = f" at {instant(pod.finished_at)}" if pod.finished_at else ""
        return f"which {'succeeded' if pod.phase == 'Succeeded' else 'failed'}{when}", world.age(pod.finished_at)
    begun = world.age(pod.started_at or pod.created_at)
    if naming.uid and pod.uid and naming.uid != pod.uid:
        return f"as uid {naming.uid}; the Pod of that name is now another one, uid {pod.uid}", begun
    return "which waits for a node and can hold no device", begun


def _wrong_node(world: World, device: Device, naming: Naming, pod: Pod) -> Finding:
    return finding(
        "wrong-node",
        _subject(device, naming, pod),
        Said(
            f"{device} names {pod.namespace}/{pod.name}, which runs on {pod.node}",
            f"a Pod of {device.node}",
            "Either the exporter has an old list (restart it on this node), or the series have the wrong node: compare the target's "
            "node label with the exporter Pod's spec.nodeName, and scrape Pods, not a Service.",
        ),
        (world.series_evidence(naming.series), world.pod_evidence(pod)),
    )


def _wrong_container(world: World, device: Device, naming: Naming, pod: Pod) -> Finding | None:
    if not naming.container or not pod.containers:
        return None
    named = next((c for c in pod.containers if c.name == naming.container), None)
    holding = [c.name for c in pod.containers if any(c.gpus.values()) or c.claims]
    if named is not None and (naming.container in holding or not holding):
        return None
    what = "has no such container" if named is None else f"requests its GPU in {', '.join(holding)}"
    return finding(
        "wrong-container",
        _subject(device, naming, pod, container=naming.container),
        Said(
            f"{device} names container {naming.container} of {pod.namespace}/{pod.name}, but the Pod {what}",
            f"container {', '.join(holding)}" if holding else f"one of {', '.join(c.name for c in pod.containers)}",
            "With honorLabels: true an absent container label leaves the exporter's own container: use honorLabels: false, or drop the "
            "target's container label. Else restart the exporter of the node, so that it reads the kubelet's list again.",
        ),
        (world.series_evidence(naming.series), world.pod_evidence(pod)),
    )


def _unrequested(world: World, device: Device, naming: Naming, pod: Pod) -> Finding:
    load = f" ({device.load})" if device.load else ""
    return finding(
        "unrequested-use",
        _subject(device, naming, pod),
        Said(
            f"{device}{load} names {pod.namespace}/{pod.name}, whose containers request no GPU and have no claim",
            "a Pod that requests the device",
            "Give the Pod a limit of nvidia.com/gpu, and deny NVIDIA_VISIBLE_DEVICES to Pods without one "
            "(accept-nvidia-visible-devices-envvar-when-unprivileged = false in the toolkit). If the Pod does not use the GPU, the label "
            "is wrong: restart the exporter.",
        ),
        (world.series_evidence(naming.series), world.pod_evidence(pod)),
    )
