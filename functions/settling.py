"""An audit that looks at more than one change must not judge another one midway: half of it would read as a fault.

While an exporter's Pod is replaced its old series and its new ones are there at once, a node that drains shows devices
without Pods. Whoever is not in a hurry waits until what goes on elsewhere has settled too, within a bound: where something
always goes on, what is found midway is still the truth of that time. What comes by the clock also lets the audits of
changes go first: what one of them broke is best told in its name. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from functions.contract.signals import AuditRequest, Scope, Signal, TriggerKind

_CHANGES = frozenset({TriggerKind.ROLLOUT, TriggerKind.DRAIN, TriggerKind.REJOIN})
#: An alert and a person get their answer at once.
_PATIENT = _CHANGES | {TriggerKind.SCHEDULE, TriggerKind.KUBERNETES_EVENT}
#: How long an audit may be put off, in settling times: one that only comes by the clock longer than one of a change.
_LONGEST_BY_THE_CLOCK = 4
_LONGEST = 2
#: How often what is under way is looked after, in a settling time.
_LOOKS = 4


def horizon(now: datetime, settle: timedelta) -> datetime:
    """Since when signals matter to `settles_at`."""
    return now - 2 * _LONGEST_BY_THE_CLOCK * settle


def settles_at(
    request: AuditRequest, signals: Iterable[Signal], unjudged: Iterable[Scope], now: datetime, settle: timedelta
) -> datetime | None:
    """When to look again because of changes elsewhere; None: they have settled, or the audit has waited long enough.

    `signals`: what was heard since `horizon`, oldest first; `unjudged`: the scopes of changes whose audits are not done.
    """
    by_the_clock = request.trigger.kind is TriggerKind.SCHEDULE
    longest = _LONGEST_BY_THE_CLOCK if by_the_clock else _LONGEST
    ends = (request.due or now) + longest * settle
    if request.trigger.kind not in _PATIENT or any(s.urgent for s in request.signals) or now >= ends:
        return None
    others = [s for s in signals if s.trigger.kind in _CHANGES and s.scope != request.scope]
    last = {s.scope: s for s in others}
    until = max((min(s.at, now) + settle for s in others), default=now)
    under_way = any(not s.audit for s in last.values())  # what only opens an episode has no end yet
    if under_way or (settle and by_the_clock and any(scope != request.scope for scope in unjudged)):
        until = max(until, now + settle / _LOOKS)
    return min(until, ends) if until > now else None
