"""What can go wrong between us and the API server, classified once: why, for a program and for a person. No client."""

from __future__ import annotations

import aiohttp
import orjson

from functions.contract.facts import Why


class KubernetesError(Exception):
    """The API server did not do what was asked: why, for a program and for a person."""

    def __init__(self, why: Why, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail
        self.status = status


class Expired(KubernetesError):
    """The resource version or continue token is too old: list again."""

    def __init__(self, detail: str) -> None:
        super().__init__(Why.TRUNCATED, detail, 410)


class NotConfigured(KubernetesError):
    """No cluster is configured, or its configuration can't be used."""

    def __init__(self, detail: str) -> None:
        super().__init__(Why.NOT_CONFIGURED, detail)


def refused(what: str, status: int, text: bytes) -> KubernetesError:
    """The error for an answer that isn't 200."""
    try:
        said = str(orjson.loads(text).get("message", ""))
    except (orjson.JSONDecodeError, AttributeError):
        said = text[:200].decode(errors="replace")
    said = " ".join(said.split())[:300]
    if status == 410:
        return Expired(f"{what}: {said}")
    if status in (401, 403):
        verb, _, resource = what.partition(" ")
        need = "the credentials are not accepted" if status == 401 else f'not allowed: needs the verb "{verb}" on "{resource}"'
        return KubernetesError(Why.UNAUTHORISED, f"{what}: {need} ({said})", status)
    if status == 404:
        return KubernetesError(Why.UNSUPPORTED, f"{what}: not served by this cluster ({said})", status)
    if status == 504:
        return KubernetesError(Why.TIMED_OUT, f"{what}: {said or 'the server timed out'}", status)
    why = Why.UNREACHABLE if status == 429 or status >= 500 else Why.MALFORMED
    return KubernetesError(why, f"{what}: HTTP {status} {said}".strip(), status)


def unreached(what: str, error: BaseException) -> KubernetesError:
    if isinstance(error, TimeoutError):
        return KubernetesError(Why.TIMED_OUT, f"{what}: no answer in time")
    tls = isinstance(error, aiohttp.ClientSSLError)
    return KubernetesError(Why.UNREACHABLE, f"{what}: {'TLS: ' if tls else ''}{type(error).__name__}: {error}"[:300])
