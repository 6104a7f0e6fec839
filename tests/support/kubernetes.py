"""A Kubernetes API server at the wire: lists in pages, watches with bookmarks, and the ways in which the real one fails.

Objects are the test's to change with `put` and `delete`; each change gets a resource version and goes to the watches
that wait. `fault` makes the next answers fail.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.evidence.kubernetes.kinds import KINDS

Raw = dict[str, Any]
Answer = Callable[[web.Request], web.StreamResponse | None]


def status(code: int, message: str, **headers: str) -> web.Response:
    """An answer as the API server gives it for a failure."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code, headers=headers)


class FakeKubernetes:
    """Use as an async context manager."""

    def __init__(self, *, page_bookmarks: bool = True) -> None:
        self.objects: dict[tuple[str, str, str], Raw] = {}
        self.history: list[tuple[int, str, str, Raw]] = []
        self.version = 100
        #: versions up to this one are forgotten
        self.compacted = 0
        self.served_dra: list[str] = ["v1", "v1beta1"]
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.allowed: Callable[[str], bool] = lambda _resource: True
        #: what a review of access answers, from its attributes
        self.review: Callable[[dict[str, str]], bool] = lambda attributes: self.allowed(attributes["resource"])
        self.bookmarks = page_bookmarks
        self._faults: list[Answer] = []
        self._changed = asyncio.Condition()
        self._open: set[asyncio.Task[Any]] = set()
        app = web.Application()
        app.router.add_get("/apis/resource.k8s.io", self._discover)
        app.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", self._review)
        app.router.add_get("/version", self._version)
        app.router.add_get("/{path:.*}", self._get)
        self.server = TestServer(app)

    async def __aenter__(self) -> FakeKubernetes:
        await self.server.start_server()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.drop_watches()
        await self.server.close()

    def kubeconfig(self, token: str = "token") -> str:
        """The text of a kubeconfig that points here."""
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": str(self.server.make_url("")).rstrip("/")}}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )

    def put_now(self, *objects: Raw) -> None:
        """Make or change objects."""
        for raw in objects:
            self.version += 1
            kept = copy.deepcopy(raw)
            metadata = kept["metadata"]
            metadata.setdefault("uid", f"uid-{kept['kind']}-{metadata['name']}")
            metadata["resourceVersion"] = str(self.version)
            key = (kept["kind"], metadata.get("namespace", ""), metadata["name"])
            self.history.append((self.version, "MODIFIED" if key in self.objects else "ADDED", kept["kind"], kept))
            self.objects[key] = kept

    async def put(self, *objects: Raw) -> None:
        self.put_now(*objects)
        await self._notify()

    async def delete(self, kind: str, name: str, namespace: str = "") -> None:
        raw = self.objects.pop((kind, namespace, name))
        self.version += 1
        raw = copy.deepcopy(raw)
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, "DELETED", kind, raw))
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def compact(self) -> None:
        """Forget what was before: older resource versions are 410 Gone from now on."""
        self.compacted = self.version
        self.history.clear()

    def fault(self, answer: Answer, times: int = 1) -> None:
        """The next requests are answered by `answer`; it may return None to let one pass."""
        self._faults += [answer] * times

    def drop_watches(self) -> None:
        """Cut every open watch, as an API server that restarts does."""
        for task in list(self._open):
            task.cancel()

    def asked(self, part: str) -> list[dict[str, str]]:
        """The queries of the requests whose path holds `part`."""
        return [query for path, query in self.requests if part in path]

    async def _discover(self, _request: web.Request) -> web.Response:
        if not self.served_dra:
            return status(404, "not found")
        return web.json_response({"kind": "APIGroup", "name": "resource.k8s.io", "versions": [{"version": v} for v in self.served_dra]})

    async def _review(self, request: web.Request) -> web.Response:
        attributes = (await request.json())["spec"]["resourceAttributes"]
        return web.json_response({"status": {"allowed": self.review(attributes)}}, status=201)

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "34", "gitVersion": "v1.34.0"})

    async def _get(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.path, dict(request.query)))
        while self._faults:
            fault = self._faults[0]
            answer = fault(request)
            if answer is None:
                break
            self._faults.pop(0)
            return answer
        kind, namespace, name = _place(request.path)
        if not kind:
            return status(404, "the server could not find the requested resource")
        if not self.allowed(KINDS[kind].plural):
            return status(403, f"{KINDS[kind].plural} is forbidden")
        if name:
            raw = self.objects.get((kind, namespace, name))
            return web.json_response(raw) if raw else status(404, f"{name} not found")
        return await self._watch(request, kind) if request.query.get("watch") else self._list(request, kind, namespace)

    def _list(self, request: web.Request, kind: str, namespace: str) -> web.Response:
        found = [raw for key, raw in sorted(self.objects.items()) if key[0] == kind and namespace in ("", key[1])]
        for part in filter(None, request.query.get("fieldSelector", "").split(",")):
            place, _, value = part.partition("=")
            section, _, name = place.partition(".")
            found = [raw for raw in found if raw.get(section, {}).get(name) == value]
        for part in filter(None, request.query.get("labelSelector", "").split(",")):
            key, _, value = part.partition("=")
            found = [raw for raw in found if raw["metadata"].get("labels", {}).get(key) == value]
        token = request.query.get("continue", "")
        start, version = 0, self.version
        if token:
            start, version = map(int, token.split("@"))
            if version < self.compacted:
                return status(410, "The provided continue parameter is too old")
        limit = int(request.query.get("limit") or len(found) or 1)
        page = [{k: v for k, v in raw.items() if k not in ("kind", "apiVersion")} for raw in found[start : start + limit]]
        more = f"{start + limit}@{version}" if start + limit < len(found) else ""
        body = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {"resourceVersion": str(version), "continue": more}, "items": page}
        return web.json_response(body)

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        version = int(request.query.get("resourceVersion") or 0)
        if version < self.compacted:
            return status(410, "too old resource version")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "300"))):
                while True:
                    for at, type_, of, raw in [entry for entry in self.history if entry[0] > version and entry[2] == kind]:
                        assert of == kind
                        await response.write(json.dumps({"type": type_, "object": raw}).encode() + b"\n")
                        version = at
                    async with self._changed:
                        if not any(entry[0] > version and entry[2] == kind for entry in self.history):
                            await self._changed.wait()
        except TimeoutError:
            if self.bookmarks:
                mark = {"kind": kind, "metadata": {"resourceVersion": str(self.version)}}
                await response.write(json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n")
        except asyncio.CancelledError:
            if request.transport is not None:
                request.transport.abort()
            return response
        except ConnectionResetError:
            return response  # whoever watched is gone
        finally:
            self._open.discard(task)
        await response.write_eof()
        return response


def _place(path: str) -> tuple[str, str, str]:
    """Kind, namespace and name in a path."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    by_plural = {resource.plural: kind for kind, resource in KINDS.items() if resource.group == ("" if parts[0] == "api" else parts[1])}
    return by_plural.get(rest[0], "") if rest else "", namespace, rest[1] if len(rest) > 1 else ""
