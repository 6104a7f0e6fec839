"""A real Redis for the tests of what stands on the store (the store's own tests run on Valkey as well)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from functions.store import Store, connect
from tests.support.redis import BINARIES, Server


@pytest.fixture(scope="session")
def one_redis() -> Iterator[Server]:
    running = Server(BINARIES["redis"]()).start()
    yield running
    running.close()


@pytest.fixture
async def kept(one_redis: Server) -> AsyncIterator[Store]:
    """An empty store."""
    client = await connect(one_redis.url)
    await client.flushall()
    opened = Store(client, "lab")
    await opened.check()
    yield opened
    await opened.close()
