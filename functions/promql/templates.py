"""What texts use: labels that Go templates of rules and legends of panels print, queries that templates ask."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_LABEL = re.compile(r"(?:\$labels|\.Labels)\.([A-Za-z_]\w*)|index\s+(?:\$labels|\.Labels)\s+[\"`]([^\"`]+)[\"`]", re.ASCII)
_QUERY = re.compile(r"\bquery\b")
_LITERAL = re.compile(r"\"((?:\\.|[^\"\\])*)\"|`([^`]*)`")
_VERB = re.compile(r"%(?:\[\d+\])?[-+#0-9.]*([a-zA-Z])")
_LEGEND = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")


def template_labels(texts: Iterable[str]) -> tuple[str, ...]:
    """Labels in `{{ $labels.x }}`, `{{ .Labels.x }}` and `{{ index $labels "x" }}`, once, in order."""
    actions = (action for text in texts for action in _ACTION.findall(text))
    return tuple(dict.fromkeys(a or b for action in actions for a, b in _LABEL.findall(action)))


def legend_labels(legend: str) -> tuple[str, ...]:
    """Labels in a legend's `{{x}}`."""
    return tuple(dict.fromkeys(_LEGEND.findall(legend)))


def template_queries(texts: Iterable[str]) -> tuple[str, ...]:
    """Expressions in `{{ query "…" }}` and `{{ printf "…" … | query }}`, with anything where printf puts a value."""
    actions = (action for text in texts for action in _ACTION.findall(text) if _QUERY.search(action))
    found = (raw or quoted.replace('\\"', '"') for action in actions for quoted, raw in _LITERAL.findall(action))
    return tuple(dict.fromkeys(_VERB.sub(lambda m: '".*"' if m[1] == "q" else "1", expr) for expr in found))
