"""Alerting and recording rules from files, PrometheusRule objects and a server's answer.

One broken rule does not take the others with it: it stays in the result, with `error` saying what is wrong and where, so
that it is counted and shown. Only a text in which not one rule can be read is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from functions.contract.rules import Rule, RuleKind
from functions.evidence.bundle.files import Unreadable, yaml_documents
from functions.promql import duration

#: Keys and indices that lead from a document to one of its values.
Path = tuple[str | int, ...]


def from_yaml(text: str, origin: str) -> tuple[Rule, ...]:
    """Rules of a text: rule groups, PrometheusRule objects or Lists of them in any number of documents, or a server's answer.

    Raises ValueError with `origin`, the line where it is known, and what is wrong.
    """
    try:
        documents = yaml_documents(text)
    except Unreadable as error:
        raise ValueError(f"{origin}{f':{error.line}' if error.line else ''}: {error}") from None
    reader = _Reader(text, origin)
    rules = tuple(rule for index, document in enumerate(documents) for rule in reader.document(document, (index,)))
    if not reader.groups and any(document is not None for document in documents):
        raise ValueError(f"{origin}: no rule groups in it")
    if rules and all(rule.error and not rule.expr for rule in rules):
        raise ValueError(rules[0].error)
    return rules


def from_api(answer: Any) -> tuple[Rule, ...]:
    """Rules of an answer of GET /api/v1/rules. Raises ValueError where it is none."""
    data = answer.get("data", answer) if isinstance(answer, Mapping) else None
    groups = data.get("groups") if isinstance(data, Mapping) else None
    if not isinstance(groups, list):
        raise ValueError("not an answer of /api/v1/rules: no groups in it")
    return tuple(rule for group in groups if isinstance(group, Mapping) for rule in _loaded_group(group))


def seconds(value: Any) -> float | None:
    """A Prometheus duration ("5m", "1h30m") or a number, in seconds; None where it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e15 else None
    text = str(value).strip()
    return duration(text) if text else 0.0


class _Reader:
    """Reads the documents of one text, and knows where in the text their values stand."""

    def __init__(self, text: str, origin: str) -> None:
        self.text = text
        self.origin = origin
        self.groups = 0

    def document(self, document: Any, path: Path) -> Iterator[Rule]:
        if not isinstance(document, Mapping):
            return
        if isinstance(document.get("items"), list):
            for index, item in enumerate(document["items"]):
                yield from self.document(item, (*path, "items", index))
            return
        if isinstance(document.get("data"), Mapping) and isinstance(document["data"].get("groups"), list):
            self.groups += 1
            yield from from_api(document)
            return
        held, path = (document["spec"], (*path, "spec")) if isinstance(document.get("spec"), Mapping) else (document, path)
        groups = held.get("groups")
        if not isinstance(groups, list):
            return
        self.groups += 1
        metadata = document.get("metadata")
        named = isinstance(metadata, Mapping) and metadata.get("name")
        kind = document.get("kind") or "PrometheusRule"
        where = f"{kind}/{metadata.get('namespace', '')}/{metadata['name']}" if named and metadata else self.origin
        for index, group in enumerate(groups):
            yield from self.group(group, where, (*path, "groups", index))

    def group(self, group: Any, where: str, path: Path) -> Iterator[Rule]:
        name = str(group.get("name") or "") if isinstance(group, Mapping) else ""
        rules = group.get("rules") if isinstance(group, Mapping) else group
        if isinstance(rules, list):
            for index, raw in enumerate(rules):
                yield self.rule(raw, name, where, index, (*path, "rules", index))
        elif rules is not None or not isinstance(group, Mapping):
            yield _broken(name or f"group {path[-1]}", name, where, f"{self.place(path)}: a group is a mapping with a list of rules")

    def rule(self, raw: Any, group: str, where: str, index: int, path: Path) -> Rule:
        if not isinstance(raw, Mapping):
            return _broken(f"rule {index + 1} of {group}", group, where, f"{self.place(path)}: a rule is a mapping")
        alert, record, expr = raw.get("alert"), raw.get("record"), raw.get("expr")
        problems = []
        if not alert and not record:
            problems.append("neither alert nor record says what it is called")
        if alert and record:
            problems.append("it is an alert and a record at once")
        if expr is None or isinstance(expr, Mapping | list) or not str(expr).strip():
            problems.append("it has no expr")
        held = seconds(raw.get("for") or 0)
        if held is None:
            problems.append(f"for: {raw.get('for')!r} is no duration")
        return Rule(
            RuleKind.RECORD if record and not alert else RuleKind.ALERT,
            str(alert or record or f"rule {index + 1} of {group}"),
            group,
            "" if expr is None else str(expr),
            held or 0.0,
            _texts(raw.get("labels")),
            _texts(raw.get("annotations")),
            where,
            error=f"{self.place(path)}: {'; '.join(problems)}" if problems else "",
            loaded=False,
        )

    def place(self, path: Path) -> str:
        """File and line of a value."""
        node: Any = None
        for index, document in enumerate(yaml.compose_all(self.text, yaml.CSafeLoader)):
            if index == path[0]:
                node = document
        for step in path[1:]:
            below = _below(node, step)
            if below is None:
                break
            node = below
        return f"{self.origin}:{node.start_mark.line + 1}" if node is not None else self.origin


def _below(node: Any, step: str | int) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None


def _broken(name: str, group: str, where: str, error: str) -> Rule:
    return Rule(RuleKind.ALERT, name, group, "", origin=where, error=error, loaded=False)


def _loaded_group(group: Mapping[str, Any]) -> Iterator[Rule]:
    name, file = str(group.get("name") or ""), str(group.get("file") or "")
    rules = group.get("rules")
    for index, raw in enumerate(rules if isinstance(rules, list) else ()):
        if not isinstance(raw, Mapping) or not raw.get("name") or raw.get("query") is None:
            yield _broken(f"rule {index + 1} of {name}", name, file, f"{file or name}: a rule without a name or a query")
            continue
        yield Rule(
            RuleKind.ALERT if raw.get("type") == "alerting" else RuleKind.RECORD,
            str(raw["name"]),
            name,
            str(raw["query"]),
            seconds(raw.get("duration") or 0) or 0.0,
            _texts(raw.get("labels")),
            _texts(raw.get("annotations")),
            file,
            str(raw.get("health") or ""),
            str(raw.get("lastError") or ""),
        )


def _texts(value: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}
