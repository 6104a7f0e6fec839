"""Raw Kubernetes JSON, reduced to the nouns of `contract/cluster.py`.

Objects come from an API server or from files that people copied; `raw.py` reads them without taking anything for
granted, and refuses what has no name. Owners are resolved in a step of its own, since it needs other objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from functions.contract.cluster import (
    ConfigMap,
    Container,
    DisruptionBudget,
    KubernetesEvent,
    Node,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Taint,
    Workload,
)
from functions.evidence.raw import Raw, at, instant, items, meta, quantity, text, texts
from functions.knowledge.devices import DeviceKnowledge, load_devices


def _count(value: object) -> int | None:
    number = quantity(value)
    return int(number) if number is not None else None


def gpu_resources(resources: object, knowledge: DeviceKnowledge | None = None) -> dict[str, int]:
    """The GPU resources in a resource list, by name, as counts of devices or instances."""
    known = knowledge or load_devices()
    found = ((text(k), v) for k, v in resources.items()) if isinstance(resources, Mapping) else ()
    return {name: count for name, v in found if known.resource_kind(name) and (count := _count(v)) is not None}


# ---------------------------------------------------------------------------------------------------------- Pods


def pod(raw: Raw) -> Pod:
    """A Pod. Its workload is the direct owner; `resolve_owners` goes on from there."""
    metadata = meta(raw)
    labels = texts(metadata.get("labels"))
    conditions = {text(c.get("type")): text(c.get("status")) for c in items(raw, "status", "conditions")}
    return Pod(
        namespace=text(metadata.get("namespace")) or "default",
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        node=text(at(raw, "spec").get("nodeName")),
        phase=text(at(raw, "status").get("phase")),
        workload=_direct_owner(metadata) or f"Pod/{text(metadata.get('name'))}",
        containers=_containers(raw),
        labels=labels,
        annotations=texts(metadata.get("annotations")),
        ip=text(at(raw, "status").get("podIP")),
        ready=conditions.get("Ready") == "True",
        created_at=instant(metadata.get("creationTimestamp")),
        started_at=instant(at(raw, "status").get("startTime")),
        finished_at=_finished_at(raw),
        deleted_at=instant(metadata.get("deletionTimestamp")),
        claims=_claims(raw),
        revision=labels.get("controller-revision-hash") or labels.get("pod-template-hash", ""),
    )


def _direct_owner(metadata: Raw) -> str:
    """Kind/name of the controlling owner, "" where there is none."""
    for owner in sorted(items(metadata, "ownerReferences"), key=lambda o: o.get("controller") is not True):
        if text(owner.get("kind")) == "Node":
            break  # a static Pod: the kubelet's mirror belongs to its node, and no person thinks of that as its owner
        if text(owner.get("kind")) and text(owner.get("name")):
            return f"{text(owner.get('kind'))}/{text(owner.get('name'))}"
    return ""


def _containers(raw: Raw) -> tuple[Container, ...]:
    statuses = {text(s.get("name")): s for key in ("initContainerStatuses", "containerStatuses") for s in items(raw, "status", key)}
    running = [_container(c, statuses) for c in items(raw, "spec", "containers")]
    sidecars: list[Container] = []
    initial: list[Container] = []
    for container in items(raw, "spec", "initContainers"):
        (sidecars if container.get("restartPolicy") == "Always" else initial).append(_container(container, statuses))
    return tuple(_with_initial_requests([*running, *sidecars], initial))


def _with_initial_requests(running: list[Container], initial: list[Container]) -> list[Container]:
    """A Pod holds the larger of what an init container and all running ones request: keep an init container's excess."""
    out = list(running)
    for container in initial:
        excess = {}
        for resource, count in container.gpus.items():
            held = sum(other.gpus.get(resource, 0) for other in out)
            if count > held:
                excess[resource] = count - held
        if excess:
            out.append(replace(container, gpus=excess))
    return out


def _container(raw: Raw, statuses: Mapping[str, Raw]) -> Container:
    name = text(raw.get("name"))
    status = statuses.get(name, {})
    requests, limits = (gpu_resources(at(raw, "resources").get(key)) for key in ("requests", "limits"))
    return Container(
        name=name,
        image=text(raw.get("image")),
        # an extended resource without a request is requested as limited
        gpus={k: v for k, v in {**limits, **requests}.items() if v > 0},
        claims=tuple(text(c.get("name")) for c in items(raw, "resources", "claims") if text(c.get("name"))),
        restarts=_count(status.get("restartCount")) or 0,
        started_at=instant(at(status, "state", "running").get("startedAt")),
        ports=tuple(port for p in items(raw, "ports") if (port := _count(p.get("containerPort"))) is not None),
    )


def _finished_at(raw: Raw) -> datetime | None:
    if text(at(raw, "status").get("phase")) not in ("Succeeded", "Failed"):
        return None
    ends = (instant(at(s, "state", "terminated").get("finishedAt")) for s in items(raw, "status", "containerStatuses"))
    return max((end for end in ends if end), default=None)


def _claims(raw: Raw) -> dict[str, str]:
    made = {text(s.get("name")): text(s.get("resourceClaimName")) for s in items(raw, "status", "resourceClaimStatuses")}
    claims: dict[str, str] = {}
    for claim in items(raw, "spec", "resourceClaims"):
        name = text(claim.get("name"))
        direct = text(claim.get("resourceClaimName")) or text(at(claim, "source").get("resourceClaimName"))
        if name:
            claims[name] = direct or made.get(name, "")
    return claims


def resolve_owners(pods: Iterable[Pod], workloads: Iterable[Workload]) -> tuple[Pod, ...]:
    """Pods with the owner a person thinks of: the Deployment rather than its ReplicaSet, the CronJob rather than its Job.

    Where the ReplicaSet is not among the workloads, the Deployment's name is read off the ReplicaSet's, and only where
    the Pod's own template hash confirms it.
    """
    owners = {(w.namespace, w.ref): w.owner for w in workloads if w.owner}
    return tuple(_resolved(found, owners) for found in pods)


def _resolved(found: Pod, owners: Mapping[tuple[str, str], str]) -> Pod:
    workload, seen = found.workload, set[str]()
    while workload not in seen:  # owner references of a copied object may form a ring
        seen.add(workload)
        workload = owners.get((found.namespace, workload), workload)
    kind, _, name = workload.partition("/")
    suffix = "-" + found.labels.get("pod-template-hash", "")
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix) and len(name) > len(suffix):
        workload = f"Deployment/{name.removesuffix(suffix)}"
    return found if workload == found.workload else replace(found, workload=workload)


# ---------------------------------------------------------------------------------------------------------- nodes


def node(raw: Raw) -> Node:
    """A Node, with the GPU resources only. Without a Ready condition it counts as ready: a reduced file says nothing."""
    metadata = meta(raw)
    conditions = {text(c.get("type")): text(c.get("status")) for c in items(raw, "status", "conditions")}
    return Node(
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        boot_id=text(at(raw, "status", "nodeInfo").get("bootID")),
        capacity=gpu_resources(at(raw, "status").get("capacity")),
        allocatable=gpu_resources(at(raw, "status").get("allocatable")),
        labels=texts(metadata.get("labels")),
        annotations=texts(metadata.get("annotations")),
        taints=tuple(
            Taint(text(t.get("key")), text(t.get("effect")), text(t.get("value")))
            for t in items(raw, "spec", "taints")
            if text(t.get("key"))
        ),
        unschedulable=at(raw, "spec").get("unschedulable") is True,
        ready=conditions.get("Ready", "True") == "True",
        conditions=conditions,
        addresses=tuple(dict.fromkeys(a for i in items(raw, "status", "addresses") if (a := text(i.get("address"))))),
        created_at=instant(metadata.get("creationTimestamp")),
    )


# ------------------------------------------------------------------------------------------------------ workloads


def workload(raw: Raw) -> Workload:
    """A Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob."""
    metadata = meta(raw)
    kind = text(raw.get("kind"))
    spec, status = at(raw, "spec"), at(raw, "status")
    template = at(spec, "jobTemplate", "spec", "template") if kind == "CronJob" else at(spec, "template")
    wanted = {"DaemonSet": status.get("desiredNumberScheduled"), "Job": spec.get("parallelism", 1)}.get(kind, spec.get("replicas"))
    if wanted is None and kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        wanted = 1  # the API's default
    ready = status.get("numberReady") if kind == "DaemonSet" else status.get("readyReplicas", status.get("ready"))
    return Workload(
        kind=kind,
        namespace=text(metadata.get("namespace")) or "default",
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        replicas=_count(wanted),
        ready=_count(ready),
        labels=texts(metadata.get("labels")),
        annotations=texts(metadata.get("annotations")),
        template=template,
        owner=_direct_owner(metadata),
    )


def older_templates(found: Workload, revisions: Iterable[Raw]) -> tuple[Raw, ...]:
    """Templates of a workload's other revisions, newest first, from its ControllerRevisions and ReplicaSets."""
    numbered: list[tuple[int, Raw]] = []
    for raw in revisions:
        owned = any(
            (
                text(o.get("uid")) == found.uid
                if found.uid and o.get("uid")
                else (text(o.get("kind")), text(o.get("name"))) == (found.kind, found.name)
            )
            for o in items(raw, "metadata", "ownerReferences")
        )
        if not owned or (text(at(raw, "metadata").get("namespace")) or "default") != found.namespace:
            continue
        if text(raw.get("kind")) == "ControllerRevision":
            number, template = _count(raw.get("revision")), at(raw, "data", "spec", "template")
        else:
            number = _count(at(raw, "metadata", "annotations").get("deployment.kubernetes.io/revision"))
            template = at(raw, "spec", "template")
        if template:
            numbered.append((number or 0, template))
    numbered.sort(key=lambda pair: -pair[0])
    return tuple(template for _, template in numbered if _bare(template) != _bare(found.template))


def _bare(template: Raw) -> tuple[Any, Any, Any]:
    """A template without what the controllers add to it, for comparing."""
    labels = {k: v for k, v in texts(at(template, "metadata").get("labels")).items() if k != "pod-template-hash"}
    return labels, texts(at(template, "metadata").get("annotations")), at(template, "spec")


def configmap(raw: Raw) -> ConfigMap:
    """A ConfigMap; binary data is left out."""
    metadata = meta(raw)
    return ConfigMap(
        text(metadata.get("namespace")) or "default",
        text(metadata.get("name")),
        texts(metadata.get("labels")),
        texts(raw.get("data")),
    )


def budget(raw: Raw) -> DisruptionBudget:
    """A PodDisruptionBudget."""
    metadata, status = meta(raw), at(raw, "status")
    return DisruptionBudget(
        text(metadata.get("namespace")) or "default",
        text(metadata.get("name")),
        texts(at(raw, "spec", "selector").get("matchLabels")),
        _count(status.get("disruptionsAllowed")),
        _count(status.get("currentHealthy")),
        _count(status.get("desiredHealthy")),
    )


# --------------------------------------------------------------------------------------------------------- events


def event(raw: Raw) -> KubernetesEvent:
    """A core/v1 or events.k8s.io Event in one shape.

    An Event of the new recorder has no count and no first or last time of the old kind: its own instant is eventTime,
    and a repeated one counts in `series`, whose count is that of all occurrences.
    """
    metadata = meta(raw)
    about = at(raw, "involvedObject") or at(raw, "regarding")
    series = at(raw, "series")
    once = instant(raw.get("eventTime"))
    first = instant(raw.get("firstTimestamp")) or instant(raw.get("deprecatedFirstTimestamp")) or once
    ends = (series.get("lastObservedTime"), raw.get("lastTimestamp"), raw.get("deprecatedLastTimestamp"), once)
    last = max((end for end in map(instant, ends) if end), default=None)
    created = instant(metadata.get("creationTimestamp"))
    counts = (_count(c) for c in (series.get("count"), raw.get("count"), raw.get("deprecatedCount")))
    source = at(raw, "source") or at(raw, "deprecatedSource")
    return KubernetesEvent(
        uid=text(metadata.get("uid")),
        reason=text(raw.get("reason")),
        type=text(raw.get("type")),
        message=text(raw.get("message")) or text(raw.get("note")),
        kind=text(about.get("kind")),
        namespace=text(about.get("namespace")) or ("" if about.get("kind") == "Node" else text(metadata.get("namespace"))),
        name=text(about.get("name")),
        count=max((c for c in counts if c), default=1),
        first_at=first or created,
        last_at=last or first or created,
        source=text(source.get("component")) or text(raw.get("reportingComponent")) or text(raw.get("reportingController")),
    )


# ------------------------------------------------------------------------------------ dynamic resource allocation


def claim(raw: Raw) -> ResourceClaim:
    """A ResourceClaim with the devices of its allocation."""
    metadata = meta(raw)
    namespace = text(metadata.get("namespace")) or "default"
    results = items(raw, "status", "allocation", "devices", "results")
    return ResourceClaim(
        namespace,
        text(metadata.get("name")),
        tuple((text(r.get("driver")), text(r.get("pool")), text(r.get("device"))) for r in results if text(r.get("device"))),
        tuple(
            (namespace, text(r.get("name")), text(r.get("uid")))
            for r in items(raw, "status", "reservedFor")
            if text(r.get("resource")) in ("pods", "") and text(r.get("name"))
        ),
    )


def slice_(raw: Raw) -> ResourceSlice:
    """A ResourceSlice; attributes as texts, whatever their type and API version (v1 is flat, v1beta1 nests in `basic`)."""
    spec = at(raw, "spec")
    devices: dict[str, dict[str, str]] = {}
    for device in items(raw, "spec", "devices"):
        attributes = at(device, "attributes") or at(device, "basic", "attributes")
        if name := text(device.get("name")):
            devices[name] = {text(k).rpartition("/")[2]: _attribute(v) for k, v in attributes.items()}
    return ResourceSlice(
        text(meta(raw).get("name")),
        text(spec.get("nodeName")),
        text(spec.get("driver")),
        text(at(spec, "pool").get("name")),
        devices,
    )


def _attribute(value: object) -> str:
    if isinstance(value, Mapping):
        return next((text(value[kind]) for kind in ("string", "int", "bool", "version") if value.get(kind) is not None), "")
    return text(value)
