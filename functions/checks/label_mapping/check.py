"""label-mapping: can a person go from a device to the Pod that uses it, and back?

Each device series is compared with the Pods, Nodes and claims of the cluster. What is missing behind a failed scrape
is `telemetry-gap`'s to tell, a changed spelling `metric-rename`'s. The rules are in the modules beside this; here are
the order and what was proven.
"""

from __future__ import annotations

from dataclasses import replace

from functions.checks.base import Check
from functions.checks.clusters import own
from functions.checks.label_mapping.codes import CODES
from functions.checks.label_mapping.holders import Claims, Holders, judge_holders
from functions.checks.label_mapping.identity import judge_identity
from functions.checks.label_mapping.names import Names, judge_names
from functions.checks.label_mapping.required import judge_required
from functions.checks.label_mapping.series import (
    current_series,
    find_exporters,
    load_of,
    names_of,
    once,
    order,
    put_together,
    uuids_by_index,
)
from functions.checks.label_mapping.values import judge_values
from functions.checks.label_mapping.world import World
from functions.contract.cluster import KubernetesEvent, Node, Pod, ResourceClaim, ResourceSlice
from functions.contract.facts import Fact, Known, Windows
from functions.contract.findings import Judgement
from functions.contract.policy import Policy
from functions.contract.telemetry import DeviceReading, DeviceSeries, MetricSchema, Target
from functions.contract.text import count_of
from functions.knowledge import Knowledge


def judge(  # noqa: PLR0913 - the parameters are the check's needs
    *,
    pods: tuple[Pod, ...],
    nodes: tuple[Node, ...],
    devices: tuple[DeviceSeries, ...],
    devices_before: Fact[tuple[DeviceSeries, ...]],
    readings: Fact[tuple[DeviceReading, ...]],
    targets: Fact[tuple[Target, ...]],
    events: Fact[tuple[KubernetesEvent, ...]],
    claims: Fact[tuple[ResourceClaim, ...]],
    slices: Fact[tuple[ResourceSlice, ...]],
    schema: Fact[tuple[MetricSchema, ...]],
    policy: Policy,
    knowledge: Knowledge,
    windows: Windows,
    cluster: str,
) -> Judgement:
    """Devices against Pods in both directions, then identities and values."""
    known_targets = targets.value if isinstance(targets, Known) else None
    before = devices_before.value if isinstance(devices_before, Known) else ()
    if isinstance(readings, Known):
        place = once(order)
        readings = replace(readings, value=tuple(sorted(readings.value, key=lambda r: (r.concept, r.metric, place(r.source)))))
    values = readings.value if isinstance(readings, Known) else ()
    names_here = frozenset(n.name for n in nodes)
    ours, others = own(devices, lambda s: s.labels, lambda s: s.node in names_here, knowledge.devices.clusters, cluster)
    series = tuple(sorted(current_series(ours, known_targets), key=order))
    uuids = uuids_by_index(series)
    exporters = find_exporters([*series, *before], pods, knowledge.devices)
    names = names_of(series, before, exporters)
    load = load_of(values, knowledge.mapping, knowledge.signals, policy.signals.rewrite, uuids)
    world = World(
        at=windows.current,
        policy=policy,
        rules=knowledge.mapping,
        spellings=knowledge.devices,
        pod_list=pods,
        node_list=nodes,
        devices=put_together(names, load, uuids),
        targets=known_targets,
        exporters=exporters,
        jobs=frozenset(s.job for s in (*series, *before)),
    )
    named = judge_names(world, events.value if isinstance(events, Known) else None)
    held = judge_holders(world, named, Claims(claims, slices))
    identity, foreign = judge_identity(world, values)
    counted, uncounted = judge_values(world, names, readings, uuids)
    required, unread = judge_required(world, schema, knowledge.signals)
    return Judgement(
        findings=(*named.findings, *held.findings, *identity, *counted, *required),
        judged=named.judged + held.judged,
        unjudged=(*others, *named.unjudged, *held.unjudged, *foreign, *uncounted, *unread),
        proven=_proven(world, named, held),
    )


def _proven(world: World, names: Names, holders: Holders) -> str:
    """What was shown, in a few words."""
    silent = sum(not d.named for d in world.devices.values() if not d.parent)
    nodes = len({d.node for d in world.devices.values() if d.named and d.node})
    parts = []
    if names.right:
        where = f" on {count_of(nodes, 'node')}" if nodes else ""
        verb = "names the Pod that holds it" if names.right == 1 else "name the Pods that hold them"
        parts.append(f"{count_of(names.right, 'device')}{where} {verb}")
    if names.right and silent:
        parts.append(f"{silent} name{'s' * (silent == 1)} none")
    if holders.mapped:
        total = holders.mapped + sum(holders.waiting.values())
        parts.append(f"{holders.mapped} of {count_of(total, 'GPU Pod')} found")
    if holders.young:
        parts.append(f"{holders.young} too young, or ending, to be named")
    if holders.planned:
        parts.append(f"{holders.planned} on nodes under planned work")
    return ", ".join(parts)


CHECK = Check(
    id="label-mapping",
    title="Devices and Pods find each other",
    summary="Every device that somebody uses names the right node, Pod and container, once, and every Pod that holds a device is named.",
    codes=CODES,
    judge=judge,
)
