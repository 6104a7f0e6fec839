"""Where a label at some place of an expression comes from.

A label reaches a grouping, a join or a legend through selectors, unless something on the way drops it (an aggregation
that does not keep it) or makes it (`label_replace`, `count_values`). Only what comes through a selector can be lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from functions.contract.rules import Selector
from functions.promql.nodes import Aggregate, Binary, Call, Literal, Node, Paren, Select, Subquery, Unary

#: A selector, and the label on its series.
Source: TypeAlias = tuple[Selector, str]

#: Aggregations that pick series and leave them as they are.
PICKING = frozenset({"topk", "bottomk", "limitk", "limit_ratio", "outliersk", "any"})
SCALARS = frozenset({"scalar", "time", "pi", "now", "start", "end", "step"})
ABSENCE = frozenset({"absent", "absent_over_time"})
QUANTILES = frozenset({"histogram_quantile", "histogram_fraction", "histogram_quantiles", "buckets_limit", "histogram_share"})
SET_OPERATORS = frozenset({"and", "or", "unless", "default", "if", "ifnot"})


@dataclass(frozen=True, slots=True)
class Supply:
    """`made`: the expression itself writes the label, from nothing that could be lost."""

    sources: tuple[Source, ...] = ()
    made: bool = False

    def __or__(self, other: Supply) -> Supply:
        return Supply(tuple(dict.fromkeys((*self.sources, *other.sources))), self.made or other.made)

    def __bool__(self) -> bool:
        return bool(self.sources) or self.made


NOTHING = Supply()


def supply(node: Node, label: str) -> Supply:
    """What a label of the node's result comes from."""
    match node:
        case Select(selector=selector):
            return Supply(((selector, label),))
        case Paren() | Unary() | Subquery():
            return supply(node.inner, label)
        case Call():
            return _of_call(node, label)
        case Aggregate():
            return _of_aggregate(node, label)
        case Binary():
            return _of_binary(node, label)
    return NOTHING


def _of_call(node: Call, label: str) -> Supply:
    texts = [a.text for a in node.args if isinstance(a, Literal) and a.text is not None]
    if node.function in ("label_replace", "label_join") and texts and texts[0] == label:
        wanted = texts[2:3] if node.function == "label_replace" else texts[2:]
        found = NOTHING
        for source in filter(None, wanted):
            found |= supply(node.args[0], source)
        return found or Supply(made=True)
    if node.function == "label_set" and label in texts[::2]:
        return Supply(made=True)
    if node.function in ABSENCE:
        arg = node.args[0] if node.args else None
        named = isinstance(arg, Select) and any(m.label == label and m.op == "=" for m in arg.selector.matchers)
        return Supply(made=named)
    if node.function in SCALARS or node.function == "vector" or (node.function in QUANTILES and label == "le"):
        return NOTHING
    found = NOTHING
    for arg in node.args:
        found |= supply(arg, label)
    return found


def _of_aggregate(node: Aggregate, label: str) -> Supply:
    if node.inner is None:
        return NOTHING
    first = node.args[0]
    if node.operator == "count_values" and isinstance(first, Literal) and first.text == label:
        return Supply(made=True)
    named = label in {name.text for name in node.labels}
    kept = node.operator in PICKING or named is not node.without
    return supply(node.inner, label) if kept else NOTHING


def _of_binary(node: Binary, label: str) -> Supply:
    if node.operator in ("or", "default"):
        return supply(node.left, label) | supply(node.right, label)
    if node.operator in SET_OPERATORS or scalar(node.right):
        return supply(node.left, label)
    if scalar(node.left):
        return supply(node.right, label)
    many, one = (node.right, node.left) if node.group == "right" else (node.left, node.right)
    if label in {name.text for name in node.extra}:
        return supply(one, label)
    if node.group or node.matching is None:
        return supply(many, label)
    named = label in {name.text for name in node.matching}
    return supply(many, label) if named is not node.ignoring else NOTHING


def scalar(node: Node) -> bool:
    """Whether a node is a number, which joins with nothing."""
    match node:
        case Literal():
            return True
        case Paren() | Unary():
            return scalar(node.inner)
        case Call():
            return node.function in SCALARS
        case Binary():
            return node.operator not in SET_OPERATORS and scalar(node.left) and scalar(node.right)
    return False
