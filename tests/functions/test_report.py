"""From finished audits to channels: told once, for the right reason, until it has arrived."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.chat.message import Delivered, Outgoing, Ref, Refused, Result, Retry
from functions.chat.redact import MASK, Redactor
from functions.chat.slack import SlackBot
from functions.contract.findings import CheckResult, Severity
from functions.contract.signals import CLUSTER, Scope, TriggerKind
from functions.intake import Timing, receive
from functions.report import Desk, Outcome, work
from functions.store import Store
from tests.support.redis import Server
from tests.support.reports import EXPORTER, NOW, check, finding, later, report, signal
from tests.support.slack import FakeSlack

POD = finding()
FAIL, PASS = check("label-mapping", [POD]), check("label-mapping")
AWAY = check("label-mapping", missing="unreachable")


class Recorder:
    """A channel that keeps what it is given. `answers` come first."""

    def __init__(self, *answers: Result) -> None:
        self.answers = list(answers)
        self.got: list[Outgoing] = []
        self.refs: list[Ref | None] = []

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        self.got.append(message)
        self.refs.append(ref)
        return self.answers.pop(0) if self.answers else Delivered({"n": len(self.got)})

    async def close(self) -> None:
        return None


class Newsroom:
    """A store and a channel, on a clock that the test moves."""

    def __init__(self, store: Store, desk: Desk, channel: Recorder) -> None:
        self.store, self.desk, self.channel = store, desk, channel
        self.count = 0

    async def tell(self, at: float, *checks: CheckResult, **more: Any) -> Outcome:
        """Complete an audit and work the desk."""
        self.count += 1
        await self.store.audits.complete(report(f"a-{self.count}", *checks, current=later(at), **more), later(at))
        return await self.work(at)

    async def work(self, at: float) -> Outcome:
        return await work(self.store, self.desk, lambda: later(at))

    @property
    def kinds(self) -> list[str]:
        return [m.kind for m in self.channel.got]


@pytest.fixture
async def room(kept: Store) -> Newsroom:
    channel = Recorder()
    return Newsroom(kept, Desk({"c": channel}, board_url="https://board.example/"), channel)


async def test_a_cause_is_posted_once_and_its_end_too(room: Newsroom) -> None:
    for n, checks in enumerate([FAIL, FAIL, FAIL, PASS, PASS]):
        await room.tell(60 * n, checks, kind=TriggerKind.SCHEDULE, phase="periodic", scope=CLUSTER)
    assert room.kinds == ["summary", "postmortem", "resolved"]
    assert "1 GPU Pod can't be found on its devices" in room.channel.got[0].text
    assert "https://board.example/audits/a-1" in room.channel.got[0].text
    assert "RESOLVED" in room.channel.got[2].title
    assert "label-mapping/pod-missing" in room.channel.got[2].lead


async def test_an_hour_of_a_quiet_cluster_posts_nothing(room: Newsroom) -> None:
    for n in range(60):
        kind = TriggerKind.SCHEDULE if n % 2 else TriggerKind.KUBERNETES_EVENT
        outcome = await room.tell(60 * n, PASS, kind=kind, phase="", scope=CLUSTER)
        assert outcome.decided[0][1:] == ("silent", "nothing to tell")
    assert room.channel.got == []


async def test_a_healthy_rollout_is_one_line(room: Newsroom) -> None:
    await room.tell(0, PASS)
    [message] = room.channel.got
    assert "\n" not in message.text
    assert "8 judged" in message.text


async def test_what_came_back_after_it_was_resolved_is_posted_again(room: Newsroom) -> None:
    for n, checks in enumerate([FAIL, PASS, FAIL]):
        outcome = await room.tell(7200 * n, checks)
    assert outcome.decided[0][1:] == ("summary", "came back after it was resolved")


async def test_prometheus_away_is_said_once_and_the_verdict_follows_as_an_update(room: Newsroom) -> None:
    reasons = [(await room.tell(30 * n, c)).decided[0][1:] for n, c in enumerate([AWAY, AWAY, PASS])]
    assert reasons == [
        ("summary", "can't be judged any more"),
        ("silent", "nothing has changed since it was told"),
        ("resolved", "can be judged again"),
    ]
    assert room.channel.refs[-1] is not None
    assert room.channel.refs[-1]["n"] == 1  # the same message is edited


async def test_another_cause_on_the_same_scope_updates_the_standing_message(room: Newsroom) -> None:
    other = finding(severity=Severity.WARNING, node="n-2")
    await room.tell(0, check("label-mapping", [finding(severity=Severity.WARNING)]))
    await room.tell(60, check("label-mapping", [finding(severity=Severity.WARNING), other]))
    assert room.kinds == ["summary", "update"]
    assert room.channel.got[1].loud


async def test_what_a_node_audit_told_is_resolved_in_its_own_thread_by_an_audit_of_the_cluster(room: Newsroom) -> None:
    node = Scope("node", "", "n-1")
    mild = check("label-mapping", [finding(severity=Severity.WARNING)])
    await room.tell(0, mild, scope=node, kind=TriggerKind.DRAIN, phase="drained")
    await room.tell(60, PASS, scope=CLUSTER, kind=TriggerKind.SCHEDULE, phase="periodic")
    assert [(m.kind, m.scope) for m in room.channel.got] == [("summary", "node/n-1"), ("resolved", "node/n-1")]


async def test_a_muted_cause_is_told_when_its_mute_ends(room: Newsroom) -> None:
    await room.store.findings.mute(POD.fingerprint("lab"), later(100), "known")
    assert (await room.tell(0, FAIL)).decided[0][1:] == ("silent", "everything new is muted")
    assert (await room.tell(200, FAIL)).decided[0][1:] == ("summary", "new failure")


async def test_a_watch_gap_is_told_with_the_next_message_and_not_with_silence(room: Newsroom) -> None:
    await room.store.notes.note_gap({"kind": "Event", "since": NOW.isoformat(), "until": NOW.isoformat(), "why": "410"}, NOW)
    gaps = await room.store.notes.gaps()
    for n, checks in enumerate([PASS, FAIL]):
        done = report(f"g-{n}", checks, kind=TriggerKind.SCHEDULE, phase="", scope=CLUSTER, coverage=("Events may have gone unseen",))
        await room.store.audits.complete(done, later(n), gaps=gaps)
        await room.work(n)
        assert bool(await room.store.notes.gaps()) is (n == 0)
    assert "Events may have gone unseen" in room.channel.got[0].details


async def test_an_alert_drafts_a_postmortem_over_the_signals_of_its_episode(room: Newsroom) -> None:
    firing = signal("alert", EXPORTER, TriggerKind.ALERT, "firing", urgent=True, detail={"labels": {"alertname": "GpuHot"}})
    timing = Timing(settle=timedelta(0))
    await receive([signal("started", phase="started", audit=False, at=later(-300)), firing], room.store, NOW, timing)
    outcome = await room.tell(0, FAIL, kind=TriggerKind.ALERT, phase="firing", signals=(firing,))
    assert outcome.drafted == ("a-1",)
    stub = await room.store.audits.postmortem("a-1")
    assert stub is not None
    assert "alertname=GpuHot" in stub
    assert "rollout started" in stub
    assert room.kinds == ["summary", "postmortem"]
    assert room.channel.got[1].text == stub
    assert room.channel.got[1].report is None


async def test_each_channel_is_acknowledged_by_itself(kept: Store) -> None:
    good, slow, bad = Recorder(), Recorder(Retry("busy", 30)), Recorder(Refused("not_in_channel"))
    room = Newsroom(kept, Desk({"good": good, "slow": slow, "bad": bad}), good)
    outcome = await room.tell(0, PASS)
    assert (outcome.sent.delivered, outcome.sent.later, outcome.sent.refused) == (1, 1, 1)
    await room.work(29)
    assert [len(c.got) for c in (good, slow, bad)] == [1, 1, 1]
    await room.work(30)
    assert [len(c.got) for c in (good, slow, bad)] == [1, 2, 1]
    assert slow.got[0].key == slow.got[1].key
    [letter] = await kept.outbox.refused()
    assert (letter.channel, letter.why) == ("bad", "not_in_channel")


async def test_a_channel_that_is_away_for_days_is_given_up_and_listed(kept: Store) -> None:
    channel = Recorder(*[Retry("away")] * 20)
    room = Newsroom(kept, Desk({"c": channel}), channel)
    await room.tell(0, PASS)
    for hour in range(0, 88, 8):
        await room.work(3600 * hour)
    [letter] = await kept.outbox.refused()
    assert "given up" in letter.why


async def test_nothing_secret_leaves(kept: Store) -> None:
    channel = Recorder()
    room = Newsroom(kept, Desk({"c": channel}, Redactor([r"n-secret\d"])), channel)
    leaky = finding(node="n-secret1", gpu="xoxb-123456789012-abcdef", severity=Severity.CRITICAL)
    await room.tell(0, check("label-mapping", [leaky]))
    for message in channel.got:
        everything = f"{message.text} {message.report}"
        assert "n-secret1" not in everything
        assert "xoxb-123456789012" not in everything
        assert MASK in everything


async def test_a_report_that_can_not_be_read_stops_nobody(room: Newsroom) -> None:
    await room.store.audits.complete(report("broken", PASS), NOW)
    c = room.store._connection
    await c.do("HSET", c.key("audit", "broken"), "report", b"{no")
    await room.tell(1, PASS)
    assert len(room.channel.got) == 1
    assert await room.store.outbox.untold() == ["broken"]


async def test_two_desks_tell_a_cause_once(kept: Store) -> None:
    channel = Recorder()
    for n in range(6):
        await kept.audits.complete(report(f"a-{n}", FAIL, kind=TriggerKind.SCHEDULE, phase="", current=later(n)), later(n))
    await asyncio.gather(*(work(kept, Desk({"c": channel}), lambda: later(10)) for _ in range(4)))
    await work(kept, Desk({"c": channel}), lambda: later(11))
    assert [m.kind for m in channel.got] == ["summary", "postmortem"]


async def test_slack_shows_one_message_a_scope_over_its_life(kept: Store) -> None:
    fake = FakeSlack()
    async with TestServer(fake.app()) as server:
        bot = SlackBot("xoxb-1", "C1", str(server.make_url("/api/")))
        room = Newsroom(kept, Desk({"slack": bot}), Recorder())
        for n, checks in enumerate([check("label-mapping", [POD]), check("label-mapping", [POD, finding(node="n-2")]), PASS]):
            await room.tell(60 * n, checks)
            await room.work(60 * n + 1)
    [main] = fake.top
    assert "RESOLVED" in main["text"]
    assert len(fake.replies(main["ts"])) >= 3


async def test_killed_anywhere_each_audit_is_done_once_and_posted_once(one_redis: Server, kept: Store) -> None:
    """SIGKILL at random points, some inside a post; what a tool sees twice has the same key."""
    seen: list[tuple[str, str, str]] = []

    async def take(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append((request.headers["Idempotency-Key"], body["audit"], body["kind"]))
        await asyncio.sleep(random.uniform(0, 0.02))
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", take)
    scopes = [Scope("Deployment", "ml", f"w-{n}") for n in range(30)]
    await receive([signal(f"s-{s.name}", s) for s in scopes], kept, datetime.now(UTC), Timing(settle=timedelta(0)))
    async with TestServer(app) as server:
        command = [sys.executable, "-m", "tests.support.pipeline", one_redis.url, str(server.make_url("/hook"))]
        deadline = time.monotonic() + 240  # a bound, not a measure
        for round_ in range(100):
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            assert process.stdout is not None
            await process.stdout.readline()
            await asyncio.sleep(random.uniform(0.02, 0.2) if round_ < 5 else 2)
            process.kill()
            await process.communicate()
            waiting = await kept.queue.waiting(datetime.now(UTC)) | await kept.outbox.waiting()
            if not any(v for k, v in waiting.items() if k != "undelivered") and round_ >= 5:
                break
            assert time.monotonic() < deadline
    audits, _ = await kept.audits.page(None, 100)
    assert len(audits) == len({a["scope"] for a in audits}) == 30
    records, _ = await kept.findings.page(None, 100)
    assert {r["count"] for r in records} == {1}
    keys = {(audit, kind): {k for k, a, m in seen if (a, m) == (audit, kind)} for _, audit, kind in seen}
    assert all(len(k) == 1 for k in keys.values())
    left = await kept.outbox.claim(datetime.now(UTC) + timedelta(hours=1), timedelta(seconds=1), limit=100)
    assert {(a["id"], "summary") for a in audits} <= set(keys) | {(d.audit, d.kind) for d in left}
