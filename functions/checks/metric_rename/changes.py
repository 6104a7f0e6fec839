"""Everything that changed between two instants: names, labels, spellings of values, scales and types of what lives on.

The one place where this is put together. `metric-rename` reports it; `telemetry-gap` needs it to know which rules a
change killed, so that only one of the two speaks of a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from functions.checks.metric_rename.families import PART_LABELS, Families, Family
from functions.checks.metric_rename.findings import Pair
from functions.checks.metric_rename.label_findings import Respelling, respelled
from functions.checks.metric_rename.labels import LabelChange, LabelWorld, label_changes
from functions.checks.metric_rename.scales import NATIVE, Retyped, Scale, changed_scale, changed_type
from functions.checks.metric_rename.successors import Loss, State, Succession, successors
from functions.contract.facts import Fact, Known
from functions.contract.policy import Policy
from functions.contract.telemetry import LabelValues, MetricSchema, PartialLoss, Target
from functions.knowledge import Knowledge
from functions.knowledge.renames import Catalogue, Kind, Rename
from functions.knowledge.renames_words import load_words
from functions.knowledge.signals import SILENT
from functions.promql import Changes, MetricChange
from functions.promql import LabelChange as LabelOfExpressions

T = TypeVar("T")

#: Labels whose values are another set after every rollout; their spelling proves nothing.
_IDENTITIES = frozenset({"instance", "pod", "pod_uid", "uid", "id", "container_id", "image_id", "version", "revision"})


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts of both instants that a comparison rests on."""

    schema: tuple[MetricSchema, ...]
    schema_before: tuple[MetricSchema, ...]
    targets: Fact[tuple[Target, ...]]
    targets_before: Fact[tuple[Target, ...]]
    partial_losses: Fact[tuple[PartialLoss, ...]]
    label_values: Fact[tuple[LabelValues, ...]]
    label_values_before: Fact[tuple[LabelValues, ...]]


@dataclass(frozen=True)
class Changed:
    """What became of everything that was there."""

    found: Succession
    catalogue: Catalogue | None = None
    pairs: tuple[Pair, ...] = ()
    labels: tuple[LabelChange, ...] = ()
    respellings: tuple[Respelling, ...] = ()
    #: renames of names that neither instant can show
    unseen: tuple[MetricChange, ...] = ()

    @cached_property
    def scales(self) -> tuple[tuple[Pair, Scale], ...]:
        return tuple(_scales(self.pairs, self.catalogue))

    @cached_property
    def types(self) -> tuple[tuple[Pair, Retyped, str], ...]:
        return tuple(_types(self.pairs, self.catalogue))

    @cached_property
    def losses(self) -> Changes:
        """What became of names and labels, as reading expressions needs it: enough to tell which find nothing."""
        return Changes((*self._metrics({}), *self.dissolved, *self.unseen), (*self._labels(), *self._values()))

    @cached_property
    def changes(self) -> Changes:
        """The same with changes of scale, and with what was lost without a word, as rewriting expressions needs it."""
        factors = {(pair.job, name): scale.factor for pair, scale in self.scales for name in pair.was.names}
        silent = (loss for loss in self.found.of(State.SILENT) if not loss.partial and not loss.elsewhere)
        unexplained = frozenset(name for loss in silent for name in loss.was.names)
        return Changes((*self._metrics(factors), *self._rescaled(), *self.dissolved, *self.unseen), self.losses.labels, unexplained)

    def _metrics(self, factors: Mapping[tuple[str, str], float]) -> Iterable[MetricChange]:
        lost: dict[str, list[MetricChange]] = {}
        for loss in (*self.found.of(State.RENAMED), *self.found.of(State.REMOVED)):
            if loss.partial:
                continue
            for old in loss.was.names:
                factor, mine = factors.get((loss.job, old)), frozenset({loss.job})
                change = MetricChange(old, _successor(loss, old), factor, mine, frozenset(loss.elsewhere))
                lost.setdefault(old, []).append(change)
        for same in lost.values():
            yield from _together(same)

    def _rescaled(self) -> Iterable[MetricChange]:
        """Scales that changed under the same name."""
        for pair, scale in self.scales:
            if pair.loss is None:
                others = frozenset(j for j, held in self.found.after.items() if j != pair.job and pair.was.name in held)
                for name in pair.was.names:
                    yield MetricChange(name, name, scale.factor, frozenset({pair.job}), others)

    @cached_property
    def dissolved(self) -> tuple[MetricChange, ...]:
        """Stored names of classic histograms that are native ones now: what reads them needs other functions, not other names."""
        found = []
        for pair, retyped, _ in self.types:
            if retyped.after == NATIVE and pair.loss is None:
                why = f"{pair.was.name} is a {NATIVE} now"
                for name in pair.was.names:
                    if name not in pair.now.names:
                        found.append(MetricChange(name, None, jobs=frozenset({pair.job}), why=f"{name} is gone: {why}"))
        return tuple(found)

    def _labels(self) -> Iterable[LabelOfExpressions]:
        for change in self.labels:
            if not change.partial:
                kept = {name: jobs for name in change.names if (jobs := self._carriers(name, change.label) - {change.job})}
                yield LabelOfExpressions(change.label, change.renamed_to, change.names, jobs=frozenset({change.job}), kept=kept)

    def _values(self) -> Iterable[LabelOfExpressions]:
        to = {(c.job, c.label): c.renamed_to for c in self.labels}
        for change in self.respellings:
            if (change.job, change.label) not in to:
                held = (*self.found.before.get(change.job, {}).values(), *self.found.after.get(change.job, {}).values())
                names = frozenset(name for family in held for name in family.names)
                yield LabelOfExpressions(change.label, change.label, names, change.values, frozenset({change.job}))

    def _carriers(self, name: str, label: str) -> frozenset[str]:
        """Jobs in which a stored name still has a label."""
        return frozenset(family.job for family in self._by_stored.get(name, ()) if family.labels.get(label))

    @cached_property
    def _by_stored(self) -> Mapping[str, tuple[Family, ...]]:
        found: dict[str, tuple[Family, ...]] = {}
        for held in self.found.after.values():
            for family in held.values():
                for name in family.names:
                    found[name] = (*found.get(name, ()), family)
        return found


def _successor(loss: Loss, old: str) -> str | None:
    """The stored name, or selector, that took the place of a stored name; None where there is none."""
    if loss.state is not State.RENAMED or not loss.now:
        return None
    selector = loss.renamed_to[loss.renamed_to.index("{") :] if "{" in loss.renamed_to else ""
    new = loss.now.name + old.removeprefix(loss.was.name)
    if new not in loss.now.names:
        if len(loss.now.names) != 1:
            return None
        new = loss.now.name if loss.now.name in loss.now.names else loss.now.names[0]
    return new + selector


def _together(same: list[MetricChange]) -> Iterable[MetricChange]:
    """Changes of one name: jobs that fared alike share one; a name that only some jobs lost lives on in the others."""
    jobs = frozenset().union(*(c.jobs or () for c in same))
    outcomes: dict[tuple[str | None, float | None], list[MetricChange]] = {}
    for change in same:
        outcomes.setdefault((change.to, change.factor), []).append(change)
    for held in outcomes.values():
        kept = frozenset().union(*(c.kept for c in held)) - jobs
        mine = frozenset().union(*(c.jobs or () for c in held))
        yield replace(held[0], jobs=mine, kept=kept)


def changed(seen: Seen, knowledge: Knowledge, policy: Policy) -> Changed:
    """Compare both instants."""
    found = successors(
        seen.schema_before,
        seen.schema,
        knowledge=knowledge,
        policy=policy,
        targets_before=seen.targets_before,
        targets=seen.targets,
        partial_losses=seen.partial_losses,
    )
    catalogue = knowledge.renames if policy.renames.catalogue else None
    pairs = _pairs(found)
    values = (seen.label_values, seen.label_values_before)
    targets = (seen.targets, seen.targets_before)
    changes = _labels(pairs, found, knowledge, policy, catalogue, values, targets, _value(seen.partial_losses))
    respellings = _respelled(pairs, changes, catalogue, *values, seen.targets)
    unseen = tuple(_unseen(found, catalogue, knowledge, policy)) if catalogue else ()
    return Changed(found, catalogue, tuple(pairs), tuple(changes), tuple(respellings), unseen)


def _unseen(found: Succession, catalogue: Catalogue, knowledge: Knowledge, policy: Policy) -> Iterable[MetricChange]:
    """Renames of names that are only there after an event, by the versions whose other renames were all made.

    An alert on such a name is silent either way: before the change because nothing happened, after it for ever.
    """
    jobs: dict[tuple[str, str], set[str]] = {}
    for loss in found.of(State.RENAMED):
        for row in loss.rows if not loss.partial else ():
            jobs.setdefault((row.system, row.version), set()).add(loss.job)
    before, after = _stored(found.before), _stored(found.after)
    made = [row for row in catalogue.rows if (row.system, row.version) in jobs and row.kind is Kind.METRIC]
    half = {(row.system, row.version) for row in made if row.old in after}  # an exporter prints what its field list names
    for row in made:
        version = (row.system, row.version)
        plain = row.new and not row.match and version not in half and row.old not in before and row.new not in after
        if plain and knowledge.signals.presence(row.old, policy.signals.rewrite) & SILENT:
            factor = row.factors[0] if len(row.factors) == 1 else None
            yield MetricChange(row.old, row.new, factor, frozenset(jobs[version]), unseen=True)


def _stored(families: Families) -> frozenset[str]:
    return frozenset(name for held in families.values() for family in held.values() for name in family.names)


def _value(fact: Fact[tuple[T, ...]]) -> tuple[T, ...]:
    return fact.value if isinstance(fact, Known) else ()


def _pairs(found: Succession) -> list[Pair]:
    """Each quantity that lives on, under its own name or its successor's; merges are no pairs."""
    pairs = [
        Pair(job, was, found.after[job][name])
        for job, had in sorted(found.before.items())
        for name, was in sorted(had.items())
        if name in found.after.get(job, {})
    ]
    for loss in found.of(State.RENAMED):
        if loss.now and not loss.renamed_to.endswith("}") and not loss.partial:
            pairs.append(Pair(loss.job, loss.was, loss.now, loss))
    return pairs


def _scales(pairs: Iterable[Pair], catalogue: Catalogue | None) -> list[tuple[Pair, Scale]]:
    words = load_words()
    found = []
    for pair in pairs:
        factors, rows = (pair.loss.factors, pair.loss.rows) if pair.loss else ((), ())
        if pair.loss is None and catalogue:
            rows = catalogue.same_name(Kind.UNIT, pair.was.name) or _two_scales(pair.was, catalogue)
            factors = tuple(dict.fromkeys(f for row in rows for f in (*row.factors, 1.0)))
        if scale := changed_scale(pair.was, pair.now, words, factors=factors, rows=rows):
            found.append((pair, scale))
    return found


def _two_scales(family: Family, catalogue: Catalogue) -> tuple[Rename, ...]:
    """Rows that know the name of now in more than one scale: a version changed it under the same name."""
    return tuple(row for row in catalogue.rows if row.new == family.name and len(row.factors) > 1)


def _types(pairs: Iterable[Pair], catalogue: Catalogue | None) -> list[tuple[Pair, Retyped, str]]:
    found = []
    for pair in pairs:
        if retyped := changed_type(pair.was, pair.now):
            rows = catalogue.same_name(Kind.TYPE, pair.was.name) if catalogue else ()
            why = next((f"; documented ({r.system} {r.version}, {r.source})" for r in rows), "")
            found.append((pair, retyped, why))
    return found


def _labels(
    pairs: Iterable[Pair],
    found: Succession,
    knowledge: Knowledge,
    policy: Policy,
    catalogue: Catalogue | None,
    values: tuple[Fact[tuple[LabelValues, ...]], Fact[tuple[LabelValues, ...]]],
    targets: tuple[Fact[tuple[Target, ...]], Fact[tuple[Target, ...]]],
    partial: Iterable[PartialLoss],
) -> list[LabelChange]:
    attribution = {label for role in ("namespace", "pod", "container", "pod_uid") for label in knowledge.devices.spellings(role, policy)}
    marks = frozenset(knowledge.devices.server_replicas)
    now, before = (_by_label(fact) for fact in values)
    on_some: dict[str, dict[str, PartialLoss]] = {}
    for loss in partial:
        if loss.label:
            on_some.setdefault(loss.job, {})[loss.label] = loss
    changes: list[LabelChange] = []
    for job in sorted(found.before):
        of_job = tuple((p.was, p.now) for p in pairs if p.job == job)
        held = frozenset(label for fact in targets for t in _value(fact) if t.job == job for label in t.labels)
        world = LabelWorld(job, of_job, before, now, held, frozenset(attribution), catalogue, load_words(), marks, on_some.get(job, {}))
        changes += label_changes(world)
    return changes


def _by_label(fact: Fact[tuple[LabelValues, ...]]) -> dict[tuple[str, str], LabelValues]:
    return {(v.job, v.label): v for v in _value(fact)}


def _respelled(
    pairs: Iterable[Pair],
    changes: Iterable[LabelChange],
    catalogue: Catalogue | None,
    values: Fact[tuple[LabelValues, ...]],
    values_before: Fact[tuple[LabelValues, ...]],
    targets: Fact[tuple[Target, ...]],
) -> list[Respelling]:
    gone = {(c.job, c.label) for c in changes}
    of_target = {(t.job, label) for t in _value(targets) for label in t.labels}
    asked: dict[tuple[str, str], str] = {}
    for pair in pairs:
        for label in (pair.was.labels.keys() & pair.now.labels.keys()) | PART_LABELS:
            if label not in _IDENTITIES and (pair.job, label) not in gone | of_target:
                asked.setdefault((pair.job, label), pair.now.name)
    before, now = _by_label(values_before), _by_label(values)
    named = [(job, label, now[job, label].metric or metric) for (job, label), metric in sorted(asked.items()) if (job, label) in now]
    return respelled(before, now, named, catalogue)
