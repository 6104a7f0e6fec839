"""Empties the outbox: each channel for itself, in order, with patience, and redacted. What is refused for good is listed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from functions.chat.message import Channel, Delivered, Outgoing, Refused, Result, Retry
from functions.chat.redact import Redactor
from functions.store import Delivery, Store

log = logging.getLogger(__name__)

#: longer than the slowest channel takes for one batch
_LEASE = timedelta(minutes=3)
#: then others have their turn
_ROUNDS = 10
_FIRST_RETRY = 5.0
_LONGEST_RETRY = 900.0
#: A service that takes nothing for so long needs a person; what it missed is listed and can be replayed.
GIVE_UP = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Sent:
    delivered: int = 0
    later: int = 0
    refused: int = 0


async def deliver(store: Store, channels: Mapping[str, Channel], redactor: Redactor, clock: Callable[[], datetime]) -> Sent:
    """Deliver what is ready, and what becomes ready by that. Raises StoreError; what had arrived may then arrive again."""
    total = Sent()
    for _ in range(_ROUNDS):
        claimed = sorted(await store.outbox.claim(clock(), _LEASE), key=lambda d: (d.channel, d.created, d.id))
        batches = [list(batch) for _, batch in groupby(claimed, key=lambda d: d.channel)]
        for sent in await asyncio.gather(*(_batch(store, batch, channels, redactor, clock) for batch in batches)):
            total = Sent(total.delivered + sent.delivered, total.later + sent.later, total.refused + sent.refused)
        if not claimed:
            break
    return total


async def _batch(
    store: Store, batch: Sequence[Delivery], channels: Mapping[str, Channel], redactor: Redactor, clock: Callable[[], datetime]
) -> Sent:
    """The deliveries of one channel. Where one has to wait, those behind it wait as long."""
    delivered = later = refused = 0
    pause: Retry | None = None
    claimed = clock()
    for delivery in batch:
        if pause is None and clock() - claimed > _LEASE / 2:
            pause = Retry("the channel is slow", 0.0)  # rather than that somebody else sends the same
        result: Result = pause or await _attempt(store, delivery, channels.get(delivery.channel), redactor)
        if isinstance(result, Retry) and clock() - delivery.created > GIVE_UP:
            result = Refused(f"given up after {delivery.attempt} attempts: {result.why}")
        if isinstance(result, Delivered):
            await store.outbox.delivered(delivery, result.ref, clock())
            delivered += 1
        elif isinstance(result, Refused):
            log.error("%s refuses the %s of audit %s: %s", delivery.channel, delivery.kind, delivery.audit, result.why)
            await store.outbox.refuse(delivery, result.why, clock())
            refused += 1
        else:
            wait = result.after if result.after is not None else backoff(delivery.attempt)
            log.warning("%s takes the %s of audit %s later: %s", delivery.channel, delivery.kind, delivery.audit, result.why)
            progress = None if pause else result.progress
            await store.outbox.again(delivery, clock() + timedelta(seconds=wait), result.why, progress)
            pause = pause or Retry(result.why, wait)
            later += 1
    return Sent(delivered, later, refused)


async def _attempt(store: Store, delivery: Delivery, channel: Channel | None, redactor: Redactor) -> Result:
    if channel is None:
        return Refused("the channel is not configured any more")
    message = await outgoing(store, delivery, redactor)
    # an attempt before this one that left no word may have arrived
    progress = delivery.progress if delivery.progress is not None else ({} if delivery.attempt > 1 else None)
    return await channel.deliver(message, delivery.ref, progress)


async def outgoing(store: Store, delivery: Delivery, redactor: Redactor) -> Outgoing:
    """The message of a delivery, as it may leave."""
    payload = delivery.payload
    report = None if delivery.kind == "postmortem" else await store.audits.get(delivery.audit)
    return Outgoing(
        kind=delivery.kind,
        audit=delivery.audit,
        scope=delivery.thread,
        title=redactor.text(str(payload.get("title", ""))),
        lead=redactor.text(str(payload.get("lead", ""))),
        details=redactor.text(str(payload.get("details", ""))),
        key=delivery.key,
        loud=bool(payload.get("loud")),
        report=redactor.json(report) if report is not None else None,
    )


def backoff(attempt: int) -> float:
    """Seconds to wait after that many attempts."""
    return min(_LONGEST_RETRY, _FIRST_RETRY * 2.0 ** min(attempt - 1, 10))
