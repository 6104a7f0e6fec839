"""Whole bundles after public reports and of every day's work, each written down with what a person on call expects of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from functions.contract.findings import Verdict
from tests.functions.checks.worlds_faulty import FAULTY, Case
from tests.functions.checks.worlds_healthy import HEALTHY
from tests.functions.checks.worlds_more import MORE
from tests.support.recorded import Recorded
from tests.support.worlds import World


@pytest.mark.parametrize("build", [*HEALTHY, *MORE], ids=lambda f: f.__name__)
async def test_nothing_is_found_in_a_healthy_cluster(build: Callable[[], World], tmp_path: Path) -> None:
    report = (await Recorded.read(build().write(tmp_path))).judged()
    assert [(f.code, f.subject.parts(), f.observed) for f in report.findings] == []
    assert [(c.id, u.subject.parts(), u.why) for c in report.checks for u in c.unjudged] == []
    assert {c.verdict for c in report.checks} == {Verdict.PASS}


@pytest.mark.parametrize("case", FAULTY, ids=lambda c: c.build.__name__)
async def test_a_reported_fault_is_told_as_what_it_is_and_nothing_else(case: Case, tmp_path: Path) -> None:
    report = (await Recorded.read(case.build().write(tmp_path))).judged()
    failed = [f for f in report.findings if f.verdict is Verdict.FAIL]
    shown = [(f.code, f.subject.parts(), f.observed) for f in report.findings]
    demanded: set[str] = set()
    for wanted, parts in case.must:
        codes = {wanted} if isinstance(wanted, str) else set(wanted)
        demanded |= codes
        assert any(f.code in codes and parts.items() <= f.subject.parts().items() for f in failed), (codes, parts, shown)
    assert not [f.code for f in failed if f.code in case.never or f.check in case.never], shown
    assert not case.says or any(case.says in f.observed for f in failed), shown
    if case.only:
        assert {f.code for f in failed} <= demanded, shown
    verdicts = {check.id: check.verdict.value for check in report.checks}
    assert {check: verdicts[check] for check in case.verdicts} == case.verdicts, (shown, [u for c in report.checks for u in c.unjudged])
