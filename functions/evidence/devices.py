"""From stored rows to devices: which node, which GPU, and which workload's Pod a series names.

Exporters and pipelines spell labels differently; the spellings are knowledge (`devices.yaml`). Prometheus' collision
rule is undone here: a label that holds the target's own Pod names no workload. Where `honor_labels` is not known (a
live server does not tell it) the job as a whole shows it: one `exported_pod` anywhere in it means that plain labels
are the target's. Nothing is judged; a series whose plain `pod` is its own exporter is given without a workload, and
its labels and `target_pod` say the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from functions.contract.cluster import Node, Pod
from functions.contract.policy import Policy
from functions.contract.telemetry import DeviceSeries, Row, Target
from functions.knowledge import Knowledge
from functions.knowledge.devices import ATTRIBUTION, ROLES, DeviceKnowledge, Family
from functions.places import Places

Labels = Mapping[str, str]
_Key = tuple[str, str]


def resolve(
    rows: Iterable[Row], targets: Iterable[Target], nodes: Sequence[Node], pods: Sequence[Pod], knowledge: Knowledge, policy: Policy
) -> tuple[DeviceSeries, ...]:
    """One `DeviceSeries` a row. Rows are grouped by identity and attribution labels; their value is a number of series."""
    held = [row for row in rows if not _other_entity(row.labels, knowledge.devices)]
    resolver = _Resolver(held, targets, Places(nodes, pods, knowledge.devices), knowledge.devices, policy)
    return tuple(map(resolver.device, held))


def _other_entity(labels: Labels, knowledge: DeviceKnowledge) -> bool:
    """Whether the series is about a link, a switch or a CPU."""
    return any(labels.get(name) for name in knowledge.other_entities)


@dataclass(frozen=True, slots=True)
class _Attached:
    """What is known of the labels that the target brings."""

    labels: Labels
    #: a target of that job and instance is known with more than these two labels
    known: bool
    honor: bool | None
    #: some series of the job carries `exported_…`, so that plain labels are the targets'
    collided: bool


class _Resolver:
    """Rows of one moment, resolved with what all of them together show."""

    def __init__(self, rows: Sequence[Row], targets: Iterable[Target], places: Places, knowledge: DeviceKnowledge, policy: Policy) -> None:
        self._places = places
        self._knowledge = knowledge
        self._targets = {(t.job, t.instance): t for t in targets}
        held = {label for row in rows for label in row.labels}
        self._spellings = {role: tuple(s for s in knowledge.spellings(role, policy) if s in held) for role in ROLES}
        self._aliases: Mapping[str, tuple[str, ...]] = {role: policy.labels.aliases.get(role, ()) for role in ATTRIBUTION}
        exported = [family.label(role) for family in knowledge.attribution if family.family == "exported" for role in ATTRIBUTION]
        self._collided = {row.labels.get("job", "") for row in rows if any(row.labels.get(name) for name in exported)}
        self._hosts = self._hosts_by_target(rows)
        self._common = _common(rows, knowledge.target_node)
        self._nodes: dict[_Key, str] = {}
        self._spelled: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def _hosts_by_target(self, rows: Sequence[Row]) -> dict[_Key, set[str]]:
        found: dict[_Key, set[str]] = {}
        for row in rows:
            if node := self._places.node_named(self._first("host", row.labels)[1]):
                found.setdefault(_key(row.labels), set()).add(node)
        return found

    def _first(self, role: str, labels: Labels) -> tuple[str, str]:
        return next(((name, value) for name in self._spellings[role] if (value := labels.get(name))), ("", ""))

    def device(self, row: Row) -> DeviceSeries:
        """One row."""
        job, instance = key = _key(row.labels)
        labels = {k: v for k, v in row.labels.items() if v and k not in ("job", "instance", "__name__")}
        target = self._targets.get(key)
        attached = _Attached(
            target.labels if target else {},
            target is not None and len(target.labels) > 2,
            target.honor_labels if target else None,
            job in self._collided,
        )
        spelled = {role: found for role in ROLES if (found := self._first(role, labels))[0]}
        if any(labels.get(whole.label, "").lower() == whole.value for whole in self._knowledge.whole_device):
            spelled.pop("gpu_instance", None)
            spelled.pop("profile", None)
        named = self._named(labels, attached)
        value = {role: text for role, (_, text) in {**spelled, **named}.items()}
        namespace, pod, container = self._target_pod(attached, labels, instance)
        return DeviceSeries(
            job=job,
            instance=instance,
            labels=labels,
            series=int(row.value),
            spelling=self._shared({role: name for role, (name, _) in {**spelled, **named}.items()}),
            node=self._node(key, attached, value.get("host", "")),
            gpu=value.get("gpu") or value.get("index", ""),
            gpu_instance=value.get("gpu_instance", ""),
            profile=value.get("profile", ""),
            host=value.get("host", ""),
            namespace=value.get("namespace", ""),
            pod=value.get("pod", ""),
            container=value.get("container", ""),
            target_namespace=namespace,
            target_pod=pod,
            target_container=container,
            honor_labels=attached.honor,
        )

    def _shared(self, spelling: dict[str, str]) -> Mapping[str, str]:
        """One object for equal spellings: nearly all devices have the same."""
        return self._spelled.setdefault(tuple(spelling.items()), spelling)

    # ------------------------------------------------------------------------------------------- the workload

    def _named(self, labels: Labels, attached: _Attached) -> dict[str, tuple[str, str]]:
        """role -> (label, value) of the workload that a series names; empty where it names no Pod."""
        alias = next((name for name in self._aliases["pod"] if labels.get(name)), "")
        family = next((f for f in self._knowledge.attribution if labels.get(f.pod) and not _targets_own(f, "pod", labels, attached)), None)
        if not alias and family is None:
            return {}
        pod = alias or (family.pod if family else "")
        found = {"pod": (pod, labels[pod])}
        for role in ("namespace", "container"):
            if label := self._beside(role, family, labels, attached):
                found[role] = (label, labels[label])
        return found

    def _beside(self, role: str, family: Family | None, labels: Labels, attached: _Attached) -> str:
        """The label of namespace or container that goes with the Pod's: of its family, else where the collision rule put it."""
        if alias := next((name for name in self._aliases[role] if labels.get(name)), ""):
            return alias
        families = [family] if family else []
        families += [f for f in self._knowledge.attribution if f.family == "exported" or (f.family == "plain" and attached.known)]
        for other in families:
            label = other.label(role)
            if labels.get(label) and not _targets_own(other, role, labels, attached):
                return label
        return ""

    def _target_pod(self, attached: _Attached, labels: Labels, instance: str) -> tuple[str, str, str]:
        """Namespace, Pod and container of the exporter, as far as target labels or its address tell."""
        own = attached.labels
        pod = self._places.pod_of(own, instance)
        if own.get("pod"):
            return own.get("namespace") or (pod.namespace if pod else ""), own["pod"], own.get("container", "")
        if pod:
            return pod.namespace, pod.name, own.get("container", "")
        if attached.collided and attached.honor is not True and not attached.known:
            return labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", "")
        return own.get("namespace", ""), "", own.get("container", "")

    # ----------------------------------------------------------------------------------------------- the node

    def _node(self, key: _Key, attached: _Attached, host: str) -> str:
        """The node of the device.

        An exporter speaks for the node it runs on, whatever its host label says. One that speaks for several nodes (or
        runs where no GPU is) is an aggregator: there the series tells.
        """
        if key not in self._nodes:
            # a stored view does not tell a target's labels apart, but every series of the target carries them
            self._nodes[key] = self._places.node_of(attached.labels if attached.known else self._common[key], key[1])
        runs_on, says = self._nodes[key], self._places.node_named(host)
        if not says or not runs_on or says == runs_on:
            return runs_on or says
        aggregates = len(self._hosts.get(key, ())) > 1
        elsewhere = self._places.has_gpus(says) and not self._places.has_gpus(runs_on)
        return says if aggregates or elsewhere else runs_on


def _key(labels: Labels) -> _Key:
    return labels.get("job", ""), labels.get("instance", "")


def _common(rows: Iterable[Row], names: Sequence[str]) -> dict[_Key, dict[str, str]]:
    """Of each target, those of the labels on whose value all its rows agree."""
    found: dict[_Key, dict[str, str]] = {}
    for row in rows:
        labels = {name: value for name in names if (value := row.labels.get(name))}
        held = found.setdefault(_key(row.labels), labels)
        if held is not labels:
            found[_key(row.labels)] = dict(held.items() & labels.items())
    return found


def _targets_own(family: Family, role: str, labels: Labels, attached: _Attached) -> bool:
    """Whether a plain label holds what the target brings, so that it names no workload."""
    if family.family != "plain":
        return False
    label = family.label(role)
    own = attached.labels.get(label, "")
    if attached.honor is False:
        return bool(own)
    if attached.honor is None and attached.collided:
        return labels[label] == own if own else not attached.known
    # Nothing tells the target's label from a workload's of the same name: for a Pod, that is its exporter's either way.
    return role == "pod" and bool(own) and labels[label] == own
