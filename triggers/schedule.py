"""The clock and people as triggers: PingSource events, scheduled audits of the whole cluster, and what a person asks for.

Pure. A PingSource says `{"kind": "tick"}`, `{"kind": "sweep"}` or `{"kind": "baseline"}`; one without data sends an empty
body without a Content-Type (measured), which is a tick.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.contract.signals import CLUSTER, Scope, Signal, Subject, Trigger, TriggerKind


class Ping(StrEnum):
    """What a ping asks for."""

    TICK = "tick"
    SWEEP = "sweep"
    BASELINE = "baseline"


class NotAPing(ValueError):
    """This can't be read as a ping; sending it again won't help."""


def read(data: Any) -> Ping:
    """The ping in an event's data: decoded JSON, text, bytes, or nothing. Raises NotAPing."""
    if isinstance(data, bytes | str):
        text = data.strip()
        if not text:
            return Ping.TICK
        try:
            data = json.loads(text)
        except (ValueError, UnicodeDecodeError):
            raise NotAPing("the data of a ping is JSON") from None
    if data is None:
        return Ping.TICK
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str):
        raise NotAPing('the data of a ping is {"kind": "tick|sweep|baseline"}')
    try:
        return Ping(kind)
    except ValueError:
        raise NotAPing(f"a ping is tick, sweep or baseline, not {kind[:40]!r}") from None


def scheduled(now: datetime, every: timedelta) -> Signal:
    """The audit of the whole cluster that is due in the period which `now` lies in.

    However many processes ask, and however often: one period is one signal.
    """
    seconds = max(1, int(every.total_seconds()))
    start = datetime.fromtimestamp(int(now.timestamp()) // seconds * seconds, UTC)
    return Signal(
        key=f"schedule/{seconds}/{start.isoformat()}",
        trigger=Trigger(TriggerKind.SCHEDULE, "periodic"),
        scope=CLUSTER,
        at=now,
        summary="scheduled audit of the cluster",
    )


def first_start(now: datetime, found: int) -> Signal:
    """What a first start finds is the state so far: audited once as a whole, not object by object."""
    return Signal(
        key="schedule/first-start",
        trigger=Trigger(TriggerKind.SCHEDULE, "first-start"),
        scope=CLUSTER,
        at=now,
        summary=f"first look at the cluster ({found} objects)",
    )


def manual(scopes: Iterable[Scope], now: datetime, ask: str) -> list[Signal]:
    """What a person asks for, one signal a scope. `ask` tells one request from the next."""
    return [
        Signal(
            key=f"manual/{ask}/{scope}",
            trigger=Trigger(TriggerKind.MANUAL, subject=_subject(scope)),
            scope=scope,
            at=now,
            urgent=True,
            summary=f"audit of {scope} on request",
        )
        for scope in dict.fromkeys(scopes)
    ]


def _subject(scope: Scope) -> Subject | None:
    if scope.kind == "cluster":
        return None
    kind = {"node": "Node", "namespace": "Namespace"}.get(scope.kind, scope.kind)
    return Subject(kind, scope.name, scope.namespace)
