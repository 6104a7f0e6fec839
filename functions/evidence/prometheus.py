"""A live Prometheus, or what speaks its API: Thanos, Mimir, VictoriaMetrics.

The only module that imports `prometheus_api_client`. The library is synchronous, so each request runs in a thread,
a few at a time. Every outside fault ends as `Missing` with its reason; an answer that the server itself calls partial
is missing too, since absence can't be concluded from it. Several servers are united by `ManyMetrics` (`many.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import requests
from prometheus_api_client import PrometheusApiClientException, PrometheusConnect

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Matcher, Rule, Selector, SelectorCount
from functions.contract.telemetry import Body, Row, Target
from functions.evidence import bundle_targets, meter
from functions.evidence import prometheus_answers as answers
from functions.evidence import prometheus_http as wire
from functions.evidence import rules as rule_reader
from functions.evidence.objects import items
from functions.evidence.prometheus_http import PrometheusError
from functions.evidence.questions import PART, Question, quoted
from functions.evidence.questions import selector as rendered
from functions.evidence.request import carried
from functions.evidence.sources import Metadata

T = TypeVar("T")
Send = Callable[[PrometheusConnect], object]

#: Targets, metadata and rules are known as they are now; an instant within this many seconds counts as now.
NOW_SECONDS = 300
#: How long the scrape configuration is taken as unchanged.
CONFIG_SECONDS = 600
#: Selectors counted in one query, at least; more of them make the queries longer, not more than two.
SELECTOR_BATCH = 250
#: Further queries that may be spent on finding the selectors that a server refuses.
BISECTIONS = 24
_SECONDS_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class Access:
    """How a server is asked."""

    token: str = ""
    ca: Path | None = None
    #: seconds that one query may take
    timeout: float = 30.0
    #: queries at a time
    concurrency: int = 4
    #: sent with every request, a tenant (X-Scope-OrgID) for instance
    headers: Mapping[str, str] = field(default_factory=dict)


class PrometheusSource:
    """A `MetricSource` over one server. Raises ValueError for a URL that is none; never for an outside fault."""

    def __init__(self, url: str, access: Access = Access(), *, now: Callable[[], float] = time.time) -> None:
        self._address = wire.Address.of(url, access.token, tuple(access.headers.values()))
        self._access = access
        self._now = now
        self._session = wire.WireSession(self._address, ca=access.ca, pool=access.concurrency)
        self._client = PrometheusConnect(
            url=self._address.url,
            session=self._session,
            auth=self._address.auth,
            timeout=wire.timeouts(access.timeout),
            method="POST",
        )
        self._session.headers.update(access.headers)
        self._session.settle()
        self._slots = asyncio.Semaphore(access.concurrency)
        self._config: tuple[float, Mapping[str, answers.Scrape]] | None = None

    @property
    def name(self) -> str:
        """The server's address, without credentials."""
        return self._address.url

    def close(self) -> None:
        """Close idle connections."""
        self._session.close()

    # ---------------------------------------------------------------------------------------------- queries

    async def ask(self, question: Question, at: datetime) -> Fact[tuple[Row, ...]]:
        """The answer to a question at an instant."""
        if question.op == "labels":
            return await self._label_names(question, at)
        return await self.query(question.promql(), at, question.shown)

    async def query(self, expr: str, at: datetime, shown: str = "") -> Fact[tuple[Row, ...]]:
        """An instant query. A native histogram among the answers has no single value and is left out."""
        params = {"time": repr(at.timestamp()), **self._limits()}
        return await self._fact(shown or expr, at, lambda client: client.custom_query(expr, params=params), answers.rows)

    async def query_range(self, expr: str, start: datetime, end: datetime, step: float) -> Fact[tuple[answers.RangeSeries, ...]]:
        """A range query."""

        def send(client: PrometheusConnect) -> object:
            return client.custom_query_range(expr, start_time=start, end_time=end, step=f"{step:g}", params=self._limits())

        return await self._fact(expr, end, send, answers.matrix)

    async def _label_names(self, question: Question, at: datetime) -> Fact[tuple[Row, ...]]:
        asked = f"/api/v1/labels match {question.selector}"
        params = {
            "match[]": question.selector,
            "start": repr(at.timestamp() - NOW_SECONDS),
            "end": repr(at.timestamp()),
            "partial_response": "false",
        }
        return await self._fact(asked, at, lambda client: client.get_label_names(params=params), answers.label_rows)

    def _limits(self) -> dict[str, str]:
        # partial_response is Thanos'; others pass it over
        return {"timeout": f"{self._access.timeout:g}s", "partial_response": "false"}

    async def count_selectors(self, selectors: Sequence[Selector], at: datetime) -> Fact[tuple[SelectorCount, ...]]:
        """How many series each selector selects, by job.

        A selector that the server refuses is left out of the answer, with a warning; whoever needs it has no count.
        """
        wanted = tuple(dict.fromkeys(selectors))
        size = max(SELECTOR_BATCH, -(-len(wanted) // 2))
        tally = _Tally()
        try:
            for start in range(0, len(wanted), size):
                await self._count(wanted[start : start + size], at, tally)
        except PrometheusError as error:
            return wire.missing(error, self._address, "counts of selectors")
        if wanted and not tally.counts:
            return Missing(Why.UNSUPPORTED, self._address.redact(f"{self.name}: {tally.warnings[0]}"), "counts of selectors")
        source = f"{self.name}: count by (job) (selector)"
        return Known(tuple(tally.counts[s] for s in wanted if s in tally.counts), at, source, tuple(tally.warnings))

    async def _count(self, batch: Sequence[Selector], at: datetime, tally: _Tally) -> None:
        """Count a batch, halving it where the server refuses it. Raises PrometheusError where that can't help."""
        params = {"time": repr(at.timestamp()), **self._limits()}
        expr = " or ".join(_counting(selector, number) for number, selector in enumerate(batch))
        try:
            body = await self._request(lambda client: client.custom_query(expr, params=params))
        except PrometheusError as error:
            if not error.query:
                raise
            tally.bisections += 1
            if len(batch) == 1 or tally.bisections > BISECTIONS or (error.why is Why.TIMED_OUT and len(batch) < SELECTOR_BATCH // 4):
                tally.warnings += [f"not counted: {selector} ({error.detail})" for selector in batch]
                return
            half = len(batch) // 2
            await self._count(batch[:half], at, tally)
            await self._count(batch[half:], at, tally)
            return
        jobs: dict[int, dict[str, int]] = {}
        for row in answers.rows(body):
            jobs.setdefault(int(row.labels[PART]), {})[row.labels.get("job", "")] = int(row.value)
        tally.counts |= {selector: SelectorCount(selector, jobs.get(number, {})) for number, selector in enumerate(batch)}

    # ------------------------------------------------------------------------------------- what it knows of now

    async def targets(self, at: datetime) -> Fact[tuple[Target, ...]]:
        """The scrape targets, as they are now."""
        asked = "/api/v1/targets"
        if self._past(at):
            return Missing(Why.UNSUPPORTED, f"{self.name} lists its targets only as they are now", asked)
        listed = await self._fact(asked, at, lambda client: client.get_targets(state="active"), lambda body: body)
        if isinstance(listed, Missing):
            return listed
        targets = bundle_targets.from_api(listed.value)
        if targets is None:
            return Missing(Why.MALFORMED, f"{self.name}: the list of targets has no activeTargets", asked)
        scrapes = await self._scrapes()
        pools = [str(raw.get("scrapePool") or "") for raw in items(listed.value, "data", "activeTargets")]
        named = tuple(answers.with_scrape(t, scrapes.get(pool) or scrapes.get(t.job)) for t, pool in zip(targets, pools, strict=True))
        return carried(listed, named)

    async def _scrapes(self) -> Mapping[str, answers.Scrape]:
        """Scrape settings by pool, where the server shows its configuration; many don't, and nothing rests on it alone."""
        if self._config is None or self._now() - self._config[0] > CONFIG_SECONDS:
            try:
                body = await self._request(lambda client: self._get(client, "/api/v1/status/config"))
                found = await asyncio.to_thread(answers.scrape_settings, body)
            except PrometheusError:
                found = {}
            self._config = (self._now(), found)
        return self._config[1]

    async def metadata(self, at: datetime) -> Fact[Mapping[tuple[str, str], Metadata]]:
        """TYPE, HELP and UNIT by family, as they are now. The server doesn't tell jobs apart here."""
        asked = "/api/v1/metadata"
        if self._past(at):
            return Missing(Why.UNSUPPORTED, f"{self.name} knows TYPE and HELP only as they are now", asked)
        return await self._fact(asked, at, lambda client: client.get_metric_metadata(""), answers.metadata)

    async def rules(self) -> Fact[tuple[Rule, ...]]:
        """The rules that the server has loaded."""
        at = datetime.fromtimestamp(self._now(), UTC)
        return await self._fact("/api/v1/rules", at, lambda client: self._get(client, "/api/v1/rules"), rule_reader.from_api)

    async def bodies(self, at: datetime) -> Fact[tuple[Body, ...]]:
        """A server keeps no raw bodies."""
        return Missing(Why.UNSUPPORTED, "a metrics server keeps no raw expositions", self.name)

    async def version(self) -> Fact[str]:
        """What the server says it is."""
        at = datetime.fromtimestamp(self._now(), UTC)
        return await self._fact(
            "/api/v1/status/buildinfo", at, lambda client: self._get(client, "/api/v1/status/buildinfo"), answers.version
        )

    async def build(self) -> Fact[str]:
        """Which server it is, with its version."""
        at = datetime.fromtimestamp(self._now(), UTC)
        asked = "/api/v1/status/buildinfo"
        return await self._fact(asked, at, lambda client: self._get(client, asked), answers.build)

    def _past(self, at: datetime) -> bool:
        return abs(self._now() - at.timestamp()) > NOW_SECONDS

    # ----------------------------------------------------------------------------------------------- the wire

    def _get(self, client: PrometheusConnect, path: str) -> object:
        """An endpoint that the library has no method for."""
        return self._session.request(
            "GET", client.url + path, params={"partial_response": "false"}, auth=client.auth, timeout=wire.timeouts(self._access.timeout)
        )

    async def _fact(self, asked: str, at: datetime, send: Send, read: Callable[[Mapping[str, Any]], T]) -> Fact[T]:
        try:
            body = await self._request(send)
            value = read(body)
        except PrometheusError as error:
            return wire.missing(error, self._address, asked)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            odd = PrometheusError(Why.MALFORMED, f"the answer has another shape than the API's ({type(error).__name__}: {error})")
            return wire.missing(odd, self._address, asked)
        return Known(value, at, self._address.redact(asked), tuple(map(self._address.redact, wire.warnings(body))))

    async def _request(self, send: Send) -> Mapping[str, Any]:
        """The decoded envelope. Raises PrometheusError."""
        try:
            return await self._once(send)
        except PrometheusError as error:
            if not error.again:
                raise
        await asyncio.sleep(_SECONDS_AGAIN)
        return await self._once(send)

    async def _once(self, send: Send) -> Mapping[str, Any]:
        async with self._slots:
            started = time.monotonic()
            body, size, error = await asyncio.to_thread(self._send, send)
            meter.count(size, time.monotonic() - started)
        if error:
            raise error
        return body

    def _send(self, send: Send) -> tuple[Mapping[str, Any], int, PrometheusError | None]:
        """One request, in a thread of its own. The client's own reading of the answer is passed over for the whole of it."""
        try:
            send(self._client)
        except requests.RequestException as error:
            if self._session.answer is None:
                return {}, 0, wire.unreached(error)
        except (PrometheusApiClientException, KeyError, TypeError, AttributeError):
            pass  # it wants another shape than was answered; `checked` says what is wrong
        answer = self._session.answer
        if answer is None:
            return {}, 0, PrometheusError(Why.UNREACHABLE, "no answer")
        try:
            body = wire.checked(answer)
            if why := wire.partial(body):
                raise PrometheusError(Why.TRUNCATED, f"a partial answer: {why}")
        except PrometheusError as error:
            return {}, len(answer.content), error
        return body, len(answer.content), None


class _Tally:
    """What the counting of selectors has come to."""

    def __init__(self) -> None:
        self.counts: dict[Selector, SelectorCount] = {}
        self.warnings: list[str] = []
        self.bisections = 0


def _counting(selector: Selector, number: int) -> str:
    name = [Matcher("__name__", "=", selector.name)] if selector.name else []
    return f'label_replace(count by (job) ({rendered([*name, *selector.matchers])}),"{PART}",{quoted(str(number))},"","")'
