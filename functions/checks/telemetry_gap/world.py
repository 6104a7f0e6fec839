"""What telemetry-gap looks at, put together once: targets with their nodes and Pods, nodes, and what is planned.

Nothing is judged here. Lookups answer with what the facts say, and say so where a fact is missing: a `None` table
means that nobody knows, an empty one that there is nothing.
"""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from functions.checks.clusters import own
from functions.contract.cluster import Node, Pod, Workload
from functions.contract.facts import Fact, Known, Missing, Why, Windows
from functions.contract.findings import Evidence, Finding, Severity, Subject, Unjudged, Verdict
from functions.contract.policy import Policy
from functions.contract.report import instant
from functions.contract.telemetry import DeviceSeries, Target
from functions.places import Places

if TYPE_CHECKING:
    from functions.knowledge import Knowledge

T = TypeVar("T")

CHECK = "telemetry-gap"
#: Seconds between two scrapes, and until a scrape is given up, where no target says (defaults of Prometheus).
INTERVAL = 60.0
TIMEOUT = 10.0
#: Seconds after which Prometheus no longer shows a series that got no sample (its look-back).
LOOKBACK = 300.0
#: kind -> what its controller puts behind its own name to name a Pod
_SUFFIX: Mapping[str, re.Pattern[str]] = defaultdict(
    lambda: re.compile(r"[a-z0-9]+"),
    Deployment=re.compile(r"[a-z0-9]{3,10}-[a-z0-9]{2,5}"),
    StatefulSet=re.compile(r"\d+"),
    CronJob=re.compile(r"\d+-[a-z0-9]{2,5}"),
)
#: Seconds in which a new Pod or node need not be scraped yet.
SETTLE = 600.0


def known(fact: Fact[T]) -> T | None:
    """The value of a fact, or None."""
    return fact.value if isinstance(fact, Known) else None


def unjudged(fact: Fact[T], what: str, quiet: Iterable[Why] = ()) -> tuple[Unjudged, ...]:
    """One unjudged subject for a missing fact, unless it is missing for a reason that makes the question moot."""
    if isinstance(fact, Missing) and fact.why not in tuple(quiet):
        return (Unjudged(Subject(), f"{what}: {fact.detail} ({fact.why})"),)
    return ()


@dataclass
class Part:
    """What one group of codes found. Mutable while it is being filled; the check joins the parts."""

    findings: list[Finding] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    judged: int = 0

    def add(self, other: Part) -> None:
        self.findings += other.findings
        self.unjudged += other.unjudged
        self.judged += other.judged


def finding(  # noqa: PLR0913 - the parts of a finding are what they are
    code: str,
    subject: Subject,
    title: str,
    *,
    observed: str,
    expected: str,
    hint: str,
    severity: Severity = Severity.WARNING,
    verdict: Verdict = Verdict.FAIL,
    evidence: Iterable[Evidence] = (),
) -> Finding:
    """A finding of this check."""
    return Finding(
        code=f"{CHECK}/{code}",
        title=title,
        observed=observed,
        expected=expected,
        hint=hint,
        subject=subject,
        severity=severity,
        verdict=verdict,
        evidence=tuple(evidence),
    )


def place(target: Target) -> tuple[str, str]:
    """What identifies a target: job and instance."""
    return (target.job, target.instance)


@dataclass(frozen=True)
class World:
    """Everything the parts of the check share. Tables are None where their fact is missing."""

    windows: Windows
    policy: Policy
    knowledge: Knowledge
    target_list: tuple[Target, ...] | None
    before_list: tuple[Target, ...] | None
    pod_list: tuple[Pod, ...] | None
    node_list: tuple[Node, ...] | None
    workload_list: tuple[Workload, ...] | None
    device_list: tuple[DeviceSeries, ...] | None
    earlier_pods: tuple[Pod, ...] = ()
    #: when the targets were listed, where a server was asked after `windows.current`
    listed_at: datetime | None = None

    @cached_property
    def at(self) -> str:
        return instant(self.windows.current) or ""

    @cached_property
    def targets(self) -> Mapping[tuple[str, str], Target]:
        return {place(t): t for t in self.target_list or ()}

    @cached_property
    def pods(self) -> Mapping[tuple[str, str], Pod]:
        return {(p.namespace, p.name): p for p in self.pod_list or ()}

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        return {n.name: n for n in self.node_list or ()}

    @cached_property
    def _places(self) -> Places:
        return Places(self.node_list or (), self.pod_list or (), self.knowledge.devices)

    @cached_property
    def _nodes_of_devices(self) -> Mapping[tuple[str, str], frozenset[str]]:
        grouped: dict[tuple[str, str], set[str]] = defaultdict(set)
        for series in self.device_list or ():
            if series.node:
                grouped[(series.job, series.instance)].add(series.node)
        return {k: frozenset(v) for k, v in grouped.items()}

    @cached_property
    def device_jobs(self) -> frozenset[str]:
        """Jobs that tell about devices now."""
        return frozenset(s.job for s in self.device_list or ())

    def pod_of(self, target: Target) -> Pod | None:
        """The Pod behind a target: by its target labels, else by its address."""
        return self._places.pod_of(target.labels, target.instance)

    def node_of(self, target: Target) -> str:
        """The node behind a target; "" where nothing tells."""
        for label in self.knowledge.devices.target_node:
            value = target.labels.get(label, "")
            if label != "instance" and value:
                return self._places.node_named(value) or value
        if (pod := self.pod_of(target)) and pod.node:
            return pod.node
        seen = self._nodes_of_devices.get(place(target), frozenset())
        if len(seen) == 1:
            return next(iter(seen))
        return self._places.node_of(target.labels, target.instance)

    @cached_property
    def targets_on(self) -> Mapping[str, list[Target]]:
        """Node -> its targets."""
        grouped: dict[str, list[Target]] = defaultdict(list)
        for target in self.target_list or ():
            grouped[self.node_of(target)].append(target)
        return grouped

    @cached_property
    def exporters_on(self) -> Mapping[str, list[Pod]]:
        """Node -> its Pods with an exporter of devices."""
        grouped: dict[str, list[Pod]] = defaultdict(list)
        for pod in self.pod_list or ():
            if any(self.knowledge.devices.is_exporter_image(c.image) for c in pod.containers):
                grouped[pod.node].append(pod)
        return grouped

    def subject(self, target: Target, **more: str | None) -> Subject:
        """The subject of a scrape fault."""
        pod = self.pod_of(target)
        return Subject(
            node=self.node_of(target) or None,
            namespace=target.labels.get("namespace") or (pod.namespace if pod else None),
            pod=target.labels.get("pod") or (pod.name if pod else None),
            workload=(pod.workload or None) if pod else None,
            job=target.job,
            target=target.instance,
            **more,
        )

    def exempt(self, target: Target) -> bool:
        """Whether the policy takes the target's namespace or workload out of every judgement."""
        namespace = target.labels.get("namespace", "")
        pod = self.pod_of(target)
        kind, _, name = (pod.workload if pod else "").partition("/")
        ref = f"{kind}/{namespace}/{name}"
        rules = self.policy.exempt
        return any(fnmatch.fnmatchcase(namespace, g) for g in rules.namespaces if namespace) or any(
            fnmatch.fnmatchcase(ref, g) for g in rules.workloads if name
        )

    def planned(self, node_name: str) -> str:
        """Why absence on this node is planned; "" where it is not."""
        node = self.nodes.get(node_name)
        if node is None:
            return ""
        if node.unschedulable:
            return "the node is cordoned"
        upgrade = self.knowledge.mapping.driver_upgrade
        if (state := node.labels.get(upgrade.label, "")) not in upgrade.calm:
            return f"its driver is being upgraded ({state})"
        if any(node.capacity.values()) and not any(node.allocatable.get(r, 0) for r in node.capacity):
            return "none of its devices is offered (allocatable 0)"
        if leaving := [t.key for t in node.taints if t.key in self.knowledge.mapping.leaving_taints]:
            return f"it is being taken away ({leaving[0]})"
        marks = self.policy.planned
        marked = [m for m in marks.labels if _marked(node.labels, m)] + [m for m in marks.annotations if _marked(node.annotations, m)]
        marked += [t.key for t in node.taints if t.key in marks.taints]
        return f"it is marked with {marked[0]}" if marked else ""

    def young(self, created: datetime | None) -> bool:
        """Whether something is too new to have been scraped for sure."""
        return created is not None and self.windows.current - created < timedelta(seconds=SETTLE)

    @cached_property
    def _in_namespace(self) -> Mapping[str, list[Workload]]:
        grouped: dict[str, list[Workload]] = defaultdict(list)
        for workload in self.workload_list or ():
            grouped[workload.namespace].append(workload)
        return grouped

    @cached_property
    def _workloads(self) -> Mapping[tuple[str, str], Workload]:
        return {(w.namespace, w.ref): w for w in self.workload_list or ()}

    @cached_property
    def _earlier(self) -> Mapping[tuple[str, str], Pod]:
        return {(p.namespace, p.name): p for p in self.earlier_pods}

    def workload_of(self, target: Target) -> Workload | None:
        """The workload, as it is now, that a target's Pod belongs or belonged to.

        Where the Pod is gone and nobody saw it, its name tells: a controller's name and a suffix of its kind.
        """
        namespace, name = target.labels.get("namespace", ""), target.labels.get("pod", "")
        pod = self.pod_of(target) or self._earlier.get((namespace, name))
        if pod is not None:
            return self._workloads.get((pod.namespace, pod.workload))
        made = [
            w
            for w in self._in_namespace.get(namespace, ())
            if name.startswith(f"{w.name}-") and _SUFFIX[w.kind].fullmatch(name[len(w.name) + 1 :])
        ]
        return max(made, key=lambda w: len(w.name), default=None)


def of_cluster(world: World, cluster: str) -> tuple[World, tuple[Unjudged, ...]]:
    """The same less what a store that is shared holds of other clusters."""
    labels = world.knowledge.devices.clusters
    devices, unsure = own(world.device_list or (), lambda s: s.labels, lambda s: s.node in world.nodes, labels, cluster)
    targets, _ = own(world.target_list or (), lambda t: t.labels, lambda t: world.node_of(t) in world.nodes, labels, cluster)
    before, _ = own(world.before_list or (), lambda t: t.labels, lambda t: world.node_of(t) in world.nodes, labels, cluster)
    if (devices, targets, before) == (world.device_list or (), world.target_list or (), world.before_list or ()):
        return world, unsure
    return (
        replace(
            world,
            device_list=None if world.device_list is None else devices,
            target_list=None if world.target_list is None else targets,
            before_list=None if world.before_list is None else before,
        ),
        unsure,
    )


def _marked(values: Mapping[str, str], mark: str) -> bool:
    key, equals, value = mark.partition("=")
    return key in values and (not equals or values[key] == value)


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def short(text: str, limit: int = 200) -> str:
    """One line, cut visibly."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
