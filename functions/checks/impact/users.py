"""Who uses a name, a label or a value: rules and dashboards, recording rules followed, each with what to write instead.

An index over the expressions as `functions.promql` reads them, built once; which of the users are dead or wrong is
judged in `impact/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from functions.checks.impact.world import became, wanted_values
from functions.contract.findings import Finding, Impact, Severity
from functions.contract.rules import Dashboard, PanelQuery, Rule, RuleKind, Selector
from functions.promql import (
    NO_CHANGES,
    Changes,
    Expression,
    LabelChange,
    LabelUse,
    Place,
    asked_in_texts,
    means,
    read_panel,
    read_rule,
    rewrite,
    rewrite_grafana,
    touches,
)

#: How many users one finding lists.
LISTED = 100


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

    @property
    def where(self) -> str:
        return self.query.where if self.query else ""

    def suggested(self, changes: Changes) -> str | None:
        return rewrite(self.expr, changes) if self.rule else rewrite_grafana(self.expr, changes)


def everyone(rules: Iterable[Rule], dashboards: Iterable[Dashboard]) -> tuple[User, ...]:
    """Every expression of rules and dashboards."""
    held = [User(read_rule(rule), rule) for rule in rules]
    held += [User(read_panel(query), None, board, query) for board in dashboards for query in board.queries]
    return tuple(held)


#: A user's place in the index -> what exactly it does with what changed.
_Notes = dict[int, str]


class Users:
    """All users. `complete`: rules and dashboards could both be looked at."""

    def __init__(
        self, rules: Iterable[Rule] = (), dashboards: Iterable[Dashboard] = (), changes: Changes = NO_CHANGES, *, complete: bool = True
    ) -> None:
        self.all = everyone(rules, dashboards)
        self.changes = changes
        self.complete = complete
        self._named: dict[str, list[tuple[int, Selector]]] = {}
        self._patterns: list[tuple[int, Selector]] = []
        self._labelled: dict[str, list[tuple[int, LabelUse]]] = {}
        #: what queries in the texts of rules ask for
        self._texts: set[tuple[int, Selector]] = set()
        for index, user in enumerate(self.all):
            for use in user.expression.selectors:
                self._add(index, use.selector)
            for selector in asked_in_texts(user.rule) if user.rule else ():
                self._add(index, selector)
                self._texts.add((index, selector))
            for label_use in user.expression.label_uses:
                self._labelled.setdefault(label_use.label, []).append((index, label_use))

    def _add(self, index: int, selector: Selector) -> None:
        where = self._patterns if selector.name is None else self._named.setdefault(selector.name, [])
        where.append((index, selector))

    def of(self, names: Iterable[str], jobs: frozenset[str] | None = None) -> tuple[Impact, ...]:
        """Users of any of these stored names, in any of these jobs."""
        wanted = tuple(dict.fromkeys(names))
        hits = [hit for name in wanted for hit in self._named.get(name, ())]
        hits += [(index, selector) for index, selector in self._patterns if any(means(selector, name) for name in wanted)]
        noted = {hit[0]: "a query in its texts asks for it" if hit in self._texts else "" for hit in hits if touches(hit[1], jobs)}
        return self._impacts(noted)

    def of_label(self, label: str, to: str | None, names: Collection[str], jobs: frozenset[str] | None = None) -> tuple[Impact, ...]:
        """Users of a label on metrics with one of these stored names."""
        change = LabelChange(label, to, frozenset(names), jobs=jobs)
        direct: _Notes = {}
        printed: _Notes = {}
        for index, use in self._labelled.get(label, ()):
            if not use.supply.sources and use.place is Place.VARIABLE:
                direct.setdefault(index, said(use, change))
            elif use.place is not Place.TARGET and any(_reaches(change, *source) for source in use.supply.sources):
                (printed if use.place is Place.TEXT else direct).setdefault(index, said(use, change))
        found = self._impacts(direct)
        return found + self._impacts({i: note for i, note in printed.items() if i not in direct}, follow=False)

    def of_values(self, label: str, values: Collection[str], jobs: frozenset[str] | None = None) -> tuple[Impact, ...]:
        """Users whose matchers on a label spell one of these values."""
        wanted = frozenset(values)
        direct: _Notes = {}
        for index, use in self._labelled.get(label, ()):
            if use.place in (Place.MATCHER, Place.EXCLUDE):
                spelled = (
                    wanted_values(m) & wanted for s, _ in use.supply.sources if touches(s, jobs) for m in s.matchers if m.label == label
                )
                if old := next((v for v in sorted(set().union(*spelled))), ""):
                    direct.setdefault(index, f"a matcher spells {old}")
        return self._impacts(direct)

    def impact(self, user: User, note: str = "", suggested: str | None = None) -> Impact:
        return Impact(user.kind, user.name, user.expr, suggested, ": ".join(filter(None, (user.where, note))))

    def read_by_alerts(self, record: str) -> bool:
        """Whether an alert reads a recorded series, directly or through other rules."""
        return any(i.kind == RuleKind.ALERT for i in self.of([record]))

    def _impacts(self, direct: Mapping[int, str], *, follow: bool = True) -> tuple[Impact, ...]:
        notes = self._followed(direct) if follow else direct
        return tuple(dict.fromkeys(self.impact(self.all[i], note, self.all[i].suggested(self.changes)) for i, note in notes.items()))

    def _followed(self, direct: Mapping[int, str]) -> _Notes:
        """Also those who read what a recording rule among them records, and so on."""
        notes = dict(direct)
        fresh = list(direct)
        while fresh:
            records = dict.fromkeys(u.name for i in fresh if (u := self.all[i]).rule and u.rule.kind is RuleKind.RECORD)
            fresh = []
            for record in records:
                readers = self._named.get(record, ())
                for index, _ in (*readers, *((i, s) for i, s in self._patterns if means(s, record))):
                    if index not in notes:
                        notes[index] = f"reads {record}, which is recorded from it"
                        fresh.append(index)
        return notes

    def severity(self, impact: Iterable[Impact]) -> Severity:
        """critical where an alert depends on it, warning where anything else does or may, info where nothing does."""
        kinds = {i.kind for i in impact}
        if RuleKind.ALERT in kinds:
            return Severity.CRITICAL
        # what could not be looked at may use it
        return Severity.WARNING if kinds or not self.complete else Severity.INFO

    def at_most_warning(self, impact: Iterable[Impact]) -> Severity:
        """For a change that a dead user no longer sees."""
        severity = self.severity(impact)
        return Severity.WARNING if severity is Severity.CRITICAL else severity

    def weigh(self, finding: Finding, impact: tuple[Impact, ...], severity: Severity | None = None, *, listed: int = LISTED) -> Finding:
        """The finding with its users, and how grave it is through them. What is not listed is counted."""
        more = len(impact) - listed
        observed = f"{finding.observed}; {more} more use it than are listed" if more > 0 else finding.observed
        return replace(finding, impact=impact[:listed], severity=severity or self.severity(impact), observed=observed)


def _reaches(change: LabelChange, selector: Selector, label: str) -> bool:
    """Whether a source of a label may be one of the series that a change is about."""
    if label != change.label or not touches(selector, change.jobs):
        return False
    return selector.name in change.metrics if selector.name and change.metrics else any(means(selector, n) for n in change.metrics or ())


def said(use: LabelUse, change: LabelChange) -> str:
    """What a changed label does at one place."""
    label = f"{change.label}, which {became(change.to)}"
    if use.place is Place.TEXT:
        return f"a text prints {label}: that place is blank" + (f", write {change.to} there" if change.to else "")
    return {
        Place.MATCHER: f"a matcher asks for {label}, and matches nothing",
        Place.EXCLUDE: f"a matcher excludes by {label}, and lets every series pass",
        Place.BY: f"it groups by {label}: everything falls into one group",
        Place.WITHOUT: f"it aggregates over {label}",
        Place.ON: f"it joins on {label}",
        Place.IGNORING: f"its join ignores {label}",
        Place.GROUP: f"it copies {label}: the copy is empty",
        Place.VARIABLE: f"the variable offers values of {label}: it has none",
    }.get(use.place, f"it uses {label}")
