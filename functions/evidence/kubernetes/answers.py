"""Reading what the API server answers: whole bodies and lines of a watch, each fault classified. No requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from functions.contract.facts import Why
from functions.evidence.kubernetes.errors import KubernetesError, refused, unreached


@dataclass(frozen=True, slots=True)
class Change:
    """One change that a watch saw: ADDED, MODIFIED or DELETED (bookmarks stay inside)."""

    type: str
    object: Mapping[str, Any]
    resource_version: str


def retry_after(response: Any) -> float | None:
    text = str(response.headers.get("Retry-After", ""))
    return float(text) if text.isdigit() else None


async def bytes_of(response: Any, what: str) -> bytes:
    try:
        return bytes(await response.read())
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise unreached(what, error) from error


async def line_of(response: Any, what: str) -> bytes:
    try:
        return bytes(await response.response.content.readline())
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        raise unreached(what, error) from error


def json_of(text: bytes, what: str) -> dict[str, Any]:
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise KubernetesError(Why.MALFORMED, f"{what}: the answer is no JSON") from None
    if not isinstance(body, dict):
        raise KubernetesError(Why.MALFORMED, f"{what}: the answer is no object")
    return body


def change_in(line: bytes, kind: str, what: str) -> Change:
    event = json_of(line, what)
    item = event.get("object")
    if not isinstance(item, dict):
        raise KubernetesError(Why.MALFORMED, f"{what}: an event without an object")
    if event.get("type") == "ERROR":
        raise refused(what, int(item.get("code") or 500), line if not item.get("message") else orjson.dumps(item))
    version = str((item.get("metadata") or {}).get("resourceVersion", ""))
    return Change(str(event.get("type", "")), {"kind": kind, **item}, version)
