"""One way to Redis or Valkey: commands and atomic scripts, errors classified, keys of one cluster under one hash tag.

The scripts (`scripts/*.lua`) run on Redis from 6.2, on Valkey and on Redis Cluster: every key is passed, all share one
tag, and the time is a parameter, so that a test can move it and a replica computes the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError

from functions.store.errors import SchemaNewer, StoreError, classify

SCHEMA = 1

Client = Redis | RedisCluster
Argument = str | bytes | int | float

_PATIENCE = 10.0
_AT_ONCE = 32


async def connect(url: str, *, password: str | None = None, ca: Path | None = None, patience: float = _PATIENCE) -> Client:
    """A client for redis://, rediss:// or unix:// URLs; a Redis Cluster is recognised. Raises StoreError."""
    # a moment's restart is waited for; a script that runs twice because its answer was lost costs a lease at most
    retry = Retry(ExponentialBackoff(cap=1, base=0.1), 3)
    options: dict[str, Any] = {"socket_timeout": patience, "socket_connect_timeout": patience, "retry": retry}
    if password is not None:
        options["password"] = password
    if ca is not None:
        options["ssl_ca_certs"] = str(ca)
    try:
        client: Redis = Redis.from_url(url, **options)
    except ValueError as error:
        raise StoreError(f"TELLTALE_REDIS_URL can't be used: {error}") from None
    try:
        info: Any = await client.execute_command("INFO", "cluster")  # type: ignore[no-untyped-call]
        if not int(info.get("cluster_enabled", 0)):
            return client
        await client.aclose()
        cluster: RedisCluster = RedisCluster.from_url(url, **options)
        await cluster.initialize()
        return cluster
    except (RedisError, OSError) as error:
        await client.aclose()
        raise classify(error) from error


class Connection:
    """Commands and scripts on the keys of one cluster."""

    def __init__(self, redis: Client, cluster: str) -> None:
        self._redis = redis
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._prefix = f"telltale:{{{cluster}}}:"
        common = _text("_common")
        names = [f.name.removesuffix(".lua") for f in files("functions.store").joinpath("scripts").iterdir() if f.name.endswith(".lua")]
        self._scripts = {name: redis.register_script(f"{common}\n{_text(name)}") for name in names if not name.startswith("_")}

    def key(self, *parts: str) -> str:
        """A key of this cluster."""
        return self._prefix + ":".join(parts)

    async def do(self, command: str, *arguments: Argument) -> Any:
        """One command. Raises StoreError."""
        async with self._turn():
            return await self._redis.execute_command(command, *arguments)

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """One script of `scripts/`, atomically. Raises StoreError."""
        async with self._turn():
            return await self._scripts[script](keys=keys, args=arguments)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place among the few that speak at once: a storm of requests waits here, not for connections that are refused."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreError("Redis is too slow for what is asked of it") from None
        task = asyncio.current_task()
        asked = task.cancelling() if task else 0
        try:
            yield
        except (RedisError, OSError) as error:
            raise classify(error) from error
        finally:
            self._turns.release()
        if task and task.cancelling() > asked:
            # on Python 3.11 `asyncio.wait_for`, which the client uses, may pass over a cancellation: it is made up for here
            raise asyncio.CancelledError

    async def check_schema(self) -> None:
        """Claim an empty store for this version. Raises SchemaNewer where a newer Telltale has written."""
        key = self.key("schema")
        await self.do("SET", key, SCHEMA, "NX")
        found = await self.do("GET", key)
        if not found.isdigit() or int(found) > SCHEMA:
            raise SchemaNewer(f"the stored data has schema {found.decode(errors='replace')[:20]}; this Telltale knows up to {SCHEMA}")

    async def close(self) -> None:
        await self._redis.aclose()


def _text(name: str) -> str:
    return files("functions.store").joinpath("scripts", f"{name}.lua").read_text(encoding="utf-8")
