"""The Kubernetes client against an API server at the wire: pages, watches, and every way in which it can't answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from functions.contract.facts import Known, Missing, Why
from functions.evidence.kubernetes.answers import Change
from functions.evidence.kubernetes.errors import Expired, KubernetesError, NotConfigured
from functions.evidence.kubernetes.source import KubernetesSource, Timing
from tests.support.kubernetes import FakeKubernetes, status

FAST = Timing(request=5, watch=2, backoff=0.02)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeKubernetes]:
    async with FakeKubernetes() as fake:
        yield fake


@pytest.fixture
async def source(cluster: FakeKubernetes, tmp_path: Path) -> AsyncIterator[KubernetesSource]:
    path = tmp_path / "kubeconfig"
    path.write_text(cluster.kubeconfig())
    async with await KubernetesSource.connect(str(path), timing=FAST) as source:
        yield source


def pod(name: str, node: str = "gpu-1", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "llm", "labels": labels, "managedFields": [{"manager": "x"}]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"nodeName": node}}


async def changes(source: KubernetesSource, kind: str, version: str, count: int, seconds: float = 5) -> list[Change]:
    out: list[Change] = []
    async with asyncio.timeout(seconds):
        async for change in source.watch(kind, version):
            out.append(change)
            if len(out) == count:
                break
    return out


async def missing(source: KubernetesSource, kind: str = "Pod") -> Missing:
    fact = await source.list(kind)
    assert isinstance(fact, Missing)
    return fact


async def test_a_long_list_comes_in_pages_and_whole(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.put_now(*(pod(f"p-{n:04}") for n in range(1203)))
    fact = await source.list("Pod")
    assert isinstance(fact, Known)
    assert [p["metadata"]["name"] for p in fact.value] == [f"p-{n:04}" for n in range(1203)]
    assert {p["kind"] for p in fact.value} == {"Pod"}
    assert all("managedFields" not in p["metadata"] for p in fact.value)
    assert len(cluster.asked("/pods")) == 3


async def test_selectors_and_namespaces_are_passed_on(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.put_now(pod("a", app="x"), pod("b", "gpu-2", app="x"), pod("c"))
    fact = await source.list("Pod", namespace="llm", labels="app=x", fields="spec.nodeName=gpu-1")
    assert isinstance(fact, Known)
    assert [p["metadata"]["name"] for p in fact.value] == ["a"]
    assert cluster.requests[-1][0] == "/api/v1/namespaces/llm/pods"


async def test_a_continue_token_that_expires_begins_the_list_again(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.put_now(*(pod(f"p-{n:04}") for n in range(600)))

    def expire(request: web.Request) -> web.Response | None:
        return status(410, "too old") if "continue" in request.query else None

    cluster.fault(expire)
    fact = await source.list("Pod")
    assert isinstance(fact, Known)
    assert len(fact.value) == 600
    cluster.fault(expire, times=9)
    assert (await missing(source)).why is Why.TRUNCATED


async def test_an_empty_list_is_known(source: KubernetesSource) -> None:
    fact = await source.list("Node")
    assert isinstance(fact, Known)
    assert fact.value == ()


@pytest.mark.parametrize(
    ("code", "why", "says"),
    [
        (401, Why.UNAUTHORISED, "credentials"),
        (403, Why.UNAUTHORISED, 'verb "list" on "pods"'),
        (404, Why.UNSUPPORTED, "not served"),
        (400, Why.MALFORMED, "400"),
    ],
)
async def test_refusals_say_what_is_needed(cluster: FakeKubernetes, source: KubernetesSource, code: int, why: Why, says: str) -> None:
    cluster.fault(lambda _request: status(code, "no"), times=9)
    fact = await missing(source)
    assert fact.why is why
    assert says in fact.detail


async def test_throttling_is_waited_out_within_bounds(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.put_now(pod("a"))
    cluster.fault(lambda _request: status(429, "slow down", **{"Retry-After": "1"}))
    began = time.monotonic()
    assert isinstance(await source.list("Pod"), Known)
    assert 0.7 < time.monotonic() - began < 3
    cluster.fault(lambda _request: status(429, "slow down", **{"Retry-After": "3600"}))
    began = time.monotonic()
    assert (await missing(source)).why is Why.UNREACHABLE
    assert time.monotonic() - began < 2


async def test_passing_server_faults_are_tried_again_a_few_times(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.fault(lambda _request: status(503, "starting"), times=3)
    assert isinstance(await source.list("Pod"), Known)
    cluster.fault(lambda _request: status(500, "etcd"), times=4)
    assert "etcd" in (await missing(source)).detail
    assert len(cluster.requests) == 8


async def test_an_answer_that_is_no_json_is_malformed(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.fault(lambda _request: web.Response(text="<html>"))
    assert (await missing(source)).why is Why.MALFORMED
    cluster.fault(lambda _request: web.json_response([]))
    assert (await missing(source)).why is Why.MALFORMED


async def test_a_server_that_is_away_is_unreachable(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    await cluster.server.close()
    assert (await missing(source)).why is Why.UNREACHABLE


async def test_a_server_that_hangs_times_out(tmp_path: Path) -> None:
    async with FakeKubernetes() as cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(cluster.kubeconfig())
        done = asyncio.Event()

        async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await done.wait()
            writer.close()

        async with await asyncio.start_server(hang, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            path.write_text(path.read_text().replace(str(cluster.server.port), str(port)))
            async with await KubernetesSource.connect(str(path), timing=Timing(request=0.3)) as source:
                assert (await missing(source)).why is Why.TIMED_OUT
            done.set()


async def test_kinds_that_are_not_read_can_t_be(source: KubernetesSource, cluster: FakeKubernetes) -> None:
    assert (await missing(source, "Secret")).why is Why.UNSUPPORTED
    assert cluster.requests == []


async def test_dynamic_resources_are_read_in_the_best_version_that_is_served(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    assert isinstance(await source.list("ResourceClaim"), Known)
    assert cluster.requests[-1][0] == "/apis/resource.k8s.io/v1/resourceclaims"


async def test_a_cluster_without_dynamic_resources_says_so(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.served_dra = []
    assert (await missing(source, "ResourceSlice")).why is Why.UNSUPPORTED
    cluster.served_dra = ["v1alpha9"]
    assert (await missing(source, "ResourceSlice")).why is Why.UNSUPPORTED


async def test_one_object_is_read_or_is_not_there(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.put_now(pod("a"))
    assert (await source.get("Pod", "a", "llm") or {})["metadata"]["name"] == "a"
    assert await source.get("Pod", "b", "llm") is None


async def test_rights_can_be_asked_for(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.allowed = lambda resource: resource == "pods"
    assert await source.can_i("list", "Pod")
    assert not await source.can_i("list", "Node")


async def test_a_watch_says_what_changes_and_resumes(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.put_now(pod("old"))
    _, version = await source.collect("Pod", lambda raw: raw)
    waiting = asyncio.create_task(changes(source, "Pod", version, 4))
    await asyncio.sleep(0.1)
    await cluster.put(pod("a"))
    await cluster.put(pod("a", app="x"))
    cluster.drop_watches()
    await cluster.put(pod("b"))
    await cluster.delete("Pod", "old", "llm")
    seen = [(change.type, change.object["metadata"]["name"]) for change in await waiting]
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "old")]


async def test_an_old_version_must_be_listed_again(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.put_now(pod("a"))
    cluster.compact()
    with pytest.raises(Expired):
        await changes(source, "Pod", "1", 1)


async def test_an_error_inside_a_watch_is_told_like_one_before_it(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n'
    cluster.fault(lambda _request: web.Response(body=gone))
    with pytest.raises(Expired):
        await changes(source, "Pod", "100", 1)


async def test_bookmarks_keep_a_quiet_watch_fresh(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    """Nothing of this kind happens while much else does; the bookmark at the end of a watch saves the next from 410."""
    waiting = asyncio.create_task(changes(source, "Pod", "100", 1, 8))
    await asyncio.sleep(0.1)
    cluster.put_now({"kind": "Node", "metadata": {"name": "gpu-1"}})
    await asyncio.sleep(2.2)
    cluster.compact()
    await cluster.put(pod("late"))
    assert (await waiting)[0].object["metadata"]["name"] == "late"


async def test_a_watch_that_ends_at_once_without_a_word_is_no_hot_loop(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    """kubernetes/kubernetes#104171: 200 and nothing for an expired version of Events."""
    cluster.fault(lambda _request: web.Response(body=b""), times=1000)
    with pytest.raises(Expired):
        await changes(source, "Event", "100", 1)
    assert len(cluster.requests) <= 3


async def test_a_watch_waits_for_a_server_that_restarts(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    trouble: list[str] = []
    cluster.fault(lambda _request: status(503, "starting"), times=4)

    async def first() -> Change:
        async for change in source.watch("Pod", "100", on_trouble=trouble.append):
            return change
        raise AssertionError

    waiting = asyncio.create_task(first())
    await asyncio.sleep(0.1)
    await cluster.put(pod("a"))
    assert (await asyncio.wait_for(waiting, 5)).object["metadata"]["name"] == "a"
    assert "starting" in trouble[0]
    assert trouble[-1] == ""


async def test_a_watch_that_is_not_allowed_is_not_tried_for_ever(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    cluster.allowed = lambda _resource: False
    with pytest.raises(KubernetesError) as refused:
        await changes(source, "Pod", "100", 1)
    assert refused.value.why is Why.UNAUTHORISED
    assert 'verb "watch" on "pods"' in refused.value.detail
    assert len(cluster.requests) == 1


async def test_large_objects_pass_through_a_watch(cluster: FakeKubernetes, source: KubernetesSource) -> None:
    waiting = asyncio.create_task(changes(source, "ConfigMap", "100", 1))
    await asyncio.sleep(0.1)
    await cluster.put({"kind": "ConfigMap", "metadata": {"name": "big", "namespace": "llm"}, "data": {"x": "y" * 1_400_000}})
    assert len((await waiting)[0].object["data"]["x"]) == 1_400_000


@pytest.mark.parametrize("text", ["", "{", "kind: Config\nclusters: []\n", "[]"])
async def test_a_broken_kubeconfig_is_not_configured(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(NotConfigured):
        await KubernetesSource.connect(str(path))


async def test_without_a_cluster_nothing_is_configured(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured):
        await KubernetesSource.connect(str(tmp_path / "nowhere"))
    with pytest.raises(NotConfigured):
        await KubernetesSource.connect("")


async def test_credentials_that_expired_are_read_again(cluster: FakeKubernetes, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(cluster.kubeconfig("old"))

    def only_new(request: web.Request) -> web.Response | None:
        return None if request.headers["Authorization"] == "Bearer new" else status(401, "Unauthorized")

    async with await KubernetesSource.connect(str(path), timing=FAST) as source:
        path.write_text(cluster.kubeconfig("new"))
        cluster.fault(only_new, times=9)
        assert isinstance(await source.list("Pod"), Known)


def test_importing_it_does_not_import_the_client() -> None:
    """Its import costs half a second, which a function that needs no cluster must not pay."""
    code = "import sys, functions.evidence.kubernetes.source as k; sys.exit('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
