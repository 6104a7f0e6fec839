"""Whole bundles after public reports and of every day's work, each written down with what a person on call expects of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from functions.contract.findings import Verdict
from tests.functions.checks.worlds_healthy import HEALTHY
from tests.support.recorded import Recorded
from tests.support.worlds import World


@pytest.mark.parametrize("build", HEALTHY, ids=lambda f: f.__name__)
async def test_nothing_is_found_in_a_healthy_cluster(build: Callable[[], World], tmp_path: Path) -> None:
    report = (await Recorded.read(build().write(tmp_path))).judged()
    assert [(f.code, f.subject.parts(), f.observed) for f in report.findings] == []
    assert [(c.id, u.subject.parts(), u.why) for c in report.checks for u in c.unjudged] == []
    assert {c.verdict for c in report.checks} == {Verdict.PASS}
