"""A server that behaves as Slack's API does where it matters here: errors in 200 bodies, 429, edits, threads, metadata."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


class FakeSlack:
    """Keeps messages by ts. `script`: answers to give instead, in order: (status, headers, body) or "hang up after"."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.script: list[Any] = []
        self.edit_error = ""
        self.history_error = ""
        #: auth.test answers with these scopes; conversations.info with this channel, or this error
        self.scopes = "chat:write,channels:history,channels:read"
        self.channel: dict[str, Any] | str = {"name": "gpu-alerts", "is_member": True}
        self.webhook: list[dict[str, Any]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/{method}", self._method)
        app.router.add_get("/api/{method}", self._method)
        app.router.add_post("/hook", self._hook)
        return app

    @property
    def top(self) -> list[dict[str, Any]]:
        return [m for m in self.messages.values() if not m.get("thread_ts")]

    def replies(self, ts: str) -> list[dict[str, Any]]:
        return [m for m in self.messages.values() if m.get("thread_ts") == ts]

    async def _method(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        data = await _body(request)
        self.calls.append((method, data))
        if self.script:
            step = self.script.pop(0)
            if step == "hang up after":
                self._do(method, data)
                assert request.transport is not None
                request.transport.close()
                return web.Response()
            if step is not None:
                status, headers, body = step
                return web.Response(status=status, headers=headers, text=body, content_type="application/json")
        return web.json_response(self._do(method, data), headers={"x-oauth-scopes": self.scopes})

    def _do(self, method: str, data: dict[str, Any]) -> dict[str, Any]:
        if error := _limits(data):
            return {"ok": False, "error": error}
        if method == "chat.postMessage":
            ts = f"170000000{len(self.messages)}.000100"
            self.messages[ts] = {**data, "ts": ts}
            return {"ok": True, "channel": "C1", "ts": ts}
        if method == "chat.update":
            if self.edit_error or data["ts"] not in self.messages:
                return {"ok": False, "error": self.edit_error or "message_not_found"}
            self.messages[data["ts"]] |= {"text": data["text"], "blocks": data["blocks"]}
            return {"ok": True, "channel": data["channel"], "ts": data["ts"]}
        if method in ("conversations.history", "conversations.replies"):
            if self.history_error:
                return {"ok": False, "error": self.history_error}
            found = self.top if method.endswith("history") else self.replies(data["ts"])
            return {"ok": True, "messages": found}
        if method == "auth.test":
            return {"ok": True, "user": "telltale", "team": "acme"}
        if method == "conversations.info":
            return {"ok": False, "error": self.channel} if isinstance(self.channel, str) else {"ok": True, "channel": self.channel}
        return {"ok": False, "error": "unknown_method"}

    async def _hook(self, request: web.Request) -> web.Response:
        if self.script:
            status, headers, body = self.script.pop(0)
            return web.Response(status=status, headers=headers, text=body)
        data = await request.json()
        if not data:
            return web.Response(status=400, text="no_text")
        if error := _limits(data):
            return web.Response(status=400, text=error)
        self.webhook.append(data)
        return web.Response(text="ok")


async def _body(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        return dict(await request.json())
    form = {**request.query, **{k: str(v) for k, v in (await request.post()).items()}}
    return {k: json.loads(v) if k in ("blocks", "metadata") else v for k, v in form.items()}


def _limits(data: dict[str, Any]) -> str:
    blocks = data.get("blocks") or []
    if len(blocks) > 50 or any(not 1 <= len(b["text"]["text"]) <= 3000 for b in blocks):
        return "invalid_blocks"
    if len(json.dumps(blocks, ensure_ascii=False)) > 13_200:  # as it was seen to be (slackapi/bolt-js#2509)
        return "msg_blocks_too_long"
    return "" if blocks or "blocks" not in data else "no_text"
