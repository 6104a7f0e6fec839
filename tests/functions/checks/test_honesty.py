"""Unknown is never pass and never fail: every fact of every recorded case is taken away in turn, and every file spoiled.

Two things are kept apart. *We could not see*: a fact is missing, a file is broken or cut off. Then what is missing is
named with its reason, no check gets better by it, and nothing fails that did not fail before. *The world changed*: a
Pod, a target, a metric is no longer there in a source that was read whole. Then new findings are right, but only those
that such a change can cause.

`TELLTALE_TEST_EXHAUSTIVE=1` takes every fact for every reason and spoils every file in every way (minutes). By default
each case takes its own share, so that together the cases cover every fact with every reason.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from functions.checks import CHECKS
from functions.contract.facts import Facts, Known, Missing, Why
from functions.contract.findings import Verdict
from functions.contract.report import AuditReport
from functions.evidence.bundle.files import BundleError
from tests.support.recorded import CASES, Cause, Recorded, cut, failures

EXHAUSTIVE = bool(os.environ.get("TELLTALE_TEST_EXHAUSTIVE"))
GREEN = (Verdict.PASS, Verdict.NOT_APPLICABLE)

#: A place that was never given (no rules, no dashboards) takes its own questions with it, and nothing else: that is
#: what an operator chose, and `missing` says so. Every other reason means that something was to be read and was not.
WITHDRAWN = {"rules": (Why.NOT_CONFIGURED, Why.UNSUPPORTED), "dashboards": (Why.NOT_CONFIGURED, Why.UNSUPPORTED)}

#: fact that is missing -> codes that may then speak of what another code spoke of: the same thing seen from further
#: away. What they rest on is known all the same: the selector is empty now, the metric that the exporter's list asks for
#: is not there now, the scrape failed, the value is a code.
SPEAKS_INSTEAD = {
    "schema_before": {"telemetry-gap/alert-blind", "telemetry-gap/field-absent"},
    "bodies": {"telemetry-gap/target-down"},
    "extremes": {"telemetry-gap/blank-sentinel"},
}

#: fact of which one element is gone -> what that can mean in the world
CHANGES = {
    "bodies": {"telemetry-gap/target-down"},
    "devices": {"label-mapping/pod-missing", "telemetry-gap/device-missing", "telemetry-gap/node-uncovered"},
    "nodes": set(),
    "pods": {"label-mapping/stale-pod", "label-mapping/exporter-pod", "telemetry-gap/bad-exposition"},
    "schema": {
        "metric-rename/renamed",
        "metric-rename/type-changed",
        "telemetry-gap/alert-blind",
        "telemetry-gap/field-absent",
        "telemetry-gap/series-dropped",
        "telemetry-gap/went-silent",
    },
    "schema_before": {
        "metric-rename/removed",
        "metric-rename/type-changed",
        "metric-rename/unit-changed",
        "telemetry-gap/alert-blind",
        "telemetry-gap/field-absent",
    },
    "targets": {"telemetry-gap/target-down"},
    "extremes": {"telemetry-gap/blank-sentinel"},
}

by_case = pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)


def new(before: AuditReport, after: AuditReport) -> set[Cause]:
    return set(failures(after)) - set(failures(before))


def better(before: AuditReport, after: AuditReport) -> list[str]:
    was = {check.id: check.verdict for check in before.checks}
    return [check.id for check in after.checks if was[check.id] not in GREEN and check.verdict in GREEN]


@by_case
async def test_a_missing_fact_is_named_and_makes_nothing_pass_and_nothing_fail(path: Path) -> None:
    case = await Recorded.read(path)
    whole = case.judged()
    for number, (name, why) in enumerate(itertools.product(sorted(Facts.names()), Why)):
        if not isinstance(case.facts.fact(name), Known) or not (EXHAUSTIVE or (number // 8 + CASES.index(path)) % 8 == number % 8):
            continue
        report = case.judged(replace(case.facts, **{name: Missing(why, f"{name} was not read")}))
        for check, result in zip(CHECKS, report.checks, strict=True):
            if name in check.needs:
                assert (name, why.value, f"{name} was not read") in [(m.fact, m.why, m.detail) for m in result.missing]
            if check.needs.get(name):
                assert result.verdict is Verdict.UNKNOWN, (check.id, name)
                assert result.summary == f"not judged: {name} was not read"
        if why not in WITHDRAWN.get(name, ()):
            assert not better(whole, report), (name, why)
        assert {code for code, _ in new(whole, report)} <= SPEAKS_INSTEAD.get(name, set()), (name, why)


@by_case
async def test_an_element_that_is_gone_causes_only_what_its_absence_can_mean(path: Path) -> None:
    case = await Recorded.read(path)
    whole = case.judged()
    for name in sorted(Facts.names()):
        fact = case.facts.fact(name)
        if not isinstance(fact, Known):
            continue
        for index in range(len(fact.value)) if EXHAUSTIVE else range(len(fact.value))[CASES.index(path) :: 40]:
            left = replace(fact, value=fact.value[:index] + fact.value[index + 1 :])
            report = case.judged(replace(case.facts, **{name: left}))
            assert {code for code, _ in new(whole, report)} <= CHANGES.get(name, set()), (name, fact.value[index])


# ------------------------------------------------------------------------------------------------------------- files


def spoiled(path: Path, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Ways in which a file is not what was captured, each of which shows in the file itself."""
    noise = random.Random(path.name).randbytes(300)
    yield "empty", b""
    yield "cut off", cut(content.decode()).encode()
    yield "of another type", b'{"a": 1}\n' if path.suffix == ".prom" else b"[1, 2, 3]\n"
    yield "noise", noise
    yield "compressed", b"\x1f\x8b\x08\x00" + content[:100]


def files_of(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and p.name not in ("expect.yaml", "bundle.yaml"))


#: folder of a spoiled file -> facts that are unknown with it, and so codes that may speak instead
INSTEAD = {
    "metrics/before": SPEAKS_INSTEAD["schema_before"],
    "kubernetes": {"telemetry-gap/bad-exposition", "telemetry-gap/blank-sentinel"},
}


@by_case
async def test_a_spoiled_file_is_named_and_makes_nothing_pass_and_nothing_fail(path: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(path.resolve(), bundle)
    whole = (await Recorded.read(bundle)).judged()
    for number, file in enumerate(files_of(bundle)):
        content, name = file.read_bytes(), str(file.relative_to(bundle))
        for index, (how, spoil) in enumerate(spoiled(file, content)):
            if not EXHAUSTIVE and index != number % 5:
                continue
            file.write_bytes(spoil)
            report = (await Recorded.read(bundle)).judged()
            folder = "/".join(name.split("/")[: 2 if name.startswith("metrics") else 1])
            assert not better(whole, report), (name, how)
            assert {code for code, _ in new(whole, report)} <= INSTEAD.get(folder, set()), (name, how)
            if folder not in ("logs", "traces", "alerts"):  # no check reads these yet
                told = [m.detail for check in report.checks for m in check.missing]
                assert any(name in detail for detail in told), (name, how, told)
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("folder", "unknown"),
    [
        ("kubernetes", {"label-mapping", "telemetry-gap"}),
        ("metrics/after", {"label-mapping", "telemetry-gap", "metric-rename"}),
        ("metrics/before", {"metric-rename"}),
    ],
)
@by_case
async def test_what_was_not_captured_at_all_is_unknown(path: Path, tmp_path: Path, folder: str, unknown: set[str]) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(path.resolve(), bundle)
    whole = (await Recorded.read(bundle)).judged()
    shutil.rmtree(bundle / folder, ignore_errors=True)
    try:
        report = (await Recorded.read(bundle)).judged()
    except BundleError:
        assert folder == "metrics/after"
        return
    verdicts = {check.id: check.verdict for check in report.checks}
    for check in unknown:
        # a fault that can be seen without the folder still fails
        assert verdicts[check] is Verdict.UNKNOWN or any(f.check == check for f in failures(report).values()), check
    assert {code for code, _ in new(whole, report)} <= INSTEAD.get(folder, set())


# -------------------------------------------------------------------------------------------- the world itself changed

_WORDS = re.compile(r"^([A-Za-z_:][\w:]*?)(?:_bucket|_sum|_count)?[{ ]", re.MULTILINE)

#: what may follow where a metric, or a label of all its metrics, is no longer served
WITHOUT_METRIC = {
    "metric-rename/removed",
    "metric-rename/renamed",
    "metric-rename/type-changed",
    "telemetry-gap/alert-blind",
    "telemetry-gap/empty-exposition",
    "telemetry-gap/field-absent",
    "telemetry-gap/series-dropped",
    "telemetry-gap/went-silent",
}


def without(text: str, metric: str) -> str:
    own = re.compile(rf"(?:# (?:HELP|TYPE) )?{re.escape(metric)}(?:_bucket|_sum|_count)?[{{ ]")
    return "\n".join(line for line in text.split("\n") if not own.match(line))


@by_case
async def test_a_metric_that_is_no_longer_served_is_silence_and_never_a_wrong_pod(path: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(path.resolve(), bundle)
    whole = (await Recorded.read(bundle)).judged()
    for file in sorted(bundle.glob("metrics/after/*.prom")):
        text = file.read_text()
        metrics = sorted(set(_WORDS.findall(text)))
        for metric in metrics if EXHAUSTIVE else metrics[:: max(1, len(metrics) // 2)]:
            file.write_text(without(text, metric))
            report = (await Recorded.read(bundle)).judged()
            assert {code for code, _ in new(whole, report)} <= WITHOUT_METRIC, metric
        file.write_text(text)
