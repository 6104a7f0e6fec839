"""Events leave as a SinkBinding says: to its address, trusting its authorities, with its token and its extensions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.contract.errors import Again
from functions.envelope import read, write
from functions.settings import Settings, SettingsError
from tests.support.tls import Authority
from triggers import sink
from triggers.sink import Sink

EVENT = write(id="1", source="/telltale/lab", type="dev.telltale.audit.due", subject="cluster", data={"audit": "1"})


class Taker:
    """A sink over TLS that keeps what it gets."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 202
        self.headers: list[dict[str, str]] = []

    async def take(self, request: web.Request) -> web.Response:
        read(request.headers, await request.read())
        self.headers.append(dict(request.headers))
        return web.Response(status=self.status, headers={"Location": f"{self.url}/elsewhere"} if self.status == 307 else None)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Taker, Authority]]:
    authority, found = Authority(), Taker()
    app = web.Application()
    app.router.add_post("/{tail:.*}", found.take)
    server = TestServer(app, scheme="https", host="127.0.0.1")
    await server.start_server(ssl=authority.server(tmp_path))
    found.url = str(server.make_url("/telltale/telltale"))
    yield found, authority
    await server.close()


async def test_the_authorities_of_the_binding_are_trusted_and_no_others(served: tuple[Taker, Authority], tmp_path: Path) -> None:
    taker, authority = served
    for ca, trusted in (
        (authority.pem, True),
        (Authority("another").pem + authority.pem, True),
        (Authority("another").pem, False),
        ("", False),
    ):
        bound = Sink(taker.url, ca, token=tmp_path / "none", bundles=tmp_path / "none")
        try:
            if trusted:
                await bound.send(*EVENT)
            else:
                with pytest.raises(Again, match="certificate does not hold"):
                    await bound.send(*EVENT)
        finally:
            await bound.close()
    assert len(taker.headers) == 2


async def test_trust_bundles_are_read_from_their_volume_and_again_once_they_were_renewed(
    served: tuple[Taker, Authority], tmp_path: Path
) -> None:
    taker, authority = served
    bundles = tmp_path / "certs"
    (bundles / "knative-eventing-bundle").mkdir(parents=True)
    file = bundles / "knative-eventing-bundle" / "bundle.pem"
    file.write_text(Authority("the one before").pem)
    bound = Sink(taker.url, token=tmp_path / "none", bundles=bundles)
    with pytest.raises(Again):
        await bound.send(*EVENT)
    file.write_text(authority.pem)
    with pytest.raises(Again):
        await bound.send(*EVENT)  # it learns by this one that what it trusts is out of date
    await bound.send(*EVENT)
    await bound.close()
    assert len(taker.headers) == 1


async def test_the_token_is_sent_as_it_is_at_the_time(served: tuple[Taker, Authority], tmp_path: Path) -> None:
    taker, authority = served
    token = tmp_path / "token"
    bound = Sink(taker.url, authority.pem, token=token, bundles=tmp_path / "none")
    await bound.send(*EVENT)
    for text in ("first\n", "renewed"):
        token.write_text(text)
        await bound.send(*EVENT)
    await bound.close()
    assert [h.get("Authorization") for h in taker.headers] == [None, "Bearer first", "Bearer renewed"]


async def test_a_token_that_can_not_be_read_sends_nothing_without_it(served: tuple[Taker, Authority], tmp_path: Path) -> None:
    taker, authority = served
    bound = Sink(taker.url, authority.pem, token=tmp_path, bundles=tmp_path / "none")  # a folder
    with pytest.raises(Again, match="token"):
        await bound.send(*EVENT)
    await bound.close()
    assert not taker.headers


@pytest.mark.parametrize("status", [307, 400, 401, 404, 500, 503])
async def test_what_the_sink_does_not_take_is_sent_again_and_a_redirect_gets_no_token(
    served: tuple[Taker, Authority], tmp_path: Path, status: int
) -> None:
    taker, authority = served
    taker.status = status
    bound = Sink(taker.url, authority.pem, token=tmp_path / "none", bundles=tmp_path / "none")
    with pytest.raises(Again, match=str(status)):
        await bound.send(*EVENT)
    await bound.close()
    assert len(taker.headers) == 1


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ca_certs": "no certificate"}, "K_CA_CERTS"),
        ({"ce_overrides": "[]"}, "K_CE_OVERRIDES"),
        ({"ce_overrides": '{"extensions": {"id": "1"}}'}, "K_CE_OVERRIDES"),
        ({"ce_overrides": '{"extensions": {"Bad-Name": "1"}}'}, "K_CE_OVERRIDES"),
        ({"ce_overrides": '{"extensions": {"n": 1}}'}, "K_CE_OVERRIDES"),
    ],
)
def test_a_binding_that_can_not_be_used_is_named_at_the_start(changes: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        sink.of(Settings(sink="https://broker-ingress.knative-eventing.svc/telltale/telltale", **changes))


def test_without_a_binding_there_is_no_sink() -> None:
    assert sink.of(Settings()) is None
    assert sink.of(Settings(sink="http://broker.svc", ce_overrides="")) is not None
