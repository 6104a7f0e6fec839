"""What people read of every recorded case, word for word: bundle → facts → checks → summary and postmortem.

`make golden` writes the files anew; look through the diff as the person on call would.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from functions import wiring
from functions.reports import postmortem, summary
from tests.test_cases import CASES, report_of
from triggers.commands import output
from triggers.commands.demo import DEMO

GOLDEN = Path(__file__).parents[2] / "golden"
#: one of each kind: wrong Pod, silence, one bad body, no Pod, renames, health, and all at once
STUBS = ("01", "04", "05", "09", "11", "12", "14")


def compare(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("TELLTALE_GOLDEN") == "write":
        path.write_text(text)
    assert path.exists(), f"`make golden` writes {path.name}"
    assert text == path.read_text()


@pytest.mark.parametrize("bundle", CASES, ids=lambda p: p.name)
async def test_the_texts_of_a_case_are_as_they_were_read_over(bundle: Path) -> None:
    report = (await report_of(bundle)).as_dict()
    compare(f"{bundle.name}.summary.md", summary.render(report, titles=wiring.TITLES, link="https://board.example/audits/case").text + "\n")
    if bundle.name.startswith(STUBS):
        compare(f"{bundle.name}.postmortem.md", postmortem.render(report))


@pytest.mark.parametrize("bundle", [DEMO / "incident"], ids=lambda p: p.name)
async def test_the_terminal_and_the_context_are_as_they_were_read_over(bundle: Path) -> None:
    report = (await report_of(bundle)).as_dict()
    compare(f"{bundle.name}.terminal.txt", output.report(report, "text", wiring.TITLES) + "\n")
    compare(f"{bundle.name}.context.json", output.as_json(report["context"]) + "\n")


def test_no_golden_file_is_left_over() -> None:
    wanted = {f"{b.name}.summary.md" for b in CASES} | {f"{b.name}.postmortem.md" for b in CASES if b.name.startswith(STUBS)}
    wanted |= {"incident.terminal.txt", "incident.context.json"}
    assert {p.name for p in GOLDEN.iterdir()} == wanted
