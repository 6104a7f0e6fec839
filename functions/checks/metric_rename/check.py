"""metric-rename: did a name, a label, a value, a type, a scale or a meaning change, and who still relies on the old one?

Compares the schema of two instants, job by job. What became of a lost name is decided in `successors.py` for this
check and telemetry-gap alike; names that vanished without a word are telemetry-gap's. What a down target or a gone
workload explains is unjudged here. What changed is put together in `changes.py`, who is hit is asked of
`functions.checks.impact`; here are the order and what was proven.
"""

from __future__ import annotations

from collections import Counter

from functions.checks.base import Check
from functions.checks.impact import Judge
from functions.checks.impact.facts import Watched
from functions.checks.metric_rename.broken import broken_users
from functions.checks.metric_rename.changes import Seen, changed
from functions.checks.metric_rename.codes import CODES
from functions.checks.metric_rename.findings import (
    QUERIES,
    Context,
    dual_emitted,
    removed,
    renamed,
    replacement,
    type_changed,
    unit_changed,
)
from functions.checks.metric_rename.label_findings import label_findings, value_findings
from functions.checks.metric_rename.meaning import meaning_changed
from functions.checks.metric_rename.scales import NATIVE
from functions.checks.metric_rename.successors import How, State, Succession
from functions.checks.metric_rename.targets import stem
from functions.contract.cluster import Pod
from functions.contract.facts import Fact, Known, Windows
from functions.contract.findings import Finding, Judgement, Subject, Unjudged
from functions.contract.policy import Policy
from functions.contract.rules import Dashboard, Rule, SelectorCount
from functions.contract.telemetry import LabelValues, MetricSchema, PartialLoss, Target
from functions.contract.text import count_of
from functions.knowledge import Knowledge


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
    jobs: frozenset[str] | None,
    policy: Policy,
    knowledge: Knowledge,
    windows: Windows,
) -> Judgement:
    """Compare both instants and tell who is hit."""
    seen = Seen(schema, schema_before, targets, targets_before, partial_losses, label_values, label_values_before)
    what = changed(seen, knowledge, policy)
    watched = Watched(rules, dashboards, selectors, selectors_before)
    users = watched.users(what.changes)
    context = Context(users, windows)
    found = what.found
    of_labels, with_names = label_findings(what.labels, context, frozenset(pair.now.name for pair in what.pairs if pair.loss))
    findings: list[Finding] = [
        *renamed(found.of(State.RENAMED), with_names, context),
        *removed(found.of(State.REMOVED), context),
        *dual_emitted(found.duals, context),
        *unit_changed(what.scales, context),
        *type_changed(what.types, context),
        *of_labels,
        *value_findings(what.respellings, context),
        *meaning_changed(
            what.pairs, knowledge.renames if policy.renames.catalogue else None, context, (targets_before, targets), (pods_before, pods)
        ),
    ]
    judge_ = Judge(watched.world(seen, what.changes, policy, knowledge, jobs))
    advice = {name: replacement(loss) for loss in found.of(State.REMOVED) for name in loss.was.names}
    advice |= {change.name: QUERIES[NATIVE] for change in what.dissolved}
    findings += broken_users(judge_, watched.dashboards_known, context, advice)
    unread = watched.unread() if what.changes.metrics or what.changes.labels else ()
    left = (*_unjudged(found, _ended(found, targets_before, pods)), *_uncompared(found, targets_before), *unread)
    return Judgement(tuple(findings), found.compared, left, _proven(found))


def _ended(found: Succession, targets_before: Fact[tuple[Target, ...]], pods: Fact[tuple[Pod, ...]]) -> frozenset[str]:
    """Jobs that are gone with the workloads they scraped (scaled to zero, deleted): nothing of theirs is left to compare."""
    if not isinstance(pods, Known):
        return frozenset()
    living = {(p.namespace, stem(p.name)) for p in pods.value if not p.finished and not p.deleted_at}
    scraped: dict[str, list[bool]] = {}
    for target in targets_before.value if isinstance(targets_before, Known) else ():
        pod = (target.labels.get("namespace", ""), stem(target.labels.get("pod", "")))
        scraped.setdefault(target.job, []).append(bool(pod[1]) and pod not in living)
    return frozenset(job for job, gone in scraped.items() if all(gone) and not found.after.get(job))


def _unjudged(found: Succession, ended: frozenset[str]) -> tuple[Unjudged, ...]:
    """One for each job and reason: names that a down or gone target hides and that nobody else stores."""
    stored = {name for held in found.after.values() for name in held}
    counts = Counter((job, why) for job, name, why in found.explained if name not in stored and job not in ended)
    return tuple(Unjudged(Subject(job=job), f"{why}: {n} names not compared") for (job, why), n in sorted(counts.items()))


def _uncompared(found: Succession, targets_before: Fact[tuple[Target, ...]]) -> tuple[Unjudged, ...]:
    """Jobs that had targets before and of which nothing from then is stored: not new, and not to be compared."""
    scraped = {t.job for t in targets_before.value} if isinstance(targets_before, Known) else set()
    why = "it had targets before the change, and nothing of theirs from then is stored: not compared"
    return tuple(Unjudged(Subject(job=job), why) for job in sorted(scraped & found.after.keys() - found.before.keys()))


def _proven(found: Succession) -> str:
    inferred = sum(loss.how is How.INFERRED for loss in found.losses)
    jobs = len({job for job in found.before if job in found.after})
    text = f"{count_of(found.compared, 'metric')} of {count_of(jobs, 'job')} compared"
    return f"{text}, {count_of(inferred, 'successor')} inferred" if inferred else text


CHECK = Check(
    id="metric-rename",
    title="Names, labels, types and units are as they were",
    summary="Compares what each job exposes before and after a change, and names every rule and dashboard that a rename breaks.",
    codes=CODES,
    judge=judge,
)
