"""What a broker could not deliver is kept by the dead-letter role, listed and replayed by a person, and told when it is refused."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from functions.contract.policy import Policy
from functions.settings import Settings
from functions.store import Store, connect
from functions.store.letters import LONGEST_BODY
from tests.support.redis import BINARIES, Server
from triggers.cli import main
from triggers.roles import Parts
from triggers.serve import Role, application


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    running = Server(BINARIES["redis"]()).start()
    yield running
    running.close()


@pytest.fixture
async def parts(redis: Server) -> AsyncIterator[Parts]:
    client = await connect(redis.url)
    await client.flushall()
    store = Store(client, "default")
    await store.check()

    yield Parts(Settings(), store, Policy())
    await store.close()


@pytest.fixture
async def client(parts: Parts) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(application(Role("dead-letter", "default", letter=parts.dead_letter)))) as client:
        yield client


def letter(**changes: str) -> dict[str, str]:
    """An event as a broker hands it to a dead letter sink."""
    return {
        "ce-specversion": "1.0",
        "ce-id": "7",
        "ce-source": "/apis/v1/namespaces/telltale/pingsources/baseline",
        "ce-type": "dev.knative.sources.ping",
        "ce-knativeerrorcode": "503",
        "ce-knativeerrordest": "http://intake.telltale.svc.cluster.local",
        "ce-knativeerrordata": base64.b64encode(b"Redis is away\n").decode(),
        "Content-Type": "application/json",
        **changes,
    }


async def command(capsys: pytest.CaptureFixture[str], redis: Server, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    """`telltale dead-letters …` as a person runs it."""
    monkeypatch.setenv("TELLTALE_REDIS_URL", redis.url)
    status = await asyncio.to_thread(main, ["dead-letters", *arguments])
    out = capsys.readouterr()
    return status, out.out + out.err


async def test_a_letter_is_listed_with_its_reason_and_its_replay_does_what_the_event_asked_for(
    client: TestClient[Any, Any], parts: Parts, redis: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # the broker may deliver it twice
        async with client.post("/", headers=letter(), data=b'{"kind": "baseline"}') as response:
            assert (response.status, await response.read()) == (202, b"")
    status, out = await command(capsys, redis, monkeypatch, "--format", "json")
    [listed] = orjson.loads(out)["letters"]
    assert status == 0
    assert listed["why"] == "503: Redis is away (http://intake.telltale.svc.cluster.local)"

    status, out = await command(capsys, redis, monkeypatch, "--replay", listed["id"])
    assert (status, out) == (0, f"replayed {listed['id']} (at the next tick of intake)\n")
    assert (await parts.store.queue.waiting(datetime.now(UTC)))["pending"] == 0
    await parts.replay_letters()
    assert (await parts.store.queue.waiting(datetime.now(UTC)))["pending"] == 1
    assert await parts.store.letters.list() == ()


async def test_what_can_not_be_read_is_kept_too_and_stays_with_the_reason_of_its_replay(client: TestClient[Any, Any], parts: Parts) -> None:
    async with client.post("/", headers=letter(), data=b'{"broken') as response:
        assert response.status == 202, "nobody else would keep it"
    [kept] = await parts.store.letters.list()
    assert kept.body == b'{"broken'
    await parts.store.letters.want(kept.id, datetime.now(UTC))
    await parts.replay_letters()
    [kept] = await parts.store.letters.list()
    assert kept.why.startswith("the replay was refused: the data is not JSON")
    assert await parts.store.letters.wanted() == ()


async def test_a_letter_that_is_too_long_to_keep_is_listed_and_says_why_it_can_not_be_replayed(
    client: TestClient[Any, Any], parts: Parts
) -> None:
    async with client.post("/", headers=letter(), data=b'"' + b"x" * LONGEST_BODY + b'"') as response:
        assert response.status == 202
    [kept] = await parts.store.letters.list()
    await parts.store.letters.want(kept.id, datetime.now(UTC))
    await parts.replay_letters()
    [kept] = await parts.store.letters.list()
    assert "was not kept" in kept.why


async def test_a_letter_about_an_audit_needs_no_replay_since_redis_has_it(client: TestClient[Any, Any], parts: Parts) -> None:
    headers = letter(**{"ce-type": "dev.telltale.audit.due", "ce-subject": "cluster"})
    async with client.post("/", headers=headers, data=b'{"audit": "a"}'):
        pass
    [kept] = await parts.store.letters.list()
    assert kept.what == "dev.telltale.audit.due cluster"
    await parts.store.letters.want(kept.id, datetime.now(UTC))
    await parts.replay_letters()
    assert await parts.store.letters.list() == ()


async def test_what_is_no_event_at_all_is_no_letter(client: TestClient[Any, Any], parts: Parts) -> None:
    async with client.post("/", data=b"{}") as response:
        assert response.status == 400
    assert await parts.store.letters.list() == ()


async def test_a_structured_letter_is_kept_by_its_content(client: TestClient[Any, Any], parts: Parts) -> None:
    for data in (b'{"specversion":"1.0","id":"1"}', b'{"specversion":"1.0","id":"2"}', b'{"specversion":"1.0","id":"1"}'):
        async with client.post("/", headers={"Content-Type": "application/cloudevents+json"}, data=data) as response:
            assert response.status == 202
    assert len(await parts.store.letters.list()) == 2


async def test_letters_are_dropped_by_name_or_all_and_an_unknown_name_changes_nothing(
    client: TestClient[Any, Any], parts: Parts, redis: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for identity in ("1", "2", "3"):
        async with client.post("/", headers=letter(**{"ce-id": identity}), data=b"{}"):
            pass
    names = [x.id for x in await parts.store.letters.list()]
    status, out = await command(capsys, redis, monkeypatch, "--drop", names[0], "--drop", "event-nowhere")
    assert (status, out.count("\n")) == (2, 1)
    assert "event-nowhere" in out
    assert len(await parts.store.letters.list()) == 3
    status, out = await command(capsys, redis, monkeypatch, "--drop", names[0])
    assert (status, out) == (0, f"dropped {names[0]}\n")
    assert (await command(capsys, redis, monkeypatch, "--drop", "all"))[0] == 0
    assert await command(capsys, redis, monkeypatch) == (0, "no dead letters\n")
