"""The Containerfile's steps where no container can be built: what it compiles starts from a read-only place, without a home."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from benchmarks.cold_start.__main__ import accepted
from tests.support.ports import free_port
from tests.support.redis import Server, valkey_server

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Containerfile").read_text()

pytestmark = pytest.mark.real


def step(part: str, app: Path) -> list[str]:
    """The command of a RUN line, for this interpreter and folder."""
    (line,) = re.findall(rf"^RUN (python .*{part}.*)$", TEXT, re.MULTILINE)
    command = line.partition(" > ")[0].replace("/src/sbom.py", str(ROOT / "deploy/sbom.py")).replace("/app", str(app))
    return [sys.executable, *command.split()[1:]]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """What the image holds of Telltale; its dependencies are those of this environment."""
    folder = tmp_path / "app"
    for name in re.findall(r"^COPY (\w+)/ /app/", TEXT, re.MULTILINE):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(step("compileall", folder), check=True)
    return folder


def test_all_of_it_is_compiled_ahead_and_never_checked_again(app: Path) -> None:
    sources = list(app.rglob("*.py"))
    compiled = {p.name.partition(".")[0]: p.read_bytes() for p in app.rglob("*.pyc")}
    assert {s.stem for s in sources} == compiled.keys()
    assert {body[4:8] for body in compiled.values()} == {b"\x01\0\0\0"}, "unchecked hash: a source's time doesn't matter"


def test_the_image_holds_everything_that_a_role_and_the_demo_read(app: Path) -> None:
    here = {
        str(p.relative_to(ROOT))
        for name in ("functions", "triggers")
        for p in (ROOT / name).rglob("*")
        if p.suffix in (".lua", ".yaml", ".html")
    }
    assert here <= {str(p.relative_to(app)) for p in app.rglob("*")}


def test_a_role_runs_from_a_read_only_place_without_a_home(app: Path, tmp_path: Path) -> None:
    writable, port = tmp_path / "tmp", free_port()
    writable.mkdir()
    before = {str(p) for p in app.rglob("*")}
    for folder in (app, *(p for p in app.rglob("*") if p.is_dir())):
        folder.chmod(0o555)
    given = dict(re.findall(r"(PYTHON\w+)=(\S+)", TEXT))
    assert given["PYTHONPATH"] == "/app"
    server = Server(valkey_server()).start()
    settings = {
        **given,
        "PYTHONPATH": str(app),
        "TELLTALE_REDIS_URL": server.url,
        "TELLTALE_LISTEN": f"127.0.0.1:{port}",
        "TELLTALE_DATA_DIR": str(writable),
        "TMPDIR": str(writable),
    }
    entry = re.search(r'ENTRYPOINT \["[^"]*", (.*)\]', TEXT)
    assert entry
    command = [sys.executable, *(part.strip(' "') for part in entry[1].split(",")), "serve", "dead-letter"]
    process = subprocess.Popen(command, env={"PATH": os.environ["PATH"], **settings}, cwd=app)
    try:
        accepted("dead-letter", port, process)
    finally:
        process.terminate()
        ended = process.wait(30)
        server.close()
        for folder in (app, *(p for p in app.rglob("*") if p.is_dir())):
            folder.chmod(0o755)
    assert ended == 0
    assert {str(p) for p in app.rglob("*")} == before, "nothing is written beside the program"


def test_the_bill_of_materials_names_what_is_installed_with_its_version() -> None:
    installed = Path(sysconfig.get_path("purelib"))
    printed = subprocess.run(step("sbom", installed), check=True, capture_output=True, text=True).stdout
    bill = json.loads(printed)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    named = {re.sub(r"[-_.]+", "-", c["name"]).lower(): c["version"] for c in bill["components"]}
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)(?: ;.*)? \\$", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert len(pinned) > 20
    assert {name: version for name, version in pinned.items() if named.get(name, version) != version} == {}
    assert {"aiohttp", "redis", "kubernetes", "cloudevents"} <= named.keys()
