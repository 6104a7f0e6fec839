"""Slack as it behaves: errors in 200 bodies, 429, edits in place, answers that are lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from functions import wiring
from functions.chat.message import Delivered, Outgoing, Refused, Retry
from functions.chat.slack import SlackBot, SlackWebhook
from functions.reports import postmortem, summary
from tests.support.slack import FakeSlack
from tests.test_cases import CASES, report_of

SUMMARY = Outgoing(
    "summary", "a-1", "cluster", "🔴 FAIL · rollout", "- **3 rules are blind**: `A`", "1. do this <b> & that", "key-1", loud=True
)
UPDATE = replace(SUMMARY, kind="update", audit="a-2", key="key-2", lead="- **2 rules are blind**: `A`")


@pytest.fixture
async def slack() -> AsyncIterator[tuple[FakeSlack, SlackBot, str]]:
    fake = FakeSlack()
    async with TestServer(fake.app()) as server:
        yield fake, SlackBot("xoxb-1", "C1", str(server.make_url("/api/"))), str(server.make_url("/hook"))


def text(message: dict[str, Any]) -> str:
    return "\n".join(b["text"]["text"] for b in message["blocks"])


async def post(bot: SlackBot, message: Outgoing = SUMMARY) -> dict[str, Any]:
    result = await bot.deliver(message, None, None)
    assert isinstance(result, Delivered)
    assert result.ref is not None
    return dict(result.ref)


async def test_a_summary_is_one_message_with_its_details_in_the_thread(slack: Any) -> None:
    fake, bot, _ = slack
    ref = await post(bot)
    [main] = fake.top
    assert "*3 rules are blind*" in text(main)
    assert main["text"] == "🔴 FAIL · rollout — 3 rules are blind: A"
    [reply] = fake.replies(ref["ts"])
    assert "do this &lt;b&gt; &amp; that" in text(reply)


async def test_an_update_edits_the_message_and_says_in_the_thread_what_changed(slack: Any) -> None:
    fake, bot, _ = slack
    ref = await post(bot)
    result = await bot.deliver(UPDATE, ref, None)
    assert result == Delivered(ref)
    [main] = fake.top
    assert "2 rules are blind" in text(main)
    reply = fake.replies(ref["ts"])[-1]
    assert "2 rules are blind" in text(reply)
    assert str(reply["reply_broadcast"]).lower() in ("true", "1")
    await bot.deliver(replace(UPDATE, kind="resolved", loud=False, key="key-3"), ref, None)
    assert "reply_broadcast" not in fake.replies(ref["ts"])[-1]


@pytest.mark.parametrize("error", ["message_not_found", "edit_window_closed", "cant_update_message"])
async def test_a_message_that_can_not_be_edited_is_posted_anew(slack: Any, error: str) -> None:
    fake, bot, _ = slack
    ref = await post(bot)
    fake.edit_error = error
    result = await bot.deliver(UPDATE, ref, None)
    assert isinstance(result, Delivered)
    assert result.ref is not None
    assert result.ref["ts"] != ref["ts"]
    assert len(fake.top) == 2


async def test_an_update_without_an_earlier_message_is_posted(slack: Any) -> None:
    fake, bot, _ = slack
    await post(bot, UPDATE)
    assert len(fake.top) == 1


async def test_a_postmortem_goes_into_the_thread(slack: Any) -> None:
    fake, bot, _ = slack
    ref = await post(bot)
    stub = Outgoing("postmortem", "a-1", "cluster", "Postmortem draft", "", "# Postmortem\n## Trigger\n- alert", "key-9")
    assert await bot.deliver(stub, ref, None) == Delivered(ref)
    assert "*Postmortem*\n*Trigger*\n• alert" in text(fake.replies(ref["ts"])[-1])
    assert "`telltale postmortem a-1` prints all of it" in text(fake.replies(ref["ts"])[-1])
    alone = await bot.deliver(stub, None, None)
    assert isinstance(alone, Delivered)
    assert alone.ref is not None


async def test_too_many_requests_are_waited_for_and_what_arrived_is_not_repeated(slack: Any) -> None:
    fake, bot, _ = slack
    fake.script = [None, (429, {"Retry-After": "7"}, '{"ok": false, "error": "ratelimited"}')]
    result = await bot.deliver(SUMMARY, None, None)
    assert isinstance(result, Retry)
    assert result.after == 7
    assert result.progress is not None
    assert isinstance(await bot.deliver(SUMMARY, None, result.progress), Delivered)
    assert len(fake.top) == 1
    assert len(fake.replies(fake.top[0]["ts"])) == 1


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("body", ['{"ok": false, "error": "internal_error"}', "<html>oops</html>", ""])
async def test_a_fault_of_slack_is_again_later(slack: Any, status: int, body: str) -> None:
    fake, bot, _ = slack
    fake.script = [(status, {}, body)]
    assert isinstance(await bot.deliver(SUMMARY, None, None), Retry)


@pytest.mark.parametrize("error", ["invalid_auth", "channel_not_found", "not_in_channel", "is_archived", "missing_scope"])
async def test_an_error_in_a_200_body_is_a_refusal(slack: Any, error: str) -> None:
    fake, bot, _ = slack
    fake.script = [(200, {}, f'{{"ok": false, "error": "{error}"}}')]
    result = await bot.deliver(SUMMARY, None, None)
    assert isinstance(result, Refused)
    assert error in result.why


async def test_a_lost_answer_is_looked_up_before_anything_is_posted_again(slack: Any) -> None:
    fake, bot, _ = slack
    fake.script = ["hang up after"]
    assert isinstance(await bot.deliver(SUMMARY, None, None), Retry)
    assert isinstance(await bot.deliver(SUMMARY, None, {}), Delivered)
    assert len(fake.top) == 1
    assert len(fake.replies(fake.top[0]["ts"])) == 1


async def test_a_lost_answer_to_the_reply_is_looked_up_too(slack: Any) -> None:
    fake, bot, _ = slack
    ref = await post(bot)
    fake.script = [None, "hang up after"]
    assert isinstance(await bot.deliver(UPDATE, ref, None), Retry)
    assert await bot.deliver(UPDATE, ref, {}) == Delivered(ref)
    assert len(fake.replies(ref["ts"])) == 2


async def test_without_the_right_to_read_history_a_lost_message_is_posted_again_and_logged(
    slack: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake, bot, _ = slack
    fake.history_error = "missing_scope"
    assert isinstance(await bot.deliver(SUMMARY, None, {}), Delivered)
    assert len(fake.top) == 1
    assert "can't be seen (missing_scope)" in caplog.text


async def test_the_messages_of_a_recorded_case_are_within_slacks_limits_and_readable(slack: Any) -> None:
    """The exporter's rollout that broke 44 things: one section for the channel, one for the thread, and a short stub."""
    fake, bot, _ = slack
    [case] = [p for p in CASES if p.name.startswith("14")]
    report = (await report_of(case)).as_dict()
    told = summary.render(report, reason="new failure", titles=wiring.TITLES, link="https://board.example/audits/case")
    ref = await post(bot, Outgoing("summary", "case", "cluster", told.title, told.lead, told.details, "k-1", loud=True))
    stub = Outgoing("postmortem", "case", "cluster", "Postmortem draft", "", postmortem.render(report), "k-2")
    assert isinstance(await bot.deliver(stub, ref, None), Delivered)
    [main], (details, draft) = fake.top, fake.replies(ref["ts"])
    assert [len(m["blocks"]) for m in (main, details)] == [1, 1]
    assert all(len(json.dumps(m["blocks"])) < 12_000 for m in (main, details, draft))
    assert main["text"].startswith(
        "🔴 FAIL · rollout complete: DaemonSet gpu-operator/nvidia-dcgm-exporter · prod-eu-1 — 🔴 3 alerts are blind"
    )
    assert "<https://board.example/audits/case|the whole report>" in text(details)
    for section in ("*Recovery*", "*Dimension to add next time*", "*Root cause*"):
        assert section in text(draft)


async def test_a_long_report_is_cut_within_the_limits_and_says_so(slack: Any) -> None:
    fake, bot, _ = slack
    long = replace(SUMMARY, details="\n".join(f"- line {n} " + "x & y " * 60 for n in range(1000)))
    ref = await post(bot, long)
    reply = text(fake.replies(ref["ts"])[0])
    assert "more lines: the whole text is in audit `a-1`" in reply


async def test_a_server_that_is_not_there_is_again_later() -> None:
    bot = SlackBot("xoxb-1", "C1", "http://127.0.0.1:9/")
    assert isinstance(await bot.deliver(SUMMARY, None, None), Retry)
    assert isinstance(await SlackWebhook("http://127.0.0.1:9/").deliver(SUMMARY, None, None), Retry)


async def test_the_incoming_webhook_takes_everything_in_one_post(slack: Any) -> None:
    fake, _, url = slack
    hook = SlackWebhook(url)
    assert await hook.deliver(SUMMARY, None, None) == Delivered()
    assert "*3 rules are blind*" in text(fake.webhook[0])
    fake.script = [(429, {"Retry-After": "3"}, ""), (500, {}, "rollup_error"), (404, {}, "no_service"), (400, {}, "invalid_payload")]
    first = await hook.deliver(SUMMARY, None, None)
    assert isinstance(first, Retry)
    assert first.after == 3
    assert isinstance(await hook.deliver(SUMMARY, None, None), Retry)
    assert await hook.deliver(SUMMARY, None, None) == Refused("Slack answers no_service")
    assert isinstance(await hook.deliver(SUMMARY, None, None), Refused)
