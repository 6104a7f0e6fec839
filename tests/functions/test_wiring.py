"""Files that people name are read, or it is said why not; never an exception in the middle of an audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions import wiring
from functions.checks import CHECKS
from functions.contract.facts import Known, Missing, Why, Windows
from functions.contract.signals import CLUSTER
from functions.settings import Settings, SettingsError
from functions.wiring import DASHBOARD_FILES, RULE_FILES, check_paths, live_gather, texts
from tests.support.reports import NOW, request

GOOD = "groups: [{name: g, rules: [{alert: A, expr: up == 0}]}]"


def settings(**more: Any) -> Settings:
    return Settings(**more)


def test_of_a_folder_the_endings_count_and_of_a_file_that_is_named_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a")
    (tmp_path / "notes.txt").write_text("n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/b.yml").write_text("b")
    (tmp_path / "gpu.rules").write_text("r")
    found = texts((tmp_path, tmp_path / "gpu.rules"), RULE_FILES)
    assert [(Path(where).name, text) for where, text in found] == [("a.yaml", "a"), ("b.yml", "b"), ("gpu.rules", "r")]


def test_a_mounted_configmap_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "..2026_11_03").mkdir()
    (tmp_path / "..2026_11_03/board.json").write_text("{}")
    (tmp_path / "..data").symlink_to("..2026_11_03")
    (tmp_path / "board.json").symlink_to("..data/board.json")
    assert [where for where, _ in texts((tmp_path,), DASHBOARD_FILES)] == [str(tmp_path / "board.json")]


def test_what_can_not_be_read_is_missing_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    found = {Path(where).name: text for where, text in texts((tmp_path, tmp_path / "away.yaml"), RULE_FILES)}
    assert found == {
        "binary.yaml": Missing(Why.MALFORMED, f"{tmp_path}/binary.yaml: not UTF-8 text (byte 0)", f"{tmp_path}/binary.yaml"),
        "gone.yaml": Missing(Why.MALFORMED, f"{tmp_path}/gone.yaml: No such file or directory", f"{tmp_path}/gone.yaml"),
        "away.yaml": Missing(Why.MALFORMED, f"{tmp_path}/away.yaml: No such file or directory", f"{tmp_path}/away.yaml"),
    }


def test_a_path_that_is_not_there_at_the_start_names_its_setting(tmp_path: Path) -> None:
    check_paths(settings(rules=(tmp_path,)))
    with pytest.raises(SettingsError, match=f"TELLTALE_DASHBOARDS: there is no file or folder {tmp_path}/none"):
        check_paths(settings(dashboards=(tmp_path / "none",)))


async def test_a_broken_file_is_a_missing_fact_and_beside_good_ones_a_lost_part(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"\xff")
    standards = wiring.standards(Settings(), CHECKS)
    gather = live_gather(settings(rules=(tmp_path,), dashboards=(tmp_path / "none.json",)), None, None, standards)
    asked = replace(request(), scope=CLUSTER)
    facts = await gather(asked, Windows(None, NOW), frozenset({"rules", "dashboards"}))
    assert isinstance(facts.rules, Missing)
    assert facts.rules.why is Why.MALFORMED
    assert isinstance(facts.dashboards, Missing)
    assert "none.json: No such file" in facts.dashboards.detail
    (tmp_path / "good.yaml").write_text(GOOD)
    facts = await gather(asked, Windows(None, NOW), frozenset({"rules"}))
    assert isinstance(facts.rules, Known)
    assert [r.name for r in facts.rules.value] == ["A"]
    assert "bad.yaml: not UTF-8" in facts.rules.lost[0].detail
