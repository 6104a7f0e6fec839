"""Kubernetes Events as hints: which are worth an audit, and how often.

Pure: `observe` takes what is remembered of one kind of trouble at one place and an Event of either API, and says
whether it is a signal. Events are lossy by design (bursts are dropped, repeats merged into updates of one object), so
they never decide anything alone; node and rollout transitions are read from the objects. Which reasons count is data:
`event_reasons.yaml`.

Repeats don't start an audit each: one signal a reason and scope, and again only after `QUIET` of its last audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from functions.contract.signals import Signal, Subject, Trigger, TriggerKind
from functions.contract.times import text_time

#: The same trouble at the same place is audited again after this, if it still goes on.
QUIET = timedelta(hours=1)
#: Comparing with an instant this long before the Event: its cause came first.
_BEFORE = timedelta(minutes=5)
_MESSAGE = 300

State = dict[str, Any]


class ReasonRow(BaseModel):
    """One row of event_reasons.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str
    kinds: tuple[str, ...] = ()
    audit: bool
    after: int = 1
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    source: str


@dataclass(frozen=True, slots=True)
class Hint:
    """An Event of core/v1 or events.k8s.io in one shape."""

    uid: str
    reason: str
    type: str
    message: str
    subject: Subject
    subject_uid: str
    count: int
    first_at: datetime | None
    last_at: datetime | None
    reporter: str
    related: Subject | None = None


@lru_cache(maxsize=1)
def reasons() -> Mapping[str, tuple[ReasonRow, ...]]:
    """The table, by reason."""
    text = (resources.files("triggers") / "event_reasons.yaml").read_text()
    out: dict[str, tuple[ReasonRow, ...]] = {}
    for row in TypeAdapter(tuple[ReasonRow, ...]).validate_python(yaml.safe_load(text)):
        out[row.reason] = (*out.get(row.reason, ()), row)
    return out


def read(event: Mapping[str, Any]) -> Hint:
    """The Event in one shape. A new-API Event has null in the old time fields, and the other way round."""
    series = event.get("series") or {}
    about = event.get("regarding") or event.get("involvedObject") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    firsts = [event.get("eventTime"), event.get("firstTimestamp"), event.get("deprecatedFirstTimestamp")]
    lasts = [series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("deprecatedLastTimestamp"), *firsts]
    created = text_time(event.get("metadata", {}).get("creationTimestamp"))
    related = event.get("related")
    return Hint(
        uid=str(event.get("metadata", {}).get("uid", "")),
        reason=str(event.get("reason", "")),
        type=str(event.get("type", "")),
        message=" ".join(str(event.get("note") or event.get("message") or "").split())[:_MESSAGE],
        subject=_reference(about),
        subject_uid=str(about.get("uid", "")),
        count=max(1, *(int(n or 0) for n in (event.get("count"), event.get("deprecatedCount"), series.get("count")))),
        first_at=min((t for t in map(text_time, firsts) if t), default=created),
        last_at=max((t for t in map(text_time, lasts) if t), default=created),
        reporter=str(event.get("reportingController") or event.get("reportingComponent") or source.get("component") or ""),
        related=_reference(related) if related else None,
    )


def row_of(hint: Hint) -> ReasonRow | None:
    """The row of the table for this Event; None: of no interest."""
    for row in _rows(hint.reason):
        message = hint.message.lower()
        if row.kinds and hint.subject.kind not in row.kinds:
            continue
        if row.contains and not any(part in message for part in row.contains):
            continue
        if not any(part in message for part in row.lacks):
            return row
    return None


@lru_cache(maxsize=1024)
def _rows(reason: str) -> tuple[ReasonRow, ...]:
    return reasons().get(reason) or tuple(row for rows in reasons().values() for row in rows if fnmatchcase(reason, row.reason))


def key_of(hint: Hint, owner: Subject | None = None) -> str:
    """Under which name the state of this kind of trouble at this place is kept."""
    return f"event/{(owner or hint.subject).scope}/{hint.reason}"


def observe(
    previous: Mapping[str, Any] | None,
    event: Mapping[str, Any],
    now: datetime,
    *,
    owner: Subject | None = None,
) -> tuple[State | None, list[Signal]]:
    """The new state under `key_of` and the signal, if it is one. `owner`: the workload of the Pod it is about."""
    hint = read(event)
    row = row_of(hint)
    at = hint.last_at or now
    state: State = dict(previous) if previous else {"round": 0, "signalled": None, "seen": {}}
    last = text_time(state["signalled"])
    if row is None or not hint.subject.name or (last is not None and at - last < QUIET):
        return dict(previous) if previous else None, []
    if row.after > 1:
        state["seen"] = _remember(state["seen"], hint)
        if sum(state["seen"].values()) < row.after:
            return state, []
    state |= {"round": state["round"] + 1, "signalled": at.isoformat(), "seen": {}}
    return state, [_signal(hint, row, owner or hint.subject, at, now, state["round"])]


def _remember(seen: Mapping[str, int], hint: Hint) -> dict[str, int]:
    """Counts by Event object; the oldest are forgotten, so that a storm of Pods doesn't grow the state."""
    kept = {uid: count for uid, count in seen.items() if uid != hint.uid}
    return dict([*kept.items(), (hint.uid, hint.count)][-20:])


def _signal(hint: Hint, row: ReasonRow, subject: Subject, at: datetime, now: datetime, round_: int) -> Signal:
    detail: dict[str, Any] = {"reason": hint.reason, "type": hint.type, "message": hint.message, "count": hint.count}
    if hint.reporter:
        detail["reporter"] = hint.reporter
    if subject != hint.subject:
        detail["object"] = hint.subject.as_dict()
    if hint.related:
        detail["related"] = hint.related.as_dict()
    name = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    return Signal(
        key=f"event/{subject.scope}/{hint.reason}/{hint.uid}/{round_}",
        trigger=Trigger(TriggerKind.KUBERNETES_EVENT, hint.reason, subject),
        scope=subject.scope,
        at=min(at, now),
        audit=row.audit,
        baseline=(hint.first_at or at) - _BEFORE,
        summary=f"Event {hint.reason} on {subject.kind} {name}: {hint.message}",
        detail=detail,
    )


def _reference(reference: Mapping[str, Any]) -> Subject:
    kind = str(reference.get("kind", ""))
    # the kubelet's Events on its Node say namespace "default" or none
    namespace = "" if kind == "Node" else str(reference.get("namespace") or "")
    return Subject(kind, str(reference.get("name", "")), namespace)
