"""The built-in Valkey: durable, gone with its parent, one process a directory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from functions.store import Store
from functions.store.embedded import EmbeddedError, EmbeddedServer
from tests.support.redis import valkey_server
from tests.support.reports import NOW, check, report

PARENT = """
    import asyncio, sys
    from pathlib import Path
    from functions.store import Store
    from functions.store.embedded import EmbeddedServer
    from tests.support.reports import NOW, check, report

    async def main():
        async with EmbeddedServer(Path(sys.argv[1])) as server:
            store = await Store.open(server.url, "lab")
            await store.audits.complete(report(sys.argv[2], check("label-mapping")), NOW)
            print(server.pid, flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
"""


def is_alive(pid: int) -> bool:
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    except FileNotFoundError:
        return False


def spawn(*command: str, wait_for: Path | None = None) -> subprocess.Popen[str]:
    """A process beside the test; `wait_for`: a socket that it opens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE if wait_for is None else subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 10
    while wait_for is not None and not wait_for.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


async def audits(store: Store) -> set[str]:
    return {a["id"] for a in (await store.audits.page(None, 10))[0]}


async def test_what_is_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    for n in range(2):
        async with EmbeddedServer(tmp_path) as server:
            pid = server.pid
            store = await Store.open(server.url, "lab")
            assert await audits(store) == ({"a-0"} if n else set())
            await store.audits.complete(report(f"a-{n}", check("label-mapping")), NOW)
            await store.close()
        assert pid is not None
        assert not is_alive(pid)


async def test_a_server_that_is_killed_is_started_again_with_its_data(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        store = await Store.open(server.url, "lab")
        await store.audits.complete(report("a", check("label-mapping")), NOW)
        first = server.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while server.pid in (None, first) or not is_alive(server.pid):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert await audits(store) == {"a"}
        await store.close()


async def test_it_ends_with_a_parent_that_is_killed_and_its_data_stays(tmp_path: Path) -> None:
    program = textwrap.dedent(PARENT)
    parent = spawn(sys.executable, "-c", program, str(tmp_path), "before")
    assert parent.stdout is not None
    child = int(await asyncio.to_thread(parent.stdout.readline))
    with pytest.raises(EmbeddedError, match="another Telltale"):
        async with EmbeddedServer(tmp_path):
            pass
    parent.kill()
    parent.wait()
    parent.stdout.close()
    async with EmbeddedServer(tmp_path) as server:  # at once: the old one may still be going down
        assert not is_alive(child)
        store = await Store.open(server.url, "lab")
        assert await audits(store) == {"before"}
        await store.close()


async def test_a_server_that_outlived_its_parent_is_taken_over(tmp_path: Path) -> None:
    """As where the system can't end it with its parent."""
    options = ["--port", "0", "--unixsocket", "valkey.sock", "--dir", str(tmp_path), "--appendonly", "yes", "--save", ""]
    options += ["--pidfile", str(tmp_path / "valkey.pid")]
    orphan = spawn(str(valkey_server()), *options, wait_for=tmp_path / "valkey.sock")
    async with EmbeddedServer(tmp_path) as server:
        assert orphan.wait(timeout=5) == 0
        assert server.pid != orphan.pid


async def test_a_server_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    options = ["--port", "0", "--unixsocket", str(data / "valkey.sock"), "--dir", str(elsewhere), "--save", ""]
    other = spawn(str(valkey_server()), *options, wait_for=data / "valkey.sock")
    try:
        with pytest.raises(EmbeddedError, match="another server"):
            async with EmbeddedServer(data):
                pass
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_a_deep_data_directory_works_too(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    async with EmbeddedServer(deep) as server:
        store = await Store.open(server.url, "lab")
        await store.close()


async def test_a_directory_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedError, match="TELLTALE_DATA_DIR"):
        async with EmbeddedServer(tmp_path / "file"):
            pass


async def test_an_append_only_file_that_is_broken_is_told_and_kept(tmp_path: Path) -> None:
    async with EmbeddedServer(tmp_path) as server:
        store = await Store.open(server.url, "lab")
        await store.audits.complete(report("a", check("label-mapping")), NOW)
        await store.close()
    [log] = (tmp_path / "appendonlydir").glob("*.incr.aof")
    content = log.read_bytes()
    log.write_bytes(content.replace(b"*1\r\n$5\r\nMULTI", b"garbage$5\r\nMULTI", 1))
    with pytest.raises(EmbeddedError, match="ended at once"):
        async with EmbeddedServer(tmp_path):
            pass
    log.write_bytes(content[:-7])  # cut off in the middle of a write: what was whole is loaded
    async with EmbeddedServer(tmp_path):
        pass
