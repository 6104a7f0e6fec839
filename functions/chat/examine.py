"""Whether the channels can be reached and would be let in, without posting anything. For `telltale doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp

_PATIENCE = 10
#: What Slack says to a webhook's body that has nothing in it, where the webhook itself is in order.
_NOTHING_TO_POST = ("no_text", "invalid_payload", "missing_text_or_fallback_or_attachments")
_ANSWERS = "Slack answers"
_HISTORY = ("channels:history", "groups:history")


@dataclass(frozen=True, slots=True)
class Examined:
    """`status`: ok, warn (works, and something is missing), fail, or unknown."""

    status: str
    detail: str


async def slack_bot(token: str, channel: str, api: str) -> Examined:
    """The token, its scopes, and whether it may post to the channel as far as that can be seen."""
    answer, scopes = await _ask(api, "auth.test", token, {})
    if error := answer.get("error"):
        return Examined("fail", str(error))
    who = f"{answer.get('user')} in {answer.get('team')}"
    if scopes and "chat:write" not in scopes:
        return Examined("fail", f"{who} lacks the scope chat:write")
    place = await _channel(token, channel, api)
    lack = "" if not scopes or scopes & set(_HISTORY) else "; without channels:history a message whose answer is lost may show twice"
    if place.status in ("fail", "unknown"):
        return Examined(place.status, f"{who}: {place.detail}{lack}")
    return Examined("warn" if lack else place.status, f"{who} {place.detail}{lack}")


async def _channel(token: str, channel: str, api: str) -> Examined:
    answer, _ = await _ask(api, "conversations.info", token, {"channel": channel})
    error = str(answer.get("error") or "")
    if error.endswith("missing_scope"):
        return Examined("unknown", f"may post; whether {channel} takes it can't be seen without the scope channels:read")
    if error.endswith("channel_not_found") and not channel.startswith(("C", "G", "D")):
        return Examined("unknown", f"{channel} is a name: only a channel's id can be looked up")
    if error:
        return Examined("fail" if error.startswith(_ANSWERS) else "unknown", f"{channel}: {error}")
    found: dict[str, Any] = answer.get("channel") or {}
    if found.get("is_archived"):
        return Examined("fail", f"{channel} is archived")
    if not found.get("is_member"):
        return Examined("fail", f"is not in #{found.get('name', channel)}: invite it there")
    return Examined("ok", f"posts to #{found.get('name', channel)}")


async def _ask(api: str, method: str, token: str, parameters: dict[str, str]) -> tuple[dict[str, Any], set[str]]:
    """A method's answer, with what is wrong as its `error` in words, and the token's scopes."""
    headers = {"Authorization": f"Bearer {token}"}
    try:
        async with _session() as session, session.post(f"{api.rstrip('/')}/{method}", data=parameters, headers=headers) as response:
            body = await response.json(content_type=None)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        return {"error": f"Slack can't be reached ({type(error).__name__})"}, set()
    if not isinstance(body, dict):
        return {"error": f"{_ANSWERS} {response.status} and something that is not of its API"}, set()
    scopes = {scope.strip() for scope in response.headers.get("x-oauth-scopes", "").split(",") if scope.strip()}
    return body if body.get("ok") else {"error": f"{_ANSWERS} {body.get('error') or response.status}"}, scopes


async def slack_webhook(url: str) -> Examined:
    """An empty body: Slack refuses it and posts nothing, and the refusal says whether the webhook is good."""
    try:
        async with _session() as session, session.post(url, json={}) as response:
            said = (await response.text())[:100].strip()
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        return Examined("fail", f"Slack's webhook can't be reached ({type(error).__name__})")
    if response.status == 400 and said in _NOTHING_TO_POST:
        return Examined("ok", "the incoming webhook is good; it can't edit: each update is a message of its own")
    return Examined("fail" if response.status in (400, 403, 404, 410) else "unknown", f"Slack answers {response.status} {said}".strip())


async def webhook(url: str) -> Examined:
    """Whether something speaks HTTP there; whether it takes messages only a message would show."""
    try:
        async with _session() as session, session.options(url, allow_redirects=False) as response:
            pass
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        return Examined("fail", f"can't be reached ({type(error).__name__})")
    if response.status >= 500:
        return Examined("unknown", f"answers {response.status}")
    return Examined("ok", f"reached (answers OPTIONS with {response.status}); it is not posted to here")


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PATIENCE), trust_env=True)
