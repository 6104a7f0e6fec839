"""Completing an audit: one step, once; findings live on, and only positive evidence ends them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from functions.contract.findings import CheckResult, Severity, Verdict
from functions.contract.signals import CLUSTER, Scope, TriggerKind
from functions.store import Entry, JudgeAgain, Lane, Store
from tests.support.reports import EXPORTER, NOW, check, finding, later, report, signal

MINUTE = timedelta(seconds=60)
POD = finding()
GONE = finding("telemetry-gap/went-silent", Severity.WARNING, metric="DCGM_FI_DEV_XID_ERRORS")


async def states(store: Store) -> dict[str, str]:
    page, _ = await store.findings.page(None, 100, everything=True)
    return {f["code"]: f["state"] for f in page}


async def kinds(store: Store, audit: str) -> list[str]:
    return [t["kind"] for t in (await store.audits.outcome(audit))["transitions"]]


async def run(store: Store, id: str, at: float, *checks: CheckResult, **more: Any) -> bool:
    return await store.audits.complete(report(id, *checks, current=later(at), **more), later(at))


async def test_a_finding_opens_goes_on_is_resolved_and_comes_back(store: Store) -> None:
    failing, passing = check("label-mapping", [POD]), check("label-mapping")
    for n, (checks, kind) in enumerate([(failing, ["opened"]), (failing, []), (passing, ["resolved"]), (failing, ["reopened"])]):
        await run(store, f"a-{n}", n * 60, checks)
        assert await kinds(store, f"a-{n}") == kind
    [record], _ = await store.findings.page(None, 10)
    assert (record["first_seen"], record["last_seen"]) == ("2026-11-03T12:00:00Z", "2026-11-03T12:03:00Z")
    assert (record["count"], record["reopened"], record["audit"], record["first_audit"]) == (3, 1, "a-3", "a-0")
    assert [t["kind"] for t in await store.findings.transitions()] == ["reopened", "resolved", "opened"]


async def test_a_second_end_of_the_same_audit_changes_nothing(store: Store) -> None:
    assert await run(store, "a", 0, check("label-mapping", [POD]))
    assert not await run(store, "a", 60, check("label-mapping"))
    assert await states(store) == {POD.code: "open"}
    stored = await store.audits.get("a")
    assert stored is not None
    assert stored["audit"]["verdict"] == "fail"
    assert await store.outbox.untold() == ["a"]


async def test_many_ends_of_one_audit_at_once_count_once(store: Store) -> None:
    ends = await asyncio.gather(*(run(store, "a", 0, check("label-mapping", [POD])) for _ in range(20)))
    assert sum(ends) == 1
    [record], _ = await store.findings.page(None, 10)
    assert record["count"] == 1


async def test_an_unknown_check_resolves_nothing(store: Store) -> None:
    await run(store, "a", 0, check("label-mapping", [POD]))
    await run(store, "b", 60, check("label-mapping", missing="unreachable"))
    await run(store, "c", 120, check("label-mapping", judged=0))
    assert await states(store) == {POD.code: "open"}


async def test_a_check_that_did_not_run_resolves_nothing(store: Store) -> None:
    await run(store, "a", 0, check("label-mapping", [POD]))
    await run(store, "b", 60, check("telemetry-gap"))
    assert await states(store) == {POD.code: "open"}


async def test_a_subject_left_unjudged_keeps_its_finding_and_no_other(store: Store) -> None:
    other = finding(node="n-2", gpu="GPU-9")
    await run(store, "a", 0, check("label-mapping", [POD, other]))
    await run(store, "b", 60, check("label-mapping", unjudged=[{"node": "n-1"}]))
    page, _ = await store.findings.page(None, 10)
    assert [f["subject"]["node"] for f in page] == ["n-1"]


async def test_a_rule_left_unjudged_does_not_keep_a_device_open(store: Store) -> None:
    await run(store, "a", 0, check("telemetry-gap", [GONE]))
    await run(store, "b", 60, check("telemetry-gap", unjudged=[{"rule": "GpuHot"}]))
    assert await states(store) == {GONE.code: "resolved"}


async def test_a_target_that_is_down_hides_what_was_open_behind_it(store: Store) -> None:
    down = finding("telemetry-gap/target-down", node="n-1", target="10.0.0.1:9400")
    await run(store, "a", 0, check("label-mapping", [POD]), check("telemetry-gap", [GONE]))
    await run(store, "b", 60, check("label-mapping"), check("telemetry-gap", [down]))
    assert await states(store) == {POD.code: "open", GONE.code: "open", down.code: "open"}


async def test_an_audit_of_elsewhere_resolves_nothing_here(store: Store) -> None:
    here = {"kind": TriggerKind.DRAIN, "scope": Scope("node", "", "n-1")}
    there = {"kind": TriggerKind.DRAIN, "scope": Scope("node", "", "n-2")}
    await run(store, "a", 0, check("label-mapping", [POD]), **here)
    await run(store, "b", 60, check("label-mapping"), **there)
    assert await states(store) == {POD.code: "open"}
    await run(store, "c", 120, check("label-mapping"), **here)
    assert await states(store) == {POD.code: "resolved"}


async def test_the_scope_that_saw_a_finding_may_end_it_and_so_may_the_cluster(store: Store) -> None:
    for n, scope in enumerate([EXPORTER, CLUSTER]):
        await run(store, f"a-{n}", 120 * n, check("telemetry-gap", [GONE]), scope=EXPORTER)
        await run(store, f"b-{n}", 120 * n + 60, check("telemetry-gap"), scope=scope)
        assert await states(store) == {GONE.code: "resolved"}


async def test_a_late_end_of_an_older_look_neither_reopens_nor_resolves(store: Store) -> None:
    await run(store, "a", 0, check("label-mapping", [POD]))
    await run(store, "d", 180, check("label-mapping"))
    await run(store, "b", -60, check("label-mapping", [POD]))
    assert await states(store) == {POD.code: "resolved"}
    await run(store, "e", 240, check("label-mapping", [POD]))
    await run(store, "c", 200, check("label-mapping"))
    assert await states(store) == {POD.code: "open"}


async def test_a_failure_in_doubt_stays_a_failure_and_a_doubt_can_become_one(store: Store) -> None:
    doubt = finding(verdict=Verdict.UNKNOWN, node="n-1", gpu="GPU-1")
    await run(store, "a", 0, check("label-mapping", [doubt]))
    await run(store, "b", 60, check("label-mapping", [POD]))
    assert await kinds(store, "b") == ["confirmed"]
    await run(store, "c", 120, check("label-mapping", [doubt]))
    [record], _ = await store.findings.page(None, 10)
    assert (record["verdict"], record["severity"]) == ("fail", "critical")


async def test_the_gravest_findings_come_first_and_pages_join(store: Store) -> None:
    many = [finding("label-mapping/x", s, node=f"n-{n}") for n, s in enumerate([Severity.INFO, Severity.CRITICAL, Severity.WARNING] * 5)]
    await run(store, "a", 0, check("label-mapping", many))
    seen: list[str] = []
    cursor = None
    while True:
        page, cursor = await store.findings.page(cursor, 4)
        seen += [f["severity"] for f in page]
        if cursor is None:
            break
    assert seen == ["critical"] * 5 + ["warning"] * 5 + ["info"] * 5
    page, _ = await store.findings.page(None, 100, severity="info", check="label-mapping")
    assert len(page) == 5
    assert (await store.findings.page(None, 100, check="telemetry-gap"))[0] == []


async def test_audits_come_newest_first_and_pages_join(store: Store) -> None:
    for n in range(7):
        await run(store, f"a-{n}", n // 2, check("label-mapping"))  # some within one instant
    seen: list[str] = []
    cursor = None
    while True:
        page, cursor = await store.audits.page(cursor, 3)
        seen += [a["id"] for a in page]
        if cursor is None:
            break
    assert seen == [f"a-{n}" for n in reversed(range(7))]


async def test_a_mute_holds_until_its_time(store: Store) -> None:
    await run(store, "a", 0, check("label-mapping", [POD]))
    fingerprint = POD.fingerprint("lab")
    await store.findings.mute(fingerprint, later(3600), "being mended")
    record = await store.findings.get(fingerprint, NOW)
    assert record is not None
    assert (record["muted_until"], record["mute_reason"]) == ("2026-11-03T13:00:00Z", "being mended")
    assert await store.findings.mutes(later(3600)) == []
    assert await store.findings.unmute(fingerprint)
    assert not await store.findings.unmute(fingerprint)


async def test_what_can_not_be_judged_is_pending_again_in_the_same_step(store: Store) -> None:
    unknown = report("a", check("telemetry-gap", missing="unreachable"))
    entries = (Entry(signal("s"), later(30), Lane.SETTLED, rank=5),)
    await store.audits.complete(unknown, NOW, again=JudgeAgain(entries, later(30), 1, later(-3600)))
    assert await store.queue.claim_due(later(29), MINUTE) == []
    [request] = await store.queue.claim_due(later(30), MINUTE)
    assert (request.round, request.follows, request.baseline, request.scope) == (1, "a", later(-3600), EXPORTER)
    assert request.audit != "a"
    assert request.trigger == unknown.trigger


async def test_an_audit_that_was_given_up_is_told_and_can_be_replayed(store: Store) -> None:
    await store.queue.offer([Entry(signal("s"), NOW)], NOW)
    [request] = await store.queue.claim_due(NOW, MINUTE)
    await store.audits.complete(report(request.audit, check("label-mapping", missing="crashed")), NOW, dead="it crashed")
    [letter] = await store.queue.dead_letters()
    assert (letter.audit, letter.why, letter.signals) == (request.audit, "it crashed", 1)
    assert await store.outbox.untold() == [request.audit]
    await store.queue.replay(request.audit, later(1))
    [again] = await store.queue.claim_due(later(1), MINUTE)
    assert again.audit != request.audit
    assert await store.audits.get(request.audit) is not None


async def test_only_what_is_finished_told_and_old_is_forgotten(store: Store) -> None:
    await run(store, "a", 0, check("label-mapping", [POD]))
    await run(store, "b", 60, check("label-mapping"))
    await run(store, "c", 120, check("telemetry-gap", [GONE]))
    day = timedelta(days=1)
    await store.purge(later(40 * 86400), resolved_for=30 * day, audits_for=30 * day)
    assert await states(store) == {GONE.code: "open"}
    assert len((await store.audits.page(None, 10))[0]) == 3  # none of them was told


async def test_a_report_of_a_thousand_findings_is_kept_small(store: Store) -> None:
    many = [finding("label-mapping/pod-missing", node=f"n-{n // 8}", gpu=f"GPU-{n}") for n in range(1000)]
    await run(store, "a", 0, check("label-mapping", many))
    raw = await store._connection.do("HGET", store._connection.key("audit", "a"), "report")
    stored = await store.audits.get("a")
    assert stored is not None
    assert len(stored["findings"]) == 1000
    assert len(raw) < 100_000
    await run(store, "b", 60, check("label-mapping"))
    assert set((await states(store)).values()) == {"resolved"}


async def test_names_of_any_script_live_and_end_as_others_do(store: Store) -> None:
    odd = finding("telemetry-gap/alert-blind", rule='GPU 温度/"hot" \\ \u2028\t😀', dashboard="a/b")
    await run(store, "a", 0, check("telemetry-gap", [odd]))
    await run(store, "b", 60, check("telemetry-gap", [odd]))
    [record], _ = await store.findings.page(None, 10)
    assert record["subject"]["rule"] == odd.subject.rule
    await run(store, "c", 120, check("telemetry-gap"))
    assert await states(store) == {odd.code: "resolved"}
