"""A proxy before a server: it keeps every request that it passes on, counts those in flight, and fails those a test chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass(frozen=True)
class Sent:
    """One request, so that the very same can be sent again."""

    method: str
    url: str
    body: str
    headers: dict[str, str]

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    def param(self, name: str) -> str:
        """A parameter, of the query or of the body; "" where there is none."""
        held = parse_qs(urlsplit(self.url).query) | parse_qs(self.body)
        return held.get(name, [""])[0]


class Recorder:
    """Use as an async context manager."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.requests: list[Sent] = []
        #: what to answer instead; None passes the request on
        self.instead: Callable[[Sent], web.Response | None] = lambda _sent: None
        self.most_at_once = 0
        self._open = 0
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self.server = TestServer(app)

    async def __aenter__(self) -> Recorder:
        await self.server.start_server()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.server.close()

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def _pass(self, request: web.Request) -> web.Response:
        headers = {k: v for k, v in request.headers.items() if k in ("Content-Type", "Accept")}
        sent = Sent(request.method, f"{self.upstream}{request.path_qs}", (await request.read()).decode(), headers)
        self.requests.append(sent)
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            return self.instead(sent) or await _answer(sent)
        finally:
            self._open -= 1


async def _answer(sent: Sent) -> web.Response:
    patience = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=patience) as session,
        session.request(sent.method, sent.url, data=sent.body, headers=sent.headers) as answer,
    ):
        return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)
