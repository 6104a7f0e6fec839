"""A metrics server asked over the wire: good answers, and every way of not answering."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher, Selector
from functions.evidence.meter import metered
from functions.evidence.prometheus.source import Access, PrometheusSource
from functions.evidence.questions import Question
from tests.support.exporters import exporters
from tests.support.metric_server import MetricServer, metric_server, refusal, vector
from tests.support.prometheus import BINARIES, job, prometheus

NOW = datetime(2026, 11, 1, 10, tzinfo=UTC)
ACCESS = Access(timeout=5)
UP = Question("up", "count", ("job",), (Matcher("__name__", "=", "up"),))


@pytest.fixture
async def server() -> AsyncIterator[MetricServer]:
    async with metric_server(query=vector(({"job": "a"}, 2))) as running:
        yield running


@contextlib.asynccontextmanager
async def source(url: str, access: Access = ACCESS, at: datetime = NOW) -> AsyncIterator[PrometheusSource]:
    made = PrometheusSource(url, access, now=at.timestamp)
    try:
        yield made
    finally:
        made.close()


def known(fact: Fact[Any]) -> Known[Any]:
    assert isinstance(fact, Known), fact
    return fact


def missing(fact: Fact[Any]) -> Missing:
    assert isinstance(fact, Missing), fact
    return fact


# ------------------------------------------------------------------------------------------------------ good answers


async def test_a_question_is_posted_with_its_instant_and_limits(server: MetricServer) -> None:
    async with source(server.url + "/prefix/") as metrics:
        answer = known(await metrics.ask(UP, NOW))
    assert [(row.labels, row.value) for row in answer.value] == [({"job": "a"}, 2.0)]
    assert (answer.at, answer.source) == (NOW, UP.promql())
    ((method, path, params, headers),) = server.asked
    assert (method, path) == ("POST", "query")
    assert params == {"query": UP.promql(), "time": "1793527200.0", "timeout": "5s", "partial_response": "false"}
    assert "Authorization" not in headers


async def test_a_long_query_goes_in_the_body(server: MetricServer) -> None:
    values = "|".join(f"metric_{number}" for number in range(20_000))
    async with source(server.url) as metrics:
        known(await metrics.ask(Question("long", "count", ("job",), (Matcher("__name__", "=~", values),)), NOW))
    assert len(server.asked[0][2]["query"]) > 200_000


async def test_values_that_are_no_finite_numbers_are_read(server: MetricServer) -> None:
    server.replies["query"] = vector(({"a": "1"}, "NaN"), ({"a": "2"}, "+Inf"), ({"a": "3"}, "-Inf"), ({}, "1e+30"))
    async with source(server.url) as metrics:
        values = [row.value for row in known(await metrics.ask(UP, NOW)).value]
    assert [str(v) for v in values] == ["nan", "inf", "-inf", "1e+30"]


async def test_notes_of_the_query_language_are_kept_and_harmless(server: MetricServer) -> None:
    status, body = vector(({}, 1))
    server.replies["query"] = (status, body | {"warnings": ["PromQL warning: mixed"], "infos": ["PromQL info: a hint"]})
    async with source(server.url) as metrics:
        assert known(await metrics.ask(UP, NOW)).warnings == ("PromQL warning: mixed", "PromQL info: a hint")


async def test_what_a_gathering_costs_is_counted(server: MetricServer) -> None:
    async with source(server.url) as metrics:
        with metered() as meter:
            await asyncio.gather(*(metrics.ask(UP, NOW) for _ in range(3)))
        await metrics.ask(UP, NOW)
    assert meter.cost()["queries"] == 3
    assert meter.cost()["bytes"] > 200


async def test_a_range_query_gives_samples(server: MetricServer) -> None:
    result = [{"metric": {"a": "1"}, "values": [[1, "2"], [2, "NaN"]]}]
    server.replies["query_range"] = (200, {"status": "success", "data": {"resultType": "matrix", "result": result}})
    async with source(server.url) as metrics:
        (series,) = known(await metrics.query_range("x", NOW - timedelta(minutes=1), NOW, 15)).value
    assert series.samples[0] == (1.0, 2.0)
    assert server.asked[0][2]["step"] == "15"


# ----------------------------------------------------------------------------------------------------- credentials


async def test_a_user_in_the_url_becomes_basic_auth_and_shows_nowhere(server: MetricServer) -> None:
    url = server.url.replace("//", "//scraper:p%40ss@")
    server.replies["query"] = refusal(401, "", "no entry for scraper:p@ss")
    async with source(url) as metrics:
        answer = missing(await metrics.ask(UP, NOW))
        assert metrics.name == server.url
    assert server.asked[0][3]["Authorization"] == "Basic c2NyYXBlcjpwQHNz"
    assert answer.why is Why.UNAUTHORISED
    assert "p@ss" not in answer.detail
    assert "p%40ss" not in answer.detail


async def test_a_token_is_sent_and_never_shown(server: MetricServer) -> None:
    server.replies["query"] = (403, "token s3cret is not allowed")
    async with source(server.url, Access(token="s3cret", timeout=5)) as metrics:
        answer = missing(await metrics.ask(UP, NOW))
    assert server.asked[0][3]["Authorization"] == "Bearer s3cret"
    assert (answer.why, "s3cret" in answer.detail) == (Why.UNAUTHORISED, False)


async def test_further_headers_are_sent_with_every_request_and_a_long_one_is_never_shown(server: MetricServer) -> None:
    server.replies["query"] = (403, "team-a and k3y-of-the-gateway are not allowed")
    headers = {"X-Scope-OrgID": "team-a", "X-Key": "k3y-of-the-gateway"}
    async with source(server.url, Access(headers=headers, timeout=5)) as metrics:
        answer = missing(await metrics.ask(UP, NOW))
        await metrics.rules()
    assert [{name: sent[name] for name in headers} for _, _, _, sent in server.asked] == [headers, headers]
    assert "team-a and *** are not allowed" in answer.detail


async def test_credentials_of_a_netrc_file_are_not_sent(server: MetricServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    async with source(server.url) as metrics:
        await metrics.ask(UP, NOW)
    assert "Authorization" not in server.asked[0][3]


@pytest.mark.parametrize("url", ["prometheus:9090", "ftp://x", "http://", "http://user:s3cret@", "http://host:port"])
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL") as caught:
        PrometheusSource(url)
    assert "s3cret" not in str(caught.value)


async def test_tls_is_verified_against_the_given_authority(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    await asyncio.to_thread(subprocess.run, [*command, *subject, "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(vector(({}, 1))[1])

    app = web.Application()
    app.router.add_post("/api/v1/query", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    try:
        async with source(f"https://127.0.0.1:{port}") as metrics:
            refused = missing(await metrics.ask(UP, NOW))
        async with source(f"https://127.0.0.1:{port}", Access(ca=cert, timeout=5)) as metrics:
            known(await metrics.ask(UP, NOW))
    finally:
        await runner.cleanup()
    assert refused.why is Why.UNREACHABLE
    assert "certificate" in refused.detail


# -------------------------------------------------------------------------------------------------- no good answer


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (refusal(401, "", "no"), Why.UNAUTHORISED),
        (refusal(403, "", "no"), Why.UNAUTHORISED),
        ((404, "404 page not found"), Why.UNSUPPORTED),
        ((501, "not implemented"), Why.UNSUPPORTED),
        (refusal(503, "timeout", "query timed out in expression evaluation"), Why.TIMED_OUT),
        (refusal(422, "execution", "query timed out in expression evaluation"), Why.TIMED_OUT),
        ((504, "<html>gateway time-out</html>"), Why.TIMED_OUT),
        (refusal(422, "execution", "query processing would load too many samples into memory"), Why.TRUNCATED),
        (refusal(422, "execution", "the query hit the max number of series limit (err-mimir-max-series-per-query)"), Why.TRUNCATED),
        (refusal(422, "422", "cannot select more than -search.maxUniqueTimeseries=300000"), Why.TRUNCATED),
        ((413, "body too large"), Why.TRUNCATED),
        (refusal(400, "bad_data", "invalid parameter query: parse error"), Why.UNSUPPORTED),
        ((500, "oops"), Why.UNREACHABLE),
        ((502, "<html>bad gateway</html>"), Why.UNREACHABLE),
        ((503, "no endpoints"), Why.UNREACHABLE),
        (refusal(429, "", "slow down"), Why.UNREACHABLE),
        ((200, "<html>Please log in</html>"), Why.MALFORMED),
        ((200, ""), Why.MALFORMED),
        ((200, [1]), Why.MALFORMED),
        ((200, {"status": "success"}), Why.MALFORMED),
        ((200, {"status": "success", "data": None}), Why.MALFORMED),
        ((200, {"status": "error", "error": "half an answer"}), Why.MALFORMED),
        ((200, {"status": "success", "data": {"resultType": "scalar", "result": [0, "1"]}}), Why.MALFORMED),
        ((200, {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "x"]}]}}), Why.MALFORMED),
        ((200, {**vector(({}, 1))[1], "isPartial": True}), Why.TRUNCATED),
        ((200, {**vector(({}, 1))[1], "warnings": ["No StoreAPIs matched for this query"]}), Why.TRUNCATED),
        ((200, {**vector(({}, 1))[1], "warnings": ["results truncated due to limit"]}), Why.TRUNCATED),
    ],
)
async def test_each_refusal_has_its_reason(server: MetricServer, reply: tuple[int, Any], why: Why) -> None:
    server.replies["query"] = reply
    async with source(server.url) as metrics:
        answer = missing(await metrics.ask(UP, NOW))
    assert answer.why is why, answer
    assert server.url in answer.detail
    assert "<html>" not in answer.detail


async def test_a_redirect_to_a_login_page_is_no_answer(server: MetricServer) -> None:
    server.replies["query"] = (302, "")
    server.headers["Location"] = "https://sso.example/oauth2/start?rd=s3cret"
    async with source(server.url) as metrics:
        answer = missing(await metrics.ask(UP, NOW))
    assert answer.why is Why.UNAUTHORISED
    assert "sso.example" in answer.detail
    assert "s3cret" not in answer.detail


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with source("http://127.0.0.1:9") as metrics:
        answer = missing(await metrics.ask(UP, NOW))
    assert answer.why is Why.UNREACHABLE
    assert "refused" in answer.detail.lower()
    assert "0x" not in answer.detail


async def test_a_server_that_does_not_answer_is_given_up(server: MetricServer) -> None:
    server.delay = 10
    started = time.monotonic()
    async with source(server.url, Access(timeout=-4.7)) as metrics:  # 0.3 s with the grace that the server gets
        answer = missing(await metrics.ask(UP, NOW))
    assert answer.why is Why.TIMED_OUT
    assert time.monotonic() - started < 3
    assert len(server.asked) == 1  # a query that ran is not run again


async def test_a_server_that_is_starting_is_asked_again(server: MetricServer) -> None:
    replies = iter([(503, "Service Unavailable"), vector(({}, 1))])
    server.replies["query"] = lambda _params: next(replies)
    async with source(server.url) as metrics:
        known(await metrics.ask(UP, NOW))


async def test_an_answer_that_is_longer_than_may_be_is_not_read_to_its_end(server: MetricServer) -> None:
    server.replies["query"] = vector(*(({"n": str(number)}, 1) for number in range(50_000)))
    async with source(server.url, Access(timeout=5, longest=1 << 20)) as metrics:
        answer = missing(await metrics.ask(UP, NOW))
        server.replies["query"] = vector(({}, 1))
        assert known(await metrics.ask(UP, NOW)).value
    assert (answer.why, "longer than 1 MiB" in answer.detail) == (Why.TRUNCATED, True)


async def test_a_request_is_sent_again_only_while_some_are_to_spare(server: MetricServer) -> None:
    server.replies["query"] = (503, "Service Unavailable")
    async with source(server.url) as metrics:
        with metered(spare=1) as meter:
            assert [missing(await metrics.ask(UP, NOW)).why for _ in range(2)] == [Why.UNREACHABLE] * 2
    assert meter.queries == len(server.asked) == 3


# ------------------------------------------------------------------------------------------------------- selectors


def counting(params: dict[str, str]) -> tuple[int, Any]:
    """Refuses any query that holds the metric `bad`, counts 3 for every other selector."""
    if '__name__="bad"' in params["query"]:
        return refusal(400, "bad_data", "parse error near bad")
    numbers = re.findall(r'"telltale_part","(\d+)"', params["query"])
    return vector(*(({"job": "a", "telltale_part": n}, 3) for n in numbers))


async def test_selectors_are_counted_in_one_query(server: MetricServer) -> None:
    server.replies["query"] = counting
    selectors = [Selector(f"m{number}", (Matcher("gpu", "=", "0"),)) for number in range(900)]
    async with source(server.url) as metrics:
        counts = known(await metrics.count_selectors([*selectors, *selectors], NOW)).value
    assert [c.selector for c in counts] == selectors
    assert {tuple(c.by_job.items()) for c in counts} == {(("a", 3),)}
    assert len(server.asked) == 1


async def test_a_refused_selector_costs_only_itself(server: MetricServer) -> None:
    server.replies["query"] = counting
    selectors = [Selector(f"m{number}") for number in range(100)]
    async with source(server.url) as metrics:
        answer = known(await metrics.count_selectors([*selectors[:70], Selector("bad"), *selectors[70:]], NOW))
    assert [c.selector for c in answer.value] == selectors
    assert len(answer.warnings) == 1
    assert answer.warnings[0].startswith("not counted: bad (HTTP 400")
    assert len(server.asked) < 20


async def test_the_search_for_refused_selectors_ends(server: MetricServer) -> None:
    server.replies["query"] = refusal(422, "execution", "query processing would load too many samples")
    async with source(server.url) as metrics:
        answer = missing(await metrics.count_selectors([Selector(f"m{number}") for number in range(500)], NOW))
    assert answer.why is Why.TRUNCATED
    assert len(server.asked) <= 60


async def test_a_selector_that_no_server_counts_is_not_asked_for(server: MetricServer) -> None:
    server.replies["query"] = counting
    odd = [Selector(None, (Matcher("a", "=~", ".*"),)), Selector("m", (Matcher("a", "=~", "("),))]
    async with source(server.url) as metrics:
        answer = known(await metrics.count_selectors([Selector("up"), *odd], NOW))
    assert [c.selector for c in answer.value] == [Selector("up")]
    assert [w.partition(" (")[2].rstrip(")") for w in answer.warnings] == [
        "it selects every series there is",
        "a pattern in it can't be read",
    ]
    assert len(server.asked) == 1


@pytest.mark.real
@pytest.mark.parametrize("binary", sorted(BINARIES))
async def test_the_selector_that_a_parser_points_at_costs_one_query(binary: str) -> None:
    """RE2 knows no look-ahead; Python does."""
    selectors = [Selector(f"m{number}", (Matcher("team", "=", "größer"),)) for number in range(300)]
    async with prometheus(binary=BINARIES[binary]) as server, source(server.url, at=datetime.now(UTC)) as metrics:
        with metered() as meter:
            bad = Selector("bad", (Matcher("a", "=~", "(?=x)"),))
            answer = known(await metrics.count_selectors([*selectors[:200], bad, *selectors[200:]], datetime.now(UTC)))
    assert [c.selector for c in answer.value] == selectors
    assert len(answer.warnings) == 1
    assert meter.queries == 2


async def test_no_selectors_no_query(server: MetricServer) -> None:
    async with source(server.url) as metrics:
        assert known(await metrics.count_selectors([], NOW)).value == ()
    assert not server.asked


async def test_an_unreachable_server_counts_nothing() -> None:
    async with source("http://127.0.0.1:9") as metrics:
        assert missing(await metrics.count_selectors([Selector("up")], NOW)).why is Why.UNREACHABLE


# ------------------------------------------------------------------------------------- targets, metadata, dialects


TARGETS = {
    "status": "success",
    "data": {
        "activeTargets": [
            {
                "labels": {"job": "dcgm", "instance": "10.0.0.1:9400", "namespace": "gpu"},
                "scrapePool": "serviceMonitor/gpu/dcgm/0",
                "scrapeUrl": "http://10.0.0.1:9400/metrics",
                "lastError": 'expected value, got "ERROR"',
                "lastScrape": "2026-11-01T09:59:50.5Z",
                "lastScrapeDuration": 0.02,
                "health": "down",
                "scrapeInterval": "15s",
                "scrapeTimeout": "10s",
            }
        ],
        "droppedTargets": [],
    },
}
CONFIG = """\
global: {scrape_interval: 30s}
scrape_configs:
- {job_name: serviceMonitor/gpu/dcgm/0, honor_labels: true, scrape_interval: 15s, scrape_timeout: 10s}
"""


async def test_targets_are_listed_with_their_scrape_settings(server: MetricServer) -> None:
    server.replies |= {"targets": (200, TARGETS), "status/config": (200, {"status": "success", "data": {"yaml": CONFIG}})}
    async with source(server.url) as metrics:
        (target,) = known(await metrics.targets(NOW)).value
        await metrics.targets(NOW)
    assert (target.job, target.up, target.honor_labels, target.interval, target.timeout) == ("dcgm", False, True, 15.0, 10.0)
    assert target.error.startswith("expected value")
    assert [path for _, path, _, _ in server.asked].count("status/config") == 1


async def test_targets_without_a_readable_configuration_leave_honor_labels_open(server: MetricServer) -> None:
    server.replies |= {"targets": (200, TARGETS), "status/config": (403, "")}
    async with source(server.url) as metrics:
        (target,) = known(await metrics.targets(NOW)).value
    assert target.honor_labels is None


async def test_a_server_knows_targets_and_metadata_only_of_now(server: MetricServer) -> None:
    async with source(server.url) as metrics:
        assert missing(await metrics.targets(NOW - timedelta(hours=1))).why is Why.UNSUPPORTED
        assert missing(await metrics.metadata(NOW - timedelta(hours=1))).why is Why.UNSUPPORTED
        assert missing(await metrics.bodies(NOW)).why is Why.UNSUPPORTED
    assert not server.asked


async def test_a_querier_has_no_targets_of_its_own(server: MetricServer) -> None:
    async with source(server.url) as metrics:
        assert missing(await metrics.targets(NOW)).why is Why.UNSUPPORTED


async def test_metadata_that_disagrees_leaves_the_type_open(server: MetricServer) -> None:
    gauge, counter = {"type": "gauge", "help": "A.", "unit": ""}, {"type": "counter", "help": "B.", "unit": ""}
    data = {"one": [gauge], "two": [gauge, counter], "three": [{"type": "unknown", "help": "", "unit": ""}]}
    server.replies["metadata"] = (200, {"status": "success", "data": data})
    async with source(server.url) as metrics:
        found = known(await metrics.metadata(NOW)).value
    assert {key: (m.type, m.help) for key, m in found.items()} == {
        ("", "one"): ("gauge", "A."),
        ("", "two"): ("", "A."),
        ("", "three"): ("", ""),
    }


async def test_label_names_are_asked_of_their_own_endpoint(server: MetricServer) -> None:
    server.replies["labels"] = (200, {"status": "success", "data": ["__name__", "gpu"]})
    async with source(server.url) as metrics:
        rows = known(await metrics.ask(Question("l", "labels", (), (Matcher("job", "=", "a"),)), NOW)).value
    assert [row.labels["label"] for row in rows] == ["__name__", "gpu"]
    assert server.asked[0][2]["match[]"] == '{job="a"}'


# --------------------------------------------------------------------------------------------------- the real thing


@pytest.mark.real
@pytest.mark.parametrize("binary", sorted(BINARIES))
async def test_a_real_server_answers(binary: str) -> None:
    rules = "groups:\n- name: gpu\n  rules:\n  - {alert: Hot, expr: 'gpu_temp > 90', for: 1m, labels: {severity: page}}\n"
    async with exporters(
        {"n1": '# HELP gpu_temp Heat.\n# TYPE gpu_temp gauge\ngpu_temp{gpu="0"} 40\n', "n2": "gpu_temp nonsense\n"}
    ) as fleet:
        scrape = [job("dcgm", fleet, "n1", ("n2", {"pod": "x"}), honor_labels=True)]
        async with prometheus(scrape, rules=rules, binary=BINARIES[binary], interval=0.5) as server:
            await server.scraped(1)
            now = datetime.now(UTC)
            async with source(server.url, at=now) as metrics:
                targets = {t.instance: t for t in known(await metrics.targets(now)).value}
                described = known(await metrics.metadata(now)).value
                loaded = known(await metrics.rules()).value
                version = known(await metrics.version()).value
                selectors = [
                    Selector("gpu_temp"),
                    Selector(None, (Matcher("nothing", "=", "at-all"),)),
                    Selector(None, (Matcher("a", "=~", ".*"),)),
                ]
                counts = known(await metrics.count_selectors(selectors, now))
                refused = missing(await metrics.query("rate(up)", now))
    assert (targets["n1"].up, targets["n2"].up, targets["n1"].honor_labels, targets["n1"].interval) == (True, False, True, 0.5)
    assert targets["n2"].error
    assert (described["", "gpu_temp"].type, described["", "gpu_temp"].help) == ("gauge", "Heat.")
    assert [(rule.name, rule.duration, rule.loaded) for rule in loaded] == [("Hot", 60.0, True)]
    assert version[0] in "23"
    assert [(str(c.selector), dict(c.by_job)) for c in counts.value] == [("gpu_temp", {"dcgm": 1}), ('{nothing="at-all"}', {})]
    assert len(counts.warnings) == 1  # a selector that matches the empty label set is refused by the server
    assert refused.why is Why.UNSUPPORTED
