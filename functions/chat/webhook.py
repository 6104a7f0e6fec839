"""The outgoing webhook, for tools: each message as JSON (`telltale.dev/message/v1`). Any 2xx is delivered, all else is retried."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
import orjson

from functions.chat.message import Delivered, Outgoing, Ref, Result, Retry

SCHEMA = "telltale.dev/message/v1"
_PATIENCE = aiohttp.ClientTimeout(total=30, connect=10)


class Webhook:
    """Posts to one address. `token` is sent as a bearer credential."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json", "User-Agent": "telltale"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session: aiohttp.ClientSession | None = None

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        body = {"schema": SCHEMA, "kind": message.kind, "audit": message.audit, "text": message.text}
        if message.report is not None:
            body["report"] = message.report  # type: ignore[assignment]
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=_PATIENCE, trust_env=True)
        headers = {**self._headers, "Idempotency-Key": message.key}
        try:
            # a redirect would be followed with GET and count as delivered
            async with self._session.post(self._url, data=orjson.dumps(body), headers=headers, allow_redirects=False) as response:
                if 200 <= response.status < 300:
                    return Delivered()
                return Retry(f"the webhook answers {response.status}", retry_after(response.headers.get("Retry-After", "")))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            return Retry(f"the webhook can't be reached ({type(error).__name__})")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def retry_after(header: str) -> float | None:
    """Seconds from a Retry-After header: a number or a date."""
    try:
        return max(0.0, float(header)) if header.strip().isdigit() else max(0.0, (_date(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _date(header: str) -> datetime:
    when = parsedate_to_datetime(header)
    return when if when.tzinfo else when.replace(tzinfo=UTC)
