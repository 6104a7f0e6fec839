"""Pending audits: nothing twice, nothing lost, one a scope."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from functions.contract.signals import CLUSTER, Scope, TriggerKind
from functions.store import Entry, Lane, Limits, Store, StoreFull, connect
from tests.support.redis import Server
from tests.support.reports import EXPORTER, NOW, later, signal

MINUTE = timedelta(seconds=60)


def settling(key: str, due: float = 300, span: float = 300, **more: object) -> Entry:
    s = signal(key, **more)  # type: ignore[arg-type]
    return Entry(s, later(due), Lane.SETTLED, timedelta(seconds=span), s.trigger.gravity)


async def test_a_signal_seen_twice_is_one_signal(store: Store) -> None:
    first = await store.queue.offer([settling("a"), settling("a"), settling("b")], NOW)
    again = await store.queue.offer([settling("b"), settling("a")], later(1))
    assert (first.new, first.known, first.opened) == (2, 1, 1)
    assert (again.new, again.known, again.opened) == (0, 2, 0)
    [claimed] = await store.queue.claim_due(later(300), MINUTE)
    assert [s.key for s in claimed.signals] == ["a", "b"]


async def test_a_signal_stays_known_while_it_keeps_arriving(store: Store) -> None:
    days = 86400.0
    for day in range(0, 10, 2):
        taken = await store.queue.offer([settling("firing")], later(day * days))
        assert taken.new == (1 if day == 0 else 0)
    assert (await store.queue.offer([settling("firing")], later(12 * days))).new == 1


async def test_a_storm_becomes_one_pending_audit_a_scope(store: Store) -> None:
    scopes = [Scope("Deployment", "ml", f"w-{n}") for n in range(4)]
    storm = [settling(f"s-{n}", scope=scopes[n % 4]) for n in range(10_000)]
    started = time.monotonic()
    taken = await store.queue.offer(storm, NOW)
    elapsed = time.monotonic() - started
    assert (taken.new, taken.opened) == (10_000, 4)
    claimed = await store.queue.claim_due(later(300), MINUTE)
    assert {r.scope for r in claimed} == set(scopes)
    assert all(len(r.signals) == 100 for r in claimed)  # the latest; the timeline has them all
    assert len(await store.queue.timeline(later(-1), later(1))) == 10_000
    assert elapsed < 10


async def test_a_storm_of_senders_at_once_is_taken(store: Store) -> None:
    taken = await asyncio.gather(*(store.queue.offer([settling(f"s-{n}")], NOW) for n in range(1000)))
    assert sum(t.new for t in taken) == 1000
    assert sum(t.opened for t in taken) == 1


async def test_the_gravest_signal_is_the_trigger_however_many_follow(store: Store) -> None:
    await store.queue.offer([settling("failed", phase="failed")], NOW)
    await store.queue.offer([settling(f"e-{n}", kind=TriggerKind.KUBERNETES_EVENT, phase="") for n in range(300)], NOW)
    [claimed] = await store.queue.claim_due(later(300), MINUTE)
    assert (claimed.trigger.kind, claimed.trigger.phase) == (TriggerKind.ROLLOUT, "failed")
    assert "failed" in {s.key for s in claimed.signals}


async def test_the_earliest_baseline_counts(store: Store) -> None:
    await store.queue.offer([settling("a", baseline=later(-100)), settling("b", baseline=later(-900)), settling("c")], NOW)
    [claimed] = await store.queue.claim_due(later(300), MINUTE)
    assert claimed.baseline == later(-900)


async def test_later_signals_push_the_due_time_within_a_bound(store: Store) -> None:
    for n in range(20):
        await store.queue.offer([settling(f"s-{n}", due=300 + 60 * n)], later(60 * n))
    assert await store.queue.claim_due(later(599), MINUTE) == []
    [claimed] = await store.queue.claim_due(later(600), MINUTE)
    assert claimed.due == later(600)


async def test_an_alert_does_not_wait_for_a_rollout_nor_hurry_it(store: Store) -> None:
    alert = signal("alert", kind=TriggerKind.ALERT, phase="firing", urgent=True)
    await store.queue.offer([settling("rollout")], NOW)
    await store.queue.offer([Entry(alert, later(1), rank=alert.trigger.gravity)], later(1))
    [first] = await store.queue.claim_due(later(1), 60 * MINUTE)
    assert first.trigger.kind is TriggerKind.ALERT
    [second] = await store.queue.claim_due(later(300), MINUTE)
    assert (second.trigger.kind, second.scope) == (TriggerKind.ROLLOUT, EXPORTER)


async def test_what_only_opens_an_episode_is_kept_for_the_timeline_alone(store: Store) -> None:
    taken = await store.queue.offer([Entry(signal("started", phase="started", audit=False), None)], NOW)
    assert (taken.new, taken.opened) == (1, 0)
    assert await store.queue.claim_due(later(9999), MINUTE) == []
    assert [s.key for s in await store.queue.timeline(later(-1), later(1), [EXPORTER])] == ["started"]
    assert await store.queue.timeline(later(-1), later(1), [CLUSTER]) == []


async def test_signals_during_an_audit_open_the_next_one(store: Store) -> None:
    await store.queue.offer([settling("a")], NOW)
    [first] = await store.queue.claim_due(later(300), 60 * MINUTE)
    assert [s.key for s in first.signals] == ["a"]
    assert (await store.queue.offer([settling("b", due=600)], later(301))).opened == 1
    [second] = await store.queue.claim_due(later(600), MINUTE)
    assert [s.key for s in second.signals] == ["b"]


async def test_many_claimers_get_each_audit_once(server: Server, store: Store) -> None:
    await store.queue.offer([settling(f"s-{n}", scope=Scope("Deployment", "ml", f"w-{n}")) for n in range(200)], NOW)
    others = [Store(await connect(server.url), "lab") for _ in range(8)]

    async def take_all(other: Store) -> list[str]:
        got: list[str] = []
        while batch := await other.queue.claim_due(later(300), MINUTE, limit=7):
            got += [r.audit for r in batch]
        return got

    while_racing = [audit for got in await asyncio.gather(*map(take_all, others)) for audit in got]
    for other in others:
        await other.close()
    rest = [r.audit for r in await store.queue.claim_due(later(300), MINUTE, limit=200)]
    assert len(while_racing) == len(set(while_racing))
    assert len({*while_racing, *rest}) == 200


async def test_a_lease_that_runs_out_is_claimed_again_under_the_same_id(store: Store) -> None:
    await store.queue.offer([settling("a")], NOW)
    [first] = await store.queue.claim_due(later(300), MINUTE)
    assert await store.queue.claim_due(later(359), MINUTE) == []
    [second] = await store.queue.claim_due(later(360), MINUTE)
    assert (second.audit, second.attempt, second.signals) == (first.audit, 2, first.signals)
    assert not await store.queue.renew(first, later(361), MINUTE)  # it belongs to the second now
    assert await store.queue.renew(second, later(361), MINUTE)
    assert await store.queue.claim_due(later(420), MINUTE) == []


async def test_an_audit_given_back_is_claimed_when_it_is_time(store: Store) -> None:
    await store.queue.offer([settling("a")], NOW)
    [first] = await store.queue.claim_due(later(300), MINUTE)
    assert await store.queue.retry(first, later(310), counted=False)
    [second] = await store.queue.claim_due(later(310), MINUTE)
    assert second.attempt == 1


async def test_an_audit_sent_around_is_begun_once_an_attempt(store: Store) -> None:
    await store.queue.offer([settling("a")], NOW)
    [sent] = await store.queue.claim_due(later(300), MINUTE, start=False)
    begun = await store.queue.start(sent.audit, later(301), MINUTE)
    assert begun is not None
    assert (begun.audit, begun.signals) == (sent.audit, sent.signals)
    assert await store.queue.start(sent.audit, later(302), MINUTE) is None  # delivered twice
    late = await store.queue.start(sent.audit, later(400), MINUTE)  # the first one died
    assert late is not None
    assert late.attempt == 2
    assert await store.queue.start("no-such-audit", later(400), MINUTE) is None


async def test_a_full_backlog_takes_nothing_and_marks_nothing(server: Server, store: Store) -> None:
    client = await connect(server.url)
    small = Store(client, "lab", Limits(pending=2))
    await small.queue.offer([settling("a"), settling("b", scope=CLUSTER)], NOW)
    with pytest.raises(StoreFull):
        await small.queue.offer([settling("c"), settling("d", scope=Scope("node", "", "n-1"))], NOW)
    assert (await small.queue.offer([settling("c")], NOW)).new == 1  # joins what is pending
    [_, _] = await small.queue.claim_due(later(300), MINUTE)
    assert (await small.queue.offer([settling("d", scope=Scope("node", "", "n-1"))], later(301))).opened == 1
    await small.close()


async def test_an_audit_that_can_not_be_read_becomes_a_dead_letter_and_stops_nobody(server: Server, store: Store) -> None:
    await store.queue.offer([settling("a"), settling("b", scope=CLUSTER)], NOW)
    client = await connect(server.url)
    for key in await client.keys("*pending:DaemonSet*"):
        await client.hset(key, "lead", b"{broken")
    [claimed] = await store.queue.claim_due(later(300), MINUTE)
    assert claimed.scope == CLUSTER
    [letter] = await store.queue.dead_letters()
    assert letter.scope == str(EXPORTER)
    assert "can't be read" in letter.why
    assert letter.signals == 1
    assert await store.queue.claim_due(later(9999), MINUTE, limit=1) != [letter.audit]
    replayed = await store.queue.replay(letter.audit, later(400))
    assert replayed is not None
    assert replayed.new == 1
    assert await store.queue.dead_letters() == []
    await client.aclose()


async def test_two_clusters_share_a_server_and_nothing_else(server: Server, store: Store) -> None:
    other = Store(await connect(server.url), "other")
    await store.queue.offer([settling("a")], NOW)
    assert await other.queue.claim_due(later(300), MINUTE) == []
    assert (await other.queue.offer([settling("a")], NOW)).new == 1
    await other.close()


async def test_changes_that_are_not_judged_yet_are_known_while_they_wait_and_while_they_are_audited(store: Store) -> None:
    node = Scope("node", "", "gpu-1")
    await store.queue.offer([settling("a"), settling("b", due=900, scope=node), Entry(signal("c", CLUSTER), NOW)], NOW)
    assert await store.queue.unjudged_changes(later(300)) == {EXPORTER}
    assert await store.queue.unjudged_changes(later(900)) == {EXPORTER, node}
    await store.queue.claim_due(later(300), MINUTE)
    assert await store.queue.unjudged_changes(later(300)) == {EXPORTER}


async def test_a_claim_that_is_given_back_tells_the_next_one_why(store: Store) -> None:
    await store.queue.offer([settling("a")], NOW)
    [claimed] = await store.queue.claim_due(later(300), MINUTE)
    await store.queue.retry(claimed, later(310), counted=False, fault="KeyError: 'x'", back=later(305))
    [again] = await store.queue.claim_due(later(310), MINUTE)
    assert (again.attempt, again.fault, again.back) == (1, "KeyError: 'x'", later(305))


async def test_an_audit_that_was_put_off_by_who_began_it_can_be_sent_and_begun_again_but_not_too_soon(store: Store) -> None:
    await store.queue.offer([settling("a")], NOW)
    [sent] = await store.queue.claim_due(later(300), MINUTE, start=False)
    begun = await store.queue.start(sent.audit, later(301), MINUTE)
    assert begun is not None
    await store.queue.retry(begun, later(400), counted=False)
    assert await store.queue.start(sent.audit, later(302), MINUTE) is None, "the event came twice"
    [again] = await store.queue.claim_due(later(400), MINUTE, start=False)
    second = await store.queue.start(again.audit, later(401), MINUTE)
    assert second is not None
    assert second.attempt == 1
    assert await store.queue.start(again.audit, later(402), MINUTE) is None
