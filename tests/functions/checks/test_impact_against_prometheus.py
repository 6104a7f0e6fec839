"""What is called dead, wrong or well after a label is gone is what Prometheus answers: promtool is the judge.

The same expression is evaluated over series of before and after: `x` and `y` lost the label Hostname to hostname, `z`
kept it, `n` spells it node. Each is on two nodes with one device each, so that what collapses can be counted.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from functions.checks.impact import Judge, State, Stored, World, collapsed, judged_rules
from functions.contract.rules import Rule, RuleKind, Selector, SelectorCount
from functions.promql import Changes, LabelChange, demands, means, read

CHANGES = Changes((), (LabelChange("Hostname", "hostname", frozenset({"x", "y"})),))


def series(host: str) -> dict[str, str]:
    found = {}
    for number, node in enumerate("ab"):
        found |= {f'{name}{{{host}="{node}",gpu="{number}"}}': f"{number + 2}+0x10" for name in "xy"}
        found |= {f'z{{Hostname="{node}",gpu="{number}"}}': "1+0x10", f'n{{node="{node}",rack="r{number}"}}': "1+0x10"}
    return found


#: expression -> (series before, series after; None: the evaluation fails), what it is called
EXPRESSIONS: dict[str, tuple[int, int | None, str]] = {
    "x > 1": (2, 2, "well"),
    'x{Hostname="a"}': (1, 0, "dead"),
    'x{Hostname=~"a|b"}': (2, 0, "dead"),
    'x{Hostname!=""}': (2, 0, "dead"),
    'x{Hostname!="a"}': (1, 2, "wrong"),
    'x{Hostname!~"a|c"}': (1, 2, "wrong"),
    'x{Hostname=~"|b"}': (1, 2, "wrong"),
    'x{Hostname=~".*"}': (2, 2, "well"),
    "sum by (Hostname) (x)": (2, 1, "wrong"),
    "sum by (Hostname, gpu) (x)": (2, 2, "wrong"),  # as many groups, and none says where it is
    "sum by (Hostname, hostname) (x)": (2, 2, "well"),
    "sum by (gpu) (x)": (2, 2, "well"),
    "sum without (Hostname, gpu) (x)": (1, 2, "wrong"),
    "count(x)": (1, 1, "well"),
    "topk by (Hostname) (1, x)": (2, 1, "wrong"),
    # joins: one side lost it
    "x * on (Hostname) z": (2, 0, "dead"),
    "z * on (Hostname) x": (2, None, "dead"),
    "x * on (Hostname, gpu) z": (2, 0, "dead"),
    "x * z": (2, 0, "dead"),
    "x * ignoring (Hostname) z": (2, 0, "dead"),  # the new spelling is one side's alone
    "x * ignoring (Hostname, hostname) z": (2, 2, "well"),
    "x and on (Hostname) z": (2, 0, "dead"),
    "x unless on (Hostname) z": (0, 2, "wrong"),
    'x * on (Hostname) group_left (rack) label_replace(n, "Hostname", "$1", "node", "(.+)")': (2, 0, "dead"),
    'label_replace(x, "node", "$1", "Hostname", "(.+)") * on (node) group_left (rack) n': (2, 0, "dead"),
    "sum by (Hostname) (x) * on (Hostname) sum by (Hostname) (z)": (2, 0, "dead"),
    # both sides lost it
    "x * on (Hostname) y": (2, None, "wrong"),
    "x * on (Hostname, gpu) y": (2, 2, "wrong"),
    "x * y": (2, 2, "well"),
    "sum by (Hostname) (x) / on (Hostname) sum by (Hostname) (y)": (2, 1, "wrong"),
    "x and on (Hostname) y": (2, 2, "wrong"),
    "x unless on (Hostname) y": (0, 0, "wrong"),
    # the label is made, or not needed
    'sum by (Hostname) (label_replace(x, "Hostname", "$1", "hostname", "(.+)"))': (2, 2, "well"),
    "(x * on (Hostname) z) or y": (4, 2, "wrong"),
    'absent(x{Hostname="a"})': (0, 1, "well"),
    'count by (h) (label_replace(x, "h", "$1", "Hostname", "(.+)"))': (2, 1, "wrong"),
    'count by (h) (label_join(x, "h", "/", "Hostname"))': (2, 1, "wrong"),
    "z * on (gpu) group_left (Hostname) x": (2, 2, "wrong"),
    "max by (Hostname) (max_over_time(x[5m]))": (2, 1, "wrong"),
    "max by (Hostname) (max_over_time((x > 1)[5m:1m]))": (2, 1, "wrong"),
}


def answers(folder: Path, side: int, host: str) -> subprocess.CompletedProcess[str]:
    """What promtool says where each expression must give as many series as the table says."""
    questions = [
        {"expr": f"count({expr}) or vector(0)", "eval_time": "6m", "exp_samples": [{"labels": "{}", "value": counts[side]}]}
        for expr, counts in EXPRESSIONS.items()
        if counts[side] is not None
    ]
    held = [{"series": name, "values": values} for name, values in series(host).items()]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": []}))
    tests = [{"interval": "1m", "input_series": held, "promql_expr_test": questions}]
    (folder / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    return subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus' package")
@pytest.mark.parametrize(("side", "host"), [(0, "Hostname"), (1, "hostname")], ids=["before", "after"])
def test_prometheus_answers_what_the_table_says(side: int, host: str, tmp_path: Path) -> None:
    run = answers(tmp_path, side, host)
    assert run.returncode == 0, run.stdout + run.stderr


def called(expr: str) -> str:
    """What the expression is called after the change."""
    selectors = [use.selector for use in read(expr).selectors]

    def finds(selector: Selector) -> int:
        lost = any(demands(m) and m.label == "Hostname" and means(selector, name) for m in selector.matchers for name in "xy")
        return 0 if lost else 2

    now = {name: Stored(frozenset({"j"}), labels, labels) for name, labels in _LABELS.items()}
    counts = {s: SelectorCount(s, {"j": finds(s)}) for s in selectors}
    judge = Judge(World((Rule(RuleKind.ALERT, "A", "g", expr),), CHANGES, counts, None, now))
    (state,) = judged_rules(judge)
    if state.state is State.DEAD:
        return "dead"
    assert state.state is State.WELL, state
    return "wrong" if collapsed(judge, ()) else "well"


_LABELS = {
    "x": frozenset({"hostname", "gpu"}),
    "y": frozenset({"hostname", "gpu"}),
    "z": frozenset({"Hostname", "gpu"}),
    "n": frozenset({"node", "rack"}),
}


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_an_expression_is_called_what_prometheus_makes_of_it(expr: str) -> None:
    assert called(expr) == EXPRESSIONS[expr][2]
