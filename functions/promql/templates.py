"""Labels that texts print: Go templates of rules, legends of panels."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_LABEL = re.compile(r"(?:\$labels|\.Labels)\.([A-Za-z_]\w*)|index\s+(?:\$labels|\.Labels)\s+[\"`]([^\"`]+)[\"`]", re.ASCII)
_LEGEND = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")


def template_labels(texts: Iterable[str]) -> tuple[str, ...]:
    """Labels in `{{ $labels.x }}`, `{{ .Labels.x }}` and `{{ index $labels "x" }}`, once, in order."""
    actions = (action for text in texts for action in _ACTION.findall(text))
    return tuple(dict.fromkeys(a or b for action in actions for a, b in _LABEL.findall(action)))


def legend_labels(legend: str) -> tuple[str, ...]:
    """Labels in a legend's `{{x}}`."""
    return tuple(dict.fromkeys(_LEGEND.findall(legend)))
