"""What people look at: rules and dashboards from every place they can be read, and the selectors in them.

Rules come from the server that has loaded them, from PrometheusRule objects and from files; dashboards from
ConfigMaps and from files. A rule that is both loaded and written down is one rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import yaml

from functions.contract.facts import NOT_ASKED, Fact, Known, Missing, Why
from functions.contract.rules import Dashboard, Rule, RuleKind, Selector
from functions.evidence import dashboards as dashboard_reader
from functions.evidence import rules as rule_reader
from functions.evidence.inventory import Inventory
from functions.evidence.sources import MetricSource
from functions.promql import selectors

#: The label by which Grafana's sidecar finds dashboards.
DASHBOARD_LABEL = "grafana_dashboard"
#: A place that was not given or that the server doesn't have holds no rules: nothing was lost there.
_NO_PLACE = (Why.NOT_CONFIGURED, Why.UNSUPPORTED)

#: (where, text) of files, or why the text can't be had
Texts = Sequence[tuple[str, str | Missing]]


@dataclass(frozen=True, slots=True)
class Watched:
    """Rules, dashboards, and what follows from them."""

    rules: Fact[tuple[Rule, ...]]
    dashboards: Fact[tuple[Dashboard, ...]]
    #: every selector of theirs, once
    selectors: tuple[Selector, ...]
    #: names of recorded series
    recorded: frozenset[str]

    @property
    def unread(self) -> Missing | None:
        """Why nothing can be said of selectors: neither rules nor dashboards are known, and not for want of a place."""
        lost = [fact for fact in (self.rules, self.dashboards) if isinstance(fact, Missing)]
        return next((fact for fact in lost if fact.why not in _NO_PLACE), None) if len(lost) == 2 else None


async def read(
    metrics: MetricSource | None, inventory: Inventory | None, rule_texts: Texts, dashboards: Texts, at: datetime, needs: frozenset[str]
) -> Watched:
    """Read what is needed."""
    rules = await _rules(metrics, inventory, rule_texts, at) if "rules" in needs else NOT_ASKED
    boards = await _dashboards(inventory, dashboards, at) if "dashboards" in needs else NOT_ASKED
    held = rules.value if isinstance(rules, Known) else ()
    shown = boards.value if isinstance(boards, Known) else ()
    recorded = frozenset(rule.name for rule in held if rule.kind is RuleKind.RECORD)
    return Watched(rules, boards, selectors(held, shown), recorded)


async def _rules(metrics: MetricSource | None, inventory: Inventory | None, texts: Texts, at: datetime) -> Fact[tuple[Rule, ...]]:
    answers: list[Fact[tuple[Rule, ...]]] = []
    if metrics:
        answers.append(await metrics.rules())
    if inventory:
        answers.append(await _from_objects(inventory, at))
    answers += [_from_text(origin, text, at) for origin, text in texts]
    return _united(answers, at, unique_rules)


async def _from_objects(inventory: Inventory, at: datetime) -> Fact[tuple[Rule, ...]]:
    listed = await inventory.raw("PrometheusRule")
    if isinstance(listed, Missing):
        return listed
    found: list[Any] = []
    lost = [*listed.lost]
    for raw in listed.value:
        origin = _origin(raw)
        try:
            found += rule_reader.from_yaml(yaml.safe_dump(dict(raw)), origin)
        except ValueError as error:
            lost.append(_broken(origin, error))
    return Known(tuple(found), at, listed.source, listed.warnings, tuple(lost))


def _from_text(origin: str, text: str | Missing, at: datetime) -> Fact[tuple[Rule, ...]]:
    if isinstance(text, Missing):
        return text
    try:
        return Known(tuple(rule_reader.from_yaml(text, origin)), at, origin)
    except ValueError as error:
        return _broken(origin, error)


def _broken(origin: str, error: ValueError) -> Missing:
    told = str(error)
    return Missing(Why.MALFORMED, told if told.startswith(origin) else f"{origin}: {told}", origin)


async def _dashboards(inventory: Inventory | None, texts: Texts, at: datetime) -> Fact[tuple[Dashboard, ...]]:
    answers: list[Fact[tuple[Dashboard, ...]]] = []
    if inventory:
        answers.append(await _from_configmaps(inventory, at))
    for origin, text in texts:
        if isinstance(text, Missing):
            answers.append(text)
            continue
        try:
            answers.append(Known((dashboard_reader.from_json(text, origin),), at, origin))
        except ValueError as error:
            answers.append(_broken(origin, error))
    return _united(answers, at, unique_dashboards)


async def _from_configmaps(inventory: Inventory, at: datetime) -> Fact[tuple[Dashboard, ...]]:
    listed = await inventory.raw("ConfigMap", labels=DASHBOARD_LABEL)
    if isinstance(listed, Missing):
        return listed
    found: list[Any] = []
    lost = [*listed.lost]
    for raw in listed.value:
        try:
            found += dashboard_reader.from_configmap(raw)
        except ValueError as error:
            lost.append(_broken(_origin(raw), error))
    return Known(tuple(found), at, listed.source, listed.warnings, tuple(lost))


def _united(answers: Sequence[Fact[tuple[Any, ...]]], at: datetime, unique: Any) -> Fact[tuple[Any, ...]]:
    """All that was read, and what was lost. Missing where nothing was read and a place that should hold some is broken."""
    if not answers:
        return NOT_ASKED
    lost = [a for a in answers if isinstance(a, Missing)]
    known = [a for a in answers if isinstance(a, Known)]
    grave = [a for a in lost if a.why not in _NO_PLACE]
    if not known or (grave and not any(a.value for a in known)):
        return (grave or lost)[0]
    source = ", ".join(dict.fromkeys(a.source for a in known))
    warnings = tuple(w for a in known for w in a.warnings)
    return Known(
        unique([item for a in known for item in a.value]), at, source, warnings, (*(part for a in known for part in a.lost), *grave)
    )


def unique_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Each rule once: a loaded one stands for the one that is only written down."""
    found: dict[tuple[RuleKind, str, str], Rule] = {}
    for rule in rules:
        key = (rule.kind, rule.name, "".join(rule.expr.split()))  # a server prints it with spaces of its own
        held = found.get(key)
        if held is None or (rule.loaded and not held.loaded):
            found[key] = replace(rule, origin=rule.origin or (held.origin if held else ""))
    return tuple(found.values())


def unique_dashboards(boards: Iterable[Dashboard]) -> tuple[Dashboard, ...]:
    """Each dashboard once, by uid where it has one."""
    found: dict[tuple[str, str], Dashboard] = {}
    for board in boards:
        found.setdefault((board.uid, board.title) if board.uid else ("", f"{board.origin} {board.title}"), board)
    return tuple(found.values())


def _origin(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata") or {}
    return f"{raw.get('kind', '')}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"
