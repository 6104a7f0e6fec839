"""Each test of the store runs on a real Redis and on a real Valkey."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from functions.store import Store, connect
from tests.support.redis import BINARIES, Server


@pytest.fixture(scope="session", params=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    running = Server(BINARIES[request.param]()).start()
    yield running
    running.close()


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Store]:
    client = await connect(server.url)
    await client.flushall()
    opened = Store(client, "lab")
    await opened.check()
    yield opened
    await opened.close()
