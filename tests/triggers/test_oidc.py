"""A sender's token is checked against keys that a real HTTP issuer serves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa

from triggers.oidc import Refused, Unverifiable, Verifier

AUDIENCE = "telltale/intake"


class Issuer:
    """An OIDC issuer with one key, as the API server is."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.broken = False
        self.fetches = 0
        self.url = ""

    async def discovery(self, _request: web.Request) -> web.Response:
        if self.broken:
            return web.Response(status=503)
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def keys(self, _request: web.Request) -> web.Response:
        self.fetches += 1
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return web.json_response({"keys": [public | {"kid": "k1", "alg": "RS256", "use": "sig"}]})

    def token(self, *, key: Any = None, kid: str = "k1", **changes: Any) -> str:
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "system:serviceaccount:a:b", "exp": time.time() + 60} | changes
        return jwt.encode({k: v for k, v in claims.items() if v is not None}, key or self.key, algorithm="RS256", headers={"kid": kid})


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.discovery)
    app.router.add_get("/keys", issuer.keys)
    async with TestServer(app) as server:
        issuer.url = str(server.make_url("")).rstrip("/")
        yield issuer


@pytest.fixture
def verifier(issuer: Issuer, tmp_path: Path) -> Verifier:
    return Verifier(issuer.url, AUDIENCE, account=tmp_path)


async def test_a_good_token_names_its_sender(issuer: Issuer, verifier: Verifier) -> None:
    assert await verifier.check(f"Bearer {issuer.token()}") == "system:serviceaccount:a:b"
    assert await verifier.check(f"bearer {issuer.token()}") == "system:serviceaccount:a:b"
    assert issuer.fetches == 1


@pytest.mark.parametrize(
    "changes", [{"aud": "other"}, {"iss": "https://elsewhere.example.com"}, {"exp": 1}, {"exp": None}, {"sub": None}, {"kid": "k2"}]
)
async def test_a_token_that_is_not_for_us_is_refused(issuer: Issuer, verifier: Verifier, changes: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        await verifier.check(f"Bearer {issuer.token(**changes)}")


async def test_a_token_signed_by_another_key_is_refused(issuer: Issuer, verifier: Verifier) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(Refused):
        await verifier.check(f"Bearer {issuer.token(key=other)}")


async def test_a_token_without_a_signature_is_refused(issuer: Issuer, verifier: Verifier) -> None:
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "x", "exp": time.time() + 60}
    unsigned = jwt.encode(claims, None, algorithm="none", headers={"kid": "k1"})
    with pytest.raises(Refused):
        await verifier.check(f"Bearer {unsigned}")


@pytest.mark.parametrize("header", ["", "Bearer ", "Basic abc", "Bearer not-a-token"])
async def test_what_is_no_bearer_token_is_refused(verifier: Verifier, header: str) -> None:
    with pytest.raises(Refused):
        await verifier.check(header)


async def test_unknown_keys_do_not_make_a_storm_of_fetches(issuer: Issuer, verifier: Verifier) -> None:
    for number in range(20):
        with pytest.raises(Refused):
            await verifier.check(f"Bearer {issuer.token(kid=f'k{number + 2}')}")
    assert issuer.fetches == 1


async def test_an_issuer_that_is_away_means_try_again(issuer: Issuer, verifier: Verifier) -> None:
    issuer.broken = True
    with pytest.raises(Unverifiable):
        await verifier.check(f"Bearer {issuer.token()}")
    issuer.broken = False
    assert await verifier.check(f"Bearer {issuer.token()}")
