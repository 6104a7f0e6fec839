"""Exporters for tests: one aiohttp server, many targets, each with a body that can be switched at run time.

A target is a path (`/NAME/metrics`). A body is text or bytes, or a function that makes the next one; what was asked for
is counted, so that a test can wait for scrapes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Body = str | bytes | Callable[[], str]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Served:
    """What one target answers."""

    body: Body
    status: int = 200
    content_type: str = CONTENT_TYPE
    #: seconds before it answers
    delay: float = 0.0
    scrapes: int = field(default=0)


class Exporters:
    """The running server. `address` is host:port, the same for all targets; `path` tells them apart."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self.targets: dict[str, Served] = {}

    def path(self, name: str) -> str:
        return f"/{name}/metrics"

    def serve(self, name: str, body: Body, *, status: int = 200, content_type: str = CONTENT_TYPE, delay: float = 0.0) -> None:
        """Make a target, or switch what it answers from its next scrape on."""
        scrapes = self.targets[name].scrapes if name in self.targets else 0
        self.targets[name] = Served(body, status, content_type, delay, scrapes)

    def remove(self, name: str) -> None:
        """From now on the target answers 404."""
        del self.targets[name]

    async def scraped(self, times: int = 2, *, names: tuple[str, ...] = (), patience: float = 30.0) -> None:
        """Wait until each target (or each of `names`) was scraped that many times from now on."""
        goals = {name: self.targets[name].scrapes + times for name in names or tuple(self.targets)}
        async with asyncio.timeout(patience):
            while True:
                if all(self.targets[name].scrapes >= goal for name, goal in goals.items()):
                    return
                await asyncio.sleep(0.05)

    async def _answer(self, request: web.Request) -> web.Response:
        served = self.targets.get(request.match_info["name"])
        if served is None:
            return web.Response(status=404)
        if served.delay:
            await asyncio.sleep(served.delay)
        served.scrapes += 1
        made = served.body() if callable(served.body) else served.body
        body = made.encode() if isinstance(made, str) else made
        return web.Response(body=body, status=served.status, headers={"Content-Type": served.content_type})


@asynccontextmanager
async def exporters(bodies: dict[str, str] | None = None) -> AsyncIterator[Exporters]:
    """A server of exporters on a free loopback port; `bodies`: target name -> what it serves first."""
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    held: list[Exporters] = []

    async def answer(request: web.Request) -> web.Response:
        return await held[0]._answer(request)

    app.router.add_get("/{name}/metrics", answer)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    host, port = site._server.sockets[0].getsockname()[:2]  # type: ignore[attr-defined]
    held.append(Exporters(host, port))
    for name, body in (bodies or {}).items():
        held[0].serve(name, body)
    try:
        yield held[0]
    finally:
        await runner.cleanup()
