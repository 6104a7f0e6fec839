"""Signals in, audits out: durable before it answers, due when the telemetry has settled."""

from __future__ import annotations

from datetime import timedelta

import pytest

from functions.contract.errors import Again
from functions.contract.policy import Policy
from functions.contract.signals import CLUSTER, AuditRequest, TriggerKind
from functions.intake import Timing, entry, housekeep, receive, settling_time, tick
from functions.store import Lane, Plan, Store
from tests.support.reports import NOW, later, report, signal

TIMING = Timing(settle=timedelta(seconds=300))


def test_the_settling_time_is_the_slower_of_two_scrapes_and_the_staleness_time() -> None:
    assert settling_time(None, 30).total_seconds() == 300
    assert settling_time(None, 240).total_seconds() == 480
    assert settling_time(0, 240).total_seconds() == 0


@pytest.mark.parametrize(
    ("kind", "phase", "urgent", "waits"),
    [
        (TriggerKind.ROLLOUT, "complete", False, 300),
        (TriggerKind.DRAIN, "drained", False, 300),
        (TriggerKind.KUBERNETES_EVENT, "", False, 300),
        (TriggerKind.ALERT, "resolved", False, 300),
        (TriggerKind.ALERT, "firing", True, 0),
        (TriggerKind.SCHEDULE, "periodic", False, 0),
        (TriggerKind.MANUAL, "", True, 0),
    ],
)
def test_only_a_change_waits_to_settle(kind: TriggerKind, phase: str, urgent: bool, waits: int) -> None:
    decided = entry(signal("s", kind=kind, phase=phase, urgent=urgent), NOW, TIMING.settle)
    assert decided.due == later(waits)
    assert decided.lane is (Lane.SETTLED if waits else Lane.NOW)


def test_a_change_that_was_found_late_has_settled_in_the_meantime() -> None:
    assert entry(signal("s", at=later(-200)), NOW, TIMING.settle).due == later(100)
    assert entry(signal("s", at=later(-2000)), NOW, TIMING.settle).due == NOW


def test_a_clock_that_is_ahead_delays_nothing() -> None:
    assert entry(signal("s", at=later(9999)), NOW, TIMING.settle).due == later(300)


def test_what_only_opens_an_episode_is_never_due() -> None:
    assert entry(signal("s", phase="started", audit=False), NOW, TIMING.settle).due is None


async def test_a_signal_is_an_audit_once_it_has_settled_and_only_one(kept: Store) -> None:
    handed: list[AuditRequest] = []

    async def send(request: AuditRequest) -> None:
        handed.append(request)

    assert (await receive([signal("a")], kept, NOW, TIMING)).opened == 1
    assert (await receive([signal("a")], kept, later(1), TIMING)).known == 1
    assert (await receive([], kept, NOW, TIMING)).new == 0
    for at in (299, 300, 301):
        await tick(kept, later(at), TIMING, send)
    assert [r.trigger.kind for r in handed] == [TriggerKind.ROLLOUT]
    assert (await kept.notes.beats())["tick"] == later(301)


async def test_an_audit_that_can_not_be_sent_is_sent_later_and_costs_no_attempt(kept: Store) -> None:
    await receive([signal("a", CLUSTER, TriggerKind.SCHEDULE, "periodic")], kept, NOW, TIMING)

    async def broken(_request: AuditRequest) -> None:
        raise Again("the sink is away")

    handed: list[AuditRequest] = []

    async def send(request: AuditRequest) -> None:
        handed.append(request)

    for n in range(8):
        assert await tick(kept, later(10 * n), TIMING, broken, here=False) == []
    await tick(kept, later(80), TIMING, send, here=False)
    assert [r.attempt for r in handed] == [1]
    begun = await kept.queue.start(handed[0].audit, later(81), TIMING.lease)
    assert begun is not None


async def test_housekeeping_is_done_once_an_hour_and_forgets_only_what_is_over(kept: Store) -> None:
    await kept.audits.complete(report("a"), NOW)
    plan = Plan("a", "cluster", "silent", {"reason": "test"})
    await kept.outbox.plan(plan, await kept.outbox.told(), NOW)
    await kept.audits.complete(report("b"), NOW)
    assert await housekeep(kept, Policy(), later(0))
    assert not await housekeep(kept, Policy(), later(3599))
    assert await housekeep(kept, Policy(), later(31 * 86400))
    assert [a["id"] for a in (await kept.audits.page(None, 10))[0]] == ["b"]
