"""Rules and dashboards as people write them, through the whole pipeline: who is told, by which check, with what to write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions.contract.findings import CheckResult, Finding
from functions.promql import objection
from tests.functions.checks.reports_table import cases
from tests.functions.checks.test_label_mapping_reports import judged

CASES = yaml.safe_load((Path(__file__).parent / "impact_table.yaml").read_text(encoding="utf-8"))
CODES = {"rule-dead", "alert-blind", "grouping-collapsed"}


def write(case: Mapping[str, Any], folder: Path) -> Path:
    """The case as a bundle. `$g0` is the device `$G0` with the host's label in lower case."""

    def text(side: str) -> str:
        return re.sub(r"\$g(\d)", lambda m: cases.SHORTHANDS[f"G{m[1]}"].replace("Hostname", "hostname"), case[side])

    parts = {"before": text("before"), "after": text("after"), "policy": case.get("policy", {}), "pods": case.get("pods", {})}
    rules = [rule(name, held) for name, held in case.get("rules", {}).items()]
    if rules:
        parts["rules"] = yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]})
    cases.Case(case["gist"], "", (), (), parts).write(folder)
    if "board" in case:
        (folder / "dashboards").mkdir()
        (folder / "dashboards" / "board.json").write_text(json.dumps(board(case["board"])))
    return folder


def rule(name: str, held: Any) -> dict[str, Any]:
    given = held if isinstance(held, dict) else {"expr": held}
    kind = "record" if ":" in name or given.get("record") else "alert"
    return {
        kind: given.get("alert", name),
        "expr": given["expr"],
        **({"annotations": {"summary": given["summary"]}} if "summary" in given else {}),
    }


def board(queries: Mapping[str, Any]) -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    for title, held in queries.items():
        given = held if isinstance(held, dict) else {"expr": held}
        if "library" in given:
            panels.append({"title": title, "type": "timeseries", "libraryPanel": {"name": given["library"], "uid": "l"}})
        elif not title.startswith("$"):
            target = {"expr": given["expr"], "legendFormat": given.get("legend", "")}
            panels.append({"title": title, "type": "timeseries", "targets": [target]})
    variables = [{"name": t[1:], "type": "query", "query": q} for t, q in queries.items() if t.startswith("$")]
    return {"title": "Board", "uid": "b", "schemaVersion": 39, "panels": panels, "templating": {"list": variables}}


async def results(case: Mapping[str, Any], folder: Path) -> dict[str, CheckResult]:
    return await judged(write(case, folder), ("metric-rename", "telemetry-gap"))


def of_rules(found: Mapping[str, CheckResult]) -> Iterator[tuple[str, str]]:
    """(rule, code) of everything that is said about a rule."""
    for result in found.values():
        for finding in result.findings:
            if finding.subject.rule and finding.code.partition("/")[2] in CODES:
                yield finding.subject.rule, finding.code.partition("/")[2]
        for left in result.unjudged:
            if left.subject.rule:
                yield left.subject.rule, "unjudged"


def of_board(found: Mapping[str, CheckResult], code: str) -> list[Finding]:
    return [f for f in found["metric-rename"].findings if f.code == f"metric-rename/{code}" and f.subject.dashboard]


def places(findings: list[Finding], case: Mapping[str, Any]) -> set[str]:
    """The panels and variables that a finding on the dashboard lists."""
    noted = {i.note.partition(":")[0] for f in findings for i in f.impact}
    return {name for name in case.get("board", {}) if name.removeprefix("$") in noted}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["gist"])
async def test_who_is_hit_is_told_once_by_the_right_check_with_what_to_write(case: Mapping[str, Any], tmp_path: Path) -> None:
    found = await results(case, tmp_path)
    told = list(of_rules(found))
    assert sorted(told) == sorted(case.get("told", {}).items())
    dead, wrong = of_board(found, "dashboard-dead"), of_board(found, "grouping-collapsed")
    if "wrong" in case:
        assert (places(wrong, case), dead) == (set(case["wrong"]), [])
    else:
        extra = places(dead, case) - set(case.get("dead", []))
        # what a dead dashboard has of wrong answers is listed with it
        assert set(case.get("dead", [])) <= places(dead, case)
        assert all("groups by" in i.note for f in dead for i in f.impact if i.note.partition(":")[0] in extra)
        assert not wrong
    unread = " ".join(u.why for u in found["metric-rename"].unjudged if u.subject.dashboard)
    assert all(name in unread for name in case.get("unread", []))


@pytest.mark.parametrize("case", [c for c in CASES if "suggested" in c], ids=lambda case: case["gist"])
async def test_the_suggestion_is_what_the_author_would_write(case: Mapping[str, Any], tmp_path: Path) -> None:
    found = await results(case, tmp_path)
    impacts = [i for result in found.values() for f in result.findings for i in f.impact]
    for name, expected in case["suggested"].items():
        if name in case.get("rules", {}):
            said = {i.suggested for i in impacts if i.name == name}
        else:
            said = {i.suggested for i in impacts if i.kind == "dashboard" and i.note.partition(":")[0] == name.removeprefix("$")}
        assert said == {expected}, (name, said)
    for impact in impacts:
        if impact.suggested and impact.kind != "dashboard":
            assert objection(impact.suggested) == "", impact


@pytest.mark.parametrize("case", [c for c in CASES if "uses" in c or "uses_label" in c], ids=lambda case: case["gist"])
async def test_everyone_who_uses_a_changed_name_or_label_is_listed_with_it(case: Mapping[str, Any], tmp_path: Path) -> None:
    found = (await results(case, tmp_path))["metric-rename"].findings
    for metric, names in case.get("uses", {}).items():
        listed = {i.name for f in found if f.subject.metric == metric for i in f.impact}
        assert set(names) <= listed, (metric, listed)
    for label, names in case.get("uses_label", {}).items():
        listed = {i.name for f in found if f.subject.label == label for i in f.impact}
        assert set(names) <= listed, (label, listed)
