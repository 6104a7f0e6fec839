"""Targets that vanished from discovery although what they scraped still runs; and what broken targets explain.

A target that goes with its Pod is no fault: the Pods of the workload that was scraped, as they run now, decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from functions.checks.telemetry_gap.world import SETTLE, Part, World, finding, place
from functions.contract.cluster import Pod
from functions.contract.findings import Evidence, Finding, Subject, Unjudged
from functions.contract.telemetry import Target


@dataclass
class Scrapes:
    """What the targets say: findings, and what they explain."""

    part: Part = field(default_factory=Part)
    #: (job, instance) -> the code that explains what is missing there
    broken: dict[tuple[str, str], str] = field(default_factory=dict)
    #: (job, instance) -> why its absence is no fault: planned work, or a Pod that is gone
    quiet: dict[tuple[str, str], str] = field(default_factory=dict)
    #: node -> code
    broken_nodes: dict[str, str] = field(default_factory=dict)
    #: jobs whose targets are gone although their Pods run
    vanished_jobs: set[str] = field(default_factory=set)

    def explain(self, world: World, target: Target, code: str) -> None:
        self.broken[place(target)] = code
        if node := world.node_of(target):
            self.broken_nodes.setdefault(node, code)


def judge_vanished(world: World, scrapes: Scrapes) -> None:
    """Pods that run and were scraped before, they or their workload's, and are not scraped any more."""
    if world.target_list is None or not world.before_list:
        return
    if world.pod_list is None:
        gone = [t for t in world.before_list if place(t) not in world.targets and not world.exempt(t)]
        for job in sorted({t.job for t in gone} - {t.job for t in world.target_list}):
            scrapes.part.unjudged.append(Unjudged(Subject(job=job), "its targets are gone, and the Pods are not known"))
        return
    covered, covered_before = _covered(world, world.target_list), _covered(world, world.before_list)
    earlier_jobs = {t.job for t in world.before_list}
    moved = {pod for job, pod in covered if job not in earlier_jobs}  # a job that is new scrapes them: only its name changed
    stored = {(s.job, s.target_namespace, s.target_pod) for s in world.device_list or () if s.target_pod}
    for job, workloads in _scraped_workloads(world).items():
        scraped_now = any(t.job == job for t in world.target_list)
        for pod in world.pod_list:
            uid = pod.uid or pod.name
            if (pod.namespace, pod.workload) not in workloads or (job, uid) in covered:
                continue
            if (job, pod.namespace, pod.name) in stored or (not scraped_now and uid in moved):
                continue
            if _was_there(world, pod) and (job, uid) not in covered_before:
                continue  # its neighbours were scraped and it was not, as now
            if pod.phase != "Running" or not pod.ready or pod.deleted_at or world.young(pod.started_at or pod.created_at):
                continue
            scrapes.part.findings.append(_lost_from_discovery(world, job, pod, scraped_now))
            scrapes.broken_nodes.setdefault(pod.node, "target-down")
            if not scraped_now:
                scrapes.vanished_jobs.add(job)


def _covered(world: World, targets: Iterable[Target]) -> set[tuple[str, str]]:
    """(job, Pod) that have a target."""
    return {(t.job, pod.uid or pod.name) for t in targets if (pod := world.pod_of(t))}


def _was_there(world: World, pod: Pod) -> bool:
    """Whether a Pod was old enough in the baseline to have been scraped then."""
    began, baseline = pod.started_at or pod.created_at, world.windows.baseline
    return began is not None and baseline is not None and (baseline - began).total_seconds() >= SETTLE


def _scraped_workloads(world: World) -> dict[str, set[tuple[str, str]]]:
    """job -> (namespace, workload) that it scraped before."""
    found: dict[str, set[tuple[str, str]]] = {}
    for target in world.before_list or ():
        if world.exempt(target):
            continue
        pod, workload = world.pod_of(target), world.workload_of(target)
        if workload is not None:
            found.setdefault(target.job, set()).add((workload.namespace, workload.ref))
        elif pod is not None and pod.workload:
            found.setdefault(target.job, set()).add((pod.namespace, pod.workload))
    return found


def _lost_from_discovery(world: World, job: str, pod: Pod, scraped_now: bool) -> Finding:
    return finding(
        "target-down",
        Subject(node=pod.node or None, namespace=pod.namespace, pod=pod.name, workload=pod.workload or None, job=job),
        f"Pod {pod.namespace}/{pod.name} runs and is no longer scraped",
        observed=f"job {job} had a target for {pod.workload or pod.name} before; now "
        + ("it scrapes other Pods of it only" if scraped_now else "it has no target at all"),
        expected="each running Pod that was scraped has a target",
        hint="Compare the labels and port names of the Service and the Pod with the ServiceMonitor or PodMonitor, and see whether "
        "the monitor itself was deleted.",
        evidence=[Evidence("kubernetes", f"Pod/{pod.namespace}/{pod.name}", f"{pod.phase}, ready", world.at)],
    )
