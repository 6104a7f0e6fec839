"""Rules and dashboards that a change killed (`rule-dead`, `dashboard-dead`), or whose answers it made wrong (`grouping-collapsed`).

Which they are is judged in `functions.checks.impact`; what never had data, or lost it through anything else, is telemetry-gap's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from functions.checks.impact import Collapsed, DeadDashboard, Judge, RuleState, State, collapsed, dead_dashboards, judged_rules
from functions.checks.impact.users import LISTED
from functions.checks.metric_rename.findings import Context
from functions.contract.findings import Evidence, Finding, Impact, Severity, Subject
from functions.contract.rules import Dashboard, Rule, RuleKind
from functions.promql import Place, names_of, read_rule, rewrite

#: How many places, and how many reasons, one text names.
_PLACES, _REASONS = 6, 4


def broken_users(judge: Judge, dashboards: tuple[Dashboard, ...], context: Context, advice: Mapping[str, str]) -> list[Finding]:
    """Every rule, and one finding a dashboard. `advice`: stored name that was taken away -> what to read instead."""
    wrong: dict[int, list[Collapsed]] = {}
    for one in collapsed(judge, dashboards):
        wrong.setdefault(id(one.user.rule or one.user.dashboard), []).append(one)
    found = []
    for state in judged_rules(judge):
        if state.state is State.DEAD:
            found.append(_dead_rule(judge, state, context, advice))
        elif held := wrong.get(id(state.rule)):
            found.append(_collapsed_rule(state.rule, held, context))
    dead = {id(board.dashboard): board for board in dead_dashboards(judge, dashboards)}
    for board in dashboards:
        held = wrong.get(id(board), [])
        if gone := dead.get(id(board)):
            found.append(_dead_dashboard(gone, held, context))
        elif held:
            found.append(_collapsed_dashboard(board, held, context))
    return _once(found)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a name: a group may hold several rules that are called alike, of different severity or window."""
    kept: dict[tuple[str, tuple[tuple[str, str], ...]], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.subject.identity())
        if held := kept.get(key):
            finding = replace(
                held,
                observed="; ".join(dict.fromkeys((*held.observed.split("; "), *finding.observed.split("; ")))),
                impact=tuple(dict.fromkeys((*held.impact, *finding.impact)))[:LISTED],
                evidence=tuple(dict.fromkeys((*held.evidence, *finding.evidence))),
            )
        kept[key] = finding
    return list(kept.values())


def _severity(rule: Rule, context: Context) -> Severity:
    """A recording rule misleads a person on call where an alert reads it."""
    misled = rule.kind is RuleKind.ALERT or context.users.read_by_alerts(rule.name)
    return Severity.CRITICAL if misled else Severity.WARNING


def _own(rule: Rule, suggested: str | None, note: str = "") -> Impact:
    return Impact(rule.kind.value, rule.name, rule.expr, suggested, note)


def _readers(rule: Rule, context: Context) -> tuple[Impact, ...]:
    return context.users.of([rule.name]) if rule.kind is RuleKind.RECORD else ()


def _dead_rule(judge: Judge, state: RuleState, context: Context, advice: Mapping[str, str]) -> Finding:
    rule = state.rule
    suggested = rewrite(rule.expr, judge.world.changes)
    finding = Finding(
        code="metric-rename/rule-dead",
        title=f"{rule.name} has no data any more",
        observed=state.found.why,
        expected="an expression over what is stored now",
        hint=_what_to_do(judge, rule, suggested, advice),
        subject=Subject(rule=rule.name, rule_group=rule.group or None),
        severity=Severity.CRITICAL,
        evidence=(Evidence("rules", rule.origin or rule.group, rule.expr),),
    )
    return context.users.weigh(finding, (_own(rule, suggested), *_readers(rule, context)), _severity(rule, context))


def _what_to_do(judge: Judge, rule: Rule, suggested: str | None, advice: Mapping[str, str]) -> str:
    texts = _texts(judge, rule)
    if suggested:
        return f"Load {rule.name} with the suggested expression in place of its own.{texts}"
    read = [name for use in read_rule(rule).selectors for name in names_of(use.selector)]
    if taken := next((advice[name] for name in read if name in advice), ""):
        return f"{taken}{texts}"
    if dead := next((name for name in read if name in judge.records), ""):
        return f"Mend the recording rule {dead} that it reads.{texts}"
    return f"Rewrite the expression for what is stored now.{texts}"


def _texts(judge: Judge, rule: Rule) -> str:
    """What the labels and annotations of a rule print and no longer find."""
    printed = [u for u in read_rule(rule).label_uses if u.place is Place.TEXT and judge.gone_from(u)]
    changes = [c for u in printed for s in u.supply.sources if (c := judge.world.changes.label_of(*s))]
    gone = {c.label: c.to for c in reversed(changes)} | {u.label: None for u in printed if not changes}
    said = [f"{{{{ $labels.{label} }}}}" + (f" (write {to})" if to else "") for label, to in gone.items()]
    return f" Its texts print {', '.join(said)}, which stays blank." if said else ""


def _collapsed_rule(rule: Rule, held: list[Collapsed], context: Context) -> Finding:
    suggested = held[0].suggested
    notes = list(dict.fromkeys(one.note for one in held))
    finding = Finding(
        code="metric-rename/grouping-collapsed",
        title=f"{rule.name} no longer tells its series apart",
        observed=f"it {'; it '.join(notes)}",
        expected="an expression over the labels that series carry now",
        hint=f"Load {rule.name} with the suggested expression in place of its own." if suggested else "Rewrite it for the labels of now.",
        subject=Subject(rule=rule.name, rule_group=rule.group or None),
        severity=Severity.CRITICAL,
        evidence=(Evidence("rules", rule.origin or rule.group, rule.expr),),
    )
    return context.users.weigh(finding, (_own(rule, suggested, notes[0]), *_readers(rule, context)), _severity(rule, context))


def _dead_dashboard(dead: DeadDashboard, held: list[Collapsed], context: Context) -> Finding:
    hit = [q.user for q in dead.queries]
    title = dead.dashboard.title
    # a variable or annotation alone is no panel
    count = f"{len(dead.dead)} of {dead.panels} panels" if dead.dead else f"{len(hit)} queries"
    impact = [context.users.impact(q.user, q.why, q.suggested) for q in dead.queries] + _wrong(held, context)
    finding = Finding(
        code="metric-rename/dashboard-dead",
        title=f"{count} of {title} {'is' if count.startswith('1 of 1 ') else 'are'} empty",
        observed=_places([u.where for u in hit], [q.why for q in dead.queries]),
        expected="queries over what is stored now",
        hint="Change the queries as suggested." if any(q.suggested for q in dead.queries) else "Rewrite the queries.",
        subject=Subject(dashboard=title, uid=dead.dashboard.uid or None),
        severity=Severity.WARNING,
        evidence=tuple(Evidence("dashboard", u.where, u.expr) for u in hit[:3]),
    )
    return context.users.weigh(finding, tuple(dict.fromkeys(impact)), Severity.WARNING)


def _collapsed_dashboard(board: Dashboard, held: list[Collapsed], context: Context) -> Finding:
    finding = Finding(
        code="metric-rename/grouping-collapsed",
        title=f"{len({one.user.where for one in held})} panels of {board.title} no longer tell their series apart",
        observed=_places([one.user.where for one in held], [f"it {one.note}" for one in held]),
        expected="queries over the labels that series carry now",
        hint="Change the queries as suggested." if any(one.suggested for one in held) else "Rewrite the queries.",
        subject=Subject(dashboard=board.title, uid=board.uid or None),
        severity=Severity.WARNING,
        evidence=tuple(Evidence("dashboard", one.user.where, one.user.expr) for one in held[:3]),
    )
    return context.users.weigh(finding, tuple(dict.fromkeys(_wrong(held, context))), Severity.WARNING)


def _wrong(held: Iterable[Collapsed], context: Context) -> list[Impact]:
    return [context.users.impact(one.user, one.note, one.suggested) for one in held]


def _places(where: Iterable[str], reasons: Iterable[str]) -> str:
    places, why = list(dict.fromkeys(where)), list(dict.fromkeys(reasons))
    more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
    return f"{', '.join(places[:_PLACES])}{more}: {'; '.join(why[:_REASONS])}"
