"""Routes of the board: pages for people, `/api/v1` for tools. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from functions.board import pages
from functions.board.pages import Chosen
from functions.wiring import TITLES
from triggers.serve import Board

_PAGE = 50
_MOST = 500
#: Findings that the first page sums up.
_SUMMED = 500
_SEVERITIES = ("", "critical", "warning", "info")
_JSON = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def add_routes(app: web.Application, board: Board, cluster: str) -> None:
    """Add the pages and the JSON API to an application."""
    routes = _Routes(board, cluster)
    app.router.add_get("/", routes.index)
    app.router.add_get("/audits/{id}", routes.audit)
    app.router.add_get("/findings", routes.findings)
    app.router.add_get("/findings/{fingerprint}", routes.finding)
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
        found, following = await self._board.findings(None, _SUMMED, everything=False)
        drafted = await self._board.postmortems()
        return _page(pages.index(self._cluster, audits, found, more=following is not None, drafted=drafted, titles=TITLES))

    async def audit(self, request: web.Request) -> web.Response:
        identity = request.match_info["id"]
        report = await self._board.audit(identity)
        if report is None:
            return self._absent("audit", "It may be older than what is kept, or of another cluster.")
        start = request.query.get("start", "0")
        drafted = identity in await self._board.postmortems()
        chosen = Chosen(request.query.get("severity", ""), request.query.get("check", ""))
        begin = int(start) if start.isdecimal() and len(start) < 9 else 0
        return _page(pages.audit(self._cluster, report, chosen, start=begin, drafted=drafted, titles=TITLES))

    async def findings(self, request: web.Request) -> web.Response:
        chosen = _chosen(request)
        records, following = await self._board.findings(
            request.query.get("cursor"), _PAGE, everything=chosen.state == "all", check=chosen.check, severity=chosen.severity
        )
        return _page(pages.findings(self._cluster, records, following, chosen, _checks()))

    async def finding(self, request: web.Request) -> web.Response:
        record = await self._board.finding(request.match_info["fingerprint"])
        if record is None:
            return self._absent("finding", "What was resolved long ago is forgotten.")
        return _page(pages.finding(self._cluster, record))

    async def postmortem(self, request: web.Request) -> web.Response:
        identity = request.match_info["id"]
        text = await self._board.postmortem(identity)
        if text is None:
            return self._absent("audit", "A postmortem stub is made from an audit, and this one isn't known.")
        return _page(pages.text(self._cluster, f"Postmortem of {identity}", text, identity))

    async def audits_json(self, request: web.Request) -> web.Response:
        audits, following = await self._board.audits(request.query.get("cursor"), _limit(request))
        return _json({"audits": audits, "next": following})

    async def audit_json(self, request: web.Request) -> web.Response:
        report = await self._board.audit(request.match_info["id"])
        if report is None:
            raise web.HTTPNotFound(text="no such audit")
        return _json(report)

    async def findings_json(self, request: web.Request) -> web.Response:
        everything = request.query.get("state", "open") == "all"
        found, following = await self._board.findings(
            request.query.get("cursor"),
            _limit(request),
            everything=everything,
            check=request.query.get("check", ""),
            severity=request.query.get("severity", ""),
        )
        return _json({"findings": found, "next": following})

    def _absent(self, what: str, why: str) -> web.Response:
        return _page(pages.problem(self._cluster, f"No such {what}", why), 404)


def _chosen(request: web.Request) -> Chosen:
    """What a list is narrowed to; what isn't known narrows nothing."""
    severity, check, state = (request.query.get(name, "") for name in ("severity", "check", "state"))
    return Chosen(
        severity if severity in _SEVERITIES else "",
        check if check and check in _checks() else "",
        state if state == "all" else "",
    )


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", str(_PAGE))
    if not text.isdigit() or not 1 <= int(text) <= _MOST:
        raise web.HTTPBadRequest(text=f"limit is a whole number from 1 to {_MOST}")
    return int(text)


def _page(html: str, status: int = 200) -> web.Response:
    return web.Response(text=html, status=status, content_type="text/html", headers=pages.HEADERS)


def _json(document: Mapping[str, Any]) -> web.Response:
    return web.json_response(document, headers=_JSON)


def _checks() -> list[str]:
    """The ids of all checks. Asked when somebody wants to know: most visits to the board load none."""
    return list(dict.fromkeys(code.partition("/")[0] for code in TITLES))
