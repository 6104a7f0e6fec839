"""Reading PromQL: which series an expression rests on, which of them it needs, and where it uses which label.

The only module that imports `promql_parser` (which follows Prometheus 2.45). What it can't parse is said in `error`,
never dropped. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import promql_parser

from functions.contract.rules import Matcher, Selector

_OPS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_ABSENCE = frozenset({"absent", "absent_over_time"})


class Place(StrEnum):
    """Where an expression uses a label."""

    MATCHER = "matcher"
    BY = "by"
    WITHOUT = "without"
    ON = "on"
    IGNORING = "ignoring"
    GROUP = "group"
    REPLACE = "label_replace"


@dataclass(frozen=True, slots=True)
class SelectorUse:
    """A selector in an expression. `needed`: without series for it the expression can give nothing."""

    selector: Selector
    needed: bool


@dataclass(frozen=True, slots=True)
class LabelUse:
    label: str
    place: Place


@dataclass(frozen=True, slots=True)
class Expression:
    """What was read. With an `error`, nothing else is known."""

    selectors: tuple[SelectorUse, ...] = ()
    label_uses: tuple[LabelUse, ...] = ()
    error: str = ""


@lru_cache(maxsize=8192)
def read(expr: str) -> Expression:
    """Selectors and label uses of an expression. Never raises."""
    try:
        tree = promql_parser.parse(expr)
    except ValueError as error:
        return Expression(error=" ".join(str(error).split()))
    selectors: list[SelectorUse] = []
    labels: list[LabelUse] = []
    _walk(tree, True, selectors, labels)
    return Expression(tuple(selectors), tuple(labels))


def _walk(node: Any, needed: bool, selectors: list[SelectorUse], labels: list[LabelUse]) -> None:
    kind = type(node).__name__
    if kind == "VectorSelector":
        found = Selector(node.name, tuple(_matchers(node)))
        selectors.append(SelectorUse(found, needed))
        labels += [LabelUse(m.label, Place.MATCHER) for m in found.matchers if m.label != "__name__"]
    elif kind == "MatrixSelector":
        _walk(node.vector_selector, needed, selectors, labels)
    elif kind == "AggregateExpr":
        if node.modifier is not None:
            place = Place.BY if str(node.modifier.type).endswith("By") else Place.WITHOUT
            labels += [LabelUse(label, place) for label in node.modifier.labels]
        _walk(node.expr, needed, selectors, labels)
    elif kind == "Call":
        # absent() speaks when nothing is there: its argument is not needed
        inner = needed and node.func.name not in _ABSENCE
        if node.func.name in ("label_replace", "label_join"):
            labels += [LabelUse(text, Place.REPLACE) for text in _sources(node)]
        for argument in node.args:
            _walk(argument, inner, selectors, labels)
    elif kind == "BinaryExpr":
        operator = str(node.op)
        _walk(node.lhs, needed and operator != "or", selectors, labels)
        _walk(node.rhs, needed and operator not in ("or", "unless"), selectors, labels)
        labels += _matching(node.modifier)
    elif kind in ("ParenExpr", "UnaryExpr", "SubqueryExpr"):
        _walk(node.expr, needed, selectors, labels)


def _matchers(node: Any) -> Iterator[Matcher]:
    for matcher in node.matchers.matchers:
        yield Matcher(matcher.name, _OPS[str(matcher.op).rpartition(".")[2]], matcher.value)


def _sources(call: Any) -> Iterable[str]:
    texts = [argument.val for argument in call.args if type(argument).__name__ == "StringLiteral"]
    return texts[2:3] if call.func.name == "label_replace" else texts[2:]


def _matching(modifier: Any) -> Iterator[LabelUse]:
    if modifier is None:
        return
    if modifier.matching is not None:
        ignoring = str(modifier.matching.type).rpartition(".")[2] in ("Exclude", "Ignoring", "Without")
        yield from (LabelUse(label, Place.IGNORING if ignoring else Place.ON) for label in modifier.matching.labels)
    card = getattr(modifier, "card", None)
    extra = getattr(card, "labels", None)
    if extra is not None:
        yield from (LabelUse(label, Place.GROUP) for label in getattr(extra, "labels", extra))


_LABEL_VALUES = re.compile(r"label_values\(\s*(.+?)\s*,\s*\$?\{?([A-Za-z_]\w*)\}?\s*\)", re.DOTALL)
_ONE_LABEL = re.compile(r"label_values\(\s*([A-Za-z_]\w*)\s*\)")
_QUERY_RESULT = re.compile(r"query_result\(\s*(.+)\s*\)", re.DOTALL)
_METRICS = re.compile(r"metrics\(\s*(.+?)\s*\)", re.DOTALL)
_DURATION = re.compile(r"(?<=[\[:])\s*(?:\$\{?\w+(?::\w+)?\}?|\[\[\w+\]\])")
_VARIABLE = re.compile(r"\$\{(\w+)(?:[.:][\w.:]+)?\}|\$(\w+)|\[\[(\w+)(?::\w+)?\]\]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'')
_GLOBAL_NUMBERS = ("__interval_ms", "__range_ms", "__range_s", "__rate_interval_ms", "__from", "__to")


def substitute_grafana(expr: str) -> str:
    """A dashboard's query as PromQL: variables become what matches anything, template functions become selectors."""
    text = expr.strip()
    if found := _LABEL_VALUES.fullmatch(text):
        selector, label = found[1], found[2]
        braces = selector.rstrip().endswith("}")
        inner = selector.rstrip()[:-1].rstrip().rstrip(",") + "," if braces else selector + "{"
        text = f'{inner.replace("{,", "{")}{label}=~".+"}}'
    elif found := _ONE_LABEL.fullmatch(text):
        text = f'{{{found[1]}=~".+"}}'
    elif found := _METRICS.fullmatch(text):
        text = f'{{__name__=~"{found[1]}"}}'
    elif found := _QUERY_RESULT.fullmatch(text):
        text = found[1]
    text = _DURATION.sub("5m", text)
    # inside quotes a variable is a value of any form; the matcher must then be a pattern
    text = re.sub(
        r'(?<![!=~])(=|!=)(\s*)("(?:[^"\\]|\\.)*(?:\$|\[\[)(?:[^"\\]|\\.)*")',
        lambda m: f"{'=~' if m[1] == '=' else '!~'}{m[2]}{m[3]}",
        text,
    )
    text = _QUOTED.sub(lambda m: _VARIABLE.sub(".*", m[0]), text)
    return _VARIABLE.sub(_bare, text)


def _bare(match: re.Match[str]) -> str:
    name = match[1] or match[2] or match[3]
    if name in _GLOBAL_NUMBERS:
        return "1"
    return "5m" if name in ("__interval", "__range", "__rate_interval") else name


def duration(text: str) -> float | None:
    """A Prometheus duration ("5m", "1h30m") in seconds; None where it is none."""
    try:
        return float(promql_parser.parse_duration(text).total_seconds())
    except ValueError:
        return None
