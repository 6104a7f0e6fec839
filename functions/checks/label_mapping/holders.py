"""Whether every Pod that holds a device is named by one, and every busy device names somebody.

`pod-missing`, `dra-unverifiable` and `unattributed-use`. What a scrape fault, an absent device or a wrongly named
device explains is left to those findings; planned absence and Pods that have only just started are no faults.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from functions.checks.label_mapping.codes import Said, finding
from functions.checks.label_mapping.names import Names
from functions.checks.label_mapping.series import fold
from functions.checks.label_mapping.world import Device, World, pod_subject
from functions.contract.cluster import Pod, ResourceClaim, ResourceSlice
from functions.contract.facts import Fact, Missing
from functions.contract.findings import Evidence, Finding, Subject, Unjudged, Verdict
from functions.contract.report import instant

Allocated = tuple[str, str, str]


@dataclass
class Holders:
    """What the rules found. `waiting`: node -> Pods there that no series names, for whatever reason."""

    findings: list[Finding] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=dict)
    mapped: int = 0
    judged: int = 0
    young: int = 0
    planned: int = 0


@dataclass(frozen=True, slots=True)
class Claims:
    """ResourceClaims and what their devices are."""

    claims: Fact[tuple[ResourceClaim, ...]]
    slices: Fact[tuple[ResourceSlice, ...]]

    def held(self, pod: Pod, drivers: frozenset[str]) -> tuple[tuple[Allocated, ...] | None, str]:
        """The GPUs that a Pod's claims were given; None with the reason where that can't be told."""
        if isinstance(self.claims, Missing):
            return None, f"ResourceClaims are not known: {self.claims.detail}"
        by_name = {(c.namespace, c.name): c for c in self.claims.value}
        devices: list[Allocated] = []
        for name in pod.claims.values():
            claim = by_name.get((pod.namespace, name))
            if claim is None:
                return None, f"its ResourceClaim {name} was not found"
            if not claim.devices:
                return None, f"its ResourceClaim {name} has no allocation"
            devices += [d for d in claim.devices if d[0] in drivers or "gpu" in d[0]]
        return tuple(devices), ""

    def uuids(self, allocated: tuple[Allocated, ...]) -> tuple[str, ...]:
        """UUIDs of allocated devices, as their ResourceSlices have them; the parent's for a MIG device."""
        if isinstance(self.slices, Missing):
            return ()
        table = {(s.driver, s.pool, name): attributes for s in self.slices.value for name, attributes in s.devices.items()}
        found = []
        for device in allocated:
            plain = {k.rpartition("/")[2].lower(): v for k, v in table.get(device, {}).items()}
            if uuid := plain.get("parentuuid") or plain.get("uuid"):
                found.append(uuid)
        return tuple(found)


def judge_holders(world: World, names: Names, claims: Claims) -> Holders:
    """All Pods that hold a device, then all devices that are in use."""
    result = Holders()
    spare = dict(names.wrong)
    for pod in sorted(world.pod_list, key=lambda p: (p.node, p.namespace, p.name)):
        if pod.holds_gpu and not world.exempt(pod):
            _judge_pod(world, pod, names, claims, spare, result)
    for device in world.devices.values():
        if found := _unattributed(world, device, names, result):
            result.findings.append(found)
    return result


def _judge_pod(world: World, pod: Pod, names: Names, claims: Claims, spare: dict[str, int], result: Holders) -> None:
    key = (pod.namespace, pod.name)
    if key in names.mapped:
        result.mapped += 1
        result.judged += 1
        return
    allocated: tuple[Allocated, ...] | None = ()
    why = ""
    if not any(pod.gpus.values()):
        allocated, why = claims.held(pod, world.rules.claim_drivers)
        if allocated == ():
            return  # its claims are for other devices
    result.waiting[pod.node] = result.waiting.get(pod.node, 0) + 1
    if world.young(pod) or _ending(world, pod):
        result.young += 1
    elif planned(world, pod.node):
        result.planned += 1
    elif key in names.blamed:
        result.judged += 1
    elif reason := _explained(world, pod, spare):
        result.unjudged.append(Unjudged(pod_subject(pod, node=pod.node), reason))
    else:
        result.judged += 1
        result.findings.append(_missing(world, pod, claims, allocated, why))


def _ending(world: World, pod: Pod) -> bool:
    """Whether the Pod is on its way out: the kubelet may have given its device back already."""
    since = world.age(pod.deleted_at)
    return since is not None and since < world.youth


def planned(world: World, name: str) -> bool:
    """Whether absence on the node is planned: maintenance, driver upgrade, a node that is being taken away."""
    node = world.nodes.get(name)
    if node is None:
        return False
    upgrade = world.rules.driver_upgrade
    if any(t.key in world.rules.leaving_taints for t in node.taints):
        return True
    if node.labels.get(upgrade.label, "") not in upgrade.calm:
        return True
    if node.unschedulable and name not in world.on_node:
        return True
    marks = world.policy.planned
    return (
        any(_marked(node.labels, mark) for mark in marks.labels)
        or any(_marked(node.annotations, mark) for mark in marks.annotations)
        or any(t.key in marks.taints for t in node.taints)
    )


def _marked(values: Mapping[str, str], mark: str) -> bool:
    key, equals, value = mark.partition("=")
    return key in values and (not equals or values[key] == value)


def _explained(world: World, pod: Pod, spare: dict[str, int]) -> str:
    """Why another finding speaks for this Pod's absence, or why it can't be told; "" where neither is."""
    node = pod.node
    if (found := world.nodes.get(node)) and not found.ready:
        return f"node {node} is not ready: what is said of its Pods is old"
    if pod.deleted_at:
        return f"it has been due to end since {instant(pod.deleted_at)}; whether it still holds its device is not known"
    if down := world.down.get(node):
        return f"the target {down} of its node is down: see telemetry-gap/target-down"
    here = world.on_node.get(node, ())
    if not here:
        return f"no device series of node {node}: see telemetry-gap/node-uncovered"
    if spare.get(node, 0) > 0:
        spare[node] -= 0 if world.replicas(node) > 1 else max(1, sum(pod.gpus.values()))
        return f"a device of {node} names another Pod instead: see the finding on that device"
    if world.expected(node) > len(here) and all(d.named or d.busy is False for d in here):
        return f"node {node} shows fewer devices than it has: see telemetry-gap/device-missing"
    return ""


def _missing(world: World, pod: Pod, claims: Claims, allocated: tuple[Allocated, ...] | None, why: str) -> Finding:
    if allocated is None:
        return _unverifiable(world, pod, why, ())
    if not any(pod.gpus.values()):
        uuids = claims.uuids(allocated)
        seen = [d for d in world.on_node.get(pod.node, ()) if d.key[1] in {fold(u) for u in uuids}]
        if not seen:
            what = f"no series has its device {', '.join(uuids)}" if uuids else "no ResourceSlice says which UUID its device has"
            return _unverifiable(world, pod, what, allocated)
    here = world.on_node.get(pod.node, ())
    nameless = [d for d in here if not d.named] or list(here)
    return finding(
        "pod-missing",
        pod_subject(pod, node=pod.node),
        Said(
            f"{pod.namespace}/{pod.name} holds {_wants(pod, allocated)} on {pod.node}; {_what_is_named(here)}",
            f'a series of a device of {pod.node} with namespace="{pod.namespace}" and pod="{pod.name}"',
            _hint(world, pod, here),
        ),
        (world.pod_evidence(pod), *(world.series_evidence(d.names[0].series) for d in nameless[:2])),
    )


def _wants(pod: Pod, allocated: tuple[Allocated, ...]) -> str:
    if any(pod.gpus.values()):
        return ", ".join(f"{n} {r}" for r, n in pod.gpus.items() if n)
    return ", ".join("/".join(device) for device in allocated)


def _what_is_named(here: tuple[Device, ...]) -> str:
    others = sorted({n.pod for d in here for n in d.named})
    silent = sum(not d.named for d in here)
    busy = sum(d.busy is True for d in here if not d.named)
    text = f"{silent} of {len(here)} devices there name no Pod" + (f", {busy} of them busy" if busy else "")
    return text + (f"; the others name {', '.join(others[:4])}" if others else "")


def _hint(world: World, pod: Pod, here: tuple[Device, ...]) -> str:
    resources = [r for r, n in pod.gpus.items() if n]
    jobs = {n.series.job for d in here for n in d.names}
    job = ", ".join(sorted(jobs))
    named_here = any(d.named for d in here)
    odd = next((r for r in resources if not r.endswith("/gpu") and "/mig-" not in r), "")
    if not resources:
        when = "claim"
    elif odd:
        when = "other-resource"
    elif world.replicas(pod.node) > 1:
        when = "shared"
    elif any(d.instance for d in here) and not named_here:
        when = "mig"
    elif not jobs & world.jobs_that_name:
        when = "never-names"
    else:
        when = "one-lost" if named_here else "node-names-none"
    return world.rules.remedy(when).format(resource=odd or ", ".join(resources), job=job)


def _unverifiable(world: World, pod: Pod, what: str, allocated: tuple[Allocated, ...]) -> Finding:
    given = ", ".join("/".join(device) for device in allocated) or "unknown"
    return finding(
        "dra-unverifiable",
        pod_subject(pod, node=pod.node),
        Said(
            f"{pod.namespace}/{pod.name} on {pod.node} claims {', '.join(pod.claims.values())} (device {given}); {what}",
            "an allocated ResourceClaim, a ResourceSlice with the device's UUID, and a series of that UUID that names the Pod",
            "Let Telltale list ResourceClaims and ResourceSlices (resource.k8s.io), and set KUBERNETES_ENABLE_DRA=true on "
            "dcgm-exporter 4.8.3 or later, with a token that may list ResourceSlices.",
        ),
        (
            world.pod_evidence(pod),
            *(Evidence("kubernetes", f"ResourceClaim {pod.namespace}/{name}", given, world.now) for name in pod.claims.values()),
        ),
        verdict=Verdict.UNKNOWN,
    )


def _unattributed(world: World, device: Device, names: Names, holders: Holders) -> Finding | None:
    if device.parent or device.busy is not True or any(n.pod for n in device.names):
        return None
    if device.node not in world.nodes or holders.waiting.get(device.node) or planned(world, device.node):
        return None
    if not world.nodes[device.node].ready:
        return None
    if _recently_ended(world, device.node):
        return None
    here = world.holders(device.node)
    owners = ", ".join(f"{p.namespace}/{p.name}" for p in here[:4])
    short = _fewer_than_requested(world, names, device.node, here)
    around = f"the Pods that hold a GPU there ({owners}) are named on other devices" if owners else "no Pod there requests a GPU"
    return finding(
        "unattributed-use",
        Subject(**device.subject),
        Said(
            f"{device} is in use ({device.load}) and names no Pod; {around}",
            "the Pod that uses the device, or no use",
            (f"{short} requests more devices than name it: compare the kubelet's pod-resources list with the series. " if short else "")
            + "Look for the process on the node (nvidia-smi --query-compute-apps=pid,used_memory): a Pod without a GPU limit but with "
            "NVIDIA_VISIBLE_DEVICES, or a process outside Kubernetes. Give the Pod a limit, or take the device from it.",
        ),
        (world.series_evidence(device.names[0].series), *(world.pod_evidence(p) for p in here[:2])),
    )


def _recently_ended(world: World, node: str) -> bool:
    """Whether a Pod that held a GPU of the node ended so lately that its load may still be shown."""
    ended = (world.age(p.finished_at) for p in world.pods_of_node.get(node, ()) if p.finished and any(p.gpus.values()))
    return any(age is not None and age < world.youth for age in ended)


def _fewer_than_requested(world: World, names: Names, node: str, here: tuple[Pod, ...]) -> str:
    if world.replicas(node) > 1:
        return ""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for device in world.on_node.get(node, ()):
        for key in {n.key for n in device.named}:
            counts[key] += 1
    short = [p for p in here if (p.namespace, p.name) in names.mapped and 0 < counts[(p.namespace, p.name)] < sum(p.gpus.values())]
    return f"{short[0].namespace}/{short[0].name}" if short else ""
