"""Signals in, audits out: durable before it answers, deduplicated, coalesced by scope, due once the telemetry has settled.

What starts an audit is decided in `triggers/`; what an audit does, in `functions/audit.py`. The clock is a parameter.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.contract.errors import Again
from functions.contract.policy import Policy
from functions.contract.signals import AuditRequest, Signal, TriggerKind
from functions.store import Entry, Lane, Store, Taken

log = logging.getLogger(__name__)

#: Prometheus' look-back: for so long after its last sample a series that has gone still answers.
STALENESS = timedelta(seconds=300)

_HOUSEKEEPING = "housekeeping"
_HOUSEKEEPING_EVERY = timedelta(hours=1)

#: What a change leaves behind in the telemetry needs time to show; the clock and a person change nothing.
_CHANGES = frozenset({TriggerKind.ROLLOUT, TriggerKind.DRAIN, TriggerKind.REJOIN, TriggerKind.KUBERNETES_EVENT, TriggerKind.ALERT})


@dataclass(frozen=True, slots=True)
class Timing:
    """When audits are due, and how long one may take before somebody else takes it over."""

    #: how long to wait after a change
    settle: timedelta = STALENESS
    lease: timedelta = timedelta(seconds=600)
    #: audits to claim at one tick
    at_once: int = 10
    #: when an audit that could not be sent around is claimed again
    resend: timedelta = timedelta(seconds=10)


def settling_time(override: float | None, scrape_interval: float = 60, staleness: timedelta = STALENESS) -> timedelta:
    """How long to wait after a change: the slower of two scrapes and the staleness time, or what TELLTALE_SETTLE says."""
    if override is not None:
        return timedelta(seconds=override)
    return max(timedelta(seconds=2 * scrape_interval), staleness)


async def receive(signals: Sequence[Signal], store: Store, now: datetime, timing: Timing) -> Taken:
    """Take signals. When this returns they are durable; a StoreError (503) means the sender still has them.

    A StoreFull may leave the first batches of a long list taken; sent again, they are known.
    """
    if not signals:
        return Taken()
    taken = await store.queue.offer([entry(s, now, timing.settle) for s in signals], now)
    if taken.new:
        log.info("%d new signals, %d known, %d audits opened", taken.new, taken.known, taken.opened)
    return taken


def entry(signal: Signal, now: datetime, settle: timedelta) -> Entry:
    """When a signal has to be audited, with which others, and how grave it is. Pure."""
    rank = signal.trigger.gravity
    if not signal.audit:
        return Entry(signal, None, rank=rank)
    waits = timedelta(0) if signal.urgent or signal.trigger.kind not in _CHANGES else settle
    # a change that was found late has settled in the meantime; one from a clock that is ahead has not begun to
    due = max(now, min(signal.at, now) + waits)
    return Entry(signal, due, Lane.SETTLED if waits else Lane.NOW, span=waits, rank=rank)


async def tick(
    store: Store, now: datetime, timing: Timing, send: Callable[[AuditRequest], Awaitable[None]], *, here: bool = True
) -> list[AuditRequest]:
    """Claim what is due and hand each audit over. `here`: to this process; else `send` sends it to one that starts it.

    An audit that can't be handed over is claimed again soon, for nothing.
    """
    handed: list[AuditRequest] = []
    for request in await store.queue.claim_due(now, timing.lease, timing.at_once, start=here):
        try:
            await send(request)
            handed.append(request)
        except Again as error:
            log.warning("audit %s of %s waits: %s", request.audit, request.scope, error)
            await store.queue.retry(request, now + timing.resend, counted=False)
    await store.notes.beat("tick", now)
    return handed


async def housekeep(store: Store, policy: Policy, now: datetime) -> bool:
    """Forget what is finished and old, at most once an hour among all processes. Called at every tick."""
    last = (await store.notes.beats()).get(_HOUSEKEEPING)
    if last is not None and now - last < _HOUSEKEEPING_EVERY:
        return False
    await store.notes.beat(_HOUSEKEEPING, now)
    kept = policy.retention
    await store.purge(now, resolved_for=timedelta(seconds=kept.resolved_findings), audits_for=timedelta(seconds=kept.audits))
    return True
