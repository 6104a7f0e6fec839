"""The delivery contract at the wire: what Knative's dispatcher, its sources and Alertmanager send, and what they would conclude."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from functions.contract.errors import Again, Never
from functions.envelope import Event, write
from triggers.serve import Role, application

BINARY = {
    "ce-specversion": "1.0",
    "ce-id": "c5b1a7e4",
    "ce-source": "https://10.96.0.1:443",
    "ce-type": "dev.knative.apiserver.resource.update",
    "ce-kind": "Node",
    "ce-namespace": "",
    "ce-knativearrivaltime": "2026-11-01T10:00:00Z",
    "Content-Type": "application/json",
    "Prefer": "reply",
    "Kn-Namespace": "telltale",
}

#: What each sender sends again, measured with Knative's own programs.
BROKER_RETRIES = {404, 408, 409, 429, 500, 502, 503, 504}
SOURCE_RETRIES = {404, 413, 425, 429, 502, 503, 504}
ALERTMANAGER_RETRIES = set(range(500, 600))


class Sink:
    """Takes events as a role does, and fails as it is told."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.bodies: list[bytes] = []
        self.error: Exception | None = None
        self.reply: tuple[dict[str, str], bytes] | None = None
        self.gate: asyncio.Event | None = None

    async def event(self, event: Event) -> tuple[dict[str, str], bytes] | None:
        if self.gate:
            await self.gate.wait()
        if self.error:
            raise self.error
        self.seen.append(event)
        return self.reply

    async def webhook(self, body: bytes) -> None:
        if self.error:
            raise self.error
        self.bodies.append(body)


@pytest.fixture
def sink() -> Sink:
    return Sink()


Connect = Callable[..., Awaitable[TestClient[Any, Any]]]


@pytest.fixture
async def connect(sink: Sink):  # type: ignore[no-untyped-def]
    clients: list[TestClient[Any, Any]] = []

    async def start(**changes: Any) -> TestClient[Any, Any]:
        role = Role("intake", "lab", event=sink.event, webhook=sink.webhook, **changes)
        client = TestClient(TestServer(application(role)))
        await client.start_server()
        clients.append(client)
        return client

    yield start
    for client in clients:
        await client.close()


def delivered(response: ClientResponse, body: bytes) -> bool:
    """What a broker concludes: 2xx, and any body must be a CloudEvent."""
    return 200 <= response.status < 300 and (not body or "ce-id" in response.headers)


async def test_a_binary_event_is_taken_with_an_empty_202(connect: Connect, sink: Sink) -> None:
    client = await connect()
    async with client.post("/", headers=BINARY, data=b'{"kind": "Node"}') as response:
        body = await response.read()
        assert (response.status, body) == (202, b"")
        assert delivered(response, body)
        assert not [h for h in response.headers if h.lower().startswith("ce-")]
    assert sink.seen[0].extensions["kind"] == "Node"


async def test_a_structured_event_without_datacontenttype_is_taken(connect: Connect, sink: Sink) -> None:
    client = await connect()
    event = b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"kind":"tick"}}'
    async with client.post("/", headers={"Content-Type": "application/cloudevents+json"}, data=event) as response:
        assert response.status == 202
    assert sink.seen[0].data == {"kind": "tick"}


async def test_a_tick_without_body_and_content_type_is_taken(connect: Connect, sink: Sink) -> None:
    client = await connect()
    headers = {k: v for k, v in BINARY.items() if k != "Content-Type"} | {"ce-type": "dev.knative.sources.ping"}
    async with client.post("/", headers=headers, skip_auto_headers=("Content-Type",)) as response:
        assert response.status == 202
    assert sink.seen[0].data is None


async def test_a_reply_is_a_whole_event(connect: Connect, sink: Sink) -> None:
    sink.reply = write(id="r", source="/telltale/lab", type="dev.telltale.audit.completed", subject="cluster", data={"audit": "a"})
    client = await connect()
    async with client.post("/", headers=BINARY, data=b"{}") as response:
        body = await response.read()
        assert response.status == 200
        assert response.headers["ce-type"] == "dev.telltale.audit.completed"
        assert response.headers["Content-Type"].startswith("application/json")
        assert delivered(response, body)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({k: v for k, v in BINARY.items() if k != "ce-id"}, b"{}"),
        ({"Content-Type": "application/cloudevents-batch+json"}, b"[]"),
        ({"Content-Type": "application/json"}, b'{"version": "4"}'),
        (BINARY, b'{"broken'),
    ],
)
async def test_what_can_never_be_read_goes_to_the_dead_letters_at_once(
    connect: Connect, sink: Sink, headers: dict[str, str], body: bytes
) -> None:
    client = await connect()
    async with client.post("/", headers=headers, data=body) as response:
        assert response.status == 400
        assert response.status not in BROKER_RETRIES | SOURCE_RETRIES
        assert await response.text(), "the dead letter carries the reason"
    assert not sink.seen


@pytest.mark.parametrize("error", [Again("redis is away"), RuntimeError("a fault of ours")])
async def test_what_may_work_later_is_retried_by_every_sender(connect: Connect, sink: Sink, error: Exception) -> None:
    sink.error = error
    client = await connect()
    for path in ("/", "/alertmanager"):
        async with client.post(path, headers=BINARY, data=b"{}") as response:
            assert response.status == 503
            assert response.status in BROKER_RETRIES & SOURCE_RETRIES & ALERTMANAGER_RETRIES
            assert int(response.headers["Retry-After"]) > 0
            assert "a fault of ours" not in await response.text()


async def test_a_webhook_that_can_never_be_read_is_400_and_counted(connect: Connect, sink: Sink) -> None:
    sink.error = Never("version 3")
    client = await connect()
    async with client.post("/alertmanager", data=b"{}") as response:
        assert response.status == 400
    async with client.get("/metrics") as response:
        assert 'telltale_refused_total{role="intake",route="/alertmanager"} 1.0' in await response.text()


async def test_a_four_mebibyte_body_is_taken_and_a_larger_one_refused(connect: Connect, sink: Sink) -> None:
    client = await connect()
    pad = b" " * (4 * 2**20 - 2)
    async with client.post("/", headers=BINARY, data=io.BytesIO(b"{}" + pad)) as response:
        assert response.status == 202
    async with client.post("/", headers=BINARY, data=io.BytesIO(b"{}" + pad + b" ")) as response:
        assert response.status == 413
    assert len(sink.seen) == 1


async def test_the_webhook_needs_the_token_and_events_do_not(connect: Connect, sink: Sink) -> None:
    client = await connect(token="s3cret", host="0.0.0.0")
    async with client.post("/alertmanager", data=b"{}") as response:
        assert response.status == 401
    async with client.post("/alertmanager", data=b"{}", headers={"Authorization": "Bearer s3cre"}) as response:
        assert response.status == 401
    async with client.post("/alertmanager", data=b"{}", headers={"Authorization": "Bearer s3cret"}) as response:
        assert response.status == 200
    async with client.post("/", headers=BINARY, data=b"{}") as response:
        assert response.status == 202
    assert len(sink.bodies) == 1


async def test_without_a_token_only_a_loopback_address_serves_the_webhook(connect: Connect) -> None:
    client = await connect(host="0.0.0.0")
    async with client.post("/alertmanager", data=b"{}") as response:
        assert response.status == 401
    client = await connect(host="127.0.0.1")
    async with client.post("/alertmanager", data=b"{}") as response:
        assert response.status == 200


async def test_health_is_open_and_an_unknown_path_is_not_found(connect: Connect) -> None:
    client = await connect(token="s3cret", host="0.0.0.0")
    for path, status in (("/health/liveness", 200), ("/health/readiness", 200), ("/metrics", 200), ("/nothing", 404)):
        async with client.get(path) as response:
            assert response.status == status


async def test_while_shutting_down_work_under_way_ends_and_new_work_is_sent_away(connect: Connect, sink: Sink) -> None:
    client = await connect()
    sink.gate = asyncio.Event()
    under_way = asyncio.create_task(client.post("/", headers=BINARY, data=b"{}"))
    await asyncio.sleep(0.1)
    await client.app.shutdown() if client.app else None
    async with client.post("/", headers=BINARY, data=b"{}") as response:
        assert response.status == 503
    async with client.get("/health/readiness") as response:
        assert response.status == 503
    sink.gate.set()
    assert (await under_way).status == 202
    assert len(sink.seen) == 1


async def test_an_event_whose_sender_can_not_prove_itself_is_refused(connect: Connect, sink: Sink) -> None:
    from triggers.oidc import Refused, Unverifiable

    class Senders:
        async def check(self, header: str) -> str:
            if header == "Bearer away":
                raise Unverifiable("the issuer is away")
            if header != "Bearer good":
                raise Refused("no")
            return "someone"

    client = await connect(sender=Senders())
    for header, status in (("Bearer good", 202), ("Bearer bad", 401), ("Bearer away", 503)):
        async with client.post("/", headers=BINARY | {"Authorization": header}, data=b"{}") as response:
            assert response.status == status
    assert len(sink.seen) == 1
