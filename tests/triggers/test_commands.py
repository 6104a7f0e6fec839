"""What the commands print: for a terminal, masked and without anything that a terminal would obey."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from functions import wiring
from functions.chat.redact import Redactor
from functions.contract.findings import Severity
from functions.settings import SettingsError, policy_from
from tests.support.reports import check, finding, report
from triggers.commands import output, records

ROOT = Path(__file__).parents[2]


def printed(*checks: object, form: str = "text") -> list[str]:
    document = Redactor().json(report("a-1", *checks).as_dict())  # type: ignore[arg-type]
    return output.report(document, form, {}).split("\n")


def test_a_report_begins_with_verdict_and_kinds_and_has_every_finding_under_its_check() -> None:
    lines = printed(check("label-mapping", [finding(node="n-2"), finding(node="n-1")]), check("telemetry-gap", missing="timed-out"))
    assert lines[0] == "🔴 FAIL · rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter · lab"
    assert "   🔴 2 GPU Pods can't be found on their devices: n-1, n-2" in lines
    at = lines.index("FAIL label-mapping: 8 judged")
    assert lines[at + 1] == "   !! critical  label-mapping/pod-missing on n-1  [label-mapping/pod-missing]"
    assert "        do        do this" in lines
    assert "        do        as above" in lines
    assert "    ?          missing schema (timed-out): Prometheus: timed-out" in lines


def test_of_what_nothing_depends_on_there_is_one_line() -> None:
    lines = printed(check("metric-rename", [finding("metric-rename/renamed", Severity.INFO, metric="a", renamed_to="b")]))
    assert lines[-1] == "    i info      metric-rename/renamed on a b  [metric-rename/renamed]"


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_nothing_from_outside_steers_the_terminal(form: str) -> None:
    text = "\n".join(printed(check("label-mapping", [finding(node="n\x1b[2J\r\nFAKE VERDICT\u202e")]), form=form))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert not [line for line in text.split("\n") if line.startswith("FAKE")]


def test_a_mask_that_is_no_expression_is_one_error() -> None:
    with pytest.raises(SettingsError, match="masks"):
        wiring.redactor(policy_from({"masks": ["("]}, "policy.yaml"))


def test_findings_are_listed_with_their_life() -> None:
    [found] = report("a-1", check("label-mapping", [finding()])).as_dict()["findings"]
    life = {"state": "open", "first_seen": "2026-11-03T11:00:00Z", "resolved_at": None}
    muted = {"muted_until": "2026-11-04T00:00:00Z", "mute_reason": "known"}
    lines = list(records._lines([found | life, found | life | muted], all_of_them=False))
    assert lines[0] == "critical  open      label-mapping/pod-missing on n-1 GPU-1"
    assert "since 2026-11-03T11:00:00Z" in lines[1]
    assert lines[3].endswith("muted until 2026-11-04T00:00:00Z: known")
    assert lines[-1] == "2 findings"
    assert list(records._lines([], all_of_them=False)) == ["nothing that was judged is open; `telltale audit` judges now"]


def called(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "triggers.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, env={"PATH": "/usr/bin"} | environ)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The demo, into a folder where an earlier one left a stub."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "postmortem-old.md").write_text("of the demo before")
    return folder, called("demo", "--out", str(folder))


Played = tuple[Path, "subprocess.CompletedProcess[str]"]


def test_the_demo_ends_well_and_says_what_the_readme_shows(played: Played) -> None:
    _, done = played
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.split("\n")
    shown = (ROOT / "README.md").read_text().split("$ make demo\n")[1].split("```")[0].strip().split("\n")
    for line in shown:
        start = line.removesuffix("…").rstrip()
        assert any(other.startswith(start) if line.endswith("…") else other == line for other in said), line
    assert "nothing has changed since it was told; no message" in done.stdout


def test_the_demo_leaves_its_stubs_and_none_of_an_earlier_one(played: Played) -> None:
    folder, done = played
    drafted = sorted(path.name for path in folder.glob("postmortem-*.md"))
    assert len(drafted) == 2
    assert all(name in done.stdout for name in drafted)


def test_stored_records_are_printed_from_what_the_demo_left(played: Played) -> None:
    folder, _ = played
    environ = {"TELLTALE_DATA_DIR": str(folder / "valkey"), "TELLTALE_CLUSTER": "prod-eu-1"}
    found = called("findings", "--check", "label-mapping", **environ)
    assert (found.returncode, found.stdout.split("\n")[-2]) == (0, "2 findings")
    audit = next(folder.glob("audit-*.json")).stem.removeprefix("audit-")
    assert "## Dimension to add next time" in called("postmortem", audit, **environ).stdout
    none = called("postmortem", "none", **environ)
    assert (none.returncode, none.stderr) == (2, "telltale: no audit is called 'none'\n")
