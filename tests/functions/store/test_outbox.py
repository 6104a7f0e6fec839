"""What is told: decided once, delivered in order, each channel for itself."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from functions.store import Plan, Planned, Store
from tests.support.reports import EXPORTER, NOW, check, finding, later, report

MINUTE = timedelta(seconds=60)
LINE = str(EXPORTER)


async def finish(store: Store, *audits: str) -> None:
    for n, audit in enumerate(audits):
        await store.audits.complete(report(audit, check("label-mapping", [finding()]), current=later(n)), later(n))


def plan(audit: str, kind: str = "summary", **more: Any) -> Plan:
    return Plan(
        audit, more.pop("line", LINE), kind, {"reason": "test"}, message={"title": audit}, channels=more.pop("channels", ("c",)), **more
    )


async def decide(store: Store, wanted: Plan) -> Planned:
    return await store.outbox.plan(wanted, await store.outbox.told(), NOW)


async def test_an_audit_is_decided_about_once(store: Store) -> None:
    await finish(store, "a")
    told = await store.outbox.told()
    outcomes = await asyncio.gather(*(store.outbox.plan(plan("a"), told, NOW) for _ in range(10)))
    assert sorted(set(outcomes)) == [Planned.DONE, Planned.GONE]
    assert outcomes.count(Planned.DONE) == 1
    assert len(await store.outbox.claim(NOW, MINUTE)) == 1


async def test_a_decision_over_an_old_view_is_made_again(store: Store) -> None:
    await finish(store, "a", "b")
    told = await store.outbox.told()
    assert await store.outbox.plan(plan("a", told={"f": {"severity": "info", "scope": LINE}}), told, NOW) is Planned.DONE
    assert await store.outbox.plan(plan("b"), told, NOW) is Planned.CHANGED
    assert (await store.outbox.told()).findings == {"f": {"severity": "info", "scope": LINE}}


async def test_audits_are_told_in_the_order_in_which_they_finished(store: Store) -> None:
    await finish(store, "c", "a", "b")
    assert await store.outbox.untold() == ["c", "a", "b"]


async def test_one_thread_is_told_in_order_and_threads_do_not_wait_for_each_other(store: Store) -> None:
    await finish(store, "a", "b", "c")
    for wanted in (plan("a"), plan("b", "update"), plan("c", line="cluster")):
        await decide(store, wanted)
    first = {d.audit: d for d in await store.outbox.claim(NOW, MINUTE)}
    assert set(first) == {"a", "c"}
    await store.outbox.again(first["a"], later(30), "busy")
    assert await store.outbox.claim(later(29), MINUTE) == []
    [again] = await store.outbox.claim(later(30), MINUTE)
    assert (again.audit, again.attempt, again.why, again.key) == ("a", 2, "busy", first["a"].key)
    assert await store.outbox.delivered(again, {"ts": "1.0"}, later(31))
    [update] = await store.outbox.claim(later(31), MINUTE)
    assert update.audit == "b"
    assert update.ref is not None
    assert update.ref["ts"] == "1.0"


async def test_each_channel_has_its_own_delivery_and_key(store: Store) -> None:
    await finish(store, "a")
    await decide(store, plan("a", channels=("x", "y"), postmortem={"text": "stub"}, draft={"at": 0, "trigger": "alert/firing"}))
    ready = await store.outbox.claim(NOW, MINUTE)
    assert {(d.channel, d.kind) for d in ready} == {("x", "summary"), ("y", "summary")}
    for delivery in ready:
        await store.outbox.delivered(delivery, None, NOW)
    following = await store.outbox.claim(NOW, MINUTE)
    assert {(d.channel, d.kind) for d in following} == {("x", "postmortem"), ("y", "postmortem")}
    assert len({d.key for d in [*ready, *following]}) == 4
    assert await store.audits.postmortem("a") == "stub"
    assert await store.audits.postmortems() == ["a"]


async def test_a_delivery_whose_lease_ran_out_is_claimed_again_and_the_late_word_does_not_count(store: Store) -> None:
    await finish(store, "a")
    await decide(store, plan("a"))
    [first] = await store.outbox.claim(NOW, MINUTE)
    [second] = await store.outbox.claim(later(60), MINUTE)
    assert (second.key, second.attempt) == (first.key, 2)
    assert not await store.outbox.refuse(first, "too late", later(61))
    assert await store.outbox.delivered(second, None, later(61))
    assert await store.outbox.claim(later(999), MINUTE) == []


async def test_what_has_arrived_in_part_is_remembered(store: Store) -> None:
    await finish(store, "a")
    await decide(store, plan("a"))
    [first] = await store.outbox.claim(NOW, MINUTE)
    await store.outbox.again(first, NOW, "429", {"ts": "1.0"})
    [second] = await store.outbox.claim(NOW, MINUTE)
    assert second.progress == {"ts": "1.0"}


async def test_what_is_refused_is_listed_lets_others_pass_and_can_be_replayed(store: Store) -> None:
    await finish(store, "a", "b")
    await decide(store, plan("a"))
    await decide(store, plan("b", "update"))
    [first] = await store.outbox.claim(NOW, MINUTE)
    await store.outbox.refuse(first, "not_in_channel", NOW)
    [second] = await store.outbox.claim(NOW, MINUTE)
    assert second.audit == "b"
    await store.outbox.delivered(second, None, NOW)
    [refused] = await store.outbox.refused()
    assert (refused.audit, refused.why) == ("a", "not_in_channel")
    assert await store.outbox.replay(refused, later(5))
    assert await store.outbox.refused() == []
    [again] = await store.outbox.claim(later(5), MINUTE)
    assert again.key == first.key


async def test_a_decision_remembers_the_standing_message_and_takes_told_gaps_off(store: Store) -> None:
    await store.notes.note_gap({"since": NOW.isoformat(), "until": NOW.isoformat(), "kind": "", "why": "x"}, NOW)
    gaps = await store.notes.gaps()
    await store.audits.complete(report("a", check("label-mapping")), NOW, gaps=gaps)
    await decide(store, plan("a", thread={"audit": "a", "at": 1, "unknown": True}, gaps=tuple(gaps)))
    assert (await store.outbox.told()).threads == {LINE: {"audit": "a", "at": 1, "unknown": True}}
    assert await store.notes.gaps() == {}
    assert (await store.audits.outcome("a"))["news"] == {"reason": "test"}
