"""`telltale run` and `telltale serve ROLE`: processes that stay.

A role builds what it works with and nothing else, and imports it there: Knative starts it from nothing for one event.
`python -m benchmarks.cold_start` measures what that costs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from functions import intake, wiring
from functions.contract.errors import Again
from functions.contract.signals import AuditRequest
from functions.ending import end
from functions.settings import Settings, SettingsError, read_policy
from functions.store import Store
from triggers import schedule
from triggers import sink as sinks
from triggers.roles import Parts, StoredBoard, forever
from triggers.serve import Role, Sender, application
from triggers.usage import UsageError

if TYPE_CHECKING:
    from functions.chat.message import Channel

log = logging.getLogger(__name__)

#: audits that `run` does side by side
_AT_ONCE = 4
#: seconds until a store that was away is asked again
_STORE_AGAIN = 2.0


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    try:
        settings = Settings.read()
        _ = settings.address
        logging.basicConfig(level="DEBUG" if options.debug else settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        asyncio.run(_serve(settings, options.role if options.command == "serve" else "run"))
    except (SettingsError, Again, OSError) as error:
        raise UsageError(str(error)) from None
    return 0


def channels(settings: Settings) -> dict[str, Channel]:
    """The configured ways out, by name."""
    found: dict[str, Channel] = {}
    if settings.console:
        from functions.chat.console import Console

        found["console"] = Console()
    if settings.webhook_url:
        from functions.chat.webhook import Webhook

        token = settings.webhook_token.get_secret_value() if settings.webhook_token else None
        found["webhook"] = Webhook(settings.webhook_url.get_secret_value(), token)
    if settings.slack_token:
        from functions.chat.slack import SlackBot

        if not settings.slack_channel:
            raise SettingsError("TELLTALE_SLACK_TOKEN needs TELLTALE_SLACK_CHANNEL")
        found["slack"] = SlackBot(settings.slack_token.get_secret_value(), settings.slack_channel, settings.slack_api_url)
    elif settings.slack_webhook_url:
        from functions.chat.slack import SlackWebhook

        found["slack"] = SlackWebhook(settings.slack_webhook_url.get_secret_value())
    return found


@asynccontextmanager
async def opened(settings: Settings, *, embedded: bool) -> AsyncIterator[Store]:
    """The store: the Redis that is configured, else one of our own where that is allowed."""
    async with AsyncExitStack() as stack:
        if settings.redis_url:
            url = settings.redis_url.get_secret_value()
        elif embedded:
            from functions.store.embedded import EmbeddedServer

            url = (await stack.enter_async_context(EmbeddedServer(settings.data_dir))).url
        else:
            raise SettingsError("TELLTALE_REDIS_URL is not set")
        password = settings.redis_password.get_secret_value() if settings.redis_password else None
        store = await Store.open(url, settings.cluster, password=password, ca=settings.redis_ca)
        stack.push_async_callback(store.close)
        yield store


@asynccontextmanager
async def parts(settings: Settings, name: str) -> AsyncIterator[Parts]:
    """What a role (or `run`, which has them all) works with, closed afterwards."""
    async with AsyncExitStack() as stack:
        policy = read_policy(settings.policy)
        sink = sinks.of(settings)
        if sink is not None:
            stack.push_async_callback(sink.close)
        store = await stack.enter_async_context(opened(settings, embedded=name == "run"))
        timing = intake.Timing(intake.settling_time(settings.settle), timedelta(seconds=settings.lease))
        shared = Parts(settings, store, policy, timing=timing, sink=sink)
        if name in ("intake", "audit", "run"):
            # `run` is started by a person, who wants to hear of a wrong configuration at once
            connected = wiring.object_source(settings) if name == "run" else None
            shared.objects = await connected if connected else wiring.later_object_source(settings)
            if shared.objects is not None:
                stack.push_async_callback(shared.objects.close)
        if name in ("audit", "run"):
            wiring.check_paths(settings)
            wiring.check_urls(settings)
            # most of what comes to `audit` twice is answered by Redis: what judges is imported for what is judged
            shared.prepare = partial(_add_audits, shared)
        if name in ("report", "run"):
            _add_reports(shared, stack)
        yield shared


def _add_audits(shared: Parts) -> None:
    from functions import baseline

    settings = shared.settings
    shared.standards = wiring.standards(settings, policy=shared.policy)
    metrics = wiring.metric_source(settings)
    shared.gather = wiring.live_gather(settings, metrics, shared.objects, shared.standards, partial(baseline.recall, shared.store))


def _add_reports(shared: Parts, stack: AsyncExitStack) -> None:
    from functions.report import Desk

    ways = channels(shared.settings)
    for channel in ways.values():
        stack.push_async_callback(channel.close)
    shared.desk = Desk(ways, wiring.redactor(shared.policy), wiring.TITLES, shared.settings.board_url)


async def _serve(settings: Settings, name: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with parts(settings, name) as shared, AsyncExitStack() as stack:
        running: set[asyncio.Task[None]] = set()
        background = _background(shared, running) if name == "run" else []
        runner = web.AppRunner(application(_role(name, shared)), access_log=None, shutdown_timeout=25)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        host, port = settings.address
        await web.TCPSite(runner, host, port).start()
        log.info("telltale %s serves on %s:%d", name, host, port)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(work, name=title) for title, work in background]
        waiting: asyncio.Task[Any] = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        await end([waiting, *tasks])
        await end(running)  # while the store is open: what is cut off here may be taken over at once
        for task in done - {waiting}:
            if not task.cancelled() and (error := task.exception()):
                raise error


def _role(name: str, shared: Parts) -> Role:
    settings = shared.settings
    handlers = {
        "intake": shared.intake_event,
        "run": shared.intake_event,
        "audit": shared.audit_event,
        "report": shared.report_event,
    }
    return Role(
        name,
        settings.cluster,
        event=handlers.get(name),
        letter=shared.dead_letter if name == "dead-letter" else None,
        webhook=shared.webhook if name in ("intake", "run") else None,
        board=StoredBoard(shared.store, shared.clock, wiring.redactor(shared.policy)) if name in ("board", "run") else None,
        gauges=lambda: shared.store.gauges(shared.clock()),
        token=settings.token.get_secret_value() if settings.token else "",
        sender=_sender(settings),
        host=settings.address[0],
    )


def _sender(settings: Settings) -> Sender | None:
    """Who checks the senders of events."""
    if not settings.oidc_audience:
        return None
    from triggers.oidc import Verifier

    return Verifier(settings.oidc_issuer, settings.oidc_audience)


def _background(shared: Parts, running: set[asyncio.Task[None]]) -> list[tuple[str, Coroutine[Any, Any, None]]]:
    """The loops of `run`: watch, claim and audit, report, schedule. `running`: the audits under way."""
    from functions import report
    from triggers.watch import Watcher

    settings = shared.settings

    async def hand(request: AuditRequest) -> None:
        task = asyncio.create_task(_audit(shared, request), name=f"audit {request.audit}")
        running.add(task)
        task.add_done_callback(running.discard)

    async def tick() -> None:
        # a claim that waits for its turn here would lose its lease
        timing = replace(shared.timing, at_once=_AT_ONCE - len(running))
        await intake.tick(shared.store, shared.clock(), timing, hand)
        await intake.housekeep(shared.store, shared.policy, shared.clock())
        await shared.replay_letters()

    async def tell() -> None:
        assert shared.desk is not None
        await report.work(shared.store, shared.desk, shared.clock)

    async def scheduled() -> None:
        await asyncio.sleep(settings.schedule)
        await shared.take([schedule.scheduled(shared.clock(), timedelta(seconds=settings.schedule))])

    beat = min(settings.tick, 1.0)
    loops = [
        ("tick", forever("tick", settings.tick, tick)),
        ("report", forever("report", beat, tell)),
        ("schedule", forever("schedule", 1, scheduled)),
    ]
    if shared.objects is not None:
        watcher = Watcher(shared.objects, shared.take, shared.store.episodes, shared.options)
        shared.directory = watcher.view
        loops.append(("watch", watcher.run()))
    else:
        log.warning("no cluster is configured: everything of Kubernetes is unknown")
    return loops


async def _audit(shared: Parts, request: AuditRequest) -> None:
    """Do an audit. Where the store goes away meanwhile, the claim is given back as soon as it answers again."""
    ends = asyncio.get_running_loop().time() + shared.timing.lease.total_seconds()
    try:
        await shared.audit(request)
        return
    except Again as error:
        log.warning("audit %s of %s can't be ended now: %s", request.audit, request.scope, error)
    while asyncio.get_running_loop().time() < ends:  # after that it can be claimed without our help
        await asyncio.sleep(_STORE_AGAIN)
        with contextlib.suppress(Again):
            await shared.store.queue.retry(request, shared.clock(), counted=False)
            return
