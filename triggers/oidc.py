"""Who sends an event: verifies the OIDC token that Knative's senders carry where `authentication-oidc` is on.

A plain Service has no verifier in front of it, so the subscriber checks the token itself: signature against the
issuer's keys, issuer, audience, expiry. https://knative.dev/docs/eventing/features/sender-identity/
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    import jwt

log = logging.getLogger(__name__)

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ALGORITHMS = ("RS256", "ES256", "PS256")
#: Seconds between two fetches of the keys that an unknown key id may cause.
_REFETCH = 30.0


class Refused(Exception):
    """No token, or not one that may come in."""


class Unverifiable(Exception):
    """The issuer's keys can't be had now; the sender should try again."""


class Verifier:
    """Checks bearer tokens of one audience. Keys are fetched when first needed and when an unknown key id comes."""

    def __init__(self, issuer: str, audience: str, *, account: Path = ACCOUNT) -> None:
        self._issuer = issuer.rstrip("/")
        self._audience = audience
        self._account = account
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched = -_REFETCH

    async def check(self, header: str) -> str:
        """The subject of the token in an Authorization header. Raises Refused or Unverifiable."""
        import jwt

        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Refused("no bearer token")
        try:
            identity = str(jwt.get_unverified_header(token).get("kid", ""))
            key = await self._key(identity)
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(_ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "aud", "iss", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Refused(f"the token does not hold: {error}") from None
        return str(claims["sub"])

    async def _key(self, identity: str) -> jwt.PyJWK:
        if identity not in self._keys and time.monotonic() - self._fetched >= _REFETCH:
            self._keys = await self._fetch()
            self._fetched = time.monotonic()
        if identity not in self._keys:
            raise Refused("signed with a key that the issuer does not list")
        return self._keys[identity]

    async def _fetch(self) -> Mapping[str, jwt.PyJWK]:
        import jwt

        headers, context = {}, None
        if (self._account / "token").exists():
            headers["Authorization"] = f"Bearer {(self._account / 'token').read_text().strip()}"
        if (self._account / "ca.crt").exists():
            context = ssl.create_default_context(cafile=self._account / "ca.crt")
        timeout = aiohttp.ClientTimeout(total=10)
        try:
            async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
                discovery = await _get(session, f"{self._issuer}/.well-known/openid-configuration", context)
                document = await _get(session, str(discovery["jwks_uri"]), context)
            return {k.key_id: k for k in jwt.PyJWKSet.from_dict(document).keys if k.key_id}
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError, jwt.PyJWTError) as error:
            log.warning("the keys of %s can't be had: %s", self._issuer, error)
            raise Unverifiable(f"the issuer's keys can't be had: {type(error).__name__}") from error


async def _get(session: aiohttp.ClientSession, url: str, context: ssl.SSLContext | None) -> dict[str, Any]:
    async with session.get(url, ssl=context if context is not None else True) as response:
        response.raise_for_status()
        document = await response.json(content_type=None)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is no JSON object")
    return document
