"""The outgoing webhook, as tools rely on it."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.chat.console import Console
from functions.chat.message import Delivered, Outgoing, Retry
from functions.chat.webhook import Webhook, retry_after

MESSAGE = Outgoing("summary", "a-1", "cluster", "FAIL", "- blind", "details", "key-1", report={"schema": "telltale.dev/audit/v1"})


class Tool:
    """Answers with the given statuses, then with 200."""

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        return web.Response(status=status, headers=headers)

    def server(self) -> TestServer:
        app = web.Application()
        app.router.add_post("/hook", self.take)
        return TestServer(app)


async def test_a_message_has_the_promised_shape() -> None:
    tool = Tool()
    async with tool.server() as server:
        hook = Webhook(str(server.make_url("/hook")), "secret-1")
        assert await hook.deliver(MESSAGE, None, None) == Delivered()
        await hook.close()
    [body] = tool.bodies
    assert body == {
        "schema": "telltale.dev/message/v1",
        "kind": "summary",
        "audit": "a-1",
        "text": "**FAIL**\n\n- blind\n\ndetails",
        "report": {"schema": "telltale.dev/audit/v1"},
    }
    assert tool.headers[0]["Idempotency-Key"] == "key-1"
    assert tool.headers[0]["Authorization"] == "Bearer secret-1"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_any_2xx_is_delivered(status: int) -> None:
    async with Tool((status, {})).server() as server:
        hook = Webhook(str(server.make_url("/hook")))
        assert await hook.deliver(MESSAGE, None, None) == Delivered()
        await hook.close()


@pytest.mark.parametrize("status", [301, 302, 400, 401, 404, 409, 429, 500, 503])
async def test_everything_else_is_tried_again_with_the_same_key(status: int) -> None:
    tool = Tool((status, {"Retry-After": "4", "Location": "/hook"}))
    async with tool.server() as server:
        hook = Webhook(str(server.make_url("/hook")))
        result = await hook.deliver(MESSAGE, None, None)
        assert isinstance(result, Retry)
        assert result.after == 4
        assert await hook.deliver(MESSAGE, None, {}) == Delivered()
        await hook.close()
    assert {h["Idempotency-Key"] for h in tool.headers} == {"key-1"}


async def test_a_tool_that_is_not_there_is_again_later_and_its_address_stays_private() -> None:
    hook = Webhook("http://127.0.0.1:9/private-path")
    result = await hook.deliver(MESSAGE, None, None)
    assert isinstance(result, Retry)
    assert "private-path" not in result.why
    await hook.close()


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after("30") == 30
    assert retry_after("") is None
    assert retry_after("soon") is None
    when = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert when is not None
    assert 50 < when <= 60


async def test_the_console_prints_the_text_without_marks_and_escape_sequences() -> None:
    out = io.StringIO()
    message = Outgoing("summary", "a", "cluster", "FAIL", "- \x1b[2J**1 alert** is blind: `Gpu_Hot`\r\n_new failure_", "", "k")
    assert await Console(out).deliver(message, None, None) == Delivered()
    assert out.getvalue() == "FAIL\n\n- [2J1 alert is blind: Gpu_Hot\nnew failure\n\n"


async def test_the_console_prints_a_postmortem_as_the_document_it_is_or_leaves_it_out() -> None:
    message = Outgoing("postmortem", "a", "cluster", "Postmortem draft", "", "# Postmortem\n- **x**", "k")
    for wanted, shown in ((True, "# Postmortem\n- **x**\n\n"), (False, "")):
        out = io.StringIO()
        assert await Console(out, postmortems=wanted).deliver(message, None, None) == Delivered()
        assert out.getvalue() == shown
