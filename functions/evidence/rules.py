"""Rules from rule files, PrometheusRule objects and a server's answer, as one noun. Malformed input is a ValueError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from functions.contract.rules import Rule, RuleKind
from functions.promql import duration


def from_yaml(text: str, origin: str) -> tuple[Rule, ...]:
    """Rules of a file: rule groups, PrometheusRule objects or Lists of them, in any number of documents.

    Raises ValueError with `origin`, the line where it is known, and what is wrong.
    """
    from functions.evidence.bundle_files import Unreadable, yaml_documents

    try:
        documents = yaml_documents(text)
        return tuple(rule for document in documents for rule in _document(document, origin))
    except Unreadable as error:
        raise ValueError(f"{origin}{f':{error.line}' if error.line else ''}: {error}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{origin}: {' '.join(str(error).split())}") from None
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{origin}: not a rule file ({type(error).__name__}: {error})") from None


def _document(document: Any, origin: str) -> Iterator[Rule]:
    if document is None:
        return
    if not isinstance(document, Mapping):
        raise ValueError(f"{origin}: a rule file is a mapping with groups")
    if isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _document(item, origin)
        return
    spec = document.get("spec") if "spec" in document else document
    groups = spec.get("groups") if isinstance(spec, Mapping) else None
    if not isinstance(groups, list):
        raise ValueError(f"{origin}: no groups in it")
    metadata = document.get("metadata") or {}
    where = f"PrometheusRule/{metadata.get('namespace', '')}/{metadata['name']}" if metadata.get("name") else origin
    for group in groups:
        yield from (_rule(raw, str(group.get("name", "")), where) for raw in group.get("rules") or [])


def _rule(raw: Mapping[str, Any], group: str, origin: str) -> Rule:
    kind = RuleKind.ALERT if raw.get("alert") else RuleKind.RECORD
    name = raw.get("alert") or raw.get("record")
    if not name or raw.get("expr") is None:
        raise ValueError(f"{origin}: a rule of group {group!r} has no name or no expr")
    return Rule(
        kind,
        str(name),
        group,
        str(raw["expr"]),
        seconds(raw.get("for", 0)),
        _texts(raw.get("labels")),
        _texts(raw.get("annotations")),
        origin,
        loaded=False,
    )


def from_api(answer: Any) -> tuple[Rule, ...]:
    """Rules of an answer of GET /api/v1/rules. Raises ValueError where it is none."""
    try:
        groups = answer["data"]["groups"] if "data" in answer else answer["groups"]
        return tuple(_loaded(raw, group) for group in groups for raw in group.get("rules") or [])
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not an answer of /api/v1/rules ({type(error).__name__}: {error})") from None


def _loaded(raw: Mapping[str, Any], group: Mapping[str, Any]) -> Rule:
    return Rule(
        RuleKind.ALERT if raw.get("type") == "alerting" else RuleKind.RECORD,
        str(raw["name"]),
        str(group.get("name", "")),
        str(raw["query"]),
        seconds(raw.get("duration") or 0),
        _texts(raw.get("labels")),
        _texts(raw.get("annotations")),
        str(group.get("file", "")),
        str(raw.get("health", "")),
        str(raw.get("lastError", "")),
    )


def seconds(value: Any) -> float:
    """A Prometheus duration ("5m", "1h30m") or a number, in seconds; 0 where it is neither."""
    if isinstance(value, int | float):
        return float(value)
    return duration(str(value)) or 0.0


def _texts(value: Any) -> dict[str, str]:
    pairs: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else ()
    return {str(k): str(v) for k, v in pairs}
