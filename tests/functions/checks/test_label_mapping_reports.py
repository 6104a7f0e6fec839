"""More than sixty public reports, wrong output and right, through the whole pipeline: text, bundle, facts, checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from functions import wiring
from functions.audit import judge
from functions.checks import CHECKS, base
from functions.contract.facts import Windows
from functions.contract.findings import CheckResult, Finding, Verdict
from functions.contract.signals import CLUSTER, AuditRequest
from functions.evidence.bundle.reading import Bundle
from tests.functions.checks.reports_table import cases


async def judged(folder: Path, ids: tuple[str, ...]) -> dict[str, CheckResult]:
    """The results of some checks on a bundle directory."""
    bundle = Bundle.read(folder)
    checks = [check for check in CHECKS if check.id in ids]
    standards = wiring.bundle_standards(bundle, checks)
    request = AuditRequest("table", CLUSTER, bundle.trigger, bundle.baseline)
    windows = Windows(bundle.baseline, bundle.current)
    facts = await wiring.bundle_gather(bundle, standards)(request, windows, base.union_of_needs(checks))
    return {result.id: result for result in judge(request, facts, standards).checks}


def codes_of(wanted: Mapping[str, Any]) -> list[str]:
    return [wanted["code"]] if isinstance(wanted["code"], str) else list(wanted["code"])


def satisfies(finding: Finding, wanted: Mapping[str, Any]) -> bool:
    subject = {key: cases.expand(str(value)) for key, value in wanted.get("subject", {}).items()}
    parts = finding.subject.parts()
    return (
        finding.code in codes_of(wanted) and all(parts.get(k) == v for k, v in subject.items()) and wanted.get("hint", "") in finding.hint
    )


def test_the_tables_hold_at_least_sixty_reports() -> None:
    assert len({row["row"] for row in cases.rows()}) >= 60


@pytest.mark.parametrize("case", cases.load(), ids=lambda case: case.name)
async def test_wrong_output_is_found_and_right_output_is_left_alone(case: cases.Case, tmp_path: Path) -> None:
    results = await judged(case.write(tmp_path), case.checks)
    findings = [f for result in results.values() for f in result.findings]
    shown = [(f.code, f.subject.parts(), f.observed) for f in findings]
    for wanted in case.expect:
        assert any(satisfies(f, wanted) for f in findings), (case.refs, wanted, shown)
    expected = {code for wanted in case.expect for code in codes_of(wanted)}
    assert {f.code for f in findings} <= expected, (case.refs, shown)
    if not case.expect:
        verdicts = {id_: (r.verdict, r.summary, r.unjudged) for id_, r in results.items() if r.verdict is not Verdict.PASS}
        assert not verdicts, (case.refs, verdicts)
