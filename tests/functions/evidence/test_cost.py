"""What an audit costs a metrics server, seen at the wire: how many requests, how many at once, about what, and what fails with one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from aiohttp import web

from benchmarks.scale.cluster import Cluster, cluster
from benchmarks.scale.fleet import Fleet
from functions import wiring
from functions.audit import judge
from functions.checks.base import union_of_needs
from functions.contract.facts import Facts, Known, Missing, Why, Windows
from functions.contract.findings import Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import CLUSTER, AuditRequest, Scope, Trigger, TriggerKind
from functions.evidence.meter import REQUESTS, SPARE
from functions.evidence.prometheus.source import Access
from functions.settings import Settings
from tests.support.prometheus import prometheus
from tests.support.recorder import Recorder, Sent

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]
NODE = Scope("node", "", "gpu-0001")
TOO_MANY = {"status": "error", "errorType": "execution", "error": "query processing would load too many samples into memory"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Cluster]:
    async with cluster(Fleet(24), 0.5) as made:
        yield made


async def audited(running: Cluster, metrics_url: str, scope: Scope = CLUSTER, windows: Windows | None = None) -> tuple[Facts, AuditReport]:
    """Gather and judge as an audit does, through what stands at `metrics_url`."""
    windows = windows or Windows(running.baseline, running.current)
    settings = Settings(prometheus_url=metrics_url, kubeconfig=running.kubeconfig())
    standards = wiring.standards(settings)
    request = AuditRequest("a", scope, Trigger(TriggerKind.MANUAL), windows.baseline)
    async with wiring.live_sources(settings) as (metrics, objects):
        gather = wiring.live_gather(settings, metrics, objects, standards)
        facts = await gather(request, windows, union_of_needs(standards.checks))
    return facts, judge(request, facts, standards)


def refusing(part: Callable[[str], bool], status: int = 422) -> Callable[[Sent], web.Response | None]:
    """Refuse the queries that the test chooses, as a server does whose limit they exceed."""
    return lambda sent: web.json_response(TOO_MANY, status=status) if part(sent.param("query")) else None


@dataclass(frozen=True)
class Audit:
    """One audit, and what it sent."""

    facts: Facts
    report: AuditReport
    sent: Recorder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(running: Cluster) -> Audit:
    """An audit of the whole cluster."""
    async with Recorder(running.server.url) as recorder:
        return Audit(*await audited(running, recorder.url), recorder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def of_node(running: Cluster) -> Audit:
    """An audit of one node."""
    async with Recorder(running.server.url) as recorder:
        return Audit(*await audited(running, recorder.url, NODE), recorder)


async def test_an_audit_sends_few_requests_and_its_report_counts_them(whole: Audit, of_node: Audit) -> None:
    for audit in (whole, of_node):
        assert len(audit.sent.requests) <= REQUESTS - SPARE
        assert audit.report.as_dict()["audit"]["cost"]["queries"] == len(audit.sent.requests)


async def test_the_number_of_requests_does_not_grow_with_the_fleet(running: Cluster, whole: Audit) -> None:
    async with cluster(Fleet(96), 0.5) as larger, Recorder(larger.server.url) as many:
        await audited(larger, many.url)
    assert larger.fleet.rules > running.fleet.rules
    assert len(whole.sent.requests) == len(many.requests)


async def test_only_so_many_requests_are_in_flight(whole: Audit) -> None:
    assert 1 < whole.sent.most_at_once <= Access().concurrency


async def test_every_query_says_how_long_it_may_take(whole: Audit) -> None:
    assert {sent.param("timeout") for sent in whole.sent.requests if sent.path.endswith("/query")} == {"30s"}


async def test_an_audit_of_a_node_asks_about_the_targets_of_that_node(running: Cluster, of_node: Audit) -> None:
    """What finds the targets, and what counts the series of rules and tells the server's health, is of the whole by its nature."""
    own = {labels["instance"] for targets in running.fleet.targets().values() for _, labels in targets if labels.get("node") == NODE.name}
    asked = [q for sent in of_node.sent.requests if (q := sent.param("query") or sent.param("match[]"))]
    narrow = [q for q in asked if any(instance.replace(".", "\\\\.") in q or f'instance="{instance}"' in q for instance in own)]
    assert len(narrow) >= 12
    for query in set(asked) - set(narrow):
        assert any(part in query for part in ("scrape_samples_scraped", "count by (job) ("))
    assert isinstance(of_node.facts.devices, Known)
    assert {d.node for d in of_node.facts.devices.value} == {NODE.name}


async def test_a_query_that_is_too_much_is_asked_in_halves(running: Cluster) -> None:
    async with Recorder(running.server.url) as recorder:
        recorder.instead = refusing(lambda query: all(f'"telltale_part","{part}"' in query for part in ("series", "sum")))
        facts, _ = await audited(running, recorder.url)
    schemas = (facts.schema, facts.schema_before)
    assert sum(isinstance(fact, Known) for fact in schemas) == 1  # what is left to spend is spent once
    lost = next(fact for fact in schemas if isinstance(fact, Missing))
    assert lost.why is Why.TRUNCATED
    assert len(recorder.requests) <= REQUESTS


async def test_a_query_that_fails_leaves_the_other_facts_to_be_judged(running: Cluster) -> None:
    async with Recorder(running.server.url) as recorder:
        recorder.instead = refusing(lambda query: query.startswith("topk"))
        facts, report = await audited(running, recorder.url)
    assert isinstance(facts.schema, Missing)
    assert facts.schema.why is Why.TRUNCATED
    assert isinstance(facts.devices, Known)
    verdicts = {check.id: check.verdict for check in report.checks}
    assert verdicts["metric-rename"] is Verdict.UNKNOWN
    assert verdicts["label-mapping"] is not Verdict.UNKNOWN
    assert next(c for c in report.checks if c.id == "label-mapping").judged
    assert len(recorder.requests) <= REQUESTS


async def test_a_server_that_fails_for_a_moment_is_asked_again(running: Cluster, whole: Audit) -> None:
    failed: list[Sent] = []

    def once(sent: Sent) -> web.Response | None:
        if not sent.param("query").startswith("topk") or failed:
            return None
        failed.append(sent)
        return web.Response(status=503, text="Service Unavailable")

    async with Recorder(running.server.url) as recorder:
        recorder.instead = once
        facts, report = await audited(running, recorder.url)
    assert failed
    assert facts.schema == whole.facts.schema
    assert {f.fingerprint("c") for f in report.findings} == {f.fingerprint("c") for f in whole.report.findings}
    assert len(recorder.requests) == len(whole.sent.requests) + 1


async def test_a_server_with_a_small_budget_of_samples_makes_facts_missing_and_never_smaller(running: Cluster) -> None:
    scrape = running.server.config["scrape_configs"]
    async with prometheus(scrape, flags=["--query.max-samples=200"], interval=0.5) as poor:
        await poor.scraped(2)
        facts, report = await audited(running, poor.url, windows=Windows(None, datetime.now(UTC)))
    assert isinstance(facts.schema, Missing)
    assert (facts.schema.why, "too many samples" in facts.schema.detail) == (Why.TRUNCATED, True)
    for fact, whole in ((facts.devices, running.fleet.gpus), (facts.targets, 7)):
        assert isinstance(fact, Missing) or len(fact.value) == whole
    assert {check.id: check.verdict for check in report.checks}["metric-rename"] is Verdict.UNKNOWN
    assert Verdict.PASS not in {check.verdict for check in report.checks}
