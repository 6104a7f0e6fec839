"""HTTP for every role: routes, who may come in, limits, health, metrics, and the status policy.

A status is delivery policy (docs/knative.md): a broker retries 404, 408, 409, 429 and 5xx, its sources retry 503 but
never 500, Alertmanager retries 5xx only. So: what is durable, known already or of no interest is 202 with an empty
body (a body that is no CloudEvent makes a broker answer 502 and send again); what can never be read is 400; what may
work later is 503, and so is every fault of ours. What the roles do with an event is not here.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from functions.contract.errors import Again, Never
from functions.envelope import Event, NotAnEvent, read

log = logging.getLogger(__name__)

#: Kubernetes objects in events reach 1.5 MiB, and a broker does not retry a 413.
MAX_BODY = 4 * 2**20
_RETRY_AFTER = 5

Reply = tuple[Mapping[str, str], bytes]


class Board(Protocol):
    """What the pages and the JSON API read. Everything in the JSON form of the API."""

    async def audits(self, cursor: str | None, limit: int) -> tuple[list[dict[str, Any]], str | None]: ...

    async def audit(self, identity: str) -> dict[str, Any] | None: ...

    async def findings(
        self, cursor: str | None, limit: int, *, everything: bool, check: str = "", severity: str = ""
    ) -> tuple[list[dict[str, Any]], str | None]: ...

    async def finding(self, fingerprint: str) -> dict[str, Any] | None: ...

    async def postmortem(self, identity: str) -> str | None: ...

    async def postmortems(self) -> frozenset[str]: ...


class Sender(Protocol):
    """Checks the Authorization header of an event's sender."""

    async def check(self, header: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Role:
    """What one process serves. A part that is None has no route."""

    name: str
    cluster: str
    event: Callable[[Event], Awaitable[Reply | None]] | None = None
    #: takes what could not be delivered, as it came
    letter: Callable[[Mapping[str, str], bytes], Awaitable[None]] | None = None
    webhook: Callable[[bytes], Awaitable[None]] | None = None
    board: Board | None = None
    #: gauges by name: [(labels, value)], read at each scrape
    gauges: Callable[[], Awaitable[Mapping[str, list[tuple[Mapping[str, str], float]]]]] | None = None
    token: str = ""
    sender: Sender | None = None
    #: the address that is listened on: without a token, only a loopback one may serve what needs one
    host: str = "127.0.0.1"


class Meters:
    """Telltale's own metrics in one registry a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "telltale_http_requests_total", "HTTP requests by route and status.", ["role", "route", "status"], registry=self.registry
        )
        self.refused = Counter(
            "telltale_refused_total", "Bodies that could never be read, by route.", ["role", "route"], registry=self.registry
        )


ROLE = web.AppKey("role", Role)
METERS = web.AppKey("meters", Meters)
STOPPING = web.AppKey("stopping", asyncio.Event)


def application(role: Role, meters: Meters | None = None) -> web.Application:
    """The aiohttp application of a role."""
    app = web.Application(client_max_size=MAX_BODY, middlewares=[_boundary])
    app[ROLE], app[METERS], app[STOPPING] = role, meters or Meters(), asyncio.Event()
    app.router.add_get("/health/liveness", _alive)
    app.router.add_get("/health/readiness", _ready)
    app.router.add_get("/metrics", _metrics)
    if role.event or role.letter:
        app.router.add_post("/", _event)
    if role.webhook:
        app.router.add_post("/alertmanager", _webhook)
    if role.board:
        from triggers import board

        board.add_routes(app, role.board, role.cluster)
    app.on_shutdown.append(_stop)
    return app


async def _stop(app: web.Application) -> None:
    app[STOPPING].set()  # new requests get 503 while those under way end


@web.middleware
async def _boundary(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Counts, classifies errors into statuses, and lets nothing of ours out as a 500."""
    app = request.app
    route = request.match_info.route.resource.canonical if request.match_info.route.resource else "none"
    try:
        if app[STOPPING].is_set() and not route.startswith("/health"):
            raise Again("shutting down")
        if not _open(route, request.method):
            _authorise(request, app[ROLE])
        response = await handler(request)
    except (Never, NotAnEvent) as error:
        app[METERS].refused.labels(app[ROLE].name, route).inc()
        log.warning("%s %s refused: %s", request.method, route, error)
        response = web.Response(status=400, text=str(error)[:500])
    except Again as error:
        log.warning("%s %s put off: %s", request.method, route, error)
        response = _later(error)
    except web.HTTPException as error:
        app[METERS].requests.labels(app[ROLE].name, route, str(error.status)).inc()
        raise
    except Exception:  # the handler is one of the two boundaries where anything may arrive
        log.exception("%s %s failed", request.method, route)
        response = _later(Again("internal error"))
    app[METERS].requests.labels(app[ROLE].name, route, str(response.status)).inc()
    return response


def _later(error: Again) -> web.Response:
    return web.Response(status=503, headers={"Retry-After": str(int(error.after or _RETRY_AFTER))}, text=str(error)[:500])


def _open(route: str, method: str) -> bool:
    """Routes that ask for no credential of ours: health, metrics (counts only), and events, whose sender the handler checks.

    `none` is a path that has no route: its 404 tells nothing.
    """
    return route.startswith("/health/") or route in ("/metrics", "none") or (route == "/" and method == "POST")


def _authorise(request: web.Request, role: Role) -> None:
    if role.token:
        if _knows(request.headers.get("Authorization", ""), role.token):
            return
        raise _unauthorised(request, "Authorization: Bearer with TELLTALE_TOKEN is needed; a browser gives it as the password")
    if not is_loopback(role.host):
        raise _unauthorised(request, "set TELLTALE_TOKEN to serve this beyond loopback")


def _knows(header: str, token: str) -> bool:
    """Bearer from tools. Browsers can't send that: for them the token is the password, whatever the name."""
    scheme, _, given = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    elif scheme != "Bearer":
        return False
    return hmac.compare_digest(given.encode(), token.encode())


def _unauthorised(request: web.Request, text: str) -> web.HTTPUnauthorized:
    error = web.HTTPUnauthorized(text=text, headers={"WWW-Authenticate": "Bearer"})
    if request.method == "GET" and not request.path.startswith("/api/"):
        error.headers.add("WWW-Authenticate", 'Basic realm="Telltale", charset="UTF-8"')
    return error


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _event(request: web.Request) -> web.Response:
    role = request.app[ROLE]
    if role.sender is not None:
        from triggers.oidc import Refused, Unverifiable

        try:
            await role.sender.check(request.headers.get("Authorization", ""))
        except Refused as error:
            raise web.HTTPUnauthorized(text=str(error), headers={"WWW-Authenticate": "Bearer"}) from None
        except Unverifiable as error:
            raise Again(str(error)) from None
    body = await request.read()
    if role.letter is not None:
        await role.letter(request.headers, body)
        return web.Response(status=202)
    assert role.event is not None
    reply = await role.event(read(request.headers, body))
    if reply is None:
        return web.Response(status=202)
    headers, body = reply
    return web.Response(status=200, headers=headers, body=body)


async def _webhook(request: web.Request) -> web.Response:
    handle = request.app[ROLE].webhook
    assert handle is not None
    await handle(await request.read())
    return web.Response(status=200)


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="alive")


async def _ready(request: web.Request) -> web.Response:
    # Not whether Redis answers: then each event gets its own 503, and the broker keeps it.
    if request.app[STOPPING].is_set():
        return web.Response(status=503, text="shutting down")
    return web.Response(text="ready")


async def _metrics(request: web.Request) -> web.Response:
    """This process's counters, and the gauges of the store as they are now."""
    app = request.app
    body = generate_latest(app[METERS].registry)
    if (gauges := app[ROLE].gauges) is not None:
        registry = CollectorRegistry()
        up = 1.0
        try:
            for name, samples in (await gauges()).items():
                labels = sorted(samples[0][0]) if samples else []
                gauge = Gauge(f"telltale_{name}", f"{name.replace('_', ' ')}, as stored.", labels, registry=registry)
                for values, value in samples:
                    (gauge.labels(*(values[k] for k in labels)) if labels else gauge).set(value)
        except Again as error:
            log.warning("metrics without the store: %s", error)
            up = 0.0
        Gauge("telltale_store_up", "1 if the store answers.", registry=registry).set(up)
        body += generate_latest(registry)
    return web.Response(body=body, content_type="text/plain", charset="utf-8")
