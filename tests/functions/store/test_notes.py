"""States by compare-and-set, baselines, gaps, signs of life."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from redis.asyncio import Redis, RedisCluster

from functions.store import Entry, Plan, Planned, SchemaNewer, Store, StoreCorrupt, StoreError, StoreFull, connect
from tests.support.redis import BINARIES, Server
from tests.support.reports import EXPORTER, NOW, check, finding, later, report, signal


@pytest.fixture
def alone() -> Iterator[Callable[..., Server]]:
    """Starts a Redis with options of its own."""
    started: list[Server] = []

    def start(*more: str) -> Server:
        started.append(Server(BINARIES["redis"](), more=more))
        return started[-1].start()

    yield start
    for server in started:
        server.close()


async def test_a_state_is_kept_only_over_the_version_that_was_read(store: Store) -> None:
    state, version = await store.episodes.get("node/n-1")
    assert state is None
    assert await store.episodes.put("node/n-1", {"open": True}, version)
    assert not await store.episodes.put("node/n-1", {"open": False}, version)
    state, version = await store.episodes.get("node/n-1")
    assert state == {"open": True}
    assert await store.episodes.put("node/n-1", None, version)
    assert (await store.episodes.get("node/n-1"))[0] is None


async def test_of_many_writers_one_wins_each_round(store: Store) -> None:
    async def count() -> None:
        while True:
            state, version = await store.episodes.get("k")
            if await store.episodes.put("k", {"n": (state or {"n": 0})["n"] + 1}, version):
                return

    await asyncio.gather(*(count() for _ in range(25)))
    assert (await store.episodes.get("k"))[0] == {"n": 25}


async def test_states_of_events_end_by_themselves_and_others_do_not(store: Store) -> None:
    c = store._connection
    for key in ("event/Pod/ml/a/BackOff", "node/n-1"):
        await store.episodes.put(key, {"n": 1}, "0")
    assert await c.do("PTTL", c.key("episode", "event/Pod/ml/a/BackOff")) > 0
    assert await c.do("PTTL", c.key("episode", "node/n-1")) == -1


async def test_an_older_inventory_does_not_replace_a_later_one(store: Store) -> None:
    inventory = {"metrics": [f"DCGM_FI_{n}" for n in range(500)]}
    assert await store.notes.baseline("cluster") is None
    assert await store.notes.keep_baseline("cluster", NOW, inventory)
    assert not await store.notes.keep_baseline("cluster", later(-60), {})
    assert await store.notes.baseline("cluster") == (NOW, inventory)


async def test_a_gap_waits_until_a_report_has_told_it(store: Store) -> None:
    gap = {"kind": "Event", "since": NOW.isoformat(), "until": later(60).isoformat(), "why": "410 Gone"}
    await store.notes.note_gap(gap, NOW)
    await store.notes.note_gap(gap, NOW)
    gaps = await store.notes.gaps()
    assert list(gaps.values()) == [gap]
    await store.audits.complete(report("a", check("label-mapping")), NOW, gaps=gaps)
    finished = await store.outbox.finished("a")
    assert finished is not None
    assert list(finished.gaps) == list(gaps)
    assert await store.notes.gaps() == gaps


async def test_gauges_show_what_waits(store: Store) -> None:
    await store.notes.beat("tick", NOW)
    gauges = await store.gauges(later(60))
    assert gauges["last_beat_seconds"] == [({"role": "tick"}, NOW.timestamp())]
    assert ({"what": "pending"}, 0.0) in gauges["waiting"]


async def test_data_of_a_newer_version_is_left_alone(store: Store) -> None:
    c = store._connection
    await c.do("SET", c.key("schema"), "99")
    with pytest.raises(SchemaNewer, match="schema 99"):
        await store.check()


async def test_a_broken_value_is_named_and_stays(store: Store) -> None:
    c = store._connection
    await c.do("SET", c.key("episode", "node/n-1"), "7\n{broken")
    with pytest.raises(StoreCorrupt, match="node/n-1"):
        await store.episodes.get("node/n-1")
    assert await c.do("GET", c.key("episode", "node/n-1")) == b"7\n{broken"
    await c.do("SET", c.key("due"), "not a set")
    with pytest.raises(StoreCorrupt, match="another type"):
        await store.queue.claim_due(NOW, timedelta(seconds=60))


@pytest.mark.parametrize("binary", BINARIES)
async def test_a_server_that_is_away_is_again_later_and_loses_nothing(binary: str) -> None:
    server = Server(BINARIES[binary](), durable=True).start()
    store = await Store.open(server.url, "lab")
    await store.audits.complete(report("a", check("label-mapping")), NOW)
    server.kill()
    with pytest.raises(StoreError):
        await store.audits.complete(report("b", check("label-mapping")), NOW)
    server.start()
    assert await store.audits.complete(report("b", check("label-mapping")), NOW)
    assert [a["id"] for a in (await store.audits.page(None, 10))[0]] == ["b", "a"]
    await store.close()
    server.close()


async def test_a_server_that_is_not_there_is_named_plainly() -> None:
    with pytest.raises(StoreError, match="away"):
        await Store.open("unix:///nonexistent/socket", "lab")
    with pytest.raises(StoreError, match="TELLTALE_REDIS_URL"):
        await Store.open("http://localhost", "lab")


async def test_a_wrong_password_is_told_and_not_shown(alone: Callable[..., Server]) -> None:
    server = alone("--requirepass", "right-one")
    with pytest.raises(StoreError, match="credential") as caught:
        await Store.open(server.url, "lab", password="wrong-one")
    assert not re.search("wrong-one|right-one", str(caught.value))
    store = await Store.open(server.url, "lab", password="right-one")
    await store.close()


async def test_a_full_server_says_so_and_takes_nothing(alone: Callable[..., Server]) -> None:
    server = alone("--maxmemory", "2mb", "--maxmemory-policy", "noeviction")
    store = await Store.open(server.url, "lab")

    async def fill() -> None:
        for n in range(2000):
            await store.notes.keep_baseline(f"b-{n}", NOW, {"x": [f"{n}-{m}-{hash((n, m))}" for m in range(200)]})

    with pytest.raises(StoreFull, match="out of memory"):
        await fill()
    await store.close()


async def test_every_step_works_on_a_redis_cluster(alone: Callable[..., Server]) -> None:
    """One node that owns all slots refuses keys of two slots in one step, as any cluster does."""
    port = free_port()
    alone("--port", str(port), "--cluster-enabled", "yes")
    admin = Redis(port=port)
    await admin.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
    for _ in range(200):
        if (await admin.execute_command("CLUSTER INFO"))["cluster_state"] == "ok":
            break
        await asyncio.sleep(0.05)
    client = await connect(f"redis://127.0.0.1:{port}")
    assert isinstance(client, RedisCluster)
    store = Store(client, "lab")
    await store.check()
    await store.episodes.put("k", {"n": 1}, "0")
    await store.notes.keep_baseline("b", NOW, {})
    await store.queue.offer([Entry(signal("a"), NOW)], NOW)
    [request] = await store.queue.claim_due(NOW, timedelta(seconds=60))
    await store.audits.complete(report(request.audit, check("label-mapping", [finding()])), NOW)
    assert await store.outbox.untold() == [request.audit]
    told = await store.outbox.told()
    plan = Plan(request.audit, str(EXPORTER), "summary", {"reason": "test"}, message={"title": "t"}, channels=("c",))
    assert await store.outbox.plan(plan, told, NOW) is Planned.DONE
    [delivery] = await store.outbox.claim(NOW, timedelta(seconds=60))
    assert await store.outbox.delivered(delivery, {"ts": "1"}, NOW)
    await store.gauges(NOW)
    await store.close()
    await admin.aclose()


def free_port() -> int:
    """A port below 55,000: a cluster's bus listens 10,000 above."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            if (port := int(probe.getsockname()[1])) < 55_000:
                return port
