"""A metrics server at the wire that answers as a test tells it: odd dialects, refusals, partial answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

#: What an endpoint answers: a status with a text or a JSON body, or a function of the request's parameters.
Reply = tuple[int, Any] | Callable[[dict[str, str]], tuple[int, Any]]


def vector(*rows: tuple[dict[str, str], float | str]) -> tuple[int, Any]:
    """A good answer to an instant query."""
    result = [{"metric": labels, "value": [0, str(value)]} for labels, value in rows]
    return 200, {"status": "success", "data": {"resultType": "vector", "result": result}}


def refusal(status: int, kind: str, message: str) -> tuple[int, Any]:
    """A refusal in the API's own shape."""
    return status, {"status": "error", "errorType": kind, "error": message}


@dataclass
class MetricServer:
    """`replies`: API path ("query", "targets" …) -> reply. What is not listed answers 404, and so does a wrong path."""

    url: str = ""
    replies: dict[str, Reply] = field(default_factory=dict)
    #: (method, path, parameters, headers) of every request
    asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0

    async def answer(self, request: web.Request) -> web.Response:
        params = {**request.query, **{k: str(v) for k, v in (await request.post()).items()}}
        path = request.match_info["path"]
        self.asked.append((request.method, path, params, dict(request.headers)))
        if self.delay:
            await asyncio.sleep(self.delay)
        reply = self.replies.get(path, (404, "404 page not found"))
        status, body = reply(params) if callable(reply) else reply
        if isinstance(body, str | bytes):
            raw = body.encode() if isinstance(body, str) else body
            return web.Response(status=status, body=raw, headers={"Content-Type": "text/html", **self.headers})
        return web.json_response(body, status=status, headers=self.headers)


@asynccontextmanager
async def metric_server(**replies: Reply) -> AsyncIterator[MetricServer]:
    """Running on a free loopback port."""
    server = MetricServer(replies=dict(replies))
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/prefix/api/v1/{path:.*}", server.answer)
    app.router.add_route("*", "/api/v1/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield server
    finally:
        await runner.cleanup()
