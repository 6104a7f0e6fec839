"""What changes of names and labels break among the things that people rely on, and what each should say instead.

Pure, and no check itself: `metric-rename` and `telemetry-gap` can ask here. The questions are

- `users`: who uses a changed metric or label at all, through recording rules as well;
- `judged_rules`, and of them `dead_rules`, `blind_rules`, `unjudged_rules`: which rules see nothing, because of a change
  or for another reason, and of which that can't be told;
- `dead_dashboards`: which dashboards have queries without data because of a change;
- `collapsed`: what still answers, and answers wrongly, because it groups, joins or excludes by a label that is gone.

How an expression depends on its series and labels is `functions.promql`'s knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from functions.checks._impact_world import Judge, State, World, counted
from functions.contract.findings import Impact
from functions.contract.rules import Dashboard, PanelQuery, Rule, RuleKind, Selector
from functions.promql import (
    Changes,
    Expression,
    LabelChange,
    LabelUse,
    MetricChange,
    Place,
    all_lost,
    read_panel,
    read_rule,
    rewrite,
    rewrite_grafana,
    some_left,
)

__all__ = [
    "Collapsed",
    "DeadDashboard",
    "DeadQuery",
    "Judge",
    "RuleState",
    "State",
    "Use",
    "User",
    "World",
    "blind_rules",
    "collapsed",
    "counted",
    "dead_dashboards",
    "dead_rules",
    "everyone",
    "judged_rules",
    "unjudged_rules",
    "users",
]


@dataclass(frozen=True, slots=True)
class User:
    """One expression that somebody relies on: a rule's, or a query's of a dashboard."""

    expression: Expression
    rule: Rule | None = None
    dashboard: Dashboard | None = None
    query: PanelQuery | None = None

    @property
    def kind(self) -> str:
        return self.rule.kind.value if self.rule else "dashboard"

    @property
    def name(self) -> str:
        return self.rule.name if self.rule else self.dashboard.title if self.dashboard else ""

    @property
    def expr(self) -> str:
        return self.rule.expr if self.rule else self.query.expr if self.query else ""

    def suggested(self, changes: Changes) -> str | None:
        return rewrite(self.expr, changes) if self.rule else rewrite_grafana(self.expr, changes)

    def impact(self, changes: Changes, note: str = "") -> Impact:
        where = self.query.where if self.query else ""
        return Impact(self.kind, self.name, self.expr, self.suggested(changes), ": ".join(filter(None, (where, note))))


@dataclass(frozen=True, slots=True)
class Use:
    """A user of something that changed. `through` is the recording rule in between, "" where there is none."""

    user: User
    change: MetricChange | LabelChange
    note: str
    through: str = ""


@dataclass(frozen=True, slots=True)
class RuleState:
    """What a rule amounts to. `certain` is False where its metric is there and no series of it matches."""

    rule: Rule
    state: State
    why: str
    certain: bool
    suggested: str | None


@dataclass(frozen=True, slots=True)
class DeadQuery:
    user: User
    why: str
    suggested: str | None


@dataclass(frozen=True, slots=True)
class DeadDashboard:
    """`panels` is how many panels with queries it has, `dead` those of them that have a query without data."""

    dashboard: Dashboard
    queries: tuple[DeadQuery, ...]
    dead: tuple[str, ...]
    panels: int


@dataclass(frozen=True, slots=True)
class Collapsed:
    """An answer that is wrong now. `label` is what it rests on and what is gone."""

    user: User
    label: str
    place: Place
    note: str
    suggested: str | None


def everyone(rules: Iterable[Rule], dashboards: Iterable[Dashboard]) -> tuple[User, ...]:
    """Every expression of rules and dashboards."""
    held = [User(read_rule(rule), rule) for rule in rules]
    held += [User(read_panel(query), None, board, query) for board in dashboards for query in board.queries]
    return tuple(held)


def users(changes: Changes, rules: Iterable[Rule], dashboards: Iterable[Dashboard]) -> tuple[Use, ...]:
    """Every use of a changed metric or label, once for each user and change, recording rules followed."""
    held = everyone(rules, dashboards)
    found: dict[tuple[int, str], Use] = {}
    for index, user in enumerate(held):
        for change, note in _changed(changes, user.expression):
            found.setdefault((index, _key(change)), Use(user, change, note))
    fresh = list(found.values())
    while fresh:
        recorded: dict[str, list[Use]] = {}
        for use in fresh:
            if use.user.rule and use.user.rule.kind is RuleKind.RECORD:
                recorded.setdefault(use.user.name, []).append(use)
        fresh = []
        for index, user in enumerate(held):
            read = dict.fromkeys(s.selector.name or "" for s in user.expression.selectors)
            for use in (use for name in read for use in recorded.get(name, ())):
                if (key := (index, _key(use.change))) not in found:
                    note = f"reads {use.user.name}, which is recorded from it"
                    found[key] = Use(user, use.change, note, use.user.name)
                    fresh.append(found[key])
    return tuple(found.values())


def judged_rules(world: World) -> tuple[RuleState, ...]:
    """The state of every rule, in order."""
    judge = Judge(world)
    states = []
    for rule in world.rules:
        found = judge.of(read_rule(rule))
        suggested = rewrite(rule.expr, world.changes) if found.state is State.DEAD else None
        states.append(RuleState(rule, found.state, found.why, found.certain, suggested))
    return tuple(states)


def dead_rules(world: World) -> tuple[RuleState, ...]:
    """Rules that see nothing because of a rename or a lost label (`metric-rename/rule-dead`)."""
    return tuple(state for state in judged_rules(world) if state.state is State.DEAD)


def blind_rules(world: World) -> tuple[RuleState, ...]:
    """Rules that see nothing for any other reason, or never did (`telemetry-gap/alert-blind`)."""
    return tuple(state for state in judged_rules(world) if state.state is State.BLIND)


def unjudged_rules(world: World) -> tuple[RuleState, ...]:
    """Rules of which it can't be told whether they see something, and why."""
    return tuple(state for state in judged_rules(world) if state.state is State.UNTOLD)


def dead_dashboards(world: World, dashboards: Iterable[Dashboard]) -> tuple[DeadDashboard, ...]:
    """Dashboards with panels, variables or annotations that have no data any more because of a change."""
    judge = Judge(world)
    found = (_dead_dashboard(judge, board) for board in dashboards)
    return tuple(dashboard for dashboard in found if dashboard.queries)


def collapsed(world: World, dashboards: Iterable[Dashboard]) -> tuple[Collapsed, ...]:
    """Wrong answers: of rules and queries that still have data, once for each label and place."""
    judge = Judge(world)
    found = []
    for user in everyone(world.rules, dashboards):
        if user.expression.error or _empty(judge, user):
            continue
        for (label, place), note in dict(_collapses(judge, user.expression)).items():
            found.append(Collapsed(user, label, place, note, user.suggested(world.changes)))
    return tuple(found)


def _key(change: MetricChange | LabelChange) -> str:
    return f"metric {change.name}" if isinstance(change, MetricChange) else f"label {change.label} {sorted(change.metrics or ())}"


def _now(to: str | None) -> str:
    return f"is called {to} now" if to else "is gone"


def _changed(changes: Changes, expression: Expression) -> Iterator[tuple[MetricChange | LabelChange, str]]:
    for use in expression.selectors:
        for change in changes.metrics_of(use.selector):
            yield change, ("" if change.lost else "its unit is another now")
    for label_use in expression.label_uses:
        for selector, label in label_use.supply.sources:
            if found := changes.label_of(selector, label):
                yield found, _said(label_use.place, found)


def _said(place: Place, change: LabelChange) -> str:
    """What a lost label does at one place."""
    label = f"{change.label}, which {_now(change.to)}"
    return {
        Place.MATCHER: f"a matcher asks for {label}, and matches nothing",
        Place.EXCLUDE: f"a matcher on {label}, lets every series pass",
        Place.BY: f"it groups by {label}: everything falls into one group",
        Place.WITHOUT: f"it aggregates over {label}",
        Place.ON: f"it joins on {label}",
        Place.IGNORING: f"its join ignores {label}",
        Place.GROUP: f"it copies {label}: the copy is empty",
        Place.TEXT: f"a text prints {label}: that place is blank",
        Place.VARIABLE: f"the variable offers values of {label}: it has none",
    }.get(place, f"it uses {label}")


def _empty(judge: Judge, user: User) -> str:
    """Why an expression has no data: a rule whatever the cause, a dashboard's query because of a change."""
    expression = user.expression
    if user.rule:
        found = judge.of(expression)
        return found.why if found.state in (State.DEAD, State.BLIND) else ""

    def unseen(selector: Selector) -> bool:
        return judge.unseen(expression, selector)

    cause = expression.blind(unseen, judge.lost, judge.world.changes.lost_labels)
    if cause is None:
        return ""
    reasons = [judge.state(s).why or f"a variable fills {s} by a label that is gone" for s in cause.selectors]
    reasons += [f"it joins on {label}, which {selector} lost" for selector, label in cause.joins]
    return "; ".join(dict.fromkeys(reasons))


def _dead_dashboard(judge: Judge, board: Dashboard) -> DeadDashboard:
    held = everyone((), (board,))
    why = [_empty(judge, user) for user in held]
    valueless = {user.query.where for user, gone in zip(held, why, strict=True) if gone and user.query and user.query.kind == "variable"}
    for index, user in enumerate(held):
        if not why[index] and (filled := sorted(valueless & user.expression.variables)):
            why[index] = f"its variable {', '.join(filled)} has no values"
    changes = judge.world.changes
    queries = tuple(DeadQuery(user, gone, user.suggested(changes)) for user, gone in zip(held, why, strict=True) if gone)
    panels = dict.fromkeys(query.where for query in board.queries if query.kind == "panel")
    dead = dict.fromkeys(q.user.query.where for q in queries if q.user.query and q.user.query.kind == "panel")
    return DeadDashboard(board, queries, tuple(dead), len(panels))


def _collapses(judge: Judge, expression: Expression) -> Iterator[tuple[tuple[str, Place], str]]:
    changes = judge.world.changes
    for use in expression.label_uses:
        if not all_lost(use.supply, judge.lost):
            continue
        change = next((c for source in use.supply.sources if (c := changes.label_of(*source))), None)
        if note := _collapse(use, change.to if change else None, some_left(use.across, judge.lost)):
            yield (use.label, use.place), note


def _collapse(use: LabelUse, successor: str | None, across: bool) -> str:
    label = f"{use.label}, which {_now(successor)}"
    match use.place:
        case Place.BY:
            return f"groups by {label}: everything falls into one group"
        case Place.WITHOUT if successor:
            return f"aggregates over {label}: one group became many"
        case Place.ON if across:
            return f"joins on {label} on one side: nothing matches there"
        case Place.ON:
            return f"joins on {label}: series of different origin match each other"
        case Place.GROUP:
            return f"copies {label} on the other side: it is empty"
        case Place.EXCLUDE:
            return f"excludes by {label}: every series passes"
    return ""
