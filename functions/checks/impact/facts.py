"""From the facts of an audit to the world that rules and dashboards are judged in, the same for every check that asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from functions.checks.impact import Users, World, counted, stored
from functions.checks.metric_rename.changes import Seen
from functions.contract.facts import MOOT, Fact, Known, Missing
from functions.contract.findings import Subject, Unjudged
from functions.contract.policy import Policy
from functions.contract.rules import Dashboard, Rule, SelectorCount
from functions.contract.telemetry import MetricSchema, Target
from functions.knowledge import Knowledge
from functions.knowledge.pipeline import SYNTHETIC
from functions.knowledge.signals import SILENT
from functions.promql import Changes, read_panel

#: Roles of labels that name a workload on a device.
_ATTRIBUTION = ("namespace", "pod", "container", "pod_uid")


@dataclass(frozen=True, slots=True)
class Watched:
    """What people look at, and how many series each selector of theirs finds."""

    rules: Fact[tuple[Rule, ...]]
    dashboards: Fact[tuple[Dashboard, ...]]
    selectors: Fact[tuple[SelectorCount, ...]]
    selectors_before: Fact[tuple[SelectorCount, ...]]

    @property
    def rules_known(self) -> tuple[Rule, ...]:
        return self.rules.value if isinstance(self.rules, Known) else ()

    @property
    def dashboards_known(self) -> tuple[Dashboard, ...]:
        return self.dashboards.value if isinstance(self.dashboards, Known) else ()

    def users(self, changes: Changes) -> Users:
        complete = isinstance(self.rules, Known) and isinstance(self.dashboards, Known)
        return Users(self.rules_known, self.dashboards_known, changes, complete=complete)

    def world(self, seen: Seen, changes: Changes, policy: Policy, knowledge: Knowledge, jobs: frozenset[str] | None) -> World:
        """Everything that the judgement of an expression rests on, but for what a broken target hides."""
        counts, before = (f.value if isinstance(f, Known) else None for f in (self.selectors, self.selectors_before))
        world = World(
            self.rules_known,
            changes,
            counted(counts),
            counted(before),
            stored(seen.schema),
            stored(seen.schema_before) or None,
            jobs,
            _gone_jobs(seen),
            frozenset(label for role in _ATTRIBUTION for label in knowledge.devices.spellings(role, policy)),
            lambda name: bool(knowledge.signals.presence(name, policy.signals.rewrite) & SILENT),
        )
        return replace(world, hidden=_hidden(world, seen))

    def unread(self) -> tuple[Unjudged, ...]:
        """What may use a changed name and can't be read: rules or dashboards as a whole, and parts of dashboards."""
        found = [
            Unjudged(Subject(), f"which {what} it breaks: {fact.detail} ({fact.why})")
            for what, fact in (("rules", self.rules), ("dashboards", self.dashboards))
            if isinstance(fact, Missing) and fact.why not in MOOT
        ]
        for board in self.dashboards_known:
            parts = [f"{where}: {problem}" for where, problem in board.unreadable]
            parts += [f"{q.where}: {error}" for q in board.queries if (error := read_panel(q).error)]
            if parts:
                more = f" and {len(parts) - 5} more" if len(parts) > 5 else ""
                subject = Subject(dashboard=board.title, uid=board.uid or None)
                found.append(Unjudged(subject, f"can't be read, so what it uses is not known: {'; '.join(parts[:5])}{more}"))
        return tuple(found)


def _gone_jobs(seen: Seen) -> frozenset[str]:
    """Jobs that scraped Pods before, have neither a target nor a series now, and don't live on under another name."""
    now, before = (f.value if isinstance(f, Known) else () for f in (seen.targets, seen.targets_before))
    names, earlier = _names_of(seen.schema), _names_of(seen.schema_before)
    living = names.keys() | {t.job for t in now}
    called = [held for job, held in names.items() if job not in earlier]
    gone = frozenset(t.job for t in before if t.labels.get("pod")) - living
    return frozenset(job for job in gone if not any(earlier.get(job, frozenset()) and earlier[job] <= held for held in called))


def _names_of(schema: Iterable[MetricSchema]) -> dict[str, set[str]]:
    """What each job stores, without what the server writes for every target."""
    names: dict[str, set[str]] = {}
    for row in schema:
        held = names.setdefault(row.job, set())
        if row.name not in SYNTHETIC:
            held.add(row.name)
    return names


def behind_broken(
    broken: Mapping[tuple[str, str], str], vanished: Collection[str], world: World
) -> Callable[[frozenset[str], tuple[str, ...]], str]:
    """Which broken target may have series of jobs or names. `broken`: (job, instance) -> the code that tells of it."""
    # without a baseline: the jobs of that kind of which no target can be read
    delivering = {job for held in world.now.values() for job in held.jobs}
    first_of = {job: (instance, code) for (job, instance), code in sorted(broken.items(), reverse=True)}
    words = {job: set(re.split(r"[^a-z0-9]", job)) for job in first_of if job not in delivering}

    def hidden(jobs: frozenset[str], names: tuple[str, ...]) -> str:
        if jobs & frozenset(vanished):
            return "its targets are no longer scraped: see telemetry-gap/target-down"
        if not jobs and world.before is None:
            first = {re.split(r"[_:\-]", name, maxsplit=1)[0].lower() for name in names}
            jobs = frozenset(job for job, said in words.items() if said & first)
        job = min(jobs & first_of.keys(), default="")
        return f"target {first_of[job][0]} can't be read, see telemetry-gap/{first_of[job][1]}" if job else ""

    return hidden


def _hidden(world: World, seen: Seen) -> Callable[[frozenset[str], tuple[str, ...]], str]:
    """What a target that is down may hide, as far as targets alone tell."""
    targets: tuple[Target, ...] = seen.targets.value if isinstance(seen.targets, Known) else ()
    down = {(t.job, t.instance): "target-down" for t in targets if not t.up}
    return behind_broken(down, frozenset(), world)
