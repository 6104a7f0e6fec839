"""Rollouts of Deployments, StatefulSets and DaemonSets: started, complete, failed, stalled.

Pure: `observe` takes the state so far and one object as the API server has it, and says what has happened
since. It does no I/O and has no clock. What it knows of the controllers:

- Nothing is judged while `metadata.generation` is ahead of `status.observedGeneration`: the status still
  describes the old template. The generation itself also moves when an object is scaled, so it starts nothing.
- A rollout starts when the server's own name of the template revision changes. A hash of the raw template stands
  in where there is none; it is taken from the JSON as served, never from a client's model of it.
- DaemonSets and StatefulSets have no deadline and no failure condition; a timer of ours finds those that hang.
- Counters of a DaemonSet never become whole while a node is down or cordoned (kubernetes/kubernetes#139226), so it
  counts as complete on the nodes that can take part, and the others are named.

How far one object has come is read in `rollout_progress.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from functions.contract.signals import Signal, Subject, Trigger, TriggerKind
from functions.contract.times import text_time
from triggers.rollout_progress import KINDS, Progress, Surroundings, created_at, read, template_changed_at

__all__ = ["DEADLINE", "KINDS", "Surroundings", "is_open", "observe"]

State = dict[str, Any]

DEADLINE = timedelta(seconds=900)
#: A quota or webhook may refuse a Pod once and admit the next; only a refusal that lasts is a failure.
REFUSAL_GRACE = timedelta(seconds=30)
_MARGIN = timedelta(seconds=1)
_NOTHING_KNOWN = Surroundings()
_OPEN = frozenset({"rolling", "failed", "stalled"})


def is_open(state: Mapping[str, Any] | None) -> bool:
    """Whether the rollout may still change phase, so that its Pods are worth looking at and its timer runs."""
    return state is not None and state["phase"] in _OPEN


def observe(
    previous: Mapping[str, Any] | None,
    workload: Mapping[str, Any] | None,
    now: datetime,
    *,
    around: Surroundings = _NOTHING_KNOWN,
    deadline: timedelta = DEADLINE,
    since: datetime | None = None,
) -> tuple[State | None, list[Signal]]:
    """The new state and what has happened since `previous`. `workload` None: it was deleted.

    The first sight of an object is the state so far and signals nothing; a rollout found in progress is followed
    to its end. `since`: when the whole cluster was looked at before; a workload made later is a rollout of its own.
    """
    if workload is None:
        return None, []
    state = dict(previous) if previous is not None else None
    if workload.get("kind") not in KINDS:
        return state, []
    metadata = workload["metadata"]
    if state is not None and state["uid"] != metadata.get("uid", ""):
        state = None  # deleted and made again under the same name
    if int(metadata.get("generation") or 0) > int(workload.get("status", {}).get("observedGeneration") or 0):
        return _behind(state, workload, now), []
    seen = read(workload, around)
    if state is None:
        state = _first_sight(workload, seen, now)
        made = created_at(workload)
        if since is None or made is None or made <= since:
            return state, []
        state |= {"phase": "rolling", "started": made.isoformat(), "baseline": (made - _MARGIN).isoformat()}
    return _advance(state, workload, seen, now, deadline)


def _behind(state: State | None, workload: Mapping[str, Any], now: datetime) -> State | None:
    """The controller has not looked yet. Only an object that was just made is worth remembering: it rolls out for sure."""
    if state is None and int(workload["metadata"].get("generation") or 0) == 1:
        began = created_at(workload) or now
        return _state(workload, "", "", "rolling") | {"started": began.isoformat(), "baseline": (began - _MARGIN).isoformat()}
    return state


def _first_sight(workload: Mapping[str, Any], seen: Progress, now: datetime) -> State:
    state = _state(workload, seen.revision, seen.template, "complete") | {"images": dict(seen.images), "stage": seen.stage}
    if seen.complete or not (seen.rolling or seen.failure):
        return state
    began = template_changed_at(workload) or created_at(workload)
    baseline = (began - _MARGIN).isoformat() if began else None
    state |= {"started": began.isoformat() if began else None, "baseline": baseline}
    state["phase"] = "failed" if seen.failure else "rolling"
    return _progressed(state, seen, now)


def _advance(state: State, workload: Mapping[str, Any], seen: Progress, now: datetime, deadline: timedelta) -> tuple[State, list[Signal]]:
    if seen.paused:
        # a template may change while paused; it begins to roll out when the pause ends
        return state | {"paused": True, "waiting": None}, []
    signals: list[Signal] = []
    was_paused = state.pop("paused", False)
    if not state["revision"] and not state["template"]:
        state |= {"revision": seen.revision, "template": seen.template, "images": dict(seen.images), "stage": seen.stage}
    elif _is_new(state, seen):
        state = _start(state, workload, seen, now, was_paused=was_paused)
        signals.append(_started(state, workload, seen, now))
    # the server may add defaults to every template when it is upgraded: that is no rollout
    state |= {"revision": seen.revision or state["revision"], "template": seen.template, "stage": seen.stage}
    if not seen.revision:
        state["generation"] = seen.generation
    if is_open(state):
        state = _progressed(state, seen, now)
        state, ended = _end(state, workload, seen, now, deadline)
        signals += ended
    return state, signals


def _is_new(state: State, seen: Progress) -> bool:
    if seen.revision and state["revision"]:
        # a partition that goes down lets a known revision roll on to further Pods
        return bool(seen.revision != state["revision"] or (seen.stage < state["stage"] and seen.rolling and not is_open(state)))
    return bool(seen.template != state["template"] and seen.generation != state["generation"])


def _start(state: State, workload: Mapping[str, Any], seen: Progress, now: datetime, *, was_paused: bool) -> State:
    """A new turn. One that overtakes an unfinished one is compared with what was before the first of them."""
    floor = text_time(state.get("ended") or state.get("started"))
    changed = None if was_paused else template_changed_at(workload)
    began = now if changed is None or changed > now or (floor and changed < floor) else changed
    baseline = state.get("baseline") if is_open(state) else None
    return _state(workload, seen.revision, seen.template, "rolling") | {
        "turn": state["turn"] + 1,
        "started": began.isoformat(),
        "baseline": baseline or (began - _MARGIN).isoformat(),
        "stale": seen.failure_mark,
        "images": dict(seen.images),
        "images_before": state.get("images") or {},
        "supersedes": state["revision"] if is_open(state) else "",
    }


def _progressed(state: State, seen: Progress, now: datetime) -> State:
    """Remember the best figures so far: the timer runs from the last step forward, and only while something should move."""
    if not seen.timed:
        state |= {"best": seen.score, "waiting": None}
    elif state.get("waiting") is None or seen.score > state.get("best", -1):
        state |= {"best": max(seen.score, state.get("best", -1)), "waiting": now.isoformat()}
    if seen.failure and seen.failure_mark != state.get("stale"):
        state.setdefault("failing", now.isoformat())
    else:
        state.pop("failing", None)
    return state


def _end(state: State, workload: Mapping[str, Any], seen: Progress, now: datetime, deadline: timedelta) -> tuple[State, list[Signal]]:
    if seen.complete:
        phase, why = "complete", ""
    elif state["phase"] != "rolling":
        return state, []  # each transition once; a failed rollout can only become complete
    elif _has_failed(state, seen, now):
        phase, why = "failed", seen.failure
    elif _hangs(state, seen, now, deadline):
        phase, why = "stalled", f"no progress since {state['waiting']}"
    else:
        return state, []
    state |= {"phase": phase, "ended": now.isoformat()}
    for key in ("waiting", "best", "failing", "stale"):
        state.pop(key, None)
    signal = _signal(state, workload, seen, phase, now, why)
    if phase == "complete":
        state.pop("images_before", None)
    return state, [signal]


def _has_failed(state: State, seen: Progress, now: datetime) -> bool:
    since = text_time(state.get("failing"))
    if since is None:
        return False
    return seen.failure_final or now - since >= REFUSAL_GRACE


def _hangs(state: State, seen: Progress, now: datetime, deadline: timedelta) -> bool:
    """No step forward within the deadline, or longer under way than a deadline for every wave of Pods allows."""
    waiting, started = text_time(state.get("waiting")), text_time(state.get("started"))
    if waiting is None:
        return False
    overdue = started is not None and seen.waves is not None and now - started >= deadline * seen.waves
    return overdue or now - waiting >= deadline


def _state(workload: Mapping[str, Any], revision: str, template: str, phase: str) -> State:
    metadata = workload["metadata"]
    return {
        "uid": metadata.get("uid", ""),
        "revision": revision,
        "template": template,
        "generation": int(metadata.get("generation") or 0),
        "stage": 0,
        "turn": 0,
        "phase": phase,
        "started": None,
        "baseline": None,
    }


def _started(state: State, workload: Mapping[str, Any], seen: Progress, now: datetime) -> Signal:
    return _signal(state, workload, seen, "started", now, "")


def _signal(state: State, workload: Mapping[str, Any], seen: Progress, phase: str, now: datetime, why: str) -> Signal:
    metadata = workload["metadata"]
    subject = Subject(workload["kind"], metadata["name"], metadata.get("namespace", ""))
    detail: dict[str, Any] = {"revision": state["revision"] or state["template"][:12], "pods": seen.want, "updated": seen.updated}
    for key in ("images", "images_before", "supersedes", "started"):
        if state.get(key):
            detail[key] = state[key]
    if seen.excluded and phase != "started":
        detail["excluded"] = dict(seen.excluded)
    if why:
        detail["reason"] = why
    return Signal(
        key=f"rollout/{state['uid']}/{state['turn']}/{detail['revision']}/{phase}",
        trigger=Trigger(TriggerKind.ROLLOUT, phase, subject),
        scope=subject.scope,
        at=now,
        audit=phase != "started",
        baseline=text_time(state["baseline"]),
        summary=_summary(subject, seen, phase, why),
        detail=detail,
    )


def _summary(subject: Subject, seen: Progress, phase: str, why: str) -> str:
    head = f"rollout of {subject.kind} {subject.namespace}/{subject.name} {phase}"
    if phase == "started":
        return head
    if phase == "complete" and seen.excluded:
        named = ", ".join(f"{node} ({cause})" for node, cause in sorted(seen.excluded.items())[:5])
        more = len(seen.excluded) - 5
        tail = f"{named} and {more} more" if more > 0 else named
        return f"{head} on eligible nodes ({seen.updated} of {seen.want} Pods; left out: {tail})"
    return f"{head} ({seen.updated} of {seen.want} Pods{'; ' + why if why else ''})"
