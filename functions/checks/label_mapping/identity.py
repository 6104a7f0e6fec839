"""Whether the labels of a device series can identify a device and its machine at all.

`device-identity` and `hostname-wrong`. Case and domain of a host name are no fault here: a
changed spelling is `metric-rename`'s to tell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from functions.checks.label_mapping.codes import Said, finding
from functions.checks.label_mapping.world import Device, World
from functions.contract.findings import Evidence, Finding, Subject, Unjudged
from functions.contract.telemetry import DeviceReading, DeviceSeries

_IDENTITY_ROLES = ("gpu", "gpu_instance", "profile")
_UUID_LABELS = frozenset({"uuid", "gpu_uuid", "device_uuid", "deviceuuid"})
_INDEX = re.compile(r"(?:nvidia|card|renderd)?\d+")
_PROFILE = re.compile(r"(?:\d+c\.)?\d+g\.\d+gb", re.IGNORECASE)
#: What an exporter on each node prints about itself; an aggregator that speaks for many nodes says `node`.
_OWN_HOST_LABELS = frozenset({"hostname", "exported_hostname"})


def judge_identity(world: World, readings: Iterable[DeviceReading]) -> tuple[list[Finding], list[Unjudged]]:
    """All findings of this module."""
    findings = [f for device in world.devices.values() if (f := _unreadable(world, device))]
    findings += _nameless(world, readings)
    findings += _ambiguous_index(world)
    behind_service = list(_service_targets(world))
    findings += behind_service
    findings += _uuid_on_two_nodes(world, {f.subject.target or "" for f in behind_service})
    hosts, unjudged = _hosts(world, {f.subject.target or "" for f in behind_service})
    return findings + hosts, unjudged


def _finding(world: World, series: DeviceSeries, subject: Subject, observed: str, expected: str, hint: str) -> Finding:
    return finding(
        "device-identity",
        subject,
        Said(observed, expected, hint),
        (world.series_evidence(series),),
    )


def _unreadable(world: World, device: Device) -> Finding | None:
    """A "no value" text, or a profile the node does not have, where the identity should be."""
    for naming in device.names:
        series = naming.series
        labels = {series.spelling[role] for role in _IDENTITY_ROLES if role in series.spelling}
        labels |= {label for label in series.labels if label.lower() in _UUID_LABELS}
        for label in sorted(labels):
            value = series.labels.get(label, "")
            if value and world.rules.names_nothing(value):
                return _finding(
                    world,
                    series,
                    Subject(**device.subject, label=label),
                    f'{device} is printed with {label}="{value}", which is a code for "no value"',
                    "a UUID, an instance id and a profile as nvidia-smi -L prints them",
                    "The exporter could not read the device: check that its NVML and DCGM match the driver of the node "
                    "(a MIG change needs a restart of the exporter), then restart it.",
                )
        if not series.gpu_instance and _PROFILE.match(series.profile):
            return _finding(
                world,
                series,
                Subject(**device.subject, label="GPU_I_ID"),
                f"{device} has the profile {series.profile} and no instance id: instances of one GPU can't be told apart",
                "an instance id (GPU_I_ID) on every series of a MIG instance",
                "Restart the exporter after the MIG change, and look for a relabelling that drops GPU_I_ID.",
            )
        if series.profile and (wrong := _wrong_profile(world, device.node, series.profile)):
            label = series.spelling.get("profile", "GPU_I_PROFILE")
            return _finding(
                world,
                series,
                Subject(**device.subject, label=label),
                f'{device} has {label}="{series.profile}"; the node offers {wrong}',
                f"one of the profiles that the node offers: {wrong}",
                "The exporter computes the profile name itself and rounds the memory differently: upgrade dcgm-exporter, and "
                "until then join on UUID and GPU_I_ID, never on the profile.",
            )
    return None


def _profiles(world: World, node: str) -> frozenset[str]:
    """MIG profiles that the node offers, as its resource names (mixed) or its product label (single) say."""
    found = world.nodes.get(node)
    if found is None:
        return frozenset()
    mixed = {r.rpartition("mig-")[2] for r, n in found.capacity.items() if "mig-" in r and n}
    products = [found.labels.get(label, "") for label in world.rules.product_labels]
    single = {p.rpartition("-MIG-")[2].removesuffix("-SHARED") for p in products if "-MIG-" in p}
    return frozenset(_plain_profile(p) for p in mixed | single)


def _plain_profile(profile: str) -> str:
    """A profile without its attributes: `1g.10gb+me` and the resource name's `1g.10gb.me` are `1g.10gb`."""
    match = _PROFILE.match(profile.strip().lower())
    return match.group() if match else profile.strip().lower()


def _wrong_profile(world: World, node: str, profile: str) -> str:
    """The profiles of the node as text, where the printed one is none of them; "" where all is well or unknown."""
    offered = _profiles(world, node)
    plain = _plain_profile(profile)
    if not offered or plain in offered or world.rules.names_nothing(profile) or not _PROFILE.match(plain):
        return ""
    return ", ".join(sorted(offered))


def _nameless(world: World, readings: Iterable[DeviceReading]) -> Iterator[Finding]:
    """Series with a value of a GPU and no label that says which GPU."""
    seen: set[tuple[str, str]] = set()
    for reading in readings:
        series = reading.source
        if series.gpu or (series.job, series.instance) in seen or reading.concept not in world.rules.load_concepts:
            continue
        seen.add((series.job, series.instance))
        node = {"node": series.node} if series.node else {}
        yield _finding(
            world,
            series,
            Subject(**node, job=series.job, target=series.instance, metric=reading.metric),
            f"{reading.metric} of target {series.instance} has no UUID, no index and no device name",
            "a UUID on every device series",
            "Look for a relabelling (labeldrop) that takes the device labels away, or an exporter that could not read them.",
        )


def _ambiguous_index(world: World) -> Iterator[Finding]:
    """An index alone: GPU 0 of which machine, or a device whose UUID is empty among others that have one."""
    with_uuid = {n.series.job for d in world.devices.values() if not _INDEX.fullmatch(d.key[1]) for n in d.names}
    for device in world.devices.values():
        if not _INDEX.fullmatch(device.key[1]):
            continue
        targets = {(n.series.job, n.series.instance) for n in device.names}
        if any(job in with_uuid for job, _ in targets):
            yield _finding(
                world,
                device.names[0].series,
                Subject(**device.subject),
                f"{device} has no UUID, while other devices of its job have one; an index changes with a reboot or a reset",
                "a UUID on every device series",
                "The exporter could not read the device: look for XIDs and a lost device on the node (nvidia-smi -L), and restart it.",
            )
            continue
        if device.node or len(targets) < 2:
            continue
        yield _finding(
            world,
            device.names[0].series,
            Subject(**device.subject, job=device.names[0].series.job),
            f"{len(targets)} targets print a device {device.gpu} without a UUID and without a node",
            "a UUID, or an index with the node it belongs to",
            "Restore the UUID label, or attach the node to the targets (relabel __meta_kubernetes_pod_node_name to node).",
        )


def _service_targets(world: World) -> Iterator[Finding]:
    """One target behind which several nodes answer in turn: a Service instead of the Pods."""
    nodes: dict[tuple[str, str], set[str]] = defaultdict(set)
    first: dict[tuple[str, str], DeviceSeries] = {}
    for device in world.devices.values():
        for naming in device.names:
            series = naming.series
            target = (series.job, series.instance)
            if series.target_pod:
                continue  # a Pod is one exporter, whatever its host label says
            first.setdefault(target, series)
            host = world.places.node_named(series.host)
            own = series.spelling.get("host", "").lower() in _OWN_HOST_LABELS
            nodes[target] |= {n for n in ((host if own else ""), series.node) if n}
    for target, seen in sorted(nodes.items()):
        series = first[target]
        own = series.spelling.get("host", "").lower() in _OWN_HOST_LABELS
        several = len(seen) > 1 and own
        if not (several or _is_service(world, series, seen)):
            continue
        listed = ", ".join(sorted(seen)) or "no node"
        yield _finding(
            world,
            series,
            Subject(job=series.job, target=series.instance, **({"node": next(iter(seen))} if len(seen) == 1 else {})),
            f"target {series.instance} of job {series.job} is no single exporter: it showed devices of {listed}",
            "one target for each exporter Pod, so that each scrape is of one known node",
            "Scrape the endpoints, not the Service: use a ServiceMonitor or PodMonitor, or kubernetes_sd_configs with role "
            "endpoints or pod, instead of the Service's name in static_configs.",
        )


def _is_service(world: World, series: DeviceSeries, seen: set[str]) -> bool:
    """Whether the instance is the name of a Service: a name, no machine, no Pod, and fewer nodes than exporters."""
    host = series.instance.partition("//")[2].partition("/")[0] or series.instance
    host = host.rpartition(":")[0] or host
    if not host or ":" in host or host.replace(".", "").isdigit():
        return False
    lowered = host.lower()
    if world.places.node_named(lowered) or lowered in world.pods_by_name or world.rules.no_machine(lowered):
        return False
    service = re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+(\.svc(\..+)?)?", lowered) is not None
    namespaces = {p.namespace for p in world.pod_list}
    inside = lowered.split(".")[1:2] and lowered.split(".")[1] in namespaces
    own = series.spelling.get("host", "").lower() in _OWN_HOST_LABELS
    exporters = {world.pods[key].node for key in world.exporters if key in world.pods and world.pods[key].node}
    return bool(service and inside and own and len(exporters | seen) > len(seen))


def _uuid_on_two_nodes(world: World, explained: set[str]) -> Iterator[Finding]:
    """One UUID, two machines: one of the two labels lies."""
    places: dict[str, list[Device]] = defaultdict(list)
    for device in world.devices.values():
        if device.node and not device.parent and not _INDEX.fullmatch(device.key[1]) and not world.rules.names_nothing(device.gpu):
            places[device.key[1] + "/" + device.instance].append(device)
    for devices in places.values():
        targets = {n.series.instance for d in devices for n in d.names}
        if len({d.node for d in devices}) < 2 or targets & explained:
            continue
        nodes = ", ".join(sorted(d.node for d in devices))
        yield _finding(
            world,
            devices[0].names[0].series,
            Subject(gpu=devices[0].gpu, gpu_instance=devices[0].instance or None),
            f"GPU {devices[0].gpu} is shown on {nodes} at once",
            "a UUID on one node only",
            "Compare nvidia-smi -L on these nodes with the target labels: a relabelling gives the target the wrong node, or "
            "two targets reach one exporter.",
        )


def _hosts(world: World, explained: set[str]) -> tuple[list[Finding], list[Unjudged]]:
    findings: list[Finding] = []
    unjudged: dict[str, Unjudged] = {}
    for device in world.devices.values():
        for naming in device.names:
            series = naming.series
            label = series.spelling.get("host", "")
            if not label or not series.host or series.instance in explained:
                continue
            why, foreign = _wrong_host(world, series)
            if foreign:
                unjudged.setdefault(series.instance, Unjudged(Subject(job=series.job, target=series.instance, label=label), why))
            elif why:
                findings.append(_host_finding(world, device, series, label, why))
                break
    return findings, list(unjudged.values())


def _host_finding(world: World, device: Device, series: DeviceSeries, label: str, why: str) -> Finding:
    node = world.nodes.get(device.node)
    there = (Evidence("kubernetes", f"Node {node.name}", ", ".join(node.addresses), world.now),) if node else ()
    return finding(
        "hostname-wrong",
        Subject(**device.subject, label=label),
        Said(
            f'{label}="{series.host}" on {device}: {why}',
            f"the name of the node{f', {device.node}' if device.node else ''}",
            "Give the exporter its node's name: env NODE_NAME from fieldRef spec.nodeName (dcgm-exporter 3.1.6-3.1.3 or later "
            "prints it as the host), or hostNetwork; outside Kubernetes set no -r localhost, or upgrade to 4.8.3. Until then join on "
            "the target's node label.",
        ),
        (world.series_evidence(series), *there),
    )


def _wrong_host(world: World, series: DeviceSeries) -> tuple[str, bool]:
    """(what is wrong with the host label or "", whether the machine is one that can't be judged)."""
    host = series.host.lower()
    if world.rules.no_machine(host) or world.rules.names_nothing(host):
        return "every machine has that name", False
    named = world.places.node_named(host)
    if named:
        if series.node and named != series.node and series.node in world.nodes:
            return f"that is another node; the target runs on {series.node}", False
        return "", False
    if series.host == series.target_pod or host in world.pods_by_name:
        return "that is the name of a Pod", False
    if not world.nodes:
        return "no node is known to compare it with", True
    if series.host in world.pods_of_node:
        return f"Pods run on {series.host}, and it is not among the nodes", True
    if series.node in world.nodes or series.target_pod:
        return "no node of the cluster is called so", False
    return f"{series.host} is no node of this cluster, and nothing says which machine the target is", True
