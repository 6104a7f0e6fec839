"""One audit: facts to a report to one durable step, wherever it is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions import audit
from functions.audit import MAX_ATTEMPTS, Patience, Standards, judge, judge_again, perform, windows_of
from functions.checks.base import Check, Code
from functions.contract.facts import Facts, Known, Missing, Why, Windows
from functions.contract.findings import Judgement, Severity, Verdict
from functions.contract.policy import Policy
from functions.contract.signals import CLUSTER, AuditRequest, TriggerKind
from functions.intake import Timing, receive
from functions.store import Store, StoreError
from tests.support.redis import BINARIES, Server
from tests.support.reports import NOW, finding, later, request, signal

LEASE = timedelta(seconds=600)
CODE = Code("label-mapping/pod-missing", Severity.CRITICAL, "t", "w", "d", "e")


def by_name(nodes: tuple[str, ...]) -> Judgement:
    """A check that fails the nodes whose names are bad."""
    return Judgement(tuple(finding(node=n) for n in nodes if n.startswith("bad")), judged=len(nodes))


def standards() -> Standards:
    return Standards("lab", (Check("label-mapping", "t", "s", (CODE,), by_name),), Policy(), None)


def facts(*nodes: str, at: datetime = NOW, away: Why | None = None) -> Facts:
    known: Any = Missing(away, "the API is away") if away else Known(tuple(nodes), at, "test")
    return Facts(Windows(None, at), nodes=known, cost={"queries": 3})


def gathers(*nodes: str, away: Why | None = None) -> audit.Gather:
    async def gather(_request: AuditRequest, windows: Windows, needs: frozenset[str]) -> Facts:
        assert needs == {"nodes"}
        return replace(facts(*nodes, away=away), windows=windows)

    return gather


def clock_at(at: datetime) -> Callable[[], datetime]:
    return lambda: at


async def claim(kept: Store, *keys: str, at: float = 0, kind: TriggerKind = TriggerKind.ROLLOUT) -> AuditRequest:
    await receive([signal(k, CLUSTER, kind, "complete") for k in keys], kept, later(at), Timing(settle=timedelta(0)))
    [claimed] = await kept.queue.claim_due(later(at), LEASE)
    return claimed


async def do(kept: Store, claimed: AuditRequest, gather: audit.Gather, at: float = 0) -> Any:
    return await perform(claimed, gather=gather, standards=standards(), store=kept, clock=clock_at(later(at)), patience=Patience(LEASE))


def test_judging_is_pure_and_needs_no_store() -> None:
    report = judge(request(), facts("ok", "bad-1"), standards(), coverage=["a gap"])
    assert (report.verdict, len(report.findings)) == (Verdict.FAIL, 1)
    document = report.as_dict()
    assert document["audit"]["coverage"] == ["a gap"]
    assert document["audit"]["cost"] == {"queries": 3}
    assert document["signals"][0]["key"] == "s-1"


def test_the_baseline_is_the_triggers_or_the_policys_look_back() -> None:
    assert windows_of(request(), NOW, Policy()).baseline == later(-3600)
    assert windows_of(request(baseline=later(-77)), NOW, Policy()).baseline == later(-77)


async def test_an_audit_is_done_once_and_its_report_waits_to_be_told(kept: Store) -> None:
    claimed = await claim(kept, "a")
    report = await do(kept, claimed, gathers("bad-1"))
    assert report is not None
    assert report.id == claimed.audit
    assert await do(kept, claimed, gathers("bad-1")) is None
    assert await kept.outbox.untold() == [claimed.audit]
    assert await kept.queue.claim_due(later(9999), LEASE) == []


async def test_two_processes_on_one_audit_complete_it_once(kept: Store) -> None:
    claimed = await claim(kept, "a")
    reports = await asyncio.gather(*(do(kept, claimed, gathers("bad-1")) for _ in range(8)))
    assert sum(r is not None for r in reports) == 1
    [record], _ = await kept.findings.page(None, 10)
    assert record["count"] == 1


async def test_what_was_away_is_unknown_and_judged_when_it_is_back(kept: Store) -> None:
    claimed = await claim(kept, "a")
    first = await do(kept, claimed, gathers(away=Why.UNREACHABLE))
    assert first.verdict is Verdict.UNKNOWN
    [second] = await kept.queue.claim_due(later(30), LEASE)
    assert (second.round, second.follows, second.trigger) == (1, claimed.audit, claimed.trigger)
    assert second.baseline == later(-3600)  # the same instant as before, however long it takes
    assert (await do(kept, second, gathers(away=Why.TIMED_OUT), at=30)).verdict is Verdict.UNKNOWN
    assert await kept.queue.claim_due(later(30 + 59), LEASE) == []
    [third] = await kept.queue.claim_due(later(30 + 60), LEASE)
    assert await do(kept, third, gathers("bad-1"), at=90) is None, "what is just back has to settle"
    assert await kept.queue.claim_due(later(90 + 299), LEASE) == []
    [settled] = await kept.queue.claim_due(later(90 + 300), LEASE)
    assert (settled.audit, settled.attempt, settled.back) == (third.audit, 1, later(90))
    assert (await do(kept, settled, gathers("bad-1"), at=390)).verdict is Verdict.FAIL
    assert await kept.queue.claim_due(later(99_999), LEASE) == []


def unknown(away: Why, **more: Any) -> Any:
    asked = request(**more)
    return judge_again(asked, judge(asked, facts(away=away), standards()), NOW)


def test_what_waiting_does_not_mend_is_not_judged_again() -> None:
    assert unknown(Why.UNREACHABLE) is not None
    for why in (Why.UNAUTHORISED, Why.NOT_CONFIGURED, Why.UNSUPPORTED, Why.NO_BASELINE):
        assert unknown(why) is None


def test_judging_again_gets_rarer_and_ends() -> None:
    waits = [(unknown(Why.UNREACHABLE, round=n).due - NOW).total_seconds() for n in range(8)]
    assert waits == [30, 60, 120, 240, 480, 900, 900, 900]
    assert unknown(Why.UNREACHABLE, round=96) is None


def test_a_scheduled_audit_comes_again_by_itself() -> None:
    asked = request("a", signal("s", CLUSTER, TriggerKind.SCHEDULE, "periodic"), scope=CLUSTER)
    assert judge_again(asked, judge(asked, facts(away=Why.UNREACHABLE), standards()), NOW) is None


async def test_an_audit_that_crashes_again_and_again_is_given_up_and_said_to_be_unknown(kept: Store) -> None:
    await claim(kept, "a")

    async def crash(_request: AuditRequest, _windows: Windows, _needs: frozenset[str]) -> Facts:
        raise RuntimeError("a bug")

    for n in range(1, MAX_ATTEMPTS):
        [claimed] = await kept.queue.claim_due(later(600 * n), LEASE)
        assert await do(kept, claimed, crash, at=600 * n) is None
    [last] = await kept.queue.claim_due(later(600 * MAX_ATTEMPTS), LEASE)
    report = await do(kept, last, crash, at=600 * MAX_ATTEMPTS)
    assert report.verdict is Verdict.UNKNOWN
    assert "given up after 5 attempts" in report.checks[0].summary
    assert "RuntimeError: a bug" in report.checks[0].summary
    [letter] = await kept.queue.dead_letters()
    assert letter.audit == last.audit
    assert await kept.outbox.untold() == [last.audit]


async def test_a_fault_of_telltales_own_is_logged_with_the_audit_tried_again_soon_and_told(
    kept: Store, caplog: pytest.LogCaptureFixture
) -> None:
    claimed = await claim(kept, "a")

    async def crash(_request: AuditRequest, _windows: Windows, _needs: frozenset[str]) -> Facts:
        raise KeyError("name")

    assert await do(kept, claimed, crash) is None
    [line] = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert line == f"audit {claimed.audit} of cluster: attempt 1 of 5 ended in a fault"
    assert await kept.queue.claim_due(later(9), LEASE) == []
    [again] = await kept.queue.claim_due(later(10), LEASE)
    report = await do(kept, again, gathers("ok"), at=10)
    assert report.verdict is Verdict.PASS
    assert report.coverage == ("an earlier attempt at this audit ended in a fault of Telltale's own: KeyError: 'name'",)


def test_how_the_facts_were_had_is_a_line_of_the_report() -> None:
    report = judge(request(), replace(facts("ok"), remarks=("compared with another time",)), standards())
    assert report.coverage == ("compared with another time",)


async def test_a_long_audit_keeps_its_lease(kept: Store) -> None:
    claimed = await claim(kept, "a")
    short = timedelta(seconds=0.15)
    elapsed = 0.0

    def clock() -> datetime:
        return later(elapsed)

    async def slow(asked: AuditRequest, windows: Windows, needs: frozenset[str]) -> Facts:
        nonlocal elapsed
        for _ in range(4):
            elapsed += 0.1
            await asyncio.sleep(0.1)
            assert await kept.queue.claim_due(later(elapsed), short) == []
        return await gathers("ok")(asked, windows, needs)

    await kept.queue.renew(claimed, NOW, short)
    report = await perform(claimed, gather=slow, standards=standards(), store=kept, clock=clock, patience=Patience(short))
    assert report is not None


async def test_an_audit_that_a_shutdown_cuts_off_is_free_at_once(kept: Store) -> None:
    claimed = await claim(kept, "a")

    async def endless(_request: AuditRequest, _windows: Windows, _needs: frozenset[str]) -> Facts:
        await asyncio.sleep(60)
        raise AssertionError

    task = asyncio.create_task(do(kept, claimed, endless))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [again] = await kept.queue.claim_due(NOW, LEASE)
    assert (again.audit, again.attempt) == (claimed.audit, 1)


async def test_a_watch_gap_is_a_line_of_the_report(kept: Store) -> None:
    await kept.notes.note_gap({"kind": "Event", "since": NOW.isoformat(), "until": later(60).isoformat(), "why": "410 Gone"}, NOW)
    report = await do(kept, await claim(kept, "a"), gathers("ok"))
    assert report.coverage == ("changes of Event between 2026-11-03T12:00:00Z and 2026-11-03T12:01:00Z may have gone unseen: 410 Gone",)


async def test_a_store_that_is_away_at_the_end_loses_nothing() -> None:
    server = Server(BINARIES["redis"](), durable=True).start()
    store = await Store.open(server.url, "lab")
    claimed = await claim(store, "a")

    async def gather(asked: AuditRequest, windows: Windows, needs: frozenset[str]) -> Facts:
        server.kill()
        return await gathers("bad-1")(asked, windows, needs)

    with pytest.raises(StoreError):
        await do(store, claimed, gather)
    server.start()
    [again] = await store.queue.claim_due(later(600), LEASE)
    assert again.audit == claimed.audit
    assert await do(store, again, gathers("bad-1"), at=600) is not None
    await store.close()
    server.close()
