"""Nodes that leave and come back: cordoned, draining, drained or stalled, not-ready, gone, and rejoined at last.

Pure: `observe` takes the state so far and one Node with the Pods on it, and says what has happened since. One
episode spans from the first disturbance to the return, so that the return is compared with what was before it.
What it knows:

- There is no object "drain". Drained is what a cordoned node is when nothing is left on it that could be evicted; the
  eviction API records no Event, and a PodDisruptionBudget that blocks shows in an HTTP status only.
- A node is back when it is Ready, schedulable, all its devices are allocatable again and its DaemonSet Pods are Ready:
  Ready alone comes minutes before the GPUs do.
- A cordon alone is no drain: it opens the episode, and it closes silently if nothing was evicted.

The raw Node is read in `node_reading.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.contract.signals import Signal, Subject, Trigger, TriggerKind
from functions.contract.times import text_time
from triggers.node_reading import (
    Raw,
    Reading,
    being_drained,
    blocking,
    daemon_sets,
    evictable,
    fingerprint,
    leaving_until,
    missing,
    read,
)

State = dict[str, Any]

_MARGIN = timedelta(seconds=1)
#: A reboot that went by unseen began before the node was Ready again; how long before isn't written anywhere.
_REBOOT_TAKES = timedelta(minutes=10)
_WORDS = {
    "cordoned": "was cordoned",
    "uncordoned": "was uncordoned",
    "draining": "is being drained",
    "drained": "is drained",
    "stalled": "does not drain",
    "not-ready": "is not Ready",
    "gone": "is gone",
    "rebooted": "was rebooted",
    "replaced": "was replaced under its name",
}


@dataclass(frozen=True, slots=True)
class Around:
    """What is known around a node. None: not looked at, so nothing is concluded from it."""

    #: every Pod on this node
    pods: Sequence[Raw] | None = None
    #: the PodDisruptionBudgets of the cluster; wanted once `wants_budgets` says so
    budgets: Sequence[Raw] | None = None
    #: the DaemonSets that exist, as namespace/name
    daemon_sets: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    #: without any progress for this long, a drain or a return has stalled
    deadline: timedelta = timedelta(seconds=900)
    #: a node that is Ready again within this was never away
    grace: timedelta = timedelta(seconds=60)


def is_open(state: Mapping[str, Any] | None) -> bool:
    """Whether an episode is under way, or may be once the grace is over: timers run."""
    return state is not None and (bool(state["open"]) or "not_ready" in state) and state.get("phase") != "gone"


def wants_budgets(state: Mapping[str, Any] | None, now: datetime, limits: Limits = Limits()) -> bool:
    """Whether the next look may find a stalled drain, and should know the PodDisruptionBudgets."""
    if state is None or not state.get("cordoned") or {"drained", "stalled"} & set(state["latched"]):
        return False
    since = text_time(state.get("progress"))
    return since is not None and now - since >= limits.deadline


def observe(
    previous: Mapping[str, Any] | None,
    name: str,
    node: Raw | None,
    now: datetime,
    *,
    around: Around = Around(),
    limits: Limits = Limits(),
    since: datetime | None = None,
) -> tuple[State | None, list[Signal]]:
    """The new state of the node called `name` and what has happened since. `node` None: the object is gone.

    The first sight of a node is the state so far and signals nothing; one found on its way back is followed home.
    `since`: when the whole cluster was looked at before; a node made later has joined since.
    """
    if node is None:
        return _gone(previous, name, now)
    seen = read(node)
    if previous is None:
        previous = _first_sight(seen, around, now, limits)
        if since is None or seen.created is None or seen.created <= since:
            return previous, []
        before = (seen.created - _MARGIN).isoformat()
        previous |= {"open": True, "disrupted": True, "cause": "joined", "baseline": before, "latched": ["not-ready"]}
    state = {**previous, "latched": list(previous["latched"])}
    signals: list[Signal] = []
    _identity(state, seen, around, now, signals)
    _readiness(state, seen, around, now, limits, signals)
    if seen.unschedulable or seen.drained or seen.drain_in_progress:
        _held(state, seen, around, now, limits, signals)
    elif state.pop("cordoned", None):
        state["phase"] = "returning"
        signals += _latch(state, seen, "uncordoned", now, audit=False)
    if state["open"] and seen.ready and not state.get("cordoned"):
        _return(state, seen, around, now, limits, signals)
    if not state["open"] and seen.ready:
        state["gpus"] = dict(seen.devices)
    return state, signals


def _blank(uid: str, boot: str) -> State:
    return {
        "uid": uid,
        "boot": boot,
        "phase": "in-service",
        "open": False,
        "episode": 0,
        "latched": [],
        "disrupted": False,
        "baseline": None,
        "gpus": {},
        "daemons": [],
    }


def _first_sight(seen: Reading, around: Around, now: datetime, limits: Limits) -> State:
    state = _blank(seen.uid, seen.boot) | {"gpus": dict(seen.devices)}
    fresh = seen.created is not None and now - seen.created < limits.deadline
    held = seen.unschedulable or seen.drained or seen.drain_in_progress
    if not held and seen.ready and not missing(seen, state, around.pods, around.daemon_sets):
        return state
    baseline = seen.cordoned_at if held else seen.created if fresh else seen.ready_since
    state |= {"open": True, "disrupted": True, "cause": "joined" if fresh else "", "phase": "returning"}
    state["baseline"] = (baseline - _MARGIN).isoformat() if baseline else None
    # what was so before the first look is no news; a node that has just been made is expected to come up
    state["latched"] = ["not-ready"] if fresh else ["not-ready", "return-stalled", "upgrade-failed"]
    if not seen.ready:
        state["not_ready"] = now.isoformat()
    if held:
        left = evictable(around.pods) if around.pods is not None else None
        drained = seen.drained or left == []
        state |= {"cordoned": now.isoformat(), "phase": "drained" if drained else "cordoned", "progress": now.isoformat()}
        state["left"] = fingerprint(left or [])
        state["latched"] += ["cordoned", *(["draining", "drained"] if drained else [])]
    return state


def _open(state: State, around: Around, began: datetime) -> None:
    """Open an episode, unless one is. One that was on its way back starts anew but keeps its baseline."""
    if state["open"] and state["phase"] != "returning":
        return
    baseline = state["baseline"] if state["open"] else None
    if around.pods is not None and not state["open"]:
        state["daemons"] = sorted(daemon_sets(around.pods))
    state |= {"open": True, "episode": state["episode"] + 1, "latched": [], "baseline": baseline or (began - _MARGIN).isoformat()}
    state.pop("returning", None)


def _latch(
    state: State, seen: Reading, phase: str, now: datetime, *, audit: bool = True, kind: TriggerKind = TriggerKind.DRAIN, **detail: Any
) -> list[Signal]:
    """The signal of a transition, once an episode."""
    mark = f"return-{phase}" if kind is TriggerKind.REJOIN else phase
    if mark in state["latched"]:
        return []
    state["latched"].append(mark)
    subject = Subject("Node", seen.name)
    if seen.upgrade:
        detail["gpu_driver_upgrade"] = seen.upgrade
    if seen.planned:
        detail["planned"] = seen.planned
    words = detail.pop("words", "") or _WORDS.get(phase, phase)
    signal = Signal(
        key=f"node/{seen.name}/{seen.uid}/{state['episode']}/{mark}",
        trigger=Trigger(kind, phase, subject),
        scope=subject.scope,
        at=now,
        audit=audit,
        baseline=text_time(state["baseline"]),
        summary=f"node {seen.name} {words}",
        detail={key: value for key, value in detail.items() if value},
    )
    return [signal]


def _identity(state: State, seen: Reading, around: Around, now: datetime, signals: list[Signal]) -> None:
    replaced = state["uid"] != seen.uid
    rebooted = bool(state["boot"] and seen.boot and state["boot"] != seen.boot)
    state |= {"uid": seen.uid, "boot": seen.boot or state["boot"]}
    if not (replaced or rebooted):
        return
    was_gone = state["phase"] == "gone"
    _open(state, around, min(now, seen.ready_since or now) - _REBOOT_TAKES)
    state |= {"disrupted": True, "cause": "replaced" if replaced else "rebooted"}
    if was_gone:
        state["phase"] = "returning"
        state.pop("cordoned", None)
    signals += _latch(state, seen, state["cause"], now, audit=False)
    if not state.get("cordoned"):
        state["phase"] = "returning"


def _readiness(state: State, seen: Reading, around: Around, now: datetime, limits: Limits, signals: list[Signal]) -> None:
    if seen.ready:
        state.pop("not_ready", None)
        return
    since = text_time(state.get("not_ready")) or min(now, seen.ready_since or now)
    state["not_ready"] = since.isoformat()
    state.pop("returning", None)
    if now - since < limits.grace or "not-ready" in state["latched"]:
        return
    _open(state, around, min(since, seen.heartbeat or since))
    state["disrupted"] = True
    if not state.get("cordoned"):
        state["phase"] = "not-ready"
    planned = bool(state.get("cordoned") or seen.planned or seen.upgrading)
    signals += _latch(state, seen, "not-ready", now, audit=not planned, reason=seen.ready_reason)


def _held(state: State, seen: Reading, around: Around, now: datetime, limits: Limits, signals: list[Signal]) -> None:
    """The node is cordoned, or its maintainer says that it is being drained."""
    if not state.get("cordoned"):
        _open(state, around, min(now, seen.cordoned_at or now))
        state |= {"cordoned": now.isoformat(), "phase": "cordoned", "progress": now.isoformat(), "left": None}
        signals += _latch(state, seen, "cordoned", now, audit=False)
    if seen.upgrade_failed and "upgrade-failed" not in state["latched"]:
        state["latched"].append("upgrade-failed")
        state["disrupted"] = True
        signals += _latch(state, seen, "stalled", now, words="does not finish its GPU driver upgrade", reason="upgrade-failed")
    if around.pods is None and not seen.drained:
        return  # what is left on it is not known
    left = evictable(around.pods or ())
    if (mark := fingerprint(left)) != state.get("left"):
        state |= {"left": mark, "progress": now.isoformat()}
    if seen.drained or not left:
        state |= {"phase": "drained", "disrupted": True}
        signals += _latch(state, seen, "drained", now, left=len(left))
        return
    until = leaving_until(left)
    if being_drained(left) or seen.drain_in_progress or seen.upgrade_drains:
        state["disrupted"] = True
        if state["phase"] == "cordoned":
            state["phase"] = "draining"
        signals += _latch(state, seen, "draining", now, audit=False, pods=len(left))
    since = max(text_time(state["progress"]) or now, until or datetime.min.replace(tzinfo=now.tzinfo))
    if now - since >= limits.deadline and "drained" not in state["latched"]:
        signals += _stalled(state, seen, left, around, now, since)


def _stalled(state: State, seen: Reading, left: list[Raw], around: Around, now: datetime, since: datetime) -> list[Signal]:
    """Stalled, if anybody is draining at all: a cordoned node whose Pods nobody evicts is only cordoned."""
    blockers, all_held = blocking(left, around.budgets or ())
    if "draining" not in state["latched"] and not (blockers and all_held):
        return []
    state |= {"phase": "stalled", "disrupted": True}
    pods = sorted(f"{p['metadata'].get('namespace', '')}/{p['metadata']['name']}" for p in left)
    by = f": {', '.join(blockers[:5])} allow{'s' if len(blockers) == 1 else ''} no disruption" if blockers else ""
    detail: dict[str, Any] = {"pods": pods[:20], "left": len(pods), "budgets": blockers, "unchanged_since": since.isoformat()}
    if around.budgets is None:
        detail["budgets_unknown"] = True
    return _latch(state, seen, "stalled", now, words=f"does not drain ({len(pods)} Pods left{by})", **detail)


def _return(state: State, seen: Reading, around: Around, now: datetime, limits: Limits, signals: list[Signal]) -> None:
    if not state["disrupted"]:
        _close(state)
        return
    lacks = missing(seen, state, around.pods, around.daemon_sets)
    if not lacks and around.pods is not None:
        phase = "joined" if state.get("cause") == "joined" else "rejoined"
        cause = state.get("cause", "")
        signals += _latch(state, seen, phase, now, kind=TriggerKind.REJOIN, words=f"has {phase}", cause=cause, devices=dict(seen.devices))
        _close(state)
        return
    state["phase"] = "returning"
    since = text_time(state.setdefault("returning", now.isoformat())) or now
    if lacks and now - since >= limits.deadline:
        words = f"is back, but not in order: {'; '.join(lacks[:4])}"
        signals += _latch(state, seen, "stalled", now, kind=TriggerKind.REJOIN, words=words, missing=lacks)


def _close(state: State) -> None:
    state |= {"open": False, "phase": "in-service", "disrupted": False, "latched": [], "baseline": None, "daemons": []}
    for key in ("returning", "left", "progress", "cause"):
        state.pop(key, None)


def _gone(previous: Mapping[str, Any] | None, name: str, now: datetime) -> tuple[State | None, list[Signal]]:
    if previous is None or previous["phase"] == "gone":
        return dict(previous) if previous else None, []
    state = {**previous, "latched": list(previous["latched"])}
    _open(state, Around(), text_time(state.get("not_ready")) or now)
    planned = bool(state.get("cordoned"))
    state |= {"phase": "gone", "disrupted": True}
    state.pop("not_ready", None)
    seen = Reading(name=name, uid=state["uid"])
    return state, _latch(state, seen, "gone", now, cordoned_before=planned)
