"""Slack: with a bot token one message a scope, edited in place, with the details in its thread; with a webhook plain posts.

Slack has no idempotency key: an attempt whose end is unknown is looked up in the channel's history by the key that each of
our messages carries as metadata. That needs the scope `channels:history` (`groups:history` in a private channel). Without it
everything else works; only a message whose answer was lost is posted again, which may show it twice, and is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from functions.chat.message import Delivered, Outgoing, Ref, Refused, Result, Retry
from functions.chat.mrkdwn import blocks, condensed, mrkdwn, shorten
from functions.chat.webhook import retry_after

log = logging.getLogger(__name__)

_PATIENCE = 30
#: of each section of a postmortem; the document itself is on the board and in `telltale postmortem`
_SECTION = 7
_EVENT = "telltale_message"
#: Errors that pass by themselves (https://docs.slack.dev/reference/methods/chat.postMessage#errors).
_PASSING = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "org_login_required",
    }
)
#: The message to edit is gone or too old: a new one is posted.
_UNEDITABLE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found", "cant_reply_to_message"})


class SlackBot:
    """chat.postMessage, chat.update. `channel` is best an id (C…): names can't be looked up."""

    def __init__(self, token: str, channel: str, api: str = "https://slack.com/api/") -> None:
        self._channel = channel
        self._client = AsyncWebClient(token=token, base_url=api, timeout=_PATIENCE, trust_env_in_session=True, retry_handlers=[])

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        done: dict[str, Any] = dict(progress or {})
        try:
            if progress is not None and not progress:
                done = await self._look_up(message, ref)
            return await self._deliver(message, ref, done)
        except SlackApiError as error:
            return _answer(*_read(error), done)
        except (TimeoutError, aiohttp.ClientError, SlackClientError, OSError, ValueError) as error:
            return Retry(f"Slack can't be reached ({type(error).__name__})", progress=done or None)

    async def _deliver(self, message: Outgoing, ref: Ref | None, done: dict[str, Any]) -> Result:
        """The main message, then the reply in its thread. `done` grows by what has arrived."""
        if message.kind == "summary":
            ref = None
        if message.kind == "postmortem":
            if "reply" not in done:
                done |= await self._post(message, message.details, ref, "reply", broadcast=False)
            return Delivered(ref or {"channel": done["channel"], "ts": done["reply"]})
        main = "\n".join(part for part in (f"**{message.title}**" if message.title else "", message.lead) if part)
        if "ts" not in done:
            edited = ref is not None and await self._edit(message, main, ref)
            if ref is not None and edited:
                done |= {"channel": ref["channel"], "ts": ref["ts"], "edited": True}
            else:
                done |= await self._post(message, main, None, "ts", broadcast=False)
        # an edit notifies nobody: what changed is told in the thread as well, and in the channel where it is grave
        told = main if done.get("edited") else ""
        reply = "\n\n".join(part for part in (told, message.details) if part)
        if reply and "reply" not in done:
            done |= await self._post(message, reply, done, "reply", broadcast=bool(done.get("edited")) and message.loud)
        return Delivered({"channel": done["channel"], "ts": done["ts"]})

    async def _post(self, message: Outgoing, markdown: str, thread: Ref | None, part: str, *, broadcast: bool) -> dict[str, Any]:
        arguments: dict[str, Any] = {"reply_broadcast": True} if broadcast else {}
        answer = await self._client.chat_postMessage(
            channel=str(thread["channel"]) if thread else self._channel,
            thread_ts=str(thread["ts"]) if thread else None,
            **_content(message, markdown),
            metadata={"event_type": _EVENT, "event_payload": {"key": f"{message.key}/{part}"}},
            unfurl_links=False,
            unfurl_media=False,
            **arguments,
        )
        return {"channel": str(answer["channel"]), part: str(answer["ts"])}

    async def _edit(self, message: Outgoing, markdown: str, ref: Ref) -> bool:
        """Whether the standing message could be edited."""
        try:
            await self._client.chat_update(channel=str(ref["channel"]), ts=str(ref["ts"]), **_content(message, markdown))
        except SlackApiError as error:
            if _read(error)[2] in _UNEDITABLE:
                return False
            raise
        return True

    async def _look_up(self, message: Outgoing, ref: Ref | None) -> dict[str, Any]:
        """What an attempt of unknown end has left in the channel."""
        done: dict[str, Any] = {}
        channel = str(ref["channel"]) if ref else self._channel
        try:
            answer = await self._client.conversations_history(channel=channel, limit=100, include_all_metadata=True)
            if ts := _find(answer.get("messages"), f"{message.key}/ts"):
                done |= {"channel": channel, "ts": ts}
            thread = done.get("ts") or (ref["ts"] if ref else None)
            if message.kind == "postmortem" and ref is None and (ts := _find(answer.get("messages"), f"{message.key}/reply")):
                return {"channel": channel, "reply": ts}
            if thread:
                replies = await self._client.conversations_replies(channel=channel, ts=str(thread), limit=200, include_all_metadata=True)
                if ts := _find(replies.get("messages"), f"{message.key}/reply"):
                    # a reply is the last step: the message it hangs on was posted or edited before
                    done |= {"channel": channel, "ts": str(thread), "reply": ts}
        except SlackApiError as error:
            status, _, code = _read(error)
            if status == 429:
                raise
            log.warning("audit %s: whether its message arrived can't be seen (%s), so it is sent again", message.audit, code or status)
        return done

    async def close(self) -> None:
        return None


class SlackWebhook:
    """An incoming webhook: it gives back no name of the message, so that nothing can be edited or threaded."""

    def __init__(self, url: str) -> None:
        self._client = AsyncWebhookClient(url, timeout=_PATIENCE, trust_env_in_session=True, retry_handlers=[])

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        try:
            answer = await self._client.send(**_content(message, message.text))
        except (TimeoutError, aiohttp.ClientError, SlackClientError, OSError, ValueError) as error:
            return Retry(f"Slack's webhook can't be reached ({type(error).__name__})")
        if answer.status_code == 200:
            return Delivered()
        return _answer(answer.status_code, answer.headers, answer.body, {})

    async def close(self) -> None:
        return None


def _content(message: Outgoing, markdown: str) -> dict[str, Any]:
    """Blocks, and the text that notifications show instead: what happened and the first thing that is broken."""
    first = message.lead.partition("\n")[0].removeprefix("- ")
    # notifications show marks as they are
    said = " — ".join(filter(None, [message.title, first])).replace("**", "").replace("`", "") or f"{message.kind} of audit {message.audit}"
    more = f"the whole text is in audit `{message.audit}`"
    if message.kind == "postmortem":
        more = f"`telltale postmortem {message.audit}` prints all of it"
        markdown = f"{condensed(markdown, _SECTION)}\n\n{more}"
    return {"text": shorten(mrkdwn(said), 500), "blocks": blocks(markdown, more)}


def _read(error: SlackApiError) -> tuple[int, Mapping[str, str], str]:
    """Status, headers and error code. Where the body was no JSON, the library hands over the bare HTTP response."""
    response: Any = error.response
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    return int(getattr(response, "status_code", 0) or getattr(response, "status", 0)), response.headers, code


def _answer(status: int, headers: Mapping[str, str], error: str, done: Mapping[str, Any]) -> Result:
    """What an error of Slack means for the message."""
    wait = retry_after(next((v for k, v in headers.items() if k.lower() == "retry-after"), ""))
    if status == 429 or status >= 500 or error in _PASSING:
        return Retry(f"Slack answers {status} {error[:100]}".strip(), wait, dict(done) or None)
    return Refused(f"Slack answers {error[:100] or status}")


def _find(messages: Any, key: str) -> str:
    for message in messages or ():
        if ((message.get("metadata") or {}).get("event_payload") or {}).get("key") == key:
            return str(message["ts"])
    return ""
