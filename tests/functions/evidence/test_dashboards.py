"""Dashboards as Grafana and people store them: whose queries go to a Prometheus, and what is left out and said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functions.contract.rules import Dashboard
from functions.evidence import dashboards


def read(**parts: Any) -> Dashboard:
    return dashboards.from_json(json.dumps({"title": "T", "uid": "u", "panels": [], **parts}), "f.json")


def panel(title: str, expr: str = "x", **more: Any) -> dict[str, Any]:
    return {"title": title, "targets": [{"expr": expr}], **more}


def wheres(board: Dashboard) -> list[str]:
    return [query.where for query in board.queries]


VARIABLES = {"list": [{"name": "ds", "type": "datasource", "query": "prometheus"}, {"name": "logs", "type": "datasource", "query": "loki"}]}


@pytest.mark.parametrize(
    ("source", "read_it"),
    [
        (None, True),
        ({"type": "prometheus", "uid": "abc"}, True),
        ({"type": "grafana-amazonprometheus-datasource", "uid": "abc"}, True),
        ({"type": "victoriametrics-metrics-datasource"}, True),
        ({"type": "victoriametrics-logs-datasource"}, False),
        ({"type": "loki", "uid": "abc"}, False),
        ({"type": "tempo"}, False),
        ({"type": "__expr__", "uid": "__expr__"}, False),
        ({"uid": "${ds}"}, True),
        ({"uid": "${logs}"}, False),
        ({"uid": "$logs"}, False),
        ({"uid": "${DS_X}"}, False),
        ("Prometheus", True),
        ("Loki on prem", False),
        ("${DS_X}", False),
        ("-- Mixed --", True),
        ("default", True),
    ],
)
def test_only_queries_that_go_to_a_prometheus_are_read(source: Any, read_it: bool) -> None:
    inputs = [{"name": "DS_X", "type": "datasource", "pluginId": "elasticsearch"}, {"name": "VAR", "type": "constant"}]
    board = read(panels=[panel("p", datasource=source)], templating=VARIABLES, __inputs=inputs)
    assert wheres(board) == (["p"] if read_it else [])
    assert board.unreadable == ()


def test_in_a_mixed_panel_each_query_names_its_own_source() -> None:
    targets = [
        {"expr": "x", "datasource": {"type": "prometheus"}},
        {"expr": '{a="b"}', "datasource": {"type": "loki"}},
        {"expression": "$A * 2", "datasource": {"type": "__expr__"}},
    ]
    board = read(panels=[{"title": "p", "datasource": {"type": "datasource", "uid": "-- Mixed --"}, "targets": targets}])
    assert [query.expr for query in board.queries] == ["x"]


def test_panels_in_rows_collapsed_rows_and_old_rows_are_read_and_told_apart() -> None:
    board = read(
        panels=[
            panel("A"),
            {"type": "row", "title": "R", "collapsed": True, "panels": [panel("A"), {"title": "deep", "panels": [panel("B")]}]},
            {"id": 7, "targets": [{"expr": "y"}, {"expr": "z"}]},
            {"type": "text", "title": "words", "targets": [{"expr": "w"}]},
        ],
        rows=[{"title": "old", "panels": [panel("C", yaxes=[{"format": "celsius"}, {"format": "short"}])]}],
    )
    assert wheres(board) == ["C", "A", "A (2)", "B", "panel 7", "panel 7"]
    assert board.queries[0].unit == "celsius"


def test_library_panels_are_read_where_their_model_is_there_and_listed_where_it_is_not() -> None:
    model = {"title": "shared", "targets": [{"expr": "x"}], "fieldConfig": {"defaults": {"unit": "watt"}}}
    board = read(
        panels=[
            {"title": "mine", "libraryPanel": {"uid": "a", "name": "n"}},
            {"title": "inline", "libraryPanel": {"uid": "b", "model": model}},
            {"title": "gone", "libraryPanel": {"uid": "c", "name": "elsewhere"}},
        ],
        __elements={"a": {"uid": "a", "model": model}},
    )
    assert [(query.where, query.unit) for query in board.queries] == [("mine", "watt"), ("inline", "watt")]
    assert board.unreadable == (("gone", "a library panel (elsewhere), whose queries are not in the dashboard"),)


def test_a_hidden_query_counts_only_where_an_expression_computes_with_it() -> None:
    hidden = {"expr": "x", "hide": True}
    assert wheres(read(panels=[{"title": "p", "targets": [hidden]}])) == []
    computed = {"expression": "$A", "datasource": {"uid": "__expr__"}}
    assert wheres(read(panels=[{"title": "p", "targets": [hidden, computed]}])) == ["p"]


def test_variables_and_annotations_of_every_schema_are_read() -> None:
    listed = [
        {"name": "a", "type": "query", "query": "label_values(x, a)"},
        {"name": "b", "type": "query", "query": {"qryType": 1, "query": "label_values(x, b)"}},
        {"name": "c", "type": "query", "query": "", "definition": "label_values(x, c)"},
        {"name": "d", "type": "query", "datasource": {"type": "loki"}, "query": {"label": "d"}},
        {"name": "e", "type": "custom", "query": "1,2"},
        {"name": "f", "type": "query", "query": {"refId": "x"}},
    ]
    notes = [
        {"name": "old", "expr": "changes(x[5m])", "titleFormat": "{{a}}"},
        {"name": "new", "target": {"expr": "y"}, "enable": True},
        {"name": "off", "expr": "z", "enable": False},
        {"name": "builtin", "datasource": {"type": "grafana", "uid": "-- Grafana --"}, "target": {"type": "dashboard"}},
    ]
    board = read(templating={"list": listed}, annotations={"list": notes})
    assert [(q.where, q.kind) for q in board.queries] == [
        ("a", "variable"),
        ("b", "variable"),
        ("c", "variable"),
        ("old", "annotation"),
        ("new", "annotation"),
    ]
    assert board.unreadable == (("f", "a variable without a query that can be read"),)


def test_a_dashboard_is_found_in_what_holds_it() -> None:
    inner = {"title": "T", "uid": "u", "panels": [panel("p")]}
    for held in (
        inner,
        {"dashboard": inner, "meta": {}},
        {"kind": "Dashboard", "metadata": {}, "spec": inner},
        {"kind": "GrafanaDashboard", "spec": {"json": json.dumps(inner)}},
    ):
        board = dashboards.from_json(json.dumps(held), "f.json")
        assert (board.title, wheres(board)) == ("T", ["p"])


def test_a_schema_that_is_not_read_is_listed() -> None:
    board = dashboards.from_json(json.dumps({"kind": "Dashboard", "spec": {"title": "T", "elements": {"panel-1": {}}}}), "f.json")
    assert board.queries == ()
    assert "version 2" in board.unreadable[0][1]


def test_a_configmap_gives_its_dashboards_and_lists_broken_json() -> None:
    data = {
        "b.json": json.dumps({"title": "B", "panels": [panel("p")]}),
        "a.json": "{",
        "c.json": json.dumps({"settings": 1}),
        "readme.md": "{",
    }
    found = dashboards.from_configmap({"metadata": {"namespace": "n", "name": "m"}, "data": data})
    assert [(board.title, len(board.queries), len(board.unreadable)) for board in found] == [("a.json", 0, 1), ("B", 1, 0)]
    assert found[1].origin == "ConfigMap/n/m/b.json"
    assert dashboards.from_configmap({"data": None}) == ()


@pytest.mark.parametrize(
    "odd", [{"panels": 3}, {"panels": [3, {"targets": 4}, {"title": 5}]}, {"templating": []}, {"annotations": {"list": [1]}}, {"rows": {}}]
)
def test_odd_shapes_do_no_harm(odd: dict[str, Any]) -> None:
    assert read(**odd).queries == ()
