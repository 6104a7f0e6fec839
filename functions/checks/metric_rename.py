"""metric-rename: did a name, a label, a value, a type, a scale or a meaning change, and who still relies on the old one?

Compares the schema of two instants, job by job. What became of a lost name is decided in `_successors.py` for this
check and telemetry-gap alike; names that vanished without a word are telemetry-gap's. What a down target or a gone
workload explains is unjudged here. The parts are in `_rename_*.py`; here are the order and what was proven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from functions.checks._rename_codes import CODES
from functions.checks._rename_families import PART_LABELS, Family
from functions.checks._rename_findings import Context, Pair, dual_emitted, removed, renamed, type_changed, unit_changed
from functions.checks._rename_label_findings import Respelling, label_findings, respelled, value_findings
from functions.checks._rename_labels import LabelChange, LabelWorld, label_changes
from functions.checks._rename_meaning import meaning_changed
from functions.checks._rename_rules import broken, broken_users
from functions.checks._rename_scales import Retyped, Scale, changed_scale, changed_type
from functions.checks._rename_suggest import rewriting, suggest
from functions.checks._rename_users import Users, users
from functions.checks._successors import How, State, Succession, successors
from functions.checks.base import Check
from functions.contract.cluster import Pod
from functions.contract.facts import Fact, Known, Windows
from functions.contract.findings import Finding, Judgement, Subject, Unjudged
from functions.contract.policy import Policy
from functions.contract.rules import Dashboard, Rule, SelectorCount
from functions.contract.telemetry import LabelValues, MetricSchema, PartialLoss, Target
from functions.knowledge import Knowledge
from functions.knowledge.renames import Catalogue, Kind, Rename
from functions.knowledge.renames_words import load_words

T = TypeVar("T")

#: Labels whose values are another set after every rollout; their spelling proves nothing.
_IDENTITIES = frozenset({"instance", "pod", "pod_uid", "uid", "id", "container_id", "image_id", "version", "revision"})


def judge(  # noqa: PLR0913 (the parameters are the check's needs)
    *,
    schema: tuple[MetricSchema, ...],
    schema_before: tuple[MetricSchema, ...],
    targets: Fact[tuple[Target, ...]],
    targets_before: Fact[tuple[Target, ...]],
    partial_losses: Fact[tuple[PartialLoss, ...]],
    label_values: Fact[tuple[LabelValues, ...]],
    label_values_before: Fact[tuple[LabelValues, ...]],
    rules: Fact[tuple[Rule, ...]],
    dashboards: Fact[tuple[Dashboard, ...]],
    selectors: Fact[tuple[SelectorCount, ...]],
    selectors_before: Fact[tuple[SelectorCount, ...]],
    pods: Fact[tuple[Pod, ...]],
    pods_before: Fact[tuple[Pod, ...]],
    policy: Policy,
    knowledge: Knowledge,
    windows: Windows,
) -> Judgement:
    """Compare both instants and tell who is hit."""
    found = successors(
        schema_before,
        schema,
        knowledge=knowledge,
        policy=policy,
        targets_before=targets_before,
        targets=targets,
        partial_losses=partial_losses,
    )
    catalogue = knowledge.renames if policy.renames.catalogue else None
    pairs = _pairs(found)
    changes = _labels(pairs, found, knowledge, policy, catalogue, (label_values, label_values_before), (targets, targets_before))
    respellings = _respelled(pairs, changes, catalogue, label_values, label_values_before, targets)
    scales = _scales(pairs, catalogue)
    # by the name that a query spells, old or unchanged
    factors = {name: scale.factor for pair, scale in scales for name in pair.was.names}
    change = rewriting(found.of(State.RENAMED), changes, respellings, factors)
    everyone = users(_value(rules), _value(dashboards))
    suggestions = {user.expr: text for user in everyone if (text := suggest(user.expr, change))}
    context = Context(Users(everyone, isinstance(rules, Known) and isinstance(dashboards, Known), suggestions), windows)
    findings: list[Finding] = [
        *renamed(found.of(State.RENAMED), context),
        *removed(found.of(State.REMOVED), context),
        *dual_emitted(found.duals, context),
        *unit_changed(scales, context),
        *type_changed(_types(pairs, catalogue), context),
        *label_findings(changes, context),
        *value_findings(respellings, context),
        *meaning_changed(pairs, catalogue, context, (targets_before, targets), (pods_before, pods)),
    ]
    counts, counts_before = (fact.value if isinstance(fact, Known) else None for fact in (selectors, selectors_before))
    findings += broken_users(broken(found, changes, respellings, counts, counts_before), context)
    return Judgement(tuple(findings), found.compared, _unjudged(found), _proven(found))


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
) -> list[LabelChange]:
    attribution = {label for role in ("namespace", "pod", "container", "pod_uid") for label in knowledge.devices.spellings(role, policy)}
    now, before = (_by_label(fact) for fact in values)
    changes: list[LabelChange] = []
    for job in sorted(found.before):
        of_job = tuple((p.was, p.now) for p in pairs if p.job == job)
        held = frozenset(label for fact in targets for t in _value(fact) if t.job == job for label in t.labels)
        changes += label_changes(LabelWorld(job, of_job, before, now, held, frozenset(attribution), catalogue, load_words()))
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


def _unjudged(found: Succession) -> tuple[Unjudged, ...]:
    """One for each job and reason: names that a down or gone target hides and that nobody else stores."""
    stored = {name for held in found.after.values() for name in held}
    counts = Counter((job, why) for job, name, why in found.explained if name not in stored)
    return tuple(Unjudged(Subject(job=job), f"{why}: {n} names not compared") for (job, why), n in sorted(counts.items()))


def _proven(found: Succession) -> str:
    inferred = sum(loss.how is How.INFERRED for loss in found.losses)
    jobs = len({job for job in found.before if job in found.after})
    text = f"{_many(found.compared, 'metric')} of {_many(jobs, 'job')} compared"
    return f"{text}, {_many(inferred, 'successor')} inferred" if inferred else text


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


CHECK = Check(
    id="metric-rename",
    title="Names, labels, types and units are as they were",
    summary="Compares what each job exposes before and after a change, and names every rule and dashboard that a rename breaks.",
    codes=CODES,
    judge=judge,
)
