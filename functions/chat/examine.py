"""Whether the channels can be reached and would be let in, without posting anything. For `telltale doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

_PATIENCE = 10
#: What Slack says to a webhook's body that has nothing in it, where the webhook itself is in order.
_NOTHING_TO_POST = ("no_text", "invalid_payload", "missing_text_or_fallback_or_attachments")
_HISTORY = ("channels:history", "groups:history")


@dataclass(frozen=True, slots=True)
class Examined:
    """`status`: ok, warn (works, and something is missing), fail, or unknown."""

    status: str
    detail: str


async def slack_bot(token: str, channel: str, api: str) -> Examined:
    """The token, its scopes, and whether it may post to the channel as far as that can be seen."""
    client = AsyncWebClient(token=token, base_url=api, timeout=_PATIENCE, trust_env_in_session=True, retry_handlers=[])
    try:
        answer = await client.auth_test()
    except SlackApiError as error:
        return Examined("fail", f"Slack answers {_code(error)}")
    except (TimeoutError, aiohttp.ClientError, SlackClientError, OSError, ValueError) as error:
        return Examined("fail", f"Slack can't be reached ({type(error).__name__})")
    scopes = _scopes(answer.headers)
    who = f"{answer.get('user')} in {answer.get('team')}"
    if scopes and "chat:write" not in scopes:
        return Examined("fail", f"{who} lacks the scope chat:write")
    place = await _channel(client, channel)
    lack = "" if not scopes or scopes & set(_HISTORY) else "; without channels:history a message whose answer is lost may show twice"
    if place.status in ("fail", "unknown"):
        return Examined(place.status, f"{who}: {place.detail}{lack}")
    return Examined("warn" if lack else place.status, f"{who} {place.detail}{lack}")


async def _channel(client: AsyncWebClient, channel: str) -> Examined:
    try:
        answer = await client.conversations_info(channel=channel)
    except SlackApiError as error:
        code = _code(error)
        if code == "missing_scope":
            return Examined("unknown", f"may post; whether {channel} takes it can't be seen without the scope channels:read")
        if code == "channel_not_found" and not channel.startswith(("C", "G", "D")):
            return Examined("unknown", f"{channel} is a name: only a channel's id can be looked up")
        return Examined("fail", f"{channel}: Slack answers {code}")
    except (TimeoutError, aiohttp.ClientError, SlackClientError, OSError, ValueError) as error:
        return Examined("unknown", f"{channel} can't be looked up ({type(error).__name__})")
    found: dict[str, Any] = answer.get("channel") or {}
    if found.get("is_archived"):
        return Examined("fail", f"{channel} is archived")
    if not found.get("is_member"):
        return Examined("fail", f"is not in #{found.get('name', channel)}: invite it there")
    return Examined("ok", f"posts to #{found.get('name', channel)}")


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


def _scopes(headers: Any) -> set[str]:
    text = next((v for k, v in dict(headers).items() if k.lower() == "x-oauth-scopes"), "")
    return {scope.strip() for scope in str(text).split(",") if scope.strip()}


def _code(error: SlackApiError) -> str:
    data = getattr(error.response, "data", None)
    return str(data.get("error", "an error")) if isinstance(data, dict) else "something that is no JSON"
