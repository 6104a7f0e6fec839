"""Rules that select nothing: `alert-blind`.

A rule is blind when a selector that its expression needs finds no series, so that it can never fire. What a rule
amounts to is judged in `functions.checks.impact`, with metric-rename's eyes as well: what a change of names killed is its word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from functions.checks.impact import Judge, RuleState, State, judged_rules
from functions.checks.impact import World as Series
from functions.checks.impact.facts import Watched, behind_broken
from functions.checks.metric_rename.successors import State as Fate
from functions.checks.metric_rename.successors import Succession
from functions.checks.telemetry_gap.vanished import Scrapes
from functions.checks.telemetry_gap.world import Part, World, finding
from functions.contract.facts import Missing
from functions.contract.findings import Evidence, Finding, Severity, Subject, Unjudged, Verdict
from functions.contract.rules import Rule, RuleKind, Selector


@dataclass(frozen=True)
class Blindness:
    """Everything the judgement of rules rests on."""

    world: World
    scrapes: Scrapes
    succession: Succession
    watched: Watched
    series: Series


def judge_rules(blindness: Blindness) -> Part:
    """Judge every rule."""
    part = Part()
    watched = blindness.watched
    if not watched.rules_known:
        return part
    if isinstance(missing := watched.selectors, Missing):
        part.unjudged.append(Unjudged(Subject(), f"what rules select: {missing.detail} ({missing.why})"))
        return part
    hidden = behind_broken(blindness.scrapes.broken, blindness.scrapes.vanished_jobs, blindness.series)
    for state in judged_rules(Judge(replace(blindness.series, hidden=hidden))):
        if state.state is State.UNTOLD:
            part.unjudged.append(Unjudged(_subject(state.rule), state.found.why))
            continue
        part.judged += 1
        if state.state is State.BLIND:
            part.findings.append(_blind(blindness, state))
    return part


def _subject(rule: Rule) -> Subject:
    return Subject(rule=rule.name, rule_group=rule.group or None)


def _blind(blindness: Blindness, state: RuleState) -> Finding:
    rule, found = state.rule, state.found
    kind = "alert" if rule.kind is RuleKind.ALERT else "recording rule"
    world = blindness.world
    hint = "Point the rule at a metric and labels that exist, add the field to the exporter's list, or delete the rule."
    if candidates := _candidates(blindness, [found.selector] if found.selector else []):
        hint = f"{hint} Possible successors: {', '.join(candidates)}."
    return finding(
        "alert-blind",
        _subject(rule),
        f"{kind} {rule.name} selects nothing" + (", so it can never fire" if rule.kind is RuleKind.ALERT else ", so it records nothing"),
        observed=found.why,
        expected="every selector that the expression needs finds series",
        hint=hint,
        severity=Severity.CRITICAL if rule.kind is RuleKind.ALERT else Severity.WARNING,
        verdict=Verdict.FAIL if found.sure else Verdict.UNKNOWN,
        evidence=[
            Evidence("rules", rule.origin or rule.group or rule.name, rule.expr, world.at),
            Evidence("prometheus", f"count({found.selector})", "no series", world.at),
        ],
    )


def _candidates(blindness: Blindness, selectors: Iterable[Selector]) -> list[str]:
    names = {s.name for s in selectors}
    return [
        f"{new} ({confidence:.0%})"
        for loss in blindness.succession.of(Fate.SILENT)
        if names & set(loss.was.names)
        for new, confidence in loss.candidates
    ]
