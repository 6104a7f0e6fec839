"""Rules and dashboards that a rename killed: no data any more, or an answer that is no longer the right one.

A rule is dead where a selector that it needs means a lost name, or matches on a lost label or on a value in its old
spelling, or where it joins on a lost label; and where it reads the output of a dead rule. What never had data, or lost
it through anything else, is telemetry-gap's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from functions.checks._rename_findings import Context
from functions.checks._rename_label_findings import Respelling
from functions.checks._rename_labels import LabelChange
from functions.checks._rename_losses import Loss, State
from functions.checks._rename_users import User, means
from functions.checks._successors import Succession
from functions.contract.findings import Evidence, Finding, Severity, Subject
from functions.contract.rules import Matcher, Selector, SelectorCount
from functions.promql import Place

#: A join that misses its label has no answer; a grouping that misses it has a wrong one.
_JOIN = Place.ON
_GROUP = Place.BY


@dataclass(frozen=True, slots=True)
class Broken:
    """What changed, as the judgement of an expression needs it."""

    found: Succession
    labels: tuple[LabelChange, ...]
    values: tuple[Respelling, ...]
    counts: Mapping[str, int] | None
    counts_before: Mapping[str, int] | None
    #: stored name -> the loss, for names that no job stores any more
    gone: Mapping[str, Loss] = field(default_factory=dict)


def broken(
    found: Succession,
    labels: Iterable[LabelChange],
    values: Iterable[Respelling],
    counts: Iterable[SelectorCount] | None,
    counts_before: Iterable[SelectorCount] | None,
) -> Broken:
    """Index the changes."""
    stored = {name for held in found.after.values() for family in held.values() for name in family.names}
    gone = {
        name: loss
        for loss in found.losses
        if loss.state in (State.RENAMED, State.REMOVED) and not loss.partial
        for name in loss.was.names
        if name not in stored
    }
    return Broken(found, tuple(labels), tuple(values), _by_text(counts), _by_text(counts_before), gone)


def _by_text(counts: Iterable[SelectorCount] | None) -> dict[str, int] | None:
    return None if counts is None else {str(c.selector): c.series for c in counts}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one expression is dead, or what of its grouping collapsed."""

    dead: str = ""
    collapsed: str = ""


def judged(user: User, world: Broken, dead_records: Collection[str]) -> Verdict:
    """What the changes did to one expression."""
    if user.query.error:
        return Verdict()
    for use in user.query.selectors:
        if use.needed and (why := _selector_dead(use.selector, user, world) or _reads_dead(use.selector, dead_records)):
            return Verdict(dead=why)
    lost = {c.label: c for c in world.labels if not c.partial and user.names(c.names)}
    for place in (_JOIN, _GROUP):
        for label_use in user.query.label_uses:
            if label_use.place is place and label_use.label in lost:
                why = f"{'joins on' if place is _JOIN else 'groups by'} {label_use.label}, and {_now(lost[label_use.label])}"
                return Verdict(dead=f"it {why}") if place is _JOIN else Verdict(collapsed=f"it {why}")
    return Verdict()


def _now(change: LabelChange) -> str:
    return f"label {change.label} is {'called ' + change.renamed_to if change.renamed_to else 'gone'} now"


def _reads_dead(selector: Selector, dead_records: Collection[str]) -> str:
    return f"it reads {selector.name}, which is dead itself" if selector.name in dead_records else ""


def _selector_dead(selector: Selector, user: User, world: Broken) -> str:
    """Why a selector that had series selects none, as far as a rename is to blame; or ""."""
    if why := _variable_dead(selector, user, world):
        return why
    # what stands in for a dashboard's variable may never have matched: then the count of before says nothing
    guessed = user.panel is not None and "$" in user.expr
    if _counted(selector, world.counts) or (_counted(selector, world.counts_before) == 0 and not guessed):
        return ""
    if loss := world.gone.get(selector.name or ""):
        return f"{loss.was.name} is called {loss.renamed_to} now" if loss.renamed_to else f"{loss.was.name} was taken away"
    if selector.name is None and (lost := [n for n in world.gone if means(selector, [n])]) and not _lives(selector, world):
        return f"{world.gone[lost[0]].was.name} is gone"
    for matcher in selector.matchers:
        if why := _matcher_dead(matcher, selector, world):
            return why
    return ""


def _variable_dead(selector: Selector, user: User, world: Broken) -> str:
    """A dashboard's variable over a label that is gone has no values to offer, whatever it stands for here."""
    for change in world.labels:
        if user.panel is None or change.partial or not means(selector, change.names):
            continue
        if re.search(rf'\b{re.escape(change.label)}\s*=~?\s*"[^"]*\$', user.expr):
            return _now(change)
    return ""


def _counted(selector: Selector, counts: Mapping[str, int] | None) -> int | None:
    """Series of a selector; None where they were not counted."""
    return None if counts is None else counts.get(str(selector))


def _lives(selector: Selector, world: Broken) -> bool:
    return any(means(selector, family.names) for held in world.found.after.values() for family in held.values())


def _matcher_dead(matcher: Matcher, selector: Selector, world: Broken) -> str:
    if matcher.negative or not _demands(matcher):
        return ""
    for change in world.labels:
        if change.label == matcher.label and not change.partial and means(selector, change.names):
            return _now(change)
    for respelling in world.values:
        if respelling.label == matcher.label and (old := _spelled(matcher, respelling.values)):
            return f"value {old} of {matcher.label} is written {respelling.values[old]} now"
    return ""


def _demands(matcher: Matcher) -> bool:
    """Whether a matcher asks for a value that is there."""
    if matcher.op == "=":
        return bool(matcher.value)
    try:
        return re.fullmatch(matcher.value, "") is None
    except re.error:
        return True


def _spelled(matcher: Matcher, values: Collection[str]) -> str:
    parts = set(re.split(r"[|()]", matcher.value)) if matcher.op == "=~" else {matcher.value}
    return next((v for v in values if v in parts), "")


def broken_users(world: Broken, context: Context) -> list[Finding]:
    """rule-dead, grouping-collapsed and dashboard-dead; recording rules first, until nothing new dies."""
    everyone = context.users.all
    verdicts: dict[int, Verdict] = {}
    dead_records: set[str] = set()
    while True:
        verdicts = {index: judged(user, world, dead_records) for index, user in enumerate(everyone)}
        dead = {u.name for i, u in enumerate(everyone) if u.kind == "recording-rule" and verdicts[i].dead}
        dead -= {u.name for i, u in enumerate(everyone) if u.kind == "recording-rule" and not verdicts[i].dead}
        if dead <= dead_records:
            break
        dead_records |= dead
    pairs = [(user, verdicts[index]) for index, user in enumerate(everyone)]
    return [*_rule_findings(pairs, context), *_dashboard_findings(pairs, context)]


def _rule_findings(pairs: Iterable[tuple[User, Verdict]], context: Context) -> list[Finding]:
    found = []
    for user, verdict in pairs:
        if user.rule is None or not (verdict.dead or verdict.collapsed):
            continue
        own = context.users.impacts([user])
        readers = context.users.of([user.name]) if user.kind == "recording-rule" else ()
        suggestion = context.users.suggestions.get(user.expr)
        dead = bool(verdict.dead)
        found.append(
            Finding(
                code="metric-rename/rule-dead" if dead else "metric-rename/grouping-collapsed",
                title=f"{user.name} has no data any more" if dead else f"{user.name} no longer tells its series apart",
                observed=verdict.dead or verdict.collapsed,
                expected="an expression over what is stored now",
                hint=f"Load `{suggestion}`." if suggestion else "Rewrite the expression for the new names.",
                subject=Subject(rule=user.name, rule_group=user.rule.group or None),
                severity=Severity.CRITICAL,
                impact=(*own, *readers),
                evidence=(Evidence("rules", user.rule.origin or user.rule.group, user.expr),),
            )
        )
    return found


def _dashboard_findings(pairs: Iterable[tuple[User, Verdict]], context: Context) -> list[Finding]:
    """One finding a dashboard."""
    boards: dict[tuple[str, str], list[tuple[User, Verdict]]] = {}
    for user, verdict in pairs:
        if user.dashboard is not None:
            boards.setdefault((user.dashboard.uid, user.dashboard.title), []).append((user, verdict))
    found = []
    for (uid, title), held in boards.items():
        dead = [(user, verdict) for user, verdict in held if verdict.dead]
        collapsed = [(user, verdict) for user, verdict in held if verdict.collapsed]
        if dead or collapsed:
            found.append(_dashboard(uid, title, len(held), dead, collapsed, context))
    return found


def _dashboard(
    uid: str,
    title: str,
    total: int,
    dead: list[tuple[User, Verdict]],
    collapsed: list[tuple[User, Verdict]],
    context: Context,
) -> Finding:
    hit = dead or collapsed
    reasons = list(dict.fromkeys(v.dead or v.collapsed for _, v in hit))
    places = list(dict.fromkeys(u.place for u, _ in hit))
    return Finding(
        code="metric-rename/dashboard-dead" if dead else "metric-rename/grouping-collapsed",
        title=f"{len(hit)} of {total} queries of {title} {'are empty' if dead else 'no longer tell their series apart'}",
        observed=f"{', '.join(places[:6])}: {'; '.join(reasons[:4])}",
        expected="queries over what is stored now",
        hint="Change the queries as suggested." if any(context.users.suggestions.get(u.expr) for u, _ in hit) else "Rewrite the queries.",
        subject=Subject(dashboard=title, uid=uid or None),
        severity=Severity.WARNING,
        impact=context.users.impacts(u for u, _ in (*dead, *collapsed)),
        evidence=tuple(Evidence("dashboard", u.place, u.expr) for u, _ in hit[:3]),
    )
