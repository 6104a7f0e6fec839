"""`telltale doctor` at the wire: what can't be had fails, what can't be seen is unknown, what is too much is said."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.chat.message import Outgoing, Ref, Refused, Result
from functions.contract.signals import Scope
from functions.intake import Timing, receive
from functions.report import Desk, work
from functions.settings import Settings, SettingsError
from functions.store import Store
from tests.support.exporters import exporters
from tests.support.kubernetes import FakeKubernetes
from tests.support.metric_server import MetricServer, metric_server, refusal, vector
from tests.support.prometheus import BINARIES, job, prometheus
from tests.support.redis import BINARIES as REDIS
from tests.support.redis import Server
from tests.support.reports import NOW, check, finding, later, report, signal
from tests.support.slack import FakeSlack
from triggers.commands import doctor
from triggers.commands._doctor_line import Line, Status

READS = ("get", "list", "watch")
GPU = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 50\n'
BUILD = (200, {"status": "success", "data": {"version": "2.53.0", "goVersion": "go1.22"}})


async def all_told(**environ: str) -> list[Line]:
    return await doctor.examined(Settings.read({f"TELLTALE_{k.upper()}": v for k, v in environ.items()}))


async def told(**environ: str) -> dict[str, Line]:
    """The lines by what they are about."""
    return {line.what: line for line in await all_told(**environ)}


def part(lines: dict[str, Line], end: str) -> Line:
    [found] = [line for what, line in lines.items() if what.endswith(end)]
    return found


# ------------------------------------------------------------------------------------------------ nothing at all


async def test_without_anything_configured_it_says_what_then_can_not_be_judged() -> None:
    lines = await told()
    assert {what for what, line in lines.items() if line.status is Status.FAIL} == {"prometheus", "kubernetes"}
    assert lines["chat"].status is Status.WARN
    assert lines["pages, API, webhook"].detail == "on 127.0.0.1:8080, from this machine only, without a token"


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"LISTEN": "0.0.0.0:80"}, {"pages, API, webhook": Status.FAIL, "POST /": Status.WARN}),
        ({"LISTEN": "0.0.0.0:80", "TOKEN": "t", "OIDC_AUDIENCE": "telltale"}, {"pages, API, webhook": Status.OK, "POST /": Status.OK}),
        ({"LISTEN": "127.0.0.1:80"}, {"pages, API, webhook": Status.OK, "POST /": Status.OK}),
    ],
)
async def test_who_may_come_in_is_said(environ: dict[str, str], wanted: dict[str, Status]) -> None:
    lines = await told(**environ)
    assert {what: lines[what].status for what in wanted} == wanted
    assert "t" not in lines["pages, API, webhook"].detail.split()


async def test_settings_that_can_not_be_used_are_one_error() -> None:
    for environ in ({"SLACK_TOKEN": "xoxb-1"}, {"LISTEN": "nowhere"}, {"PROMETHEUS_URL": "ftp://x"}, {"PROMETHEUS_HEADERS": "nonsense"}):
        with pytest.raises(SettingsError):
            await told(**environ)


# ------------------------------------------------------------------------------------------------ Kubernetes


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeKubernetes]:
    async with FakeKubernetes() as fake:
        (tmp_path / "kubeconfig").write_text(fake.kubeconfig())
        fake.review = lambda a: a["verb"] in READS and a["resource"] != "secrets"
        fake.path = str(tmp_path / "kubeconfig")  # type: ignore[attr-defined]
        yield fake


async def in_cluster(cluster: Any) -> dict[str, Line]:
    lines = await doctor.examined(Settings.read({"KUBECONFIG": cluster.path}))
    return {line.what.removeprefix("kubernetes "): line for line in lines if line.what.startswith("kubernetes")}


async def test_an_account_that_may_read_what_is_needed_and_no_more_is_fine(cluster: FakeKubernetes) -> None:
    lines = await in_cluster(cluster)
    assert {line.status for line in lines.values()} == {Status.OK}
    assert lines["kubernetes"].detail == "v1.34.0 answers"
    assert lines["pods"].detail == "may get, list, watch, in every namespace"
    assert lines["least privilege"].detail == "may not read Secrets and may not write"
    assert not [path for path, _ in cluster.requests if "secrets" in path], "nothing is read to find out"


async def test_what_may_not_be_listed_fails_with_what_is_lost(cluster: FakeKubernetes) -> None:
    cluster.review = lambda a: a["verb"] in READS and a["resource"] not in ("secrets", "nodes", "prometheusrules")
    lines = await in_cluster(cluster)
    assert (lines["nodes"].status, lines["nodes"].detail) == (
        Status.FAIL,
        "may not get, list, watch: can't judge device and node coverage",
    )
    assert lines["prometheusrules"].status is Status.WARN


async def test_without_watch_the_sweep_still_sees_changes(cluster: FakeKubernetes) -> None:
    cluster.review = lambda a: a["verb"] in ("get", "list") and a["resource"] != "secrets"
    lines = await in_cluster(cluster)
    assert lines["pods"].status is Status.WARN
    assert "may not watch (may get, list)" in lines["pods"].detail
    assert lines["configmaps"].status is Status.OK


async def test_an_account_that_may_do_more_is_told_what(cluster: FakeKubernetes) -> None:
    cluster.review = lambda a: a["verb"] in READS or (a["verb"], a["subresource"]) == ("create", "exec")
    line = (await in_cluster(cluster))["least privilege"]
    assert line.status is Status.WARN
    assert line.detail.endswith("ever does: get secrets, list secrets, create pods/exec")


async def test_a_group_that_is_not_served_is_nothing_to_judge(cluster: FakeKubernetes) -> None:
    cluster.served_dra = []
    assert "is not served here" in (await in_cluster(cluster))["resourceclaims"].detail


async def test_a_cluster_that_is_away_fails(tmp_path: Path) -> None:
    async with FakeKubernetes() as fake:
        (tmp_path / "kubeconfig").write_text(fake.kubeconfig())
    lines = await doctor.examined(Settings.read({"KUBECONFIG": str(tmp_path / "kubeconfig")}))
    [line] = [line for line in lines if line.what.startswith("kubernetes")]
    assert line.status is Status.FAIL


# ------------------------------------------------------------------------------------------------ Prometheus


@pytest.mark.real
@pytest.mark.parametrize("binary", BINARIES.values(), ids=BINARIES.keys())
async def test_a_real_prometheus_is_described(binary: str) -> None:
    async with exporters({"gpu-1": GPU}) as fleet, prometheus([job("dcgm", fleet, "gpu-1")], binary=binary) as server:
        await server.scraped(2)
        lines = await told(prometheus_url=server.url)
    assert lines[f"prometheus {server.url}"].detail.startswith("Prometheus ")
    assert part(lines, " targets").detail == "1 of 1 up, scraped every 1 s"
    assert part(lines, " GPU metrics").detail == "from dcgm (1 series)"
    assert part(lines, " history").status is Status.WARN
    assert part(lines, " history").detail.startswith("less than 10 min; a baseline lies 1 h back")
    assert part(lines, " rules").detail == "none is loaded"


async def test_a_server_that_refuses_fails_and_shows_no_credential() -> None:
    async with metric_server(query=(401, "no s3cret-header-value")) as server:
        lines = await told(prometheus_url=server.url, prometheus_token="s3cret", prometheus_headers="X-Key: s3cret-header-value")
    line = lines[f"prometheus {server.url}"]
    assert (line.status, line.detail.split(":")[0]) == (Status.FAIL, "unauthorised")
    assert "s3cret" not in line.detail


def deep(params: dict[str, str]) -> tuple[int, Any]:
    return vector(({"job": "dcgm"}, 4))


async def test_a_mimir_is_asked_as_its_tenant_and_may_show_no_targets() -> None:
    build = (200, {"status": "success", "data": {"application": "Grafana Mimir", "version": "2.14.0", "goVersion": "go"}})
    async with metric_server(query=deep, **{"status/buildinfo": build, "rules": refusal(404, "not_found", "no ruler")}) as server:
        lines = await told(prometheus_url=server.url, prometheus_headers="X-Scope-OrgID: team-a|team-b; X-Other: 1")
    assert {headers.get("X-Scope-OrgID") for _, _, _, headers in server.asked} == {"team-a|team-b"}
    assert {headers.get("X-Other") for _, _, _, headers in server.asked} == {"1"}
    assert lines[f"prometheus {server.url}"].detail == "Grafana Mimir 2.14.0 answers"
    assert part(lines, " targets").status is Status.WARN
    assert part(lines, " history").detail == "at least 15 d; a baseline lies 1 h back"
    assert part(lines, " rules").status is Status.WARN


async def test_a_server_without_gpu_metrics_fails_and_one_that_can_not_say_is_unknown() -> None:
    def none(params: dict[str, str]) -> tuple[int, Any]:
        return vector() if "__name__" in params["query"] else vector(({}, 1))

    def lost(params: dict[str, str]) -> tuple[int, Any]:
        return refusal(422, "execution", "too many series") if "__name__" in params["query"] else vector(({}, 1))

    async with metric_server(query=none, **{"status/buildinfo": BUILD}) as empty, metric_server(query=lost) as full:
        lines = await told(prometheus_url=f"{empty.url},{full.url}")
    assert lines[f"prometheus {empty.url} GPU metrics"].status is Status.FAIL
    assert lines[f"prometheus {full.url} GPU metrics"].status is Status.UNKNOWN
    assert lines[f"prometheus {full.url}"].status is Status.WARN


# ------------------------------------------------------------------------------------------------ the store


@pytest.fixture(params=["durable", "evicting"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    running = Server(
        REDIS["redis"](),
        durable=request.param == "durable",
        more=["--maxmemory-policy", "noeviction" if request.param == "durable" else "allkeys-lru"],
    ).start()
    running.kind = request.param  # type: ignore[attr-defined]
    yield running
    running.close()


async def test_a_store_that_may_forget_fails_and_one_without_a_log_is_noted(server: Server) -> None:
    lines = await told(redis_url=server.url)
    assert lines["store"].detail.endswith(" answers")
    durable = server.kind == "durable"  # type: ignore[attr-defined]
    assert lines["store eviction"].status is (Status.OK if durable else Status.FAIL)
    assert lines["store persistence"].status is (Status.OK if durable else Status.WARN)


async def test_a_store_that_is_away_fails() -> None:
    assert (await told(redis_url="redis://127.0.0.1:9"))["store"].status is Status.FAIL


class Refusing:
    """A channel that takes nothing."""

    async def deliver(self, message: Outgoing, ref: Ref | None, progress: Ref | None) -> Result:
        return Refused("not_in_channel")

    async def close(self) -> None:
        return None


async def test_what_was_given_up_and_refused_is_listed_with_its_reason(kept: Store, one_redis: Server) -> None:
    assert {line.status for line in await all_told(redis_url=one_redis.url, cluster="lab") if line.what.startswith("message")} == set()
    for n in range(7):
        scope = Scope("node", "", f"n-{n}")
        await kept.audits.complete(report(f"a-{n}", check("label-mapping", [finding(node=f"n-{n}")]), scope=scope), later(n))
    await work(kept, Desk({"slack": Refusing()}), lambda: later(10))
    lines = [line for line in await all_told(redis_url=one_redis.url, cluster="lab") if line.what == "message refused"]
    assert len(lines) == 5
    assert all(line.status is Status.FAIL and "by slack: not_in_channel" in line.detail for line in lines)


async def test_an_audit_that_can_not_be_read_is_listed(kept: Store, one_redis: Server) -> None:
    await receive([signal("s")], kept, NOW, Timing(settle=timedelta(0)))
    c = kept._connection
    (pending,) = await c.do("KEYS", "*pending:DaemonSet*")
    await c.do("HSET", pending, "lead", b"{broken")
    await kept.queue.claim_due(later(900), timedelta(minutes=1))
    [line] = [line for line in await all_told(redis_url=one_redis.url, cluster="lab") if line.what == "audit given up"]
    assert "DaemonSet/gpu-operator/nvidia-dcgm-exporter" in line.detail
    assert "can't be read" in line.detail


# ------------------------------------------------------------------------------------------------ chat


@pytest.fixture
async def slack() -> AsyncIterator[tuple[FakeSlack, dict[str, str], str]]:
    fake = FakeSlack()
    async with TestServer(fake.app()) as running:
        api = str(running.make_url("/api/"))
        yield fake, {"slack_token": "xoxb-1", "slack_channel": "C1", "slack_api_url": api}, str(running.make_url("/hook"))


@pytest.mark.parametrize(
    ("scopes", "channel", "status", "said"),
    [
        (None, None, Status.OK, "telltale in acme posts to #gpu-alerts"),
        ("chat:write,channels:read", None, Status.WARN, "without channels:history a message whose answer is lost may show twice"),
        ("channels:read", None, Status.FAIL, "lacks the scope chat:write"),
        (None, "missing_scope", Status.UNKNOWN, "whether C1 takes it can't be seen"),
        (None, "channel_not_found", Status.FAIL, "C1: Slack answers channel_not_found"),
        (None, {"name": "old", "is_archived": True}, Status.FAIL, "is archived"),
        (None, {"name": "gpu", "is_member": False}, Status.FAIL, "is not in #gpu: invite it there"),
    ],
)
async def test_a_bot_says_where_it_may_post_and_posts_nothing(
    slack: Any, scopes: str | None, channel: Any, status: Status, said: str
) -> None:
    fake, environ, _ = slack
    fake.scopes = scopes if scopes is not None else fake.scopes
    fake.channel = channel if channel is not None else fake.channel
    line = (await told(**environ))["chat Slack"]
    assert line.status is status
    assert said in line.detail
    assert fake.messages == {}


async def test_a_token_that_is_refused_and_a_slack_that_is_away_fail(slack: Any) -> None:
    fake, environ, _ = slack
    fake.script = [(200, {}, '{"ok": false, "error": "invalid_auth"}')]
    line = (await told(**environ))["chat Slack"]
    assert (line.status, line.detail) == (Status.FAIL, "Slack answers invalid_auth")
    away = (await told(**environ | {"slack_api_url": "http://127.0.0.1:9/"}))["chat Slack"]
    assert away.status is Status.FAIL


async def test_webhooks_are_reached_without_a_message(slack: Any) -> None:
    fake, _, url = slack
    assert (await told(slack_webhook_url=url))["chat Slack"].status is Status.OK
    fake.script = [(404, {}, "no_service")]
    assert (await told(slack_webhook_url=url))["chat Slack"].detail == "Slack answers 404 no_service"
    assert fake.webhook == []
    posted: list[str] = []

    async def take(request: web.Request) -> web.Response:
        posted.append(request.method)
        return web.Response(status=405)

    app = web.Application()
    app.router.add_route("*", "/in", take)
    async with TestServer(app) as running:
        assert (await told(webhook_url=str(running.make_url("/in"))))["chat outgoing webhook"].status is Status.OK
    assert posted == ["OPTIONS"]
    assert (await told(webhook_url="http://127.0.0.1:9/"))["chat outgoing webhook"].status is Status.FAIL


# ------------------------------------------------------------------------------------------------ the command


@pytest.mark.parametrize(("query", "code"), [(deep, 1), ((200, "<html>"), 1)])
async def test_the_exit_status_is_that_of_an_audit(query: Any, code: int) -> None:
    async with metric_server(query=query, **{"status/buildinfo": BUILD}) as server:
        done = await called(server, "--format", "json")
    assert done.returncode == code
    document = json.loads(done.stdout)
    assert {"ok", "status", "what", "detail"} == set(document["checks"][0])
    assert {c["ok"] for c in document["checks"] if c["status"] == "fail"} == {False}


async def called(server: MetricServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "triggers.cli", "doctor", *arguments]
    environ = {"PATH": "/usr/bin", "TELLTALE_PROMETHEUS_URL": server.url}
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environ, check=False)
