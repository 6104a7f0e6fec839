"""What `telltale doctor` says of each Prometheus: what it is, whether it scrapes GPUs, how far back it remembers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from functions import knowledge, wiring
from functions.contract.facts import Missing, Why
from functions.contract.policy import Policy
from functions.contract.telemetry import Target
from functions.evidence.prometheus.source import PrometheusSource
from functions.evidence.questions import quoted
from functions.reports.wording import counted, duration, listed
from functions.settings import Settings
from triggers.commands._doctor_line import Line, Status

#: Looked for from here on, the longest first.
_DEPTHS = (timedelta(days=15), timedelta(days=7), timedelta(days=1), timedelta(hours=6), timedelta(hours=1), timedelta(minutes=10))


async def lines(settings: Settings, policy: Policy) -> list[Line]:
    """Every configured server. Raises SettingsError."""
    sources = wiring.metric_sources(settings)
    if not sources:
        return [Line(Status.FAIL, "prometheus", "TELLTALE_PROMETHEUS_URL is not set: no telemetry can be judged")]
    groups = await asyncio.gather(*(_server(source, policy) for source in sources))
    found = [line for group in groups for line in group]
    for source in sources:
        source.close()
    return found


async def _server(source: PrometheusSource, policy: Policy) -> list[Line]:
    now = datetime.now(UTC)
    name = f"prometheus {source.name}"
    answered = await source.query("vector(1)", now)
    if isinstance(answered, Missing):
        return [Line(Status.FAIL, name, f"{answered.why}: {answered.detail}")]
    parts = await asyncio.gather(
        _identity(source, name), _targets(source, name, now), _gpus(source, name, now), _history(source, name, now, policy)
    )
    return [*parts, await _rules(source, name)]


async def _identity(source: PrometheusSource, name: str) -> Line:
    found = await source.build()
    if isinstance(found, Missing):
        return Line(Status.WARN, name, f"answers queries, and does not say what it is ({found.why})")
    return Line(Status.OK, name, f"{found.value} answers")


async def _targets(source: PrometheusSource, name: str, now: datetime) -> Line:
    what = f"{name} targets"
    found = await source.targets(now)
    if isinstance(found, Missing):
        if found.why is Why.UNSUPPORTED:
            return Line(
                Status.WARN, what, "it shows no targets (a querier, or a store that is written to): a failed scrape's reason stays unknown"
            )
        return Line(Status.UNKNOWN, what, f"{found.why}: {found.detail}")
    down = sorted({t.job for t in found.value if not t.up})
    said = f"{sum(t.up for t in found.value)} of {len(found.value)} up, {_intervals(found.value)}"
    return Line(Status.OK, what, said + (f"; down in {listed(down, 4)}" if down else ""))


def _intervals(targets: Sequence[Target]) -> str:
    known = Counter(t.interval for t in targets if t.interval)
    if not known:
        return "scrape interval not shown"
    shown = [duration(seconds) for seconds, _ in known.most_common(3)]
    return f"scraped every {' or '.join(shown)}"


async def _gpus(source: PrometheusSource, name: str, now: datetime) -> Line:
    """Whether any exporter of GPU metrics is stored, under any of the names that are known."""
    what = f"{name} GPU metrics"
    known = knowledge.load().signals
    concepts = [concept.id for concept in known.concepts.values() if concept.layer == "device"]
    names = sorted({metric for concept in concepts for metric in known.metrics(concept)})
    found = await source.query(f"count by (job) ({{__name__=~{quoted('|'.join(names))}}})", now, "count by (job) of GPU metrics")
    if isinstance(found, Missing):
        return Line(Status.UNKNOWN, what, f"{found.why}: {found.detail}")
    if not found.value:
        return Line(
            Status.FAIL, what, "no series of a known GPU exporter: is its ServiceMonitor or scrape job there, and is this the right server?"
        )
    jobs = [f"{row.labels.get('job', 'no job')} ({counted(int(row.value), '1 series', '{n} series')})" for row in found.value]
    return Line(Status.OK, what, f"from {listed(sorted(jobs), 4)}")


async def _history(source: PrometheusSource, name: str, now: datetime, policy: Policy) -> Line:
    """How far back anything is stored: audits compare with an instant before the change."""
    what = f"{name} history"
    answers = await asyncio.gather(*(source.query("count(up)", now - depth) for depth in _DEPTHS))
    lost = next((a for a in answers if isinstance(a, Missing)), None)
    reach = next((d for d, a in zip(_DEPTHS, answers, strict=True) if not isinstance(a, Missing) and a.value), None)
    wanted = timedelta(seconds=policy.windows.baseline)
    if reach is None and lost is not None:
        return Line(Status.UNKNOWN, what, f"{lost.why}: {lost.detail}")
    if reach is None or reach < wanted:
        shown = f"{duration(reach.total_seconds())} at least" if reach else "less than 10 min"
        return Line(
            Status.WARN, what, f"{shown}; a baseline lies {duration(wanted.total_seconds())} back: until then comparisons are unknown"
        )
    return Line(Status.OK, what, f"at least {duration(reach.total_seconds())}; a baseline lies {duration(wanted.total_seconds())} back")


async def _rules(source: PrometheusSource, name: str) -> Line:
    what = f"{name} rules"
    found = await source.rules()
    if isinstance(found, Missing):
        return Line(Status.WARN, what, f"not shown ({found.why}): rules come from PrometheusRule objects and TELLTALE_RULES alone")
    kinds = Counter(rule.kind for rule in found.value)
    shown = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none is loaded"
    return Line(Status.OK if found.value else Status.WARN, what, shown)
