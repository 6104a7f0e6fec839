"""What an expression rests on: selectors that it needs, labels and where they are used."""

from __future__ import annotations

import pytest

from functions.promql import Place, duration, read, substitute_grafana


def needed(expr: str) -> list[tuple[str, bool]]:
    return [(str(use.selector), use.needed) for use in read(expr).selectors]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("DCGM_FI_DEV_GPU_TEMP > 85", [("DCGM_FI_DEV_GPU_TEMP", True)]),
        ('rate(a_total{job="x",pod!~"y.*"}[5m]) > 0', [('a_total{job="x",pod!~"y.*"}', True)]),
        ("absent(up)", [("up", False)]),
        ("absent_over_time(up[5m])", [("up", False)]),
        ("a or b", [("a", False), ("b", False)]),
        ("a unless b", [("a", True), ("b", False)]),
        ("a * on (node) group_left (pod) b", [("a", True), ("b", True)]),
        ("histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))", [("h_bucket", True)]),
        ("max_over_time(rate(a[1m])[10m:1m])", [("a", True)]),
        ('{__name__=~"a|b"}', [('{__name__=~"a|b"}', True)]),
        ("-(a + 1)", [("a", True)]),
        ("vector(1)", []),
    ],
)
def test_selectors_are_read_with_whether_they_are_needed(expr: str, expected: list[tuple[str, bool]]) -> None:
    assert needed(expr) == expected
    assert read(expr).error == ""


def test_labels_are_read_with_the_place_of_their_use() -> None:
    uses = {
        (u.label, u.place)
        for u in read('sum by (a) (x{b="c"}) / on (d) sum without (e) (label_replace(y, "f", "$1", "g", "(.*)"))').label_uses
    }
    assert uses == {("a", Place.BY), ("b", Place.MATCHER), ("d", Place.ON), ("e", Place.WITHOUT), ("g", Place.REPLACE)}
    assert ("h", Place.IGNORING) in {(u.label, u.place) for u in read("x / ignoring (h) y").label_uses}


@pytest.mark.parametrize("expr", ["", "sum(", "a{b=}", "rate(a)", "$x"])
def test_what_can_not_be_parsed_is_said(expr: str) -> None:
    assert read(expr).error
    assert read(expr).selectors == ()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)", 'DCGM_FI_DEV_GPU_TEMP{Hostname=~".+"}'),
        ('label_values(up{job="a"}, instance)', 'up{job="a",instance=~".+"}'),
        ("label_values(namespace)", '{namespace=~".+"}'),
        ('rate(a{h="$host"}[$__rate_interval])', 'rate(a{h=~".*"}[5m])'),
        ('a{h!="[[host]]"}', 'a{h!~".*"}'),
        ('a{h=~"${host:regex}"}', 'a{h=~".*"}'),
        ("avg by ($group) (a)", "avg by (group) (a)"),
    ],
)
def test_a_dashboard_query_becomes_promql(query: str, expected: str) -> None:
    assert substitute_grafana(query) == expected
    assert read(expected).error == ""


def test_durations_are_seconds() -> None:
    assert (duration("1h30m"), duration("15s"), duration("soon")) == (5400, 15, None)
