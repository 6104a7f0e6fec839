"""Events as hints: which count, in both APIs, and that a storm of repeats is one signal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.contract.signals import Subject
from triggers.kubernetes_events import key_of, observe, read, reasons

T0 = datetime(2026, 12, 1, 10, tzinfo=UTC)
SERVER = Subject("Deployment", "server", "llm")


def core(
    reason: str,
    kind: str = "Pod",
    name: str = "server-x",
    *,
    count: int = 1,
    uid: str = "e1",
    seconds: float = 0,
    message: str = "m",
    type_: str = "Warning",
) -> dict[str, Any]:
    stamp = (T0 + timedelta(seconds=seconds)).isoformat()
    return {
        "kind": "Event",
        "metadata": {"uid": uid, "creationTimestamp": T0.isoformat()},
        "involvedObject": {"kind": kind, "name": name, "namespace": "llm", "uid": name},
        "reason": reason,
        "type": type_,
        "message": message,
        "count": count,
        "firstTimestamp": T0.isoformat(),
        "lastTimestamp": stamp,
        "eventTime": None,
        "source": {"component": "kubelet"},
    }


def modern(reason: str, *, series: int = 0, seconds: float = 0) -> dict[str, Any]:
    raw = {
        "kind": "Event",
        "metadata": {"uid": "e2"},
        "regarding": {"kind": "Pod", "name": "server-x", "namespace": "llm"},
        "reason": reason,
        "type": "Warning",
        "note": "n",
        "eventTime": T0.isoformat(),
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "reportingController": "default-scheduler",
    }
    if series:
        raw["series"] = {"count": series, "lastObservedTime": (T0 + timedelta(seconds=seconds)).isoformat()}
    return raw


class Feed:
    def __init__(self) -> None:
        self.states: dict[str, Any] = {}

    def __call__(self, raw: dict[str, Any], owner: Subject | None = SERVER) -> list[Any]:
        key = key_of(read(raw), owner)
        self.states[key], signals = observe(self.states.get(key), raw, T0 + timedelta(hours=5), owner=owner)
        return signals


@pytest.mark.parametrize(
    "reason",
    [
        "FailedScheduling",
        "Evicted",
        "Preempted",
        "TaintManagerEviction",
        "UnexpectedAdmissionError",
        "FailedPrepareDynamicResources",
        "OutOfnvidia.com/gpu",
    ],
)
def test_a_pods_event_belongs_to_its_workload(reason: str) -> None:
    (signal,) = Feed()(core(reason))
    assert signal.audit
    assert str(signal.scope) == "Deployment/llm/server"
    assert signal.trigger.subject == SERVER
    assert signal.detail["object"]["name"] == "server-x"


def test_both_apis_say_the_same() -> None:
    old, new = read(core("FailedScheduling", message="n")), read(modern("FailedScheduling"))
    assert (old.reason, old.subject, old.message, old.count) == (new.reason, new.subject, new.message, new.count)
    assert new.last_at == T0
    assert read(modern("FailedScheduling", series=9, seconds=50)).count == 9
    assert read(modern("FailedScheduling", series=9, seconds=50)).last_at == T0 + timedelta(seconds=50)


def test_normal_events_count_where_they_matter() -> None:
    """NodeNotReady is Normal on the node and a Warning on each of its Pods."""
    (signal,) = Feed()(core("NodeNotReady", "Node", "gpu-1", type_="Normal"), None)
    assert str(signal.scope) == "node/gpu-1"
    (hint,) = Feed()(core("NodeNotReady"))
    assert not hint.audit


def test_repeats_are_one_signal_and_a_later_one_if_it_goes_on() -> None:
    feed = Feed()
    assert len(feed(core("FailedScheduling"))) == 1
    for count in range(2, 50):
        assert feed(core("FailedScheduling", count=count, seconds=count * 60)) == []
    (again,) = feed(core("FailedScheduling", count=70, seconds=3700))
    assert again.key.endswith("/2")


def test_a_storm_over_all_pods_of_a_workload_is_one_signal_and_one_small_state() -> None:
    feed = Feed()
    signals = [s for n in range(500) for s in feed(core("BackOff", name=f"server-{n}", uid=f"e{n}"))]
    assert len(signals) == 1
    assert len(str(feed.states)) < 2000


def test_what_happens_now_and_then_in_good_order_needs_to_repeat() -> None:
    feed = Feed()
    assert feed(core("Unhealthy")) == []
    assert feed(core("Unhealthy", count=2, seconds=10)) == []
    assert feed(core("Unhealthy", count=2, seconds=10)) == [], "sent again"
    assert len(feed(core("Unhealthy", count=3, seconds=20))) == 1


def test_a_cancelled_eviction_is_none() -> None:
    assert Feed()(core("TaintManagerEviction", message="Cancelling deletion of Pod llm/server-x", type_="Normal")) == []
    assert len(Feed()(core("TaintManagerEviction", message="Marking for deletion Pod llm/server-x", type_="Normal"))) == 1


def test_an_event_of_no_interest_is_no_signal_and_no_state() -> None:
    feed = Feed()
    assert feed(core("Scheduled", type_="Normal")) == []
    assert feed(core("Evicted", "Node", "gpu-1")) == []
    assert set(feed.states.values()) == {None}


def test_broken_events_don_t_crash() -> None:
    for raw in ({}, {"metadata": {}}, {"reason": "Evicted"}, core("Evicted") | {"lastTimestamp": "yesterday", "count": None}):
        read(raw)
        observe(None, raw, T0)


def test_an_unknown_owner_leaves_the_pod() -> None:
    (signal,) = Feed()(core("Evicted"), None)
    assert str(signal.scope) == "Pod/llm/server-x"


def test_every_row_of_the_table_has_a_source() -> None:
    assert all(row.source for rows in reasons().values() for row in rows)
