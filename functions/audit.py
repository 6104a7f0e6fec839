"""One audit: gather facts, run the checks, compare with what is open, and end it in one durable step.

`judge` alone is pure and is all that a bundle needs. What could not be judged because its sources were away is reported
as unknown, once, and judged again when they are back. An audit that ends in a fault of Telltale's own is tried again
soon, says so, and is given up in the end: reported as unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from functions import baseline, settling
from functions.checks.base import Check, run, union_of_needs
from functions.contract.errors import Again
from functions.contract.facts import Facts, Missing, Why, Windows
from functions.contract.findings import CheckResult, Subject, Unjudged, Verdict
from functions.contract.policy import Policy
from functions.contract.report import AuditReport, instant
from functions.contract.signals import AuditRequest, TriggerKind
from functions.ending import end
from functions.reports.context import context

if TYPE_CHECKING:  # a bundle is judged without a store
    from functions.store import JudgeAgain, Store

log = logging.getLogger(__name__)

#: (request, windows, facts that the checks need) -> facts. It never raises for a fault outside: that is a `Missing`.
Gather = Callable[[AuditRequest, Windows, frozenset[str]], Awaitable[Facts]]
Clock = Callable[[], datetime]

#: An audit that ended in a crash so often is given up: reported as unknown, and a dead letter that can be replayed.
MAX_ATTEMPTS = 5
#: After a fault of Telltale's own; doubled at each attempt.
_AFTER_A_FAULT = timedelta(seconds=10)
#: Faults of a source that pass by themselves.
_PASSING = frozenset({Why.UNREACHABLE.value, Why.TIMED_OUT.value})
_LONGEST_RETRY = timedelta(minutes=15)
#: A source that has been away for a day needs a person; the scheduled audits go on saying unknown.
_ROUNDS = 96


@dataclass(frozen=True, slots=True)
class Standards:
    """What is judged, and against what."""

    cluster: str
    checks: tuple[Check, ...]
    policy: Policy
    #: functions/knowledge: names, sentinels, renames
    knowledge: Any


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an audit may take, and how it waits for sources that are away."""

    lease: timedelta = timedelta(seconds=600)
    #: until what was away is asked again the first time; doubled each time
    retry: timedelta = timedelta(seconds=30)
    #: how long a source that is back must have been so: until then a server also answers with series of before
    settle: timedelta = timedelta(seconds=300)


def windows_of(request: AuditRequest, now: datetime, policy: Policy) -> Windows:
    """The two instants: before the change (else the policy's look-back), and now."""
    return Windows(request.baseline or now - timedelta(seconds=policy.windows.baseline), now)


def judge(request: AuditRequest, facts: Facts, standards: Standards, *, coverage: Sequence[str] = ()) -> AuditReport:
    """Run the checks on facts. Pure."""
    settings = {
        "policy": standards.policy,
        "knowledge": standards.knowledge,
        "scope": request.scope,
        "trigger": request.trigger,
        "cluster": standards.cluster,
    }
    results = tuple(run(check, facts, settings) for check in standards.checks)
    findings = [f for result in results for f in result.findings]
    return AuditReport(
        id=request.audit,
        cluster=standards.cluster,
        scope=request.scope,
        trigger=request.trigger,
        baseline=facts.windows.baseline,
        current=facts.windows.current,
        checks=results,
        signals=request.signals,
        coverage=(*coverage, *facts.remarks),
        cost=facts.cost,
        context=context(facts, findings, request.signals),
    )


def given_up(request: AuditRequest, standards: Standards, now: datetime) -> AuditReport:
    """The report of an audit that never came to its end: everything is unknown."""
    last = f"; the last one: {request.fault}" if request.fault else ""
    why = f"not judged: the audit was given up after {request.attempt - 1} attempts, each of which ended without a result{last}"
    results = tuple(CheckResult(c.id, Verdict.UNKNOWN, why, unjudged=(Unjudged(Subject(), why),)) for c in standards.checks)
    return AuditReport(request.audit, standards.cluster, request.scope, request.trigger, request.baseline, now, results, request.signals)


async def perform(
    request: AuditRequest, *, gather: Gather, standards: Standards, store: Store, clock: Clock, patience: Patience
) -> AuditReport | None:
    """Do a claimed audit. None: it was completed by somebody else, or is put off. Raises StoreError; it is then claimed again.

    Wherever this is cut off, another process does the audit once the lease has run out, and what is complete stays so.
    """
    if request.attempt > MAX_ATTEMPTS:
        report = given_up(request, standards, clock())
        done = await store.audits.complete(report, clock(), dead=report.checks[0].summary if report.checks else "given up")
        return report if done else None
    try:
        async with _kept(request, store, clock, patience.lease):
            return await _audit(request, gather, standards, store, clock, patience)
    except Again:
        raise
    except Exception as error:  # an audit that ends in a fault of our own must end in words, not in silence
        fault = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        log.exception("audit %s of %s: attempt %d of %d ended in a fault", request.audit, request.scope, request.attempt, MAX_ATTEMPTS)
        await store.queue.retry(request, clock() + _AFTER_A_FAULT * 2 ** (request.attempt - 1), fault=fault)
        return None


async def _audit(
    request: AuditRequest, gather: Gather, standards: Standards, store: Store, clock: Clock, patience: Patience
) -> AuditReport | None:
    if await _put_off(request, store, clock(), patience):
        return None
    windows = windows_of(request, clock(), standards.policy)
    gaps = await store.notes.gaps()
    facts = await gather(request, windows, union_of_needs(standards.checks))
    if await _put_off(request, store, clock(), patience):  # a change that began meanwhile
        return None
    if request.round and not request.back and not _away(facts):
        # a server that is just back has scraped little, and still shows series of before it went
        log.info("audit %s of %s: its sources are back, and have to settle", request.audit, request.scope)
        await store.queue.retry(request, clock() + patience.settle, counted=False, back=clock())
        return None
    coverage = [coverage_line(g) for g in gaps.values()]
    coverage += [f"an earlier attempt at this audit ended in a fault of Telltale's own: {request.fault}"] if request.fault else []
    # the checks take their time on a big cluster; the lease is renewed and requests are answered meanwhile
    report = await asyncio.to_thread(judge, request, facts, standards, coverage=coverage)
    again = judge_again(request, report, clock(), patience.retry)
    done = await store.audits.complete(report, clock(), gaps=gaps, again=again)
    log.info("audit %s of %s: %s%s", report.id, report.scope, report.verdict.value, "" if done else " (was complete)")
    if done:
        await baseline.keep(store, report, facts)
    return report if done else None


async def _put_off(request: AuditRequest, store: Store, now: datetime, patience: Patience) -> bool:
    """Put the audit off while something else changes."""
    signals = await store.queue.timeline(settling.horizon(now, patience.settle), now)
    unjudged = await store.queue.unjudged_changes(now + patience.settle)
    until = settling.settles_at(request, signals, unjudged, now, patience.settle)
    if until is None:
        return False
    log.info("audit %s of %s waits until %s: something else changes", request.audit, request.scope, instant(until))
    await store.queue.retry(request, until, counted=False)
    return True


def _away(facts: Facts) -> bool:
    """Whether a source is away for now."""
    return any(isinstance(fact := facts.fact(name), Missing) and fact.why.value in _PASSING for name in Facts.names())


def judge_again(request: AuditRequest, report: AuditReport, now: datetime, first: timedelta = Patience().retry) -> JudgeAgain | None:
    """When to judge once more what could not be judged because a source was away. Pure.

    A scheduled audit comes again by itself.
    """
    from functions.store import Entry, JudgeAgain, Lane

    away = any(c.verdict is Verdict.UNKNOWN and any(m.why in _PASSING for m in c.missing) for c in report.checks)
    if not away or request.trigger.kind is TriggerKind.SCHEDULE or request.round >= _ROUNDS or not request.signals:
        return None
    wait = min(_LONGEST_RETRY, first * 2 ** min(request.round, 10))
    entries = tuple(Entry(s, now + wait, Lane.SETTLED, rank=s.trigger.gravity) for s in request.signals)
    return JudgeAgain(entries, now + wait, request.round + 1, report.baseline)


def coverage_line(gap: Mapping[str, Any]) -> str:
    """What a watch gap means, in words."""
    what = f"changes of {gap['kind']}" if gap.get("kind") else "changes"
    since, until = (instant(datetime.fromisoformat(str(gap[end]))) for end in ("since", "until"))
    return f"{what} between {since} and {until} may have gone unseen: {gap.get('why') or 'the watch was interrupted'}"


@contextlib.asynccontextmanager
async def _kept(request: AuditRequest, store: Store, clock: Clock, lease: timedelta) -> AsyncIterator[None]:
    """Renew the lease for as long as the audit runs."""

    async def renew() -> None:
        while True:
            await asyncio.sleep(lease.total_seconds() / 3)
            try:
                if not await store.queue.renew(request, clock(), lease):
                    log.warning("the lease of audit %s was lost; whoever completes it first counts", request.audit)
                    return
            except Again as error:
                log.warning("the lease of audit %s can't be renewed: %s", request.audit, error)

    task = asyncio.create_task(renew(), name=f"lease of {request.audit}")
    try:
        yield
    except asyncio.CancelledError:
        # shutting down: somebody else may have it at once, and nothing was wrong with it
        with contextlib.suppress(Again):
            await store.queue.retry(request, clock(), counted=False)
        raise
    finally:
        await end([task])
