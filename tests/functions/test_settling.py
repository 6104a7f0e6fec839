"""An audit waits for changes elsewhere, within a bound; an alert and a person don't wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.contract.signals import CLUSTER, Scope, Signal, TriggerKind
from functions.settling import horizon, settles_at
from tests.support.reports import EXPORTER, NOW, later, request, signal

SETTLE = timedelta(seconds=300)
NODE = Scope("node", "", "gpu-1")
SCHEDULED = request("a", signal("s", CLUSTER, TriggerKind.SCHEDULE, "periodic"), scope=CLUSTER)


def at(seconds: float, *signals: Signal, of: Any = SCHEDULED, unjudged: Sequence[Scope] = ()) -> datetime | None:
    return settles_at(of, signals, unjudged, later(seconds), SETTLE)


def change(phase: str, seconds: float, scope: Scope = EXPORTER, kind: TriggerKind = TriggerKind.ROLLOUT) -> Signal:
    opens = phase in ("started", "cordoned")
    return signal(f"{scope}/{phase}", scope, kind, phase, at=later(seconds), audit=not opens)


def test_where_nothing_changes_nothing_waits() -> None:
    assert at(0) is None
    assert at(0, change("complete", -300)) is None
    assert at(0, signal("e", NODE, TriggerKind.KUBERNETES_EVENT, "")) is None


@pytest.mark.parametrize("kind", [TriggerKind.DRAIN, TriggerKind.REJOIN, TriggerKind.ROLLOUT])
def test_what_has_changed_lately_elsewhere_is_waited_for(kind: TriggerKind) -> None:
    assert at(0, change("complete", -100, NODE, kind)) == later(200)


def test_a_rollout_under_way_is_looked_after_again_and_again_and_in_the_end_not_waited_for() -> None:
    started = change("started", -400)
    assert at(0, started) == later(75)
    assert at(75, started, change("complete", 20)) == later(320)
    assert at(1190, started) == later(1200)
    assert at(1200, started) is None


def test_a_node_on_its_way_out_is_under_way_until_it_is_drained() -> None:
    cordoned = change("cordoned", -400, NODE, TriggerKind.DRAIN)
    assert at(0, cordoned) == later(75)
    assert at(0, cordoned, change("drained", -300, NODE, TriggerKind.DRAIN)) is None


def test_an_audit_does_not_wait_for_the_change_that_it_is_about() -> None:
    own = request("a", change("complete", -300))
    assert at(0, change("started", -400), change("complete", -300), of=own) is None
    elsewhere = change("drained", -10, NODE, TriggerKind.DRAIN)
    assert at(0, elsewhere, of=own) == later(290)
    assert at(600, replace(elsewhere, at=later(590)), of=own) is None, "a change is not left unjudged for long"


def test_what_comes_by_the_clock_lets_the_audits_of_changes_go_first() -> None:
    assert at(0, unjudged=[NODE]) == later(75)
    assert at(0, unjudged=[CLUSTER]) is None
    assert at(0, of=request("a", change("complete", -300)), unjudged=[NODE]) is None


def test_alerts_and_people_get_their_answer_at_once() -> None:
    for kind in (TriggerKind.ALERT, TriggerKind.MANUAL):
        asked = request("a", signal("s", CLUSTER, kind, ""), scope=CLUSTER)
        assert at(0, change("started", -1), of=asked) is None
    urgent = replace(SCHEDULED, signals=(replace(SCHEDULED.signals[0], urgent=True),))
    assert at(0, change("started", -1), of=urgent) is None


def test_a_clock_that_is_ahead_makes_nobody_wait_longer() -> None:
    assert at(0, change("complete", 9999)) == later(300)


def test_what_began_long_ago_is_not_read() -> None:
    assert horizon(NOW, SETTLE) == later(-2400)
