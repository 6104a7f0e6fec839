"""Rule files as people write them: what is broken in one is told with its line, and the rest is kept."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from functions.contract.rules import RuleKind
from functions.evidence import rules

MIXED = dedent(
    """\
    groups:
      - name: good
        rules:
          - alert: A
            expr: |
              sum by (a) (x)
                > 1
            for: 1h30m
            labels: {severity: critical, level: 3}
          - alert: NoExpr
          - 7
          - alert: Odd
            expr: y
            for: soon
          - record: r
            alert: r
            expr: z
      - just text
      - name: bad
        rules: {}
      - name: late
        rules:
          - record: b:c
            expr: 1
    """
)


def test_a_broken_rule_is_told_with_its_line_and_the_rest_is_kept() -> None:
    found = rules.from_yaml(MIXED, "rules/x.yaml")
    assert {rule.name: rule.error for rule in found if rule.error} == {
        "NoExpr": "rules/x.yaml:10: it has no expr",
        "rule 3 of good": "rules/x.yaml:11: a rule is a mapping",
        "Odd": "rules/x.yaml:12: for: 'soon' is no duration",
        "r": "rules/x.yaml:15: it is an alert and a record at once",
        "group 1": "rules/x.yaml:18: a group is a mapping with a list of rules",
        "bad": "rules/x.yaml:19: a group is a mapping with a list of rules",
    }
    good = {rule.name: rule for rule in found if not rule.error}
    assert set(good) == {"A", "b:c"}
    assert (good["A"].duration, good["A"].labels) == (5400.0, {"severity": "critical", "level": "3"})
    assert (good["b:c"].kind, good["b:c"].expr) == (RuleKind.RECORD, "1")


def test_documents_and_lists_of_many_kinds_give_the_rules_in_them() -> None:
    text = dedent(
        """\
        # from kubectl
        apiVersion: v1
        kind: List
        items:
          - kind: ConfigMap
            metadata: {name: other}
            data: {a: b}
          - kind: PrometheusRule
            metadata: {name: p, namespace: n}
            spec: {groups: [{name: g, rules: [{alert: A, expr: x}]}]}
        ---
        ---
        kind: VMRule
        metadata: {name: v, namespace: n}
        spec: {groups: [{name: g, rules: [{record: "a:b", expr: y}]}]}
        ---
        namespace: tenant
        groups: [{name: g, rules: [{alert: M, expr: z}]}]
        """
    )
    found = rules.from_yaml(text, "f.yaml")
    assert [(rule.name, rule.origin) for rule in found] == [("A", "PrometheusRule/n/p"), ("a:b", "VMRule/n/v"), ("M", "f.yaml")]


def test_json_is_read_as_well_and_so_is_a_server_s_answer_in_a_file() -> None:
    object_ = {
        "kind": "PrometheusRule",
        "metadata": {"name": "p"},
        "spec": {"groups": [{"name": "g", "rules": [{"alert": "A", "expr": "x"}]}]},
    }
    answer = {
        "status": "success",
        "data": {"groups": [{"name": "g", "file": "f", "rules": [{"type": "recording", "name": "r", "query": "y"}]}]},
    }
    assert [rule.name for rule in rules.from_yaml(json.dumps(object_, indent=1), "f.json")] == ["A"]
    (loaded,) = rules.from_yaml(json.dumps(answer), "rules.json")
    assert (loaded.kind, loaded.name, loaded.expr, loaded.loaded) == (RuleKind.RECORD, "r", "y", True)


@pytest.mark.parametrize("text", ["", "---\n", "groups: []", "groups: [{name: g, rules: []}]", "groups: [{name: g}]"])
def test_no_rules_are_no_fault(text: str) -> None:
    assert rules.from_yaml(text, "f.yaml") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups:\n  - name: g\n    rules: [\n", r"f\.yaml:4: not YAML"),
        ("kind: ConfigMap\ndata: {}", r"f\.yaml: no rule groups"),
        ("groups:\n  - name: g\n    rules:\n      - alert: A\n", r"f\.yaml:4: it has no expr"),
    ],
)
def test_a_text_without_one_readable_rule_is_refused_with_the_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rules.from_yaml(text, "f.yaml")


def test_a_server_s_answer_keeps_what_can_be_read() -> None:
    answer = {"data": {"groups": [{"name": "g", "rules": [{"name": "A", "type": "alerting", "query": "x"}, {"name": "B"}, 3]}, "odd"]}}
    found = rules.from_api(answer)
    assert [(rule.name, bool(rule.error)) for rule in found] == [("A", False), ("rule 2 of g", True), ("rule 3 of g", True)]
    for broken in (None, [], {"data": []}, {"status": "error"}):
        with pytest.raises(ValueError, match="not an answer"):
            rules.from_api(broken)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("0s", 0.0),
        ("0m0s", 0.0),
        ("0", 0.0),
        (0, 0.0),
        (15, 15.0),
        ("", 0.0),
        ("soon", None),
        (True, None),
    ],
)
def test_durations(value: object, expected: float | None) -> None:
    assert rules.seconds(value) == expected
