"""The clock and people as triggers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.contract.signals import Scope
from triggers.schedule import NotAPing, Ping, first_start, manual, read, scheduled

NOW = datetime(2026, 12, 1, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("data", "ping"),
    [
        (None, Ping.TICK),
        (b"", Ping.TICK),
        ("  ", Ping.TICK),
        (b'{"kind": "sweep"}', Ping.SWEEP),
        ('{"kind": "baseline"}', Ping.BASELINE),
        ({"kind": "tick"}, Ping.TICK),
        ({"kind": "sweep", "more": 1}, Ping.SWEEP),
    ],
)
def test_pings_are_read_as_the_source_sends_them(data: Any, ping: Ping) -> None:
    assert read(data) is ping


@pytest.mark.parametrize("data", [b"{", b"\xff", "sweep", [], {}, {"kind": "tock"}, {"kind": None}, {"kind": ["tick"]}, 7])
def test_what_is_no_ping_is_refused(data: Any) -> None:
    with pytest.raises(NotAPing):
        read(data)


def test_one_period_is_one_signal() -> None:
    hour = timedelta(hours=1)
    keys = [scheduled(NOW + timedelta(minutes=m), hour).key for m in (0, 20, 47, 48, 60)]
    assert len(set(keys)) == 2
    assert keys[2] != keys[3]


def test_a_person_asks_for_each_scope_once() -> None:
    signals = manual([Scope.parse("node/a"), Scope.parse("cluster"), Scope.parse("node/a")], NOW, "r1")
    assert [str(s.scope) for s in signals] == ["node/a", "cluster"]
    assert all(s.urgent for s in signals)


def test_the_first_start_is_the_cluster_as_a_whole() -> None:
    signal = first_start(NOW, 7)
    assert str(signal.scope) == "cluster"
    assert signal.trigger.kind == "schedule"
