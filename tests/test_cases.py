"""Recorded cases after public reports: each bundle is judged as `telltale audit --bundle` does, and held against expect.yaml."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions import wiring
from functions.audit import judge
from functions.checks import CHECKS
from functions.checks.base import union_of_needs
from functions.contract.facts import Windows
from functions.contract.findings import Finding, Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import CLUSTER, AuditRequest
from functions.evidence.bundle.reading import Bundle

CASES = sorted(p.parent for p in (Path(__file__).parent / "cases").glob("*/expect.yaml"))
IDS = {check.id for check in CHECKS}


def codes(wanted: Mapping[str, Any]) -> list[str]:
    return wanted["code"] if isinstance(wanted["code"], list) else [wanted["code"]]


def concerns(code: str) -> bool:
    """Whether the code belongs to a check that there is; the cases also speak of checks to come."""
    return code.split("/", maxsplit=1)[0] in IDS


def matches(finding: Finding, wanted: Mapping[str, Any]) -> bool:
    parts = finding.subject.parts()
    return finding.code in codes(wanted) and all(parts.get(k) == str(v) for k, v in (wanted.get("subject") or {}).items())


async def report_of(path: Path) -> AuditReport:
    bundle = Bundle.read(path)
    standards = wiring.bundle_standards(bundle, CHECKS)
    request = AuditRequest("case", CLUSTER, bundle.trigger, bundle.baseline)
    facts = await wiring.bundle_gather(bundle, standards)(request, Windows(bundle.baseline, bundle.current), union_of_needs(CHECKS))
    return judge(request, facts, standards)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
async def test_a_recorded_case_is_judged_as_expected(path: Path) -> None:
    expect = yaml.safe_load((path / "expect.yaml").read_text())
    report = await report_of(path)
    failed = [f for f in report.findings if f.verdict is Verdict.FAIL]
    for wanted in expect.get("must") or []:
        if all(map(concerns, codes(wanted))):
            assert any(matches(f, wanted) for f in report.findings), wanted
    for wanted in expect.get("must_not_on") or []:
        assert not [f for f in failed if matches(f, wanted)], wanted
    for code in expect.get("must_not") or []:
        assert not [f for f in failed if code in (f.code, f.check)], code
    verdicts = {c.id: c.verdict.value for c in report.checks}
    for check, verdict in (expect.get("verdicts") or {}).items():
        if check in IDS:
            assert verdicts[check] == verdict, check


def test_all_recorded_cases_are_here() -> None:
    assert len(CASES) >= 14


RENAMES = [path for path in CASES if "metric-rename/renamed" in (path / "expect.yaml").read_text()]


@pytest.mark.parametrize("path", RENAMES, ids=lambda p: p.name)
async def test_the_renames_of_a_recorded_case_are_found_without_the_catalogue(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "bundle")
    settings = yaml.safe_load((path / "bundle.yaml").read_text())
    (tmp_path / "bundle" / "bundle.yaml").write_text(yaml.safe_dump({**settings, "policy": {"renames": {"catalogue": False}}}))
    report = await report_of(tmp_path / "bundle")
    for wanted in yaml.safe_load((path / "expect.yaml").read_text())["must"]:
        if codes(wanted) == ["metric-rename/renamed"]:
            assert any(matches(f, wanted) for f in report.findings), wanted
    claimed = {f.subject.metric for f in report.findings if f.code == "metric-rename/renamed"}
    assert not claimed & {f.subject.metric for f in report.findings if f.code == "telemetry-gap/went-silent"}
