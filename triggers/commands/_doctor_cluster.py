"""What `telltale doctor` says of Kubernetes: per kind what this account may do, and that it may do no more than it needs.

The server reviews itself (SelfSubjectAccessReview): nothing is read to find out, least of all a Secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from functions import wiring
from functions.evidence.kubernetes.errors import KubernetesError
from functions.evidence.kubernetes.kinds import KINDS
from functions.evidence.kubernetes.source import KubernetesSource
from functions.settings import Settings
from triggers.commands._doctor_line import Line, Status

_READ = ("get", "list")
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Need:
    """What is lost without a kind. `watched`: live events of it start audits. `needed`: without it little can be judged."""

    lost: str
    watched: bool = False
    needed: bool = True


_NEEDS = {
    "Node": _Need("device and node coverage", watched=True),
    "Pod": _Need("which Pod holds which device", watched=True),
    "Event": _Need("Events that start audits, and what was done in a postmortem", watched=True),
    "DaemonSet": _Need("rollouts of exporters", watched=True),
    "Deployment": _Need("rollouts of workloads", watched=True),
    "StatefulSet": _Need("rollouts of workloads", watched=True),
    "ReplicaSet": _Need("which Deployment a Pod belongs to"),
    "ControllerRevision": _Need("OnDelete rollouts"),
    "Job": _Need("batch workloads"),
    "CronJob": _Need("batch workloads"),
    "PodDisruptionBudget": _Need("what blocks a drain"),
    "ConfigMap": _Need("exporters' field lists, dashboards and experiments"),
    "ResourceClaim": _Need("devices under dynamic resource allocation", needed=False),
    "ResourceSlice": _Need("devices under dynamic resource allocation", needed=False),
    "PrometheusRule": _Need("rules that Prometheus' own API does not show", needed=False),
}
#: (verb, plural, group, subresource): what Telltale never does. Each that is allowed is more than it needs.
_NEVER = (
    ("get", "secrets", "", ""),
    ("list", "secrets", "", ""),
    ("create", "pods", "", ""),
    ("delete", "pods", "", ""),
    ("create", "pods", "", "exec"),
    ("create", "pods", "", "eviction"),
    ("patch", "nodes", "", ""),
    ("update", "configmaps", "", ""),
    ("patch", "daemonsets", "apps", ""),
    ("patch", "deployments", "apps", ""),
    ("*", "*", "*", ""),
)


async def lines(settings: Settings) -> list[Line]:
    """The server, each kind, and least privilege."""
    source = await wiring.object_source(settings)
    if source is None:
        return [Line(Status.FAIL, "kubernetes", "no KUBECONFIG and not in a cluster: everything of Kubernetes is unknown")]
    async with source:
        try:
            version = await source.server_version()
        except KubernetesError as error:
            return [Line(Status.FAIL, "kubernetes", f"{error.why}: {error.detail}")]
        slots = asyncio.Semaphore(_AT_ONCE)
        kinds = await asyncio.gather(*(_kind(source, kind, need, slots) for kind, need in _NEEDS.items()))
        return [Line(Status.OK, "kubernetes", f"{version} answers"), *kinds, await _least(source, slots)]


async def _kind(source: KubernetesSource, kind: str, need: _Need, slots: asyncio.Semaphore) -> Line:
    what = f"kubernetes {KINDS[kind].plural}"
    group = KINDS[kind].group
    verbs = (*_READ, "watch") if need.watched else _READ
    try:
        async with slots:
            if not KINDS[kind].version and await source.version_of(group) is None:
                return Line(Status.OK, what, f"{group} is not served here; there is nothing to judge")
            may = {verb: await source.can_i(verb, kind) for verb in verbs}
    except KubernetesError as error:
        return Line(Status.UNKNOWN, what, f"{error.why}: {error.detail}")
    allowed, denied = _said(v for v in verbs if may[v]), _said(v for v in verbs if not may[v])
    if not denied:
        return Line(Status.OK, what, f"may {allowed}, in every namespace")
    without = f"may not {denied}{f' (may {allowed})' if allowed else ''}"
    if all(may[verb] for verb in _READ):
        return Line(Status.WARN, what, f"{without}: `run` can't hear of changes; a sweep still sees them later")
    return Line(Status.FAIL if need.needed else Status.WARN, what, f"{without}: can't judge {need.lost}")


async def _least(source: KubernetesSource, slots: asyncio.Semaphore) -> Line:
    async def ask(verb: str, plural: str, group: str, part: str) -> str:
        async with slots:
            allowed = await source.may(verb, plural, group=group, part=part)
        return f"{verb} {plural}{f'/{part}' if part else ''}" if allowed else ""

    what = "kubernetes least privilege"
    try:
        more = [text for text in await asyncio.gather(*(ask(*never) for never in _NEVER)) if text]
    except KubernetesError as error:
        return Line(Status.UNKNOWN, what, f"{error.why}: {error.detail}")
    if not more:
        return Line(Status.OK, what, "may not read Secrets and may not write")
    return Line(Status.WARN, what, f"this account may do more than Telltale ever does: {', '.join(more)}")


def _said(verbs: Iterable[str]) -> str:
    return ", ".join(verbs)
