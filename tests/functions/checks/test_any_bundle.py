"""Whatever is in a bundle, an audit of it ends in a report that can be printed, or in one line that says what is unusable.

`TELLTALE_TEST_EXHAUSTIVE=1` spoils each recorded case some hundred times (minutes), by default a few.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import orjson
import pytest

from functions import wiring
from functions.contract.findings import Verdict
from functions.contract.report import AuditReport
from functions.evidence.bundle.files import BundleError
from functions.settings import SettingsError
from tests.support.mutations import spoil
from tests.support.recorded import CASES, Recorded
from tests.support.worlds import fleet
from triggers.commands import output

ROUNDS = 400 if os.environ.get("TELLTALE_TEST_EXHAUSTIVE") else 4


async def judged_or_refused(bundle: Path) -> tuple[AuditReport | None, str]:
    try:
        return (await Recorded.read(bundle)).judged(), ""
    except (BundleError, SettingsError) as error:
        return None, str(error)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
async def test_a_spoiled_bundle_is_judged_or_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    random = Random(path.name)
    for number in range(ROUNDS):
        bundle = tmp_path / str(number)
        shutil.copytree(path.resolve(), bundle)
        spoiled = spoil(bundle, random)
        report, refused = await judged_or_refused(bundle)
        if report is None:
            assert len(refused.splitlines()) == 1, spoiled
        else:
            assert orjson.loads(output.as_json(report.as_dict()))["schema"] == "telltale.dev/audit/v1"
            for form in ("text", "markdown"):
                printed = output.report(report.as_dict(), form, wiring.TITLES)
                assert not any(ord(c) < 32 and c not in "\n\t" for c in printed), spoiled
        shutil.rmtree(bundle)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
        lambda data: data.decode().encode("utf-16"),
        lambda data: data.rstrip(b"\n"),
        lambda data: data + b"\n\n  \n",
    ],
    ids=["byte order mark", "CRLF", "both", "UTF-16", "no last line end", "blank lines"],
)
async def test_what_editors_and_shells_do_to_files_changes_nothing(change, tmp_path: Path) -> None:
    world = fleet(2)
    world.alert("GpuHot", "DCGM_FI_DEV_GPU_TEMP > 85")
    bundle = world.write(tmp_path)
    for file in bundle.rglob("*"):
        if file.is_file():
            file.write_bytes(change(file.read_bytes()))
    report = (await Recorded.read(bundle)).judged()
    assert {c.verdict for c in report.checks} == {Verdict.PASS}
    targets = (await Recorded.read(bundle)).facts.bodies
    assert len(getattr(targets, "value", ())) == 2


@pytest.mark.parametrize("honor", ["false", "true"])
async def test_bytes_that_are_no_text_in_a_target_comment_are_said_and_can_be_printed(honor: str, tmp_path: Path) -> None:
    bundle = fleet(1, honor=honor).write(tmp_path)
    file = bundle / "metrics/after/00.prom"
    file.write_bytes(file.read_bytes().replace(b'container="exporter"', b'container="\xff\x1b[31m"'))
    report = (await Recorded.read(bundle)).judged()
    output.as_json(report.as_dict())
    assert "\x1b" not in output.report(report.as_dict(), "text", wiring.TITLES)


def test_rules_that_would_bring_a_parser_down_leave_the_others_judged(tmp_path: Path) -> None:
    """In a process of its own: what goes wrong here is an abort of native code, which no handler catches."""
    exprs = [
        "up" + "+up" * 20_000,
        "(" * 20_000 + "up" + ")" * 20_000,
        "-" * 20_000 + "up",
        "up" + " unless up" * 5_000,
        "up^" * 5_000 + "up",
        "up[" + "9" * 400 + "]",
        "up offset NaN",
        "up[9223372036854775807]",
    ]
    world = fleet(1)
    for number, expr in enumerate(exprs):
        world.alert(f"Odd{number}", expr)
    world.alert("Blind", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0")
    world.files["rules/odd.yaml"] = f"groups: [{{name: g2, rules: [{{alert: Never, expr: up == 0, for: {'9' * 400}}}]}}]\n"
    run = subprocess.run(
        [sys.executable, "-c", "from triggers.cli import main; raise SystemExit(main())", "audit", "--bundle", str(world.write(tmp_path)), "--format", "json"],
        capture_output=True, text=True, timeout=120, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert (run.stderr, run.returncode) == ("", 1)
    report = json.loads(run.stdout)
    blind = [f["subject"]["rule"] for f in report["findings"] if f["code"] == "telemetry-gap/alert-blind"]
    assert blind == ["Blind"]
