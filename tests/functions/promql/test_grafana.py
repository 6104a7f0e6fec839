"""Dashboards' queries: variables stand for anything, and Grafana's own functions are looked through."""

from __future__ import annotations

import pytest

from functions.contract.rules import PanelQuery
from functions.promql import Place, objection, read, read_grafana, read_panel


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)", 'DCGM_FI_DEV_GPU_TEMP{Hostname=~".+"}'),
        ('label_values(up{job="a"}, instance)', 'up{job="a",instance=~".+"}'),
        ('label_values(up{job=~"a,b"}, instance)', 'up{job=~"a,b",instance=~".+"}'),
        ('label_values(up{job="$job"},\n  instance )', 'up{job=~".*",instance=~".+"}'),
        # which series have a label is not asked of all of them
        ("label_values(namespace)", "vector(1)"),
        ("label_names()", "vector(1)"),
        ("metrics(DCGM_.*)", '{__name__=~".*(?:DCGM_.*).*"}'),
        ("query_result(topk(5, sum by (a) (x)))", "topk(5, sum by (a) (x))"),
        ('rate(a{h="$host"}[$__rate_interval])', 'rate(a{h=~".*"}[5m])'),
        ("rate(a[[[step]]])", "rate(a[5m])"),
        ("rate(a[${__range_s}s])", "rate(a[1s])"),
        ("max_over_time(a[$__range:$step])", "max_over_time(a[5m:5m])"),
        ("a offset $ago", "a offset 5m"),
        # what must not be there is not known, so nothing is excluded
        ('a{h!="[[host]]"}', 'a{h=~".*"}'),
        ('a{h!~"$host"}', 'a{h=~".*"}'),
        ('a{h=~"${host:regex}"}', 'a{h=~".*"}'),
        ('a{h=~"gpu-($rack)-.+"}', 'a{h=~"gpu-(.*)-.+"}'),
        ('a{h="gpu.$n"}', r'a{h=~"gpu\\..*"}'),
        ('a{h=~"x$"}', 'a{h=~"x$"}'),
        ('label_replace(a, "b", "$1", "c", "(.+)")', 'label_replace(a, "b", "$1", "c", "(.+)")'),
        ("avg by ($group) (a)", "avg by (group) (a)"),
        ("vllm:${what}_total", '{__name__=~"vllm:.*_total"}'),
        ("a{$filters}", "a"),
        ('a{$filters,b="c"}', 'a{b="c"}'),
        ("a / $__interval_ms", "a / 1"),
    ],
)
def test_a_dashboard_query_selects_what_it_can_at_most_select(query: str, expected: str) -> None:
    assert objection(expected) == ""
    found = read_grafana(query)
    assert found.error == ""
    assert [use.selector for use in found.selectors] == [use.selector for use in read(expected).selectors]


def test_a_metric_that_is_wholly_a_variable_is_no_selector_to_look_for() -> None:
    assert read_grafana('rate($metric{a="b"}[5m])').selectors == ()
    assert [(use.label, use.place) for use in read_grafana('$metric{a="b"}').label_uses] == [("a", Place.MATCHER)]
    assert read_grafana("a > $limit").selectors[0].needed


def test_a_variable_in_a_matcher_uses_the_label_though_it_selects_by_anything() -> None:
    (use,) = read_grafana('DCGM_FI_DEV_GPU_TEMP{Hostname=~"$host"}').label_uses
    assert (use.label, use.place) == ("Hostname", Place.MATCHER)
    assert read_grafana('a{b=~"$c-[[d]]"} / ${e}').variables == {"c", "d", "e"}


def test_a_variable_s_own_query_uses_the_label_it_offers() -> None:
    assert [(u.label, u.place) for u in read_grafana('label_values(x{a="b"}, "c")').label_uses] == [
        ("a", Place.MATCHER),
        ("c", Place.VARIABLE),
    ]
    assert [(u.label, u.place) for u in read_grafana("label_values(node)").label_uses] == [("node", Place.VARIABLE)]
    assert read_grafana("label_values(x, $label)").label_uses == ()


def test_a_legend_uses_the_labels_it_prints() -> None:
    found = read_panel(PanelQuery("p", "panel", "sum by (a) (x)", "{{a}} on {{ b }} at $c"))
    assert [(u.label, bool(u.supply)) for u in found.label_uses if u.place is Place.TEXT] == [("a", True), ("b", False)]


@pytest.mark.parametrize("query", ["", "   ", "label_values(", "sum(", "$", "rate(a[$__rate_interval)", "label_values(a{, b)"])
def test_broken_queries_are_said_and_never_raise(query: str) -> None:
    assert read_grafana(query).error or not read_grafana(query).selectors
