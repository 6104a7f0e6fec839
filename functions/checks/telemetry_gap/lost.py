"""Names that were stored in the baseline and are gone now, without a successor: `went-silent`.

What became of a name is decided in `metric_rename/successors.py`, for this check and for metric-rename alike; here are those that
nothing explains. An event that has not happened, a process that has only just started, a node that was split into MIG
instances are no loss. One finding a name; one for a job that is gone as a whole.
"""

from __future__ import annotations

import fnmatch
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from functions.checks.impact import Users
from functions.checks.metric_rename.families import Family
from functions.checks.metric_rename.successors import Loss, State, Succession
from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import Part, World, finding, place
from functions.contract.findings import Evidence, Finding, Subject, Unjudged, Verdict
from functions.contract.telemetry import Body, Target
from functions.knowledge.pipeline import SYNTHETIC
from functions.knowledge.signals import SILENT, Presence

#: Kinds that end by themselves: that their Pods are gone is no loss.
_ENDING = frozenset({"Job", "CronJob", "ReplicaSet"})


@dataclass(frozen=True)
class Losses:
    """Everything the judgement of lost names rests on."""

    world: World
    scrapes: Scrapes
    succession: Succession
    users: Users
    #: jobs that were looked at; None: every job
    jobs: frozenset[str] | None
    bodies: tuple[Body, ...] = ()
    #: names that recording rules write
    recorded: frozenset[str] = field(default_factory=frozenset)

    def targets_of(self, job: str) -> list[Target]:
        return [t for t in self.world.target_list or () if t.job == job]

    def before_of(self, job: str) -> list[Target]:
        return [t for t in self.world.before_list or () if t.job == job]

    def looked_at(self, job: str) -> bool:
        return bool(job) and (self.jobs is None or job in self.jobs)


def ignored(world: World, metric: str) -> bool:
    """Whether the policy never wants to hear of this name's absence."""
    signal = world.knowledge.signals.of(metric, world.policy.signals.rewrite)
    names = {metric, *((signal.name, signal.concept) if signal else ())}
    return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in world.policy.signals.ignore)


def all_mig(world: World, jobs: Iterable[str], instances: Iterable[str] | None = None) -> bool:
    """Whether every device that the jobs tell about is a MIG instance or the parent of one."""
    jobs, wanted = set(jobs), set(instances) if instances is not None else None
    devices = {s.device for s in world.device_list or () if s.job in jobs and (wanted is None or s.instance in wanted)}
    split = {(node, gpu) for node, gpu, instance in devices if instance}
    return bool(devices) and all((node, gpu) in split for node, gpu, _ in devices)


def judge_lost(losses: Losses) -> Part:
    """Judge every name of the baseline."""
    part = Part(judged=losses.succession.compared)
    for loss in losses.succession.of(State.SILENT):
        if losses.looked_at(loss.job) and not _no_loss(losses, loss.was.name) and not _by_mig(losses, loss):
            part.findings.append(_partial(losses, loss) if loss.partial else _silent(losses, loss))
    explained: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for job, name, why in losses.succession.explained:
        if losses.looked_at(job) and not _no_loss(losses, name):
            explained[job][why].append(name)
    for job, reasons in sorted(explained.items()):
        if not losses.succession.after.get(job):
            _job_gone(losses, job, losses.succession.before[job], part)
            continue
        broken = sorted(code for (j, _), code in losses.scrapes.broken.items() if j == job)
        for names in reasons.values():
            if broken:
                shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
                why = f"{shown}: a target that may still have it can't be read: see telemetry-gap/{broken[0]}"
                part.unjudged.append(Unjudged(Subject(job=job), why))
    return part


def _by_mig(losses: Losses, loss: Loss) -> bool:
    """Whether the name is gone because its devices were split, and no instance can have it."""
    presence = losses.world.knowledge.signals.presence(loss.was.name, losses.world.policy.signals.rewrite)
    return Presence.NOT_ON_MIG in presence and all_mig(losses.world, [loss.job], loss.lost_on or None)


def _no_loss(losses: Losses, name: str) -> bool:
    """Whether the absence of this name proves nothing, wherever it is."""
    presence = losses.world.knowledge.signals.presence(name, losses.world.policy.signals.rewrite)
    return name in SYNTHETIC or name in losses.recorded or bool(presence & SILENT) or ignored(losses.world, name)


def _job_gone(losses: Losses, job: str, families: Mapping[str, Family], part: Part) -> None:
    """No series of the job is left. Its targets say why, where they are known."""
    targets, earlier = losses.targets_of(job), losses.before_of(job)
    if job in losses.scrapes.vanished_jobs:
        return
    if losses.world.target_list is None:
        part.unjudged.append(Unjudged(Subject(job=job), "it has no series any more, and whether its targets can be read is not known"))
        return
    if targets:
        codes = {losses.scrapes.broken[place(t)] for t in targets if place(t) in losses.scrapes.broken}
        if codes:
            part.unjudged.append(Unjudged(Subject(job=job), f"its targets can't be read: see telemetry-gap/{min(codes)}"))
            return
        if all(place(t) in losses.scrapes.quiet for t in targets):
            return
    elif any(t.labels.get("pod") for t in earlier):
        if losses.world.pod_list is None:
            return  # told once, with the targets
        if not _wanted(losses.world, earlier):
            return  # the workload is gone or scaled to zero, and its telemetry with it
    names = sorted(families.keys() - SYNTHETIC)
    elsewhere = sorted(other for other, held in losses.succession.after.items() if other != job and set(names) <= held.keys())
    observed = f"{len(names)} metrics before ({', '.join(names[:5])}{', …' if len(names) > 5 else ''}), none now"
    if elsewhere:
        observed += f"; the same names live on in job {', '.join(elsewhere)}"
    impacts = losses.users.of((stored for name in names for stored in families[name].names), frozenset({job}))
    if any(other not in losses.succession.before for other in elsewhere):
        # the job has another name and lost nothing; only who asks for the old name is hit
        impacts = tuple(i for i in impacts if f'"{job}"' in i.expr)
        if not impacts:
            part.judged += 1
            return
    part.findings.append(
        losses.users.weigh(
            finding(
                "went-silent",
                Subject(job=job),
                f"job {job} has no series any more",
                observed=observed,
                expected="what was stored before the change is stored after it",
                hint=f"Follow the job's new name in rules and dashboards: {elsewhere[0]}."
                if elsewhere
                else "See whether the scrape configuration, ServiceMonitor or PodMonitor of the job was changed or deleted.",
                evidence=[Evidence("prometheus", f'count({{job="{job}"}})', "no series", losses.world.at)],
            ),
            impacts,
        )
    )


def _wanted(world: World, earlier: Iterable[Target]) -> bool:
    """Whether anything that the targets belonged to should still run."""
    for target in earlier:
        pod, workload = world.pod_of(target), world.workload_of(target)
        if pod and not pod.finished and not pod.deleted_at:
            return True
        if workload and workload.replicas != 0 and workload.kind not in _ENDING:
            return True
    return False


def _silent(losses: Losses, loss: Loss) -> Finding:
    world, family, job = losses.world, loss.was, loss.job
    served = [b for b in losses.bodies if b.job == job and any(n in b.labels for n in family.names)]
    if served:
        return _relabelled(losses, job, family, served[0])
    young = _lazy(losses, job, family)
    unsure = young or _unseen(losses)
    observed = f"{family.series} series on {family.targets or 'an unknown number of'} targets before, none now"
    if loss.elsewhere:
        observed += f"; it lives on in job {', '.join(loss.elsewhere)}"
    if unsure:
        observed += f"; {unsure}"
    return losses.users.weigh(
        finding(
            "went-silent",
            Subject(metric=family.name, job=job),
            f"{family.name} was there before and is gone",
            observed=observed,
            expected="what was stored before the change is stored after it, or has a successor",
            hint=_hint(world, loss, young),
            verdict=Verdict.UNKNOWN if unsure else Verdict.FAIL,
            evidence=[Evidence("prometheus", f'{{__name__=~"{"|".join(family.names)}", job="{job}"}}', "no series", world.at)],
        ),
        losses.users.of(family.names, frozenset({job})),
    )


def _unseen(losses: Losses) -> str:
    """Why the targets may yet explain the loss; "" where they are known."""
    return "" if losses.world.target_list is not None else "whether the targets that had it can be read is not known"


def _hint(world: World, loss: Loss, young: str) -> str:
    guesses = [f"{new} ({confidence:.0%})" for new, confidence in loss.candidates]
    hint = "Compare the exporter's field list and version with what ran before; a field can be dropped without a log line."
    if guesses:
        hint = f"Possible successors, none of them sure: {', '.join(guesses)}. {hint}"
    if loss.alternatives:
        hint += f" The same question is answered by {', '.join(loss.alternatives)}."
    if young:
        hint = f"Look again when something has been counted, or after {world.policy.windows.lazy / 60:.0f} min. {hint}"
    return hint


def _relabelled(losses: Losses, job: str, family: Family, body: Body) -> Finding:
    return losses.users.weigh(
        finding(
            "series-dropped",
            Subject(metric=family.name, job=job),
            f"{family.name} is served and no longer stored",
            observed=f"{body.instance} still prints it; {family.series} series were stored before, none now",
            expected="what the exporter serves is stored, as before",
            hint="A metric relabelling (metricRelabelings of the ServiceMonitor, or a write relabelling) drops it.",
            evidence=[Evidence("exposition", body.instance, family.name, losses.world.at)],
        ),
        losses.users.of(family.names, frozenset({job})),
    )


def _lazy(losses: Losses, job: str, family: Family, instances: Iterable[str] | None = None) -> str:
    """Why a counter may only not have counted yet; "" where that is no excuse."""
    world = losses.world
    if not family.counts_up or world.knowledge.signals.of(family.name, world.policy.signals.rewrite):
        return ""  # the catalogue knows that it is there from the start
    wanted = set(instances) if instances is not None else None
    ages = [_age(losses, t) for t in losses.targets_of(job) if wanted is None or t.instance in wanted]
    young = [age for age in ages if age is not None and age < world.policy.windows.lazy]
    if not young:
        return ""
    return f"its process started {min(young) / 60:.0f} min ago, and a counter may appear with its first count only"


def _age(losses: Losses, target: Target) -> float | None:
    """Seconds since the process behind a target started, where it started after the baseline; else None."""
    world = losses.world
    now, baseline = world.windows.current, world.windows.baseline
    pod = world.pod_of(target)
    starts = [c.started_at for c in pod.containers if c.started_at] if pod else []
    started = target.process_started or (max(starts).timestamp() if starts else None)
    if started is None and pod and pod.started_at:
        started = pod.started_at.timestamp()
    if started is None:
        replaced = world.before_list is not None and place(target) not in {place(t) for t in world.before_list}
        started = baseline.timestamp() if replaced and baseline else None
    if started is None or (baseline and started < baseline.timestamp()):
        return None
    return now.timestamp() - started


def _partial(losses: Losses, loss: Loss) -> Finding:
    """A name that some targets of a job lost: a canary, or one node pool."""
    world, family, job = losses.world, loss.was, loss.job
    lost, kept = sorted(loss.lost_on), sorted(loss.kept_on)
    nodes = Counter(world.node_of(t) for t in losses.targets_of(job) if t.instance in loss.lost_on)
    where = ", ".join(sorted(n for n in nodes if n))
    young = _lazy(losses, job, family, lost)
    return losses.users.weigh(
        finding(
            "went-silent",
            Subject(metric=family.name, job=job),
            f"{family.name} is gone from {len(lost)} of {len(lost) + len(kept)} targets of job {job}",
            observed=f"gone from {', '.join(lost[:5])}{', …' if len(lost) > 5 else ''}{f' ({where})' if where else ''}, "
            f"still on {', '.join(kept[:3])}{', …' if len(kept) > 3 else ''}{f'; {young}' if young else ''}",
            expected="every target of a job serves the same names, as before the change",
            hint=f"Compare image and field list of the exporter on these targets with the others. {_hint(world, loss, young)}",
            verdict=Verdict.UNKNOWN if young else Verdict.FAIL,
            evidence=[Evidence("prometheus", f'group by (instance) ({family.names[0]}{{job="{job}"}})', ", ".join(kept[:3]), world.at)],
        ),
        losses.users.of(family.names, frozenset({job})),
    )
