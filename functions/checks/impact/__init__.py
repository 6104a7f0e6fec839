"""What changes of names and labels break among the things that people rely on, and what each should say instead.

Pure, and no check itself: `metric-rename` and `telemetry-gap` ask here, so that they can't disagree about a rule.
The questions are

- `Users`: who uses a changed metric, label or value at all, through recording rules as well;
- `judged_rules`: which rules see nothing, because of a change or for another reason, and of which that can't be told;
- `dead_dashboards`: which dashboards have queries without data because of a change;
- `collapsed`: what still answers, and answers wrongly, because it groups, joins or excludes by a label that is gone.

How an expression depends on its series and labels is `functions.promql`'s knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from functions.checks.impact.judge import Judge
from functions.checks.impact.users import User, Users, everyone
from functions.checks.impact.world import Found, State, Stored, World, became, counted, stored
from functions.contract.rules import Dashboard, Rule, Selector
from functions.promql import Expression, LabelUse, Place, read_rule, some_left

__all__ = [
    "Collapsed",
    "DeadDashboard",
    "DeadQuery",
    "Found",
    "Judge",
    "RuleState",
    "State",
    "Stored",
    "User",
    "Users",
    "World",
    "collapsed",
    "counted",
    "dead_dashboards",
    "everyone",
    "judged_rules",
    "stored",
]


@dataclass(frozen=True, slots=True)
class RuleState:
    """What a rule amounts to."""

    rule: Rule
    found: Found

    @property
    def state(self) -> State:
        return self.found.state


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


def judged_rules(judge: Judge) -> tuple[RuleState, ...]:
    """The state of every rule, in order."""
    return tuple(RuleState(rule, judge.of(read_rule(rule))) for rule in judge.world.rules)


def dead_dashboards(judge: Judge, dashboards: Iterable[Dashboard]) -> tuple[DeadDashboard, ...]:
    """Dashboards with panels, variables or annotations that have no data any more because of a change."""
    found = (_dead_dashboard(judge, board) for board in dashboards)
    return tuple(dashboard for dashboard in found if dashboard.queries)


def collapsed(judge: Judge, dashboards: Iterable[Dashboard]) -> tuple[Collapsed, ...]:
    """Wrong answers: of rules and queries that still have data, once for each label and place."""
    if not judge.world.changes.lost_labels:
        return ()
    found = []
    for user in everyone(judge.world.rules, dashboards):
        if user.expression.error or _empty(judge, user):
            continue
        for (label, place), note in dict(_collapses(judge, user.expression)).items():
            found.append(Collapsed(user, label, place, note, user.suggested(judge.world.changes)))
    return tuple(found)


def _empty(judge: Judge, user: User) -> str:
    """Why an expression has no data: a rule whatever the cause, a dashboard's query because of a change."""
    expression = user.expression
    if user.rule:
        found = judge.of(expression)
        return found.why if found.state in (State.DEAD, State.BLIND) else ""
    if why := _without_selector(judge, expression):
        return why

    def unseen(selector: Selector) -> bool:
        return judge.unseen(expression, selector)

    cause = expression.blind(unseen, judge.lost, judge.world.changes.lost_labels)
    if cause is None:
        return ""
    reasons = [judge.state(s).why or _filled(judge, s) for s in cause.selectors]
    reasons += [f"it joins on {label}, which {selector} lost" for selector, label in cause.joins]
    return "; ".join(dict.fromkeys(reasons))


def _filled(judge: Judge, selector: Selector) -> str:
    label = next((m.label for m in selector.matchers if judge.lost(selector, m.label)), "")
    return f"a variable fills {label}, a label that is gone"


def _without_selector(judge: Judge, expression: Expression) -> str:
    """A variable over the values of a label that no stored series has any more."""
    asked = [u.label for u in expression.label_uses if u.place is Place.VARIABLE and not u.supply.sources]
    gone = [label for label in asked if label in judge.world.changes.lost_labels and not judge.carried(label)]
    return f"label {gone[0]} is on no series any more" if gone else ""


def _dead_dashboard(judge: Judge, board: Dashboard) -> DeadDashboard:
    held = everyone((), (board,))
    why = [_empty(judge, user) for user in held]
    valueless = {user.where for user, gone in zip(held, why, strict=True) if gone and user.query and user.query.kind == "variable"}
    # a variable may be filled from another one, in any order
    while True:
        more = [i for i, u in enumerate(held) if not why[i] and valueless & u.expression.variables]
        if not more:
            break
        for index in more:
            why[index] = f"its variable {', '.join(sorted(valueless & held[index].expression.variables))} has no values"
        valueless |= {held[i].where for i in more if (query := held[i].query) and query.kind == "variable"}
    changes = judge.world.changes
    queries = tuple(DeadQuery(user, gone, user.suggested(changes)) for user, gone in zip(held, why, strict=True) if gone)
    panels = dict.fromkeys(query.where for query in board.queries if query.kind == "panel")
    dead = dict.fromkeys(q.user.where for q in queries if q.user.query and q.user.query.kind == "panel")
    return DeadDashboard(board, queries, tuple(dead), len(panels))


def _collapses(judge: Judge, expression: Expression) -> Iterator[tuple[tuple[str, Place], str]]:
    changes = judge.world.changes
    for use in expression.label_uses:
        if use.idle or not judge.gone_from(use):
            continue
        change = next((c for source in use.supply.sources if (c := changes.label_of(*source))), None)
        to = change.to if change else None
        if to in use.beside and use.place in (Place.BY, Place.ON):
            continue  # written for both spellings
        if note := _collapse(use, to, some_left(use.across, judge.lost)):
            yield (use.label, use.place), note


def _collapse(use: LabelUse, successor: str | None, across: bool) -> str:
    label = f"{use.label}, which {became(successor)}"
    match use.place:
        case Place.BY:
            return f"groups by {label}: everything falls into one group"
        case Place.WITHOUT if successor:
            return f"aggregates over {label}: one group became many"
        case Place.ON if across:
            return f"joins on {label} on one side: nothing matches there"
        case Place.ON:
            return f"joins on {label}: series of different origin match each other, or the join fails as many-to-many"
        case Place.GROUP:
            return f"copies {label} from the other side: it is empty"
        case Place.EXCLUDE:
            return f"excludes by {label}: every series passes"
    return ""
