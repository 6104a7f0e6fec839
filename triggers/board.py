"""Routes of the board: pages for people, `/api/v1` for tools. Reads only."""

from __future__ import annotations

from aiohttp import web

from functions.board import pages
from triggers.serve import Board

_PAGE = 50
_MOST = 500


def add_routes(app: web.Application, board: Board, cluster: str) -> None:
    """Add the pages and the JSON API to an application."""
    routes = _Routes(board, cluster)
    app.router.add_get("/", routes.index)
    app.router.add_get("/audits/{id}", routes.audit)
    app.router.add_get("/findings", routes.findings)
    app.router.add_get("/postmortems/{id}", routes.postmortem)
    app.router.add_get("/api/v1/audits", routes.audits_json)
    app.router.add_get("/api/v1/audits/{id}", routes.audit_json)
    app.router.add_get("/api/v1/findings", routes.findings_json)


class _Routes:
    def __init__(self, board: Board, cluster: str) -> None:
        self._board = board
        self._cluster = cluster

    async def index(self, _request: web.Request) -> web.Response:
        audits, _ = await self._board.audits(None, _PAGE)
        findings, _ = await self._board.findings(None, 200, everything=False)
        return _page(pages.index(self._cluster, audits, findings))

    async def audit(self, request: web.Request) -> web.Response:
        report = await self._board.audit(request.match_info["id"])
        if report is None:
            raise web.HTTPNotFound(text="no such audit")
        return _page(pages.audit(self._cluster, report))

    async def findings(self, request: web.Request) -> web.Response:
        records, following = await self._board.findings(request.query.get("cursor"), _PAGE, everything=True)
        return _page(pages.findings(self._cluster, records, following))

    async def postmortem(self, request: web.Request) -> web.Response:
        text = await self._board.postmortem(request.match_info["id"])
        if text is None:
            raise web.HTTPNotFound(text="no such audit")
        return _page(pages.text(self._cluster, f"Postmortem of {request.match_info['id']}", text))

    async def audits_json(self, request: web.Request) -> web.Response:
        audits, following = await self._board.audits(request.query.get("cursor"), _limit(request))
        return web.json_response({"audits": audits, "next": following})

    async def audit_json(self, request: web.Request) -> web.Response:
        report = await self._board.audit(request.match_info["id"])
        if report is None:
            raise web.HTTPNotFound(text="no such audit")
        return web.json_response(report)

    async def findings_json(self, request: web.Request) -> web.Response:
        everything = request.query.get("state", "open") == "all"
        findings, following = await self._board.findings(request.query.get("cursor"), _limit(request), everything=everything)
        return web.json_response({"findings": findings, "next": following})


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", str(_PAGE))
    if not text.isdigit() or not 1 <= int(text) <= _MOST:
        raise web.HTTPBadRequest(text=f"limit is a whole number from 1 to {_MOST}")
    return int(text)


def _page(html: str) -> web.Response:
    return web.Response(text=html, content_type="text/html", headers=pages.HEADERS)
