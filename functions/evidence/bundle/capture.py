"""A live cluster written down as a bundle that, audited offline, gives the findings of the live audit.

What is written: the series of the jobs that matter, as they are stored at both instants; their targets; the loaded
rules; dashboards; the Kubernetes objects an audit reads, without values that may be secret. Never Secrets. A bundle
has bounds; what did not fit, or could not be read, is named in the result and in bundle.yaml, and a job that was cut
is not among the bundle's `jobs`, so that nothing about it is judged by its absence. Rules about other jobs are
unjudged offline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from functions.contract.facts import Facts, Known, Missing, Windows
from functions.contract.policy import Policy
from functions.contract.rules import Matcher
from functions.contract.signals import CLUSTER, Scope, Trigger
from functions.contract.telemetry import MetricSchema, Row
from functions.evidence.bundle import texts
from functions.evidence.gather import gather
from functions.evidence.inventory import EXPERIMENT, WORKLOAD_KINDS, Inventory
from functions.evidence.masking import Masks
from functions.evidence.questions import Question
from functions.evidence.sources import MetricSource, ObjectSource
from functions.evidence.watched import DASHBOARD_LABEL
from functions.knowledge import Knowledge

_NEEDS = frozenset({"targets", "targets_before", "schema", "schema_before", "rules", "configmaps"})
_KINDS = ("Node", "Pod", *WORKLOAD_KINDS, "ControllerRevision", "PodDisruptionBudget", "Event", "ResourceClaim", "ResourceSlice")


class CaptureError(Exception):
    """The bundle can't be written; the message is for a person."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a bundle."""

    series: int = 500_000
    bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class About:
    """What the bundle says of itself."""

    cluster: str
    windows: Windows
    trigger: Trigger | None = None
    scope: Scope = CLUSTER


@dataclass(slots=True)
class Captured:
    """What was written, and what was not: (what, why)."""

    files: dict[str, str] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    jobs: set[str] = field(default_factory=set)
    series: int = 0
    size: int = 0

    def add(self, name: str, text: str, limits: Limits) -> None:
        """Take a file in, or note that it does not fit."""
        if self.size + len(text) > limits.bytes:
            self.left_out.append((name, f"the bundle would be larger than {limits.bytes} bytes"))
            return
        self.size += len(text)
        self.files[name] = text


async def capture(
    metrics: MetricSource | None,
    objects: ObjectSource | None,
    out_dir: Path,
    *,
    about: About,
    knowledge: Knowledge,
    policy: Policy,
    dashboards: Sequence[tuple[str, str]] = (),
    limits: Limits = Limits(),
) -> Captured:
    """Write a bundle. Raises CaptureError where the directory can't be written or is not empty."""
    _empty(out_dir)
    masks = Masks(policy.masks)
    bundle = Captured()
    facts = await gather(
        metrics, objects, windows=about.windows, needs=_NEEDS, scope=about.scope, knowledge=knowledge, policy=policy, cluster=about.cluster
    )
    if metrics:
        await _metrics(metrics, facts, bundle, masks, limits)
    if objects:
        await _objects(Inventory(objects, about.scope, knowledge.devices, about.windows.current), facts, bundle, masks, limits)
    for number, (_, text) in enumerate(dashboards):
        bundle.add(f"dashboards/file-{number}.json", masks.text(text), limits)
    bundle.files["bundle.yaml"] = _description(about, policy, bundle)
    await asyncio.to_thread(_write, out_dir, bundle.files)
    return bundle


async def _metrics(metrics: MetricSource, facts: Facts, bundle: Captured, masks: Masks, limits: Limits) -> None:
    moments = [("after", facts.windows.current, "targets", "schema")]
    if facts.windows.baseline:
        moments.insert(0, ("before", facts.windows.baseline, "targets_before", "schema_before"))
    for window, at, target_fact, schema_fact in moments:
        targets, schema = facts.fact(target_fact), facts.fact(schema_fact)
        for name, fact in ((target_fact, targets), (schema_fact, schema)):
            if isinstance(fact, Missing):
                bundle.left_out.append((f"metrics/{window}", f"{name}: {fact.detail}"))
        if isinstance(targets, Known):
            bundle.add(f"targets/{window}.json", texts.targets(targets.value, masks), limits)
        if isinstance(targets, Known) and isinstance(schema, Known):
            jobs = sorted({t.job for t in targets.value} | {m.job for m in schema.value})
            await _series(metrics, window, at, jobs, schema.value, bundle, masks, limits)
    if isinstance(facts.rules, Known):
        bundle.add("rules/loaded.yaml", texts.rules(facts.rules.value, masks), limits)
    else:
        bundle.left_out.append(("rules", facts.rules.detail))


async def _series(
    metrics: MetricSource,
    window: str,
    at: datetime,
    jobs: Sequence[str],
    schema: Sequence[MetricSchema],
    bundle: Captured,
    masks: Masks,
    limits: Limits,
) -> None:
    """One file a job, smallest jobs first, as long as the bounds allow."""
    sizes = {job: sum(m.series for m in schema if m.job == job) for job in jobs}
    for job in sorted(jobs, key=lambda j: (sizes[j], j)):
        name = f"metrics/{window}/{_file_name(job)}.prom"
        if bundle.series + sizes[job] > limits.series:
            _cut(bundle, job, f"{sizes[job]} series, more than the bound of {limits.series} leaves room for")
            continue
        answer = await metrics.ask(Question("series", where=(Matcher("job", "=", job),)), at)
        if isinstance(answer, Missing):
            _cut(bundle, job, answer.detail)
            continue
        rows: tuple[Row, ...] = answer.value
        bundle.series += len(rows)
        bundle.add(name, texts.prom(rows, [m for m in schema if m.job == job], masks), limits)
        if name in bundle.files and (job, True) not in _cuts(bundle):
            bundle.jobs.add(job)
        else:
            _cut(bundle, job, "its series do not fit")


def _cuts(bundle: Captured) -> set[tuple[str, bool]]:
    return {(what.removeprefix("job "), True) for what, _ in bundle.left_out if what.startswith("job ")}


def _cut(bundle: Captured, job: str, why: str) -> None:
    """A job that is incomplete at one instant is left out at both: half of it would read as a loss."""
    bundle.jobs.discard(job)
    for window in ("before", "after"):
        bundle.files.pop(f"metrics/{window}/{_file_name(job)}.prom", None)
    if (job, True) not in _cuts(bundle):
        bundle.left_out.append((f"job {job}", why))


async def _objects(inventory: Inventory, facts: Facts, bundle: Captured, masks: Masks, limits: Limits) -> None:
    listed = await asyncio.gather(*(inventory.raw(kind) for kind in _KINDS))
    for kind, answer in zip(_KINDS, listed, strict=True):
        if isinstance(answer, Missing):
            bundle.left_out.append((f"kubernetes {kind}", answer.detail))
        elif answer.value:
            bundle.add(f"kubernetes/{kind.lower()}s.json", texts.objects(answer.value, masks), limits)
    if isinstance(facts.configmaps, Known):
        held = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": c.name, "namespace": c.namespace, "labels": dict(c.labels)},
                "data": dict(c.data),
            }
            for c in facts.configmaps.value
        ]
        if held:
            bundle.add("kubernetes/configmaps.json", texts.objects(held, masks), limits)
    else:
        bundle.left_out.append((f"kubernetes ConfigMap ({EXPERIMENT}, exporters)", facts.configmaps.detail))
    boards = await inventory.raw("ConfigMap", labels=DASHBOARD_LABEL)
    if isinstance(boards, Missing):
        bundle.left_out.append(("dashboards", boards.detail))
        return
    for raw in boards.value:
        for key, text in (raw.get("data") or {}).items():
            if str(key).endswith(".json"):
                metadata = raw["metadata"]
                name = _file_name(f"{metadata.get('namespace', '')}-{metadata.get('name', '')}-{str(key).removesuffix('.json')}")
                bundle.add(f"dashboards/{name}.json", masks.text(str(text)), limits)


def _description(about: About, policy: Policy, bundle: Captured) -> str:
    windows = about.windows
    held: dict[str, Any] = {"cluster": about.cluster, "current": windows.current.isoformat()}
    if windows.baseline and any(name.startswith("metrics/before/") for name in bundle.files):
        held["baseline"] = windows.baseline.isoformat()
    if about.trigger:
        held["trigger"] = about.trigger.as_dict()
    held["jobs"] = sorted(bundle.jobs)
    stated: Mapping[str, Any] = policy.model_dump(mode="json", exclude_defaults=True, exclude={"masks"})
    if stated:
        held["policy"] = stated
    notes = "".join(f"# left out: {what}: {' '.join(why.split())}\n" for what, why in bundle.left_out)
    return yaml.safe_dump(held, sort_keys=False) + notes


def _file_name(text: str) -> str:
    """A name that any file system takes, different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", text)[:100] or "none"
    return plain if plain == text and not text.startswith(".") else f"{plain.lstrip('.')}-{sum(text.encode()) % 65536:04x}"


def _empty(out_dir: Path) -> None:
    try:
        if out_dir.exists() and (not out_dir.is_dir() or any(out_dir.iterdir())):
            raise CaptureError(f"{out_dir} is there and not empty")
    except OSError as error:
        raise CaptureError(f"{out_dir}: {error.strerror}") from None


def _write(out_dir: Path, files: Mapping[str, str]) -> None:
    try:
        for name, text in files.items():
            path = out_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CaptureError(f"{error.filename or out_dir}: {error.strerror}") from None
