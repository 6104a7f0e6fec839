"""Signals that must exist and exist nowhere: `field-absent`.

Required is what the policy demands, and what the cluster itself configures an exporter to export. A name that was
there in the baseline is lost, not absent; what its presence class excuses is no fault; and whether a field that needs
the profiling module could be there at all, nothing here can tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from functions.checks.impact import Users
from functions.checks.metric_rename.families import Families
from functions.checks.telemetry_gap.fields import Field, FieldList, field_lists
from functions.checks.telemetry_gap.lost import all_mig, ignored
from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import Part, World, finding, place
from functions.contract.cluster import ConfigMap
from functions.contract.findings import Evidence, Finding, Subject, Unjudged, Verdict
from functions.contract.telemetry import Body
from functions.knowledge.signals import SILENT, Presence, Signal


@dataclass(frozen=True)
class Demand:
    """Everything the judgement of required names rests on. `before` is None without a baseline."""

    world: World
    scrapes: Scrapes
    now: Families
    before: Families | None
    users: Users
    bodies: tuple[Body, ...] = ()


def judge_required(demand: Demand, configmaps: Iterable[ConfigMap] | None) -> Part:
    """Judge what the policy and the exporters' own field lists demand."""
    part = Part()
    world = demand.world
    _policy(demand, part)
    if configmaps is None or world.workload_list is None:
        return part
    for listed in field_lists(world.workload_list, configmaps, world.knowledge.devices.is_exporter_image):
        _configured(demand, listed, part)
    return part


def _names(families: Families) -> frozenset[str]:
    return frozenset(name for held in families.values() for family in held.values() for name in (family.name, *family.names))


def _policy(demand: Demand, part: Part) -> None:
    world, scrapes, users = demand.world, demand.scrapes, demand.users
    names, lost = _names(demand.now), _names(demand.before or {})
    signals = world.knowledge.signals
    for term in world.policy.signals.required:
        concept = signals.concept(term) or term
        spelled = signals.metrics(concept, world.policy.signals.rewrite)
        part.judged += 1
        if any(_stored(name, names) for name in spelled) or any(_stored(name, lost) for name in spelled):
            continue
        subject = Subject(metric=term)
        if scrapes.broken or scrapes.vanished_jobs:
            part.unjudged.append(Unjudged(subject, "not stored anywhere, but there are targets that can't be read; they may have it"))
            continue
        shown = ", ".join(spelled[:6]) + (", …" if len(spelled) > 6 else "")
        found = finding(
            "field-absent",
            subject,
            f"{term} is required by the policy and exists nowhere",
            observed=f"none of {shown} is stored",
            expected="the policy's signals.required names it",
            hint="Add the field to the exporter's list and see that no relabelling drops it, or take it out of signals.required.",
            evidence=[Evidence("prometheus", f'{{__name__=~"{"|".join(spelled[:6])}"}}', "no series", world.at)],
        )
        part.findings.append(users.weigh(found, users.of(spelled)))


def _stored(name: str, names: frozenset[str]) -> bool:
    return name in names or any(name + suffix in names for suffix in ("_bucket", "_count", "_sum", "_total"))


def _configured(demand: Demand, listed: FieldList, part: Part) -> None:
    world, scrapes = demand.world, demand.scrapes
    workload = listed.workload
    targets = [
        t
        for t in world.target_list or ()
        if (pod := world.pod_of(t)) and pod.namespace == workload.namespace and pod.workload == workload.ref
    ]
    subject = Subject(namespace=workload.namespace, workload=workload.ref)
    if listed.problem:
        part.unjudged.append(Unjudged(subject, f"its field list is not known: {listed.problem}"))
        return
    readable = [t for t in targets if t.up and place(t) not in scrapes.broken and not world.exempt(t)]
    if not readable:
        return  # what is wrong with its targets is told elsewhere, and what is not scraped is not missed
    jobs = sorted({t.job for t in readable})
    stored = frozenset(n for job in jobs for n in _names({job: demand.now.get(job, {})}))
    earlier = frozenset(n for job in jobs for n in _names({job: (demand.before or {}).get(job, {})}))
    absent: dict[str, tuple[Field, Signal | None]] = {}
    for row in listed.fields:
        signal = world.knowledge.signals.of(row.name, world.policy.signals.rewrite)
        spelled = {row.name, row.name.lower(), *(signal.spellings if signal else ())}
        spelled |= {stored_ + row.name for stored_ in world.policy.signals.rewrite}
        if row.type == "label":
            continue
        part.judged += 1
        if any(_stored(s, stored) or _stored(s, earlier) for s in spelled) or ignored(world, row.name):
            continue
        if not _excused(world, signal, jobs):
            absent[row.name] = (row, signal)
    for name, (row, signal) in absent.items():
        served = any(b.job in jobs and name in b.labels for b in demand.bodies)
        part.findings.append(_absent(demand, listed, jobs, row, signal, served=served))


def _excused(world: World, signal: Signal | None, jobs: list[str]) -> bool:
    """Whether a configured field may be absent by its nature."""
    if signal is None:
        return False
    if signal.presence & (SILENT | {Presence.HARDWARE}):
        return True
    return Presence.NOT_ON_MIG in signal.presence and all_mig(world, jobs)


def _absent(demand: Demand, listed: FieldList, jobs: list[str], row: Field, signal: Signal | None, *, served: bool) -> Finding:
    world, workload = demand.world, listed.workload
    profiling = signal is not None and Presence.NEEDS_PROFILING in signal.presence
    if served:
        hint = "The exporter prints it, so a metric relabelling drops it: allow it there, or take the field out of the list."
    elif profiling:
        hint = "Profiling fields need the DCP module, SYS_ADMIN and no other profiler on the GPU, and consumer GPUs have none: "
        hint += "read the exporter's log."
    else:
        hint = "Read the exporter's log at its start: it skips fields that its version or the GPU does not know, without an error."
    images = {str(c.get("image")) for c in (workload.template.get("spec") or {}).get("containers") or () if isinstance(c, dict)}
    found = finding(
        "field-absent",
        Subject(metric=row.name, job=jobs[0] if len(jobs) == 1 else None, namespace=workload.namespace, workload=workload.ref),
        f"{row.name} is configured and exists nowhere",
        observed=f"no series of it in job {', '.join(jobs)}; image {', '.join(sorted(images))}",
        expected=f"the exporter's own field list asks for it ({listed.origin})",
        hint=hint,
        verdict=Verdict.UNKNOWN if profiling and not served else Verdict.FAIL,
        evidence=[
            Evidence("kubernetes", f"ConfigMap/{listed.origin}", f"{row.name}, {row.type}", world.at),
            Evidence("prometheus", row.name, "no series", world.at),
        ],
    )
    return demand.users.weigh(found, demand.users.of([row.name]))
