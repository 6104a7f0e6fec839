"""The Kubernetes API, read-only: the only module that imports `kubernetes`.

Raw JSON over the client's low level: its typed models cost a second of start-up, 20 times the memory of the JSON and
block the event loop while a list is decoded (measured with 5,000 Pods). Lists come in pages; watches resume, back off
and say when the caller has to list again. Every fault is classified here once, as a `KubernetesError` with a `Why`.

Not here: what objects mean (`objects.py`), what a change means (`triggers/`).
"""

from __future__ import annotations

import asyncio
import importlib
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp

from functions.contract.facts import Fact, Known, Missing, Why
from functions.evidence.kubernetes.answers import Change, bytes_of, change_in, json_of, line_of, retry_after
from functions.evidence.kubernetes.errors import Expired, KubernetesError, NotConfigured, refused, unreached
from functions.evidence.kubernetes.kinds import KINDS, PREFERRED, Resource

T = TypeVar("T")
#: the class below has a method of that name
Kept = list
Raw = Mapping[str, Any]

PAGE = 500
_TRIES = 4
_LONGEST_WAIT = 10.0
_RELISTS = 3
#: A watch that ends within this many seconds without a word is no progress.
_QUICK = 1.0
#: Expired resource versions of some kinds are answered with 200 and nothing (kubernetes/kubernetes#104171).
_EMPTY_WATCHES = 3
_BACKOFF_LIMIT = 30.0


@dataclass(frozen=True, slots=True)
class Page:
    items: tuple[Raw, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Timing:
    """Patience, in seconds."""

    request: float = 30
    #: how long the server is asked to keep one watch open; each is cut a little earlier, so that they don't end together
    watch: float = 290
    backoff: float = 0.5


class KubernetesSource:
    """A cluster. Build it with `connect`."""

    def __init__(self, api: Any, *, timing: Timing = Timing(), now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        #: None: connected when it is first asked
        self._api = api
        self._kubeconfig = ""
        self._connecting = asyncio.Lock()
        self._timing = timing
        self._now = now
        self._versions: dict[str, str | None] = {}
        self._reload: Callable[[], Any] | None = None

    @classmethod
    async def connect(cls, kubeconfig: str = "", *, timing: Timing | None = None) -> KubernetesSource:
        """The cluster that `kubeconfig` (one or more paths) points at, else the one this Pod runs in.

        Raises NotConfigured. Nothing is asked of the server yet.
        """
        source = cls.later(kubeconfig, timing=timing)
        await source._connect()
        return source

    @classmethod
    def later(cls, kubeconfig: str = "", *, timing: Timing | None = None) -> KubernetesSource:
        """The same, connected when something is first asked: the client is the dearest import of all, and a role that
        answers most events from its own state should not start with it. What is wrong with the configuration is then a fault of
        that question."""
        source = cls(None, timing=timing or Timing())
        source._kubeconfig = kubeconfig
        return source

    async def _connect(self) -> None:
        # in a thread: half a second in which other requests would not be answered
        await asyncio.to_thread(importlib.import_module, "kubernetes.aio.client.api_client")
        import yaml
        from kubernetes.aio import config
        from kubernetes.aio.client.api_client import ApiClient
        from kubernetes.aio.client.configuration import Configuration
        from kubernetes.aio.config.config_exception import ConfigException

        kubeconfig, configuration = self._kubeconfig, Configuration()

        async def load() -> None:
            if kubeconfig:
                await config.load_kube_config(config_file=kubeconfig, client_configuration=configuration, persist_config=False)
            else:
                config.load_incluster_config(client_configuration=configuration)

        try:
            await load()
            self._api = ApiClient(configuration)
        except ConfigException as error:
            where = "KUBECONFIG" if kubeconfig else "neither KUBECONFIG nor a Pod's service account"
            raise NotConfigured(f"{where}: {error}") from None
        except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
            raise NotConfigured(
                f"the cluster's configuration can't be used: {type(error).__name__}: {' '.join(str(error).split())}"
            ) from None
        if kubeconfig:
            self._reload = load

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()

    async def __aenter__(self) -> KubernetesSource:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Fact[tuple[Raw, ...]]:
        """All objects of a kind, without `managedFields`. Never raises for an outside fault."""
        return await self.reduced(kind, _without_managed_fields, namespace=namespace, labels=labels, fields=fields)

    async def reduced(
        self, kind: str, reduce: Callable[[Raw], T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Fact[tuple[T, ...]]:
        """What `reduce` keeps of every object of a kind; a page is in memory at a time. Never raises for an outside fault."""
        source = f"kubernetes {kind}" + (f" in {namespace}" if namespace else "")
        try:
            found, _ = await self.collect(kind, reduce, namespace=namespace, labels=labels, fields=fields)
        except KubernetesError as error:
            return Missing(error.why, error.detail, source)
        return Known(tuple(found), self._now(), source)

    async def collect(
        self, kind: str, reduce: Callable[[Raw], T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> tuple[Kept[T], str]:
        """What `reduce` keeps of every object, and the resource version of the list: a page is in memory at a time.

        Raises KubernetesError. A list whose continue token expires is begun again, a few times.
        """
        for _ in range(_RELISTS):
            kept: Kept[T] = []
            version = ""
            try:
                async for page in self.pages(kind, namespace=namespace, labels=labels, fields=fields):
                    kept.extend(reduce(item) for item in page.items)
                    version = page.resource_version
                return kept, version
            except Expired:
                continue
        raise KubernetesError(Why.TRUNCATED, f"the list of {kind} expired {_RELISTS} times before it was read to its end", 410)

    async def pages(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> AsyncIterator[Page]:
        """The list of a kind, page by page. Raises KubernetesError; Expired: begin again, what was read is void."""
        path = await self._path(kind, namespace)
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields}
        token = ""
        while True:
            body = await self._get(path, query | {"continue": token}, f"list {KINDS[kind].plural}")
            metadata, items = body.get("metadata") or {}, body.get("items") or ()
            api_version = str(body.get("apiVersion", ""))
            # objects in a list don't say what they are
            yield Page(tuple({"apiVersion": api_version, "kind": kind, **item} for item in items), str(metadata.get("resourceVersion", "")))
            token = metadata.get("continue") or ""
            if not token:
                return

    async def get(self, kind: str, name: str, namespace: str = "") -> Raw | None:
        """One object; None if it does not exist. Raises KubernetesError."""
        path = f"{await self._path(kind, namespace)}/{quote(name, safe='')}"
        try:
            return await self._get(path, {}, f"get {KINDS[kind].plural}")
        except KubernetesError as error:
            if error.status == 404:
                return None
            raise

    async def watch(
        self, kind: str, resource_version: str, *, namespace: str = "", on_trouble: Callable[[str], None] = lambda _detail: None
    ) -> AsyncIterator[Change]:
        """Changes after `resource_version`, over as many connections as it takes.

        Raises Expired when the caller has to list again, KubernetesError for what waiting doesn't mend (not allowed, not
        served). A server that is away is waited for; `on_trouble` hears of it ("" once it is over).
        """
        path = await self._path(kind, namespace)
        patience = _Patience(self._timing.backoff, on_trouble)
        empty = 0
        while True:
            began, heard, trouble = time.monotonic(), False, ""
            try:
                async for change in self._watch_once(path, kind, resource_version):
                    resource_version, heard = change.resource_version or resource_version, True
                    patience.restore()
                    if change.type != "BOOKMARK":
                        yield change
            except KubernetesError as error:
                if isinstance(error, Expired) or error.why in (Why.UNAUTHORISED, Why.UNSUPPORTED, Why.NOT_CONFIGURED):
                    raise
                trouble = error.detail
            quick = not heard and time.monotonic() - began < _QUICK
            empty = empty + 1 if quick and not trouble else 0
            if empty >= _EMPTY_WATCHES:
                raise Expired(f"watches of {kind} from {resource_version} end at once without a word")
            if trouble or quick:
                await patience.wait(trouble)
            else:
                patience.restore()

    async def _watch_once(self, path: str, kind: str, resource_version: str) -> AsyncIterator[Change]:
        seconds = max(1, int(self._timing.watch * random.uniform(0.8, 1.0)))
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds), "resourceVersion": resource_version}
        what = f"watch {KINDS[kind].plural}"
        response = await self._send(path, query, seconds + self._timing.request)
        try:
            if response.status != 200:
                raise refused(what, response.status, await bytes_of(response, what))
            while line := await line_of(response, what):
                if line.strip():
                    yield change_in(line, kind, what)
        finally:
            response.response.close()

    async def version_of(self, group: str) -> str | None:
        """The best version of an API group that is served and known here; None: the group isn't served."""
        if group not in self._versions:
            try:
                body = await self._get(f"/apis/{group}", {}, f"discover {group}")
            except KubernetesError as error:
                if error.status != 404:
                    raise
                body = {}
            served = {version.get("version") for version in body.get("versions") or ()}
            self._versions[group] = next((v for v in PREFERRED.get(group, ()) if v in served), None)
        return self._versions[group]

    async def can_i(self, verb: str, kind: str, namespace: str = "") -> bool:
        """Whether this account may do that with a kind that is read here. Raises KubernetesError."""
        resource = _resource(kind)
        return await self.may(verb, resource.plural, group=resource.group, namespace=namespace)

    async def may(self, verb: str, plural: str, *, group: str = "", part: str = "", namespace: str = "") -> bool:
        """Whether this account may do something at all; asks the server to review itself, which everybody may do.

        For `doctor` only. `part`: a subresource. Raises KubernetesError, also where the server could not decide.
        """
        attributes = {"verb": verb, "group": group, "resource": plural, "subresource": part, "namespace": namespace}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        path, what = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "create selfsubjectaccessreviews"
        response = await self._send(path, {}, self._timing.request, method="POST", body=review)
        text = await bytes_of(response, what)
        if response.status not in (200, 201):
            raise refused(what, response.status, text)
        decided = json_of(text, what).get("status") or {}
        if not decided.get("allowed") and decided.get("evaluationError"):
            raise KubernetesError(Why.UNREACHABLE, f"{what}: {decided['evaluationError']}")
        return bool(decided.get("allowed"))

    async def server_version(self) -> str:
        """What the API server says it is. Raises KubernetesError."""
        return str((await self._get("/version", {}, "get the version")).get("gitVersion", "unknown"))

    async def _path(self, kind: str, namespace: str) -> str:
        resource = _resource(kind)
        version = resource.version or await self.version_of(resource.group)
        if version is None:
            raise KubernetesError(Why.UNSUPPORTED, f"{resource.group} is not served by this cluster", 404)
        root = f"/apis/{resource.group}/{version}" if resource.group else f"/api/{version}"
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace and resource.namespaced else ""
        return f"{root}{place}/{resource.plural}"

    async def _get(self, path: str, query: Mapping[str, str], what: str) -> dict[str, Any]:
        """A decoded answer. Throttling and passing server faults are waited out within bounds."""
        for attempt in range(1, _TRIES + 1):
            error: KubernetesError
            wait = self._timing.backoff * 2 ** (attempt - 1)
            try:
                response = await self._send(path, query, self._timing.request)
                text = await bytes_of(response, what)
                if response.status == 200:
                    return json_of(text, what)
                error = refused(what, response.status, text)
                if error.status == 401 and self._reload is not None and attempt == 1:
                    await self._reload()  # tokens of exec plugins and files expire
                    continue
                wait = retry_after(response) or wait
            except KubernetesError as unreachable:
                error = unreachable
            if attempt == _TRIES or not _passes(error) or wait > _LONGEST_WAIT:
                raise error
            await asyncio.sleep(_jitter(wait))
        raise AssertionError("unreachable")

    async def _send(self, path: str, query: Mapping[str, str], seconds: float, method: str = "GET", body: Any = None) -> Any:
        async with self._connecting:
            if self._api is None:
                await self._connect()
        given = [(name, value) for name, value in query.items() if value]
        headers = {"Accept": "application/json"}
        request = await self._api.param_serialize(
            method=method, resource_path=path, query_params=given, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            return await self._api.call_api(*request, _request_timeout=seconds)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise unreached(f"{method} {path}", error) from error


class _Patience:
    """Waits longer with each failure in a row, and tells when trouble begins and ends."""

    def __init__(self, first: float, on_trouble: Callable[[str], None]) -> None:
        self._first = first
        self._on_trouble = on_trouble
        self._failures = 0
        self._told = False

    async def wait(self, trouble: str) -> None:
        self._failures += 1
        if trouble:
            self._told = True
            self._on_trouble(trouble)
        await asyncio.sleep(_jitter(min(_BACKOFF_LIMIT, self._first * 2 ** min(self._failures - 1, 10))))

    def restore(self) -> None:
        self._failures = 0
        if self._told:
            self._told = False
            self._on_trouble("")


def _resource(kind: str) -> Resource:
    if kind not in KINDS:
        raise KubernetesError(Why.UNSUPPORTED, f"{kind} is no kind that is read")
    return KINDS[kind]


def _without_managed_fields(item: Raw) -> Raw:
    """They are a third of an object and nobody here reads them."""
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return item


def _passes(error: KubernetesError) -> bool:
    """Whether another try may help now."""
    return error.status == 429 or error.status >= 500 or error.why is Why.UNREACHABLE


def _jitter(seconds: float) -> float:
    return seconds * random.uniform(0.8, 1.2)
