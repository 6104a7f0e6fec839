"""`telltale doctor`: what can be reached, what may and may not be done, and what then can't be judged. Changes nothing.

Exit status as for audits: 0 all is well (notes included) · 1 something that is needed can't be had · 3 nothing fails, and
something could not be seen.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict

from functions.chat import examine
from functions.contract.errors import Again
from functions.reports.wording import counted, printable
from functions.settings import Settings, SettingsError, read_policy
from triggers.commands import _doctor_cluster, _doctor_metrics, output
from triggers.commands._doctor_line import Line, Status
from triggers.commands.serve import channels, opened
from triggers.serve import is_loopback
from triggers.usage import UsageError

#: Of what was given up or refused, the latest.
_LETTERS = 5
_SIGN = {Status.OK: "ok     ", Status.WARN: "note   ", Status.FAIL: "FAIL   ", Status.UNKNOWN: "unknown"}


def run(options: argparse.Namespace) -> int:
    """Print one line a thing."""
    try:
        lines = asyncio.run(examined(Settings.read()))
    except SettingsError as error:
        raise UsageError(str(error)) from None
    if options.format == "json":
        print(output.as_json({"checks": [{"ok": line.ok, **asdict(line)} for line in lines]}))
    else:
        for line in lines:
            print(printable(f"{_SIGN[line.status]} {line.what}: {line.detail}"))
        print(_verdict(lines))
    return 1 if any(line.status is Status.FAIL for line in lines) else 3 if any(line.status is Status.UNKNOWN for line in lines) else 0


def _verdict(lines: list[Line]) -> str:
    failing, unknown = ([line for line in lines if line.status is s] for s in (Status.FAIL, Status.UNKNOWN))
    if failing:
        return counted(len(failing), "1 thing that is needed can't be had", "{n} things that are needed can't be had")
    if unknown:
        return counted(len(unknown), "nothing fails; 1 thing could not be seen", "nothing fails; {n} things could not be seen")
    return "everything that is needed is there"


async def examined(settings: Settings) -> list[Line]:
    """Everything that there is to say. Raises SettingsError."""
    _ = settings.address, channels(settings)  # what is wrong with the settings is said before anything is asked
    policy = read_policy(settings.policy)
    groups = await asyncio.gather(
        _doctor_metrics.lines(settings, policy), _doctor_cluster.lines(settings), _store(settings), _chat(settings)
    )
    return [line for group in groups for line in group] + list(_doors(settings))


async def _store(settings: Settings) -> list[Line]:
    if not settings.redis_url:
        return [Line(Status.OK, "store", f"none is configured: `run` starts a Valkey of its own in {settings.data_dir}, durable")]
    try:
        async with opened(settings, embedded=False) as store:
            info = await store.server()
            dead, refused = await store.queue.dead_letters(), await store.outbox.refused()
            undelivered = await store.letters.list()
    except Again as error:
        return [Line(Status.FAIL, "store", str(error))]
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "?")
    lines = [Line(Status.OK, "store", f"{name} {version} answers"), *_durable(info)]
    for letter in dead[:_LETTERS]:
        why = letter.why or "no reason was kept"
        lines.append(Line(Status.FAIL, "audit given up", f"{letter.audit} of {letter.scope}: {why} ({len(dead)} in all)"))
    for delivery in refused[:_LETTERS]:
        what = f"{delivery.kind} of audit {delivery.audit} by {delivery.channel}: {delivery.why} ({len(refused)} in all)"
        lines.append(Line(Status.FAIL, "message refused", what))
    if undelivered:
        lines.append(Line(Status.FAIL, "events undelivered", f"{len(undelivered)}: see `telltale dead-letters`"))
    return lines


def _durable(info: dict[str, str]) -> list[Line]:
    """Whether what is acknowledged stays."""
    policy = info.get("maxmemory_policy", "")
    evicts = "noeviction alone keeps every finding and pending audit"
    lines = []
    if policy and policy != "noeviction":
        lines.append(Line(Status.FAIL, "store eviction", f"maxmemory-policy is {policy}: {evicts}"))
    else:
        lines.append(Line(Status.OK if policy else Status.UNKNOWN, "store eviction", policy or f"the policy isn't shown; {evicts}"))
    if info.get("aof_enabled") == "1":
        lines.append(Line(Status.OK, "store persistence", "append-only file"))
    elif "aof_enabled" in info:
        lines.append(
            Line(Status.WARN, "store persistence", "no append-only file: a restart may lose what was acknowledged since the last snapshot")
        )
    else:
        lines.append(Line(Status.UNKNOWN, "store persistence", "the server doesn't show it"))
    return lines


async def _chat(settings: Settings) -> list[Line]:
    ways: list[tuple[str, Callable[[], Awaitable[examine.Examined]]]] = []
    if settings.slack_token:
        token = settings.slack_token.get_secret_value()
        ways.append(("Slack", lambda: examine.slack_bot(token, settings.slack_channel, settings.slack_api_url)))
    elif settings.slack_webhook_url:
        hook = settings.slack_webhook_url.get_secret_value()
        ways.append(("Slack", lambda: examine.slack_webhook(hook)))
    if settings.webhook_url:
        url = settings.webhook_url.get_secret_value()
        ways.append(("outgoing webhook", lambda: examine.webhook(url)))
    if not ways:
        return [Line(Status.WARN, "chat", "no channel is configured: summaries go to standard output only")]
    return [Line(Status(found.status), f"chat {name}", found.detail) for name, ask in ways for found in [await ask()]]


def _doors(settings: Settings) -> list[Line]:
    """Who may come in."""
    host, port = settings.address
    here = f"{host}:{port}"
    local = is_loopback(host)
    if settings.token:
        lines = [Line(Status.OK, "pages, API, webhook", f"on {here}, with TELLTALE_TOKEN (a browser gives it as the password)")]
    elif local:
        lines = [Line(Status.OK, "pages, API, webhook", f"on {here}, from this machine only, without a token")]
    else:
        lines = [Line(Status.FAIL, "pages, API, webhook", f"on {here} and TELLTALE_TOKEN is not set: all of them answer 401")]
    if settings.oidc_audience:
        lines.append(Line(Status.OK, "POST /", f"senders prove themselves by OIDC tokens of {settings.oidc_issuer}"))
    elif local:
        lines.append(Line(Status.OK, "POST /", "senders are not verified; only this machine reaches it"))
    else:
        lines.append(
            Line(Status.WARN, "POST /", "senders are not verified (no TELLTALE_OIDC_AUDIENCE): the NetworkPolicy alone keeps others out")
        )
    return lines
