"""Rules and dashboards from every shape they come in; what is no rule file or dashboard is a clear error."""

from __future__ import annotations

import json

import pytest

from functions.contract.rules import RuleKind
from functions.evidence import dashboards, rules

GROUP = "groups: [{name: g, rules: [{alert: A, expr: 'x > 1', for: 5m, labels: {severity: warning}}, {record: 'a:b', expr: y}]}]"


def test_a_rule_file_an_object_and_a_list_give_the_same_rules() -> None:
    plain = rules.from_yaml(GROUP, "f.yaml")
    spec = "spec: {" + GROUP + "}"
    wrapped = rules.from_yaml("kind: PrometheusRule\nmetadata: {name: r, namespace: n}\n" + spec, "f.yaml")
    listed = rules.from_yaml("kind: List\nitems: [{kind: PrometheusRule, metadata: {name: r, namespace: n}, " + spec + "}]", "f.yaml")
    assert [(r.kind, r.name, r.group, r.expr, r.duration) for r in plain] == [
        (RuleKind.ALERT, "A", "g", "x > 1", 300.0),
        (RuleKind.RECORD, "a:b", "g", "y", 0.0),
    ]
    assert wrapped == listed
    assert {r.origin for r in wrapped} == {"PrometheusRule/n/r"}
    assert not plain[0].loaded


def test_a_server_s_answer_gives_loaded_rules_with_their_health() -> None:
    rule = {"type": "alerting", "name": "A", "query": "x", "duration": 60, "health": "err", "lastError": "no"}
    answer = {"status": "success", "data": {"groups": [{"name": "g", "file": "/r.yaml", "rules": [rule]}]}}
    (found,) = rules.from_api(answer)
    assert (found.name, found.duration, found.health, found.error, found.origin, found.loaded) == ("A", 60.0, "err", "no", "/r.yaml", True)


@pytest.mark.parametrize(
    "text", ["a: [", "[1]", "x: 1", "groups: 1", "groups: [1]", "groups: [{rules: [{alert: A}]}]", "groups: [{rules: [3]}]"]
)
def test_what_is_no_rule_file_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"rules/x\.yaml"):
        rules.from_yaml(text, "rules/x.yaml")


def test_panels_of_all_ages_variables_and_annotations_are_read() -> None:
    target = {"expr": "x", "legendFormat": "{{pod}}"}
    board = {
        "title": "T",
        "uid": "u",
        "panels": [
            {"title": "row", "type": "row", "panels": [{"title": "inner", "targets": [target]}]},
            {"title": "other", "datasource": {"type": "loki"}, "targets": [{"expr": '{a="b"}'}]},
            {"title": "lib", "libraryPanel": {"uid": "l", "name": "shared"}},
            {"title": "unit", "fieldConfig": {"defaults": {"unit": "celsius"}}, "targets": [{"expr": "y"}]},
        ],
        "rows": [{"panels": [{"title": "old", "targets": [{"expr": "z"}]}]}],
        "templating": {
            "list": [{"name": "v", "type": "query", "query": {"query": "label_values(x, pod)"}}, {"name": "d", "type": "datasource"}]
        },
        "annotations": {"list": [{"name": "deploys", "expr": "changes(x[5m])"}]},
    }
    found = dashboards.from_json(json.dumps({"dashboard": board, "meta": {}}), "f.json")
    assert [(q.where, q.kind, q.expr) for q in found.queries] == [
        ("old", "panel", "z"),
        ("inner", "panel", "x"),
        ("unit", "panel", "y"),
        ("v", "variable", "label_values(x, pod)"),
        ("deploys", "annotation", "changes(x[5m])"),
    ]
    assert found.unreadable[0][0] == "lib"
    assert found.queries[2].unit == "celsius"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 1}'])
def test_what_is_no_dashboard_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"d\.json"):
        dashboards.from_json(text, "d.json")
