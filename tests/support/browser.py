"""A real Chromium over its DevTools protocol: goes to pages, asks them things, and keeps what they complained about."""

from __future__ import annotations

import asyncio
import base64
import shutil
import tempfile
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 60


def binary() -> str | None:
    """A browser on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab. `complaints`: errors of console, policy and network; `requests`: every address that was asked for."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self._count = 0

    async def __aenter__(self) -> Browser:
        self._home = tempfile.TemporaryDirectory(prefix="telltale-browser-", ignore_cleanup_errors=True)
        path = binary()
        assert path is not None
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"]
        flags += ["--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={self._home.name}"]
        quiet = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(path, *flags, "about:blank", stdout=quiet, stderr=quiet)
        self._session = aiohttp.ClientSession()
        async with asyncio.timeout(_PATIENCE):
            port = await self._port()
            async with self._session.get(f"http://127.0.0.1:{port}/json/list") as response:
                [tab, *_] = [t for t in await response.json() if t["type"] == "page"]
            self._socket = await self._session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0)
        self._reader = asyncio.create_task(self._read())
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.do(f"{domain}.enable")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._socket.close()
        await self._session.close()
        self._process.terminate()
        await self._process.wait()
        self._home.cleanup()

    async def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol."""
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        async with asyncio.timeout(_PATIENCE):
            return await answer

    async def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        await self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        await self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    async def go(self, url: str, **headers: str) -> None:
        """Open a page and wait until it has loaded."""
        await self.do("Network.setExtraHTTPHeaders", headers=headers)
        self._loaded.clear()
        await self.do("Page.navigate", url=url)
        await self._arrived()

    async def click(self, selector: str) -> None:
        """Follow a link as a person does, with the mouse."""
        spot = await self.ask(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            "const r = e.getClientRects()[0]; return {x: r.x + r.width / 2, y: r.y + r.height / 2}; })()"
        )
        self._loaded.clear()
        for kind in ("mousePressed", "mouseReleased"):
            await self.do("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **spot)
        await self._arrived()

    async def ask(self, expression: str) -> Any:
        """What an expression is on the page."""
        answer = await self.do("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def picture(self, path: Path, *, whole: bool = True) -> None:
        answer = await self.do("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        path.write_bytes(base64.b64decode(answer["data"]))

    async def _arrived(self) -> None:
        async with asyncio.timeout(_PATIENCE):
            await self._loaded.wait()

    async def _port(self) -> str:
        file = Path(self._home.name) / "DevToolsActivePort"
        while not (file.exists() and file.read_text().strip()):
            assert self._process.returncode is None, "the browser ended by itself"
            await asyncio.sleep(0.05)
        return file.read_text().split("\n")[0]

    async def _read(self) -> None:
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                answer = self._answers.pop(said["id"])
                if "error" in said:
                    answer.set_exception(RuntimeError(str(said["error"])))
                else:
                    answer.set_result(said["result"])
            else:
                self._hear(said["method"], said["params"])

    def _hear(self, method: str, said: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(said["exceptionDetails"].get("text")))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(said["args"]))
