"""Who uses a name or a label: rules and dashboards, each with what would have to be written instead.

An index over the expressions as they are read by `functions.promql`; which of the users are dead is judged in
`_rename_rules.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from functions.contract.findings import Impact, Severity
from functions.contract.rules import Dashboard, PanelQuery, Rule, RuleKind, Selector
from functions.promql import Expression, read, substitute_grafana

#: How many users one finding lists.
LISTED = 25
_TEMPLATE_LABEL = re.compile(r"\$labels\.([A-Za-z_]\w*)|\{\{\s*([A-Za-z_]\w*)\s*\}\}|index \$labels \"([^\"]+)\"")


@dataclass(frozen=True, slots=True)
class User:
    """One expression that somebody relies on."""

    kind: str
    name: str
    expr: str
    query: Expression
    rule: Rule | None = None
    dashboard: Dashboard | None = None
    panel: PanelQuery | None = None
    #: labels that its texts print (annotations, legend)
    printed: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        return self.panel.where if self.panel else ""

    def names(self, names: Collection[str]) -> bool:
        """Whether a selector of it means one of the stored names."""
        return any(means(use.selector, names) for use in self.query.selectors)

    def label(self, label: str) -> bool:
        """Whether the expression or its texts use a label."""
        return label in self.printed or self.in_query(label)

    def in_query(self, label: str) -> bool:
        matched = any(m.label == label for use in self.query.selectors for m in use.selector.matchers)
        return matched or any(use.label == label for use in self.query.label_uses)


def means(selector: Selector, names: Collection[str]) -> bool:
    """Whether a selector selects by one of these names, literally or by a pattern over __name__."""
    if selector.name is not None:
        return selector.name in names
    patterns = [m for m in selector.matchers if m.label == "__name__" and not m.negative]
    return any(m.value in names if m.op == "=" else any(_matches(m.value, name) for name in names) for m in patterns)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        return False


@dataclass(frozen=True, slots=True)
class Users:
    """All users, and how an expression would have to be rewritten."""

    all: tuple[User, ...]
    #: whether rules and dashboards could both be looked at
    complete: bool
    #: expression -> what should be there instead
    suggestions: Mapping[str, str] = field(default_factory=dict)

    def of(self, names: Iterable[str]) -> tuple[Impact, ...]:
        """Users of any of these stored names."""
        wanted = frozenset(names)
        return self.impacts(user for user in self.all if user.names(wanted))

    def of_label(self, label: str, names: Collection[str]) -> tuple[Impact, ...]:
        """Users of a label on metrics with one of these stored names."""
        wanted = frozenset(names)
        return self.impacts(user for user in self.all if user.label(label) and user.names(wanted))

    def of_values(self, label: str, values: Collection[str]) -> tuple[Impact, ...]:
        """Users whose matchers on a label spell one of these values."""

        def spells(user: User) -> bool:
            matchers = (m for use in user.query.selectors for m in use.selector.matchers if m.label == label)
            return any(set(re.split(r"[|()]", m.value)) & set(values) for m in matchers)

        return self.impacts(user for user in self.all if spells(user))

    def impacts(self, users: Iterable[User]) -> tuple[Impact, ...]:
        found = [Impact(u.kind, u.name, u.expr, self.suggestions.get(u.expr), u.place) for u in users]
        return tuple(dict.fromkeys(found))[:LISTED]

    def severity(self, impact: Iterable[Impact]) -> Severity:
        """critical where a rule is misled or blind, warning where a panel is, info where nothing uses it."""
        kinds = {i.kind for i in impact}
        if kinds & {"alert", "recording-rule"}:
            return Severity.CRITICAL
        # what could not be looked at may use it
        return Severity.WARNING if kinds or not self.complete else Severity.INFO

    def at_most_warning(self, impact: Iterable[Impact]) -> Severity:
        """For a change that a dead user no longer sees."""
        severity = self.severity(impact)
        return Severity.WARNING if severity is Severity.CRITICAL else severity


def users(rules: Iterable[Rule], dashboards: Iterable[Dashboard]) -> tuple[User, ...]:
    """Every expression of rules and dashboards, read once."""
    found: list[User] = []
    for rule in rules:
        kind = "alert" if rule.kind is RuleKind.ALERT else "recording-rule"
        printed = _printed([*rule.annotations.values(), *rule.labels.values()])
        found.append(User(kind, rule.name, rule.expr, read(rule.expr), rule=rule, printed=printed))
    for board in dashboards:
        for query in board.queries:
            expression = read(substitute_grafana(query.expr))
            found.append(User("dashboard", board.title, query.expr, expression, None, board, query, _printed([query.legend])))
    return tuple(found)


def _printed(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(next(filter(None, groups)) for text in texts for groups in _TEMPLATE_LABEL.findall(text))
