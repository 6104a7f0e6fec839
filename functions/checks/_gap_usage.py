"""Who reads a metric: rules and dashboards, for the impact list and the severity of a lost name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from functions.contract.findings import Finding, Impact, Severity
from functions.contract.rules import Dashboard, Rule, RuleKind

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
#: How many users are listed in one finding.
LISTED = 20


class Usage:
    """An index from metric name to the rules and panels whose expressions spell it."""

    def __init__(self, rules: Iterable[Rule] | None, dashboards: Iterable[Dashboard] | None) -> None:
        #: whether all users could be looked at
        self.complete = rules is not None and dashboards is not None
        self._users: dict[str, list[Impact]] = defaultdict(list)
        for rule in rules or ():
            kind = "alert" if rule.kind is RuleKind.ALERT else "recording-rule"
            self._add(rule.expr, Impact(kind, rule.name, rule.expr))
        for dashboard in dashboards or ():
            for query in dashboard.queries:
                self._add(query.expr, Impact("dashboard", dashboard.title, query.expr, note=query.where))

    def _add(self, expr: str, impact: Impact) -> None:
        for name in set(_NAME.findall(expr)):
            self._users[name].append(impact)

    def of(self, *names: str) -> tuple[Impact, ...]:
        """Everything that spells any of the names."""
        return tuple(dict.fromkeys(impact for name in names for impact in self._users.get(name, ())))

    def weigh(self, finding: Finding, impacts: tuple[Impact, ...]) -> Finding:
        """The finding with its impact; critical where an alert depends on it, info where nothing does."""
        if any(impact.kind == "alert" for impact in impacts):
            severity = Severity.CRITICAL
        elif impacts or not self.complete:
            severity = Severity.WARNING
        else:
            severity = Severity.INFO
        return replace(finding, impact=impacts[:LISTED], severity=severity)
