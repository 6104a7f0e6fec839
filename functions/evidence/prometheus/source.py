"""A live Prometheus, or what speaks its API: Thanos, Mimir, VictoriaMetrics.

The only module that imports `prometheus_api_client`. The library is synchronous, so each request runs in a thread,
a few at a time. Every outside fault ends as `Missing` with its reason; an answer that the server itself calls partial
is missing too, since absence can't be concluded from it. Several servers are united by `ManyMetrics` (`many.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import requests
from prometheus_api_client import PrometheusApiClientException, PrometheusConnect

from functions.contract.facts import Fact, Known, Missing, Why
from functions.contract.rules import Rule, Selector, SelectorCount
from functions.contract.telemetry import Body, Row, Target
from functions.evidence import meter
from functions.evidence import rules as rule_reader
from functions.evidence.bundle import targets as bundle_targets
from functions.evidence.prometheus import answers, counting
from functions.evidence.prometheus import http as wire
from functions.evidence.prometheus.http import PrometheusError
from functions.evidence.questions import Question
from functions.evidence.raw import items
from functions.evidence.request import carried
from functions.evidence.sources import Metadata

T = TypeVar("T")
Send = Callable[[PrometheusConnect], object]

#: Targets, metadata and rules are known as they are now; an instant within this many seconds counts as now.
NOW_SECONDS = 300
#: How long the scrape configuration is taken as unchanged.
CONFIG_SECONDS = 600
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
    #: bytes that one answer may have; a longer one is not read to its end
    longest: int = 256 << 20


class PrometheusSource:
    """A `MetricSource` over one server. Raises ValueError for a URL that is none; never for an outside fault."""

    def __init__(self, url: str, access: Access = Access(), *, now: Callable[[], float] = time.time) -> None:
        self._address = wire.Address.of(url, access.token, tuple(access.headers.values()))
        self._access = access
        self._now = now
        self._session = wire.WireSession(self._address, ca=access.ca, pool=access.concurrency, most=access.longest)
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
            "start": repr(at.timestamp() - NOW_SECONDS - (question.over[1] if question.over else 0)),
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
        tally = counting.Tally()
        try:
            await self._count([selector for selector in wanted if tally.can_be_asked(selector)], at, tally)
        except PrometheusError as error:
            return wire.missing(error, self._address, "counts of selectors")
        if wanted and not tally.counts:
            return Missing(tally.why, self._address.redact(f"{self.name}: {tally.warnings[0]}"), "counts of selectors")
        source = f"{self.name}: count by (job) (selector)"
        return Known(tuple(tally.counts[s] for s in wanted if s in tally.counts), at, source, tuple(tally.warnings))

    async def _count(self, batch: Sequence[Selector], at: datetime, tally: counting.Tally) -> None:
        """Count a batch in one query; where the server refuses it, without what it names, else in halves.

        Raises PrometheusError where that can't help.
        """
        if not batch:
            return
        params = {"time": repr(at.timestamp()), **self._limits()}
        try:
            body = await self._request(lambda client: client.custom_query(counting.promql(batch), params=params))
        except PrometheusError as error:
            if not error.query:
                raise
            bad = counting.refused_one(batch, error.detail)
            smaller = [[bad], [s for s in batch if s != bad]] if bad else [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
            if len(batch) == 1 or bad:
                tally.leave_out([bad] if bad else batch, error)
            if len(batch) == 1:
                return
            rest = smaller[1:] if bad else smaller
            if not tally.again(len(rest)):
                for left in rest:
                    tally.leave_out(left, error)
                return
            for left in rest:
                await self._count(left, at, tally)
            return
        tally.add(batch, answers.rows(body))

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
        # scrapes go on while an audit asks: their times are held against the clock of this answer
        return replace(carried(listed, named), at=datetime.fromtimestamp(self._now(), UTC))

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
            if not error.again or not meter.spare():
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
        failure = PrometheusError(Why.UNREACHABLE, "no answer")
        try:
            send(self._client)
        except requests.RequestException as error:
            failure = wire.unreached(error)
        except (PrometheusApiClientException, KeyError, TypeError, AttributeError):
            pass  # it wants another shape than was answered; `checked` says what is wrong
        answer = self._session.taken()
        if answer is None:
            return {}, 0, failure
        try:
            body = wire.checked(answer)
            if why := wire.partial(body):
                raise PrometheusError(Why.TRUNCATED, f"a partial answer: {why}")
        except PrometheusError as error:
            return {}, answer.size, error
        return body, answer.size, None
