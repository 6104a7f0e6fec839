"""A chat of the tests: takes the outgoing webhook's messages over HTTP and waits for the one that matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Message = dict[str, Any]


@dataclass
class Inbox:
    """Messages in order of arrival, each with its Idempotency-Key under `key`."""

    url: str = ""
    messages: list[Message] = field(default_factory=list)
    #: statuses to answer with before taking anything again
    refuse: list[int] = field(default_factory=list)
    attempts: int = 0

    async def take(self, request: web.Request) -> web.Response:
        self.attempts += 1
        if self.refuse:
            return web.Response(status=self.refuse.pop(0))
        self.messages.append(await request.json() | {"key": request.headers.get("Idempotency-Key", "")})
        return web.Response(status=204)

    async def wait(self, wanted: Callable[[Message], bool], seconds: float = 60) -> Message:
        """The first message that is wanted; AssertionError with what came instead."""
        for _ in range(int(seconds / 0.1)):
            for message in self.messages:
                if wanted(message):
                    return message
            await asyncio.sleep(0.1)
        came = [(m.get("kind"), m.get("text", "")[:300]) for m in self.messages]
        raise AssertionError(f"not posted within {seconds} s; what came: {came}")


@asynccontextmanager
async def inbox() -> AsyncIterator[Inbox]:
    """Serves an inbox on loopback."""
    box = Inbox()
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/hook", box.take)
    async with TestServer(app) as server:
        box.url = str(server.make_url("/hook"))
        yield box
