"""When an expression gives nothing: which selectors or joins are to blame."""

from __future__ import annotations

import pytest

from functions.contract.rules import Selector
from functions.promql import read


def cause(expr: str, gone: str = "", lost: str = "") -> str:
    """Blamed selectors and joins as text; `lost` is "metric.label …"."""
    without = set(gone.split())
    pairs = {tuple(pair.split(".")) for pair in lost.split()}
    labels = {label: [f"new_{label}"] for _, label in pairs}

    def missing(selector: Selector) -> bool:
        return selector.name in without

    def is_lost(selector: Selector, label: str) -> bool:
        return (selector.name, label) in pairs

    found = read(expr).blind(missing, is_lost, labels)
    return " ".join([*(str(s) for s in found.selectors), *(f"{s.name}.{label}" for s, label in found.joins)]) if found else ""


@pytest.mark.parametrize(
    ("expr", "gone", "expected"),
    [
        ("x > 1", "x", "x"),
        ("x > 1", "y", ""),
        ("sum by (a) (rate(x[5m]))", "x", "x"),
        ("x or y", "x", ""),
        ("x or y", "x y", "x y"),
        ("x unless y", "y", ""),
        ("x unless y", "x", "x"),
        ("x and y", "y", "y"),
        ("x / y", "x y", "x y"),
        ("absent(x)", "x", ""),
        ("x and absent(y)", "y", ""),
        ("sum(x) or vector(0)", "x", ""),
        ("count(x) == 0", "x", "x"),
        ("y > scalar(x)", "x", "x"),
        ("x + on (a) fill (0) y", "x", ""),
        ("x + on (a) fill (0) y", "x y", "x y"),
        ("(x or y) and z", "z", "z"),
        ("x default 0", "x", ""),
    ],
)
def test_an_expression_is_blind_only_where_nothing_can_come_of_it(expr: str, gone: str, expected: str) -> None:
    assert cause(expr, gone) == expected


@pytest.mark.parametrize(
    ("expr", "lost", "expected"),
    [
        ("x * on (a) y", "x.a", "x.a"),
        ("x * on (a) y", "x.a y.a", ""),
        ("x * on (b) y", "x.a", ""),
        ('x * on (a) group_left (c) label_replace(y, "a", "$1", "n", "(.+)")', "x.a", "x.a"),
        ('label_replace(x, "n", "$1", "a", "(.+)") * on (n) y', "x.a", "x.a"),
        ("x * y", "x.a", "x.a"),
        # the new label is one side's alone, and is not ignored
        ("x * ignoring (a) y", "x.a", "x.a"),
        ("x * ignoring (a, new_a) y", "x.a", ""),
        ("x * ignoring (a) y", "x.a y.a", ""),
        ("sum(x) * sum(y)", "x.a", ""),
        ("x > 1", "x.a", ""),
        ("x and on (a) y", "y.a", "y.a"),
        ("x unless on (a) y", "y.a", ""),
        ("x * on (a) y or z", "x.a", ""),
        ("sum by (a) (x) * on (a) sum by (a) (y)", "x.a", "x.a"),
        ("(x or z) * on (a) y", "x.a", ""),
    ],
)
def test_a_join_is_empty_where_one_side_alone_lost_the_label(expr: str, lost: str, expected: str) -> None:
    assert cause(expr, "", lost) == expected
