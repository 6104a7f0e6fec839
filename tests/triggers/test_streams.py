"""What a real API server sent (see tests/e2e/record_streams.py), through the triggers."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from functions.contract.signals import Signal, TriggerKind
from triggers.observer import Limits
from triggers.replay import Replay

STREAMS = Path(__file__).parent / "streams"
LIMITS = Limits(drain_deadline=timedelta(seconds=4))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAMS / f"{name}.jsonl").read_text().splitlines()]


async def play(recorded: list[dict[str, Any]], times: int = 1) -> list[Signal]:
    """Each change `times` times over, as after a resync or with two adapters."""
    replay = Replay(LIMITS)
    first = [line for line in recorded if line["type"] == "LISTED"]
    start = datetime.fromisoformat(first[-1]["at"])
    signals = await replay.listed([line["object"] for line in first], start)
    assert [s.trigger.kind for s in signals] == [TriggerKind.SCHEDULE], "what is there at first is audited as a whole"
    out: list[Signal] = []
    for line in recorded:
        if line["type"] == "LISTED":
            continue
        at = datetime.fromisoformat(line["at"])
        out += await replay.pass_time(at)
        for _ in range(times):
            out += await replay.change(line["type"], line["object"], at)
    return [signal for signal in out if signal.trigger.kind is not TriggerKind.KUBERNETES_EVENT]


def told(signals: list[Signal]) -> list[str]:
    return [f"{s.trigger.subject.name if s.trigger.subject else ''} {s.trigger.kind.value} {s.trigger.phase}" for s in signals]


STORIES = {
    "roll_daemon_set": ["exporter rollout started", "exporter rollout complete"],
    # image, (scaled), undone, restarted, (annotated, paused and changed), resumed
    "roll_deployment": ["server rollout started", "server rollout complete"] * 4,
    # made anew, then a template that fits no node, then undone
    "fail_deployment": [
        "greedy rollout complete",
        "greedy rollout started",
        "greedy rollout failed",
        "greedy rollout started",
        "greedy rollout complete",
    ],
    "roll_stateful_set": ["index rollout started", "index rollout complete"] * 2,
    "drain_and_return": [
        "gpu-1 drain cordoned",
        "gpu-1 drain draining",
        "gpu-1 drain drained",
        "gpu-1 drain uncordoned",
        "gpu-1 rejoin rejoined",
    ],
    "cordon_only": ["gpu-0 drain cordoned", "gpu-0 drain uncordoned"],
    "by_hand": ["driver rollout complete", "driver rollout started", "driver rollout complete"],
}


@pytest.mark.parametrize("name", STORIES)
async def test_a_recorded_story_is_told_once_and_whole(name: str) -> None:
    signals = await play(lines(name))
    assert told(signals) == STORIES[name]
    assert len({signal.key for signal in signals}) == len(signals)


@pytest.mark.parametrize("name", STORIES)
async def test_repeated_changes_repeat_no_signal(name: str) -> None:
    assert told(await play(lines(name), times=3)) == STORIES[name]


#: deleted at the end, made anew, or back at the very revision that was there before: nothing to see afterwards
GONE_OR_AS_BEFORE = ("fail_deployment", "by_hand", "roll_stateful_set")


async def test_a_drain_that_a_budget_blocks_names_it() -> None:
    signals = await play(lines("drain_blocked"))
    stalled = {s.trigger.subject.name: s for s in signals if s.trigger.phase == "stalled" and s.trigger.subject}
    assert set(stalled) == {"gpu-0", "gpu-2"}
    assert all(s.detail["budgets"] == ["default/server"] for s in stalled.values())
    assert {"gpu-0 rejoin rejoined", "gpu-1 rejoin rejoined", "gpu-2 rejoin rejoined"} <= set(told(signals))


@pytest.mark.parametrize("name", [n for n in STORIES if n not in GONE_OR_AS_BEFORE])
async def test_a_sweep_that_sees_only_the_end_misses_no_end(name: str) -> None:
    """The watch was away all the time: only the last state of every object is seen."""
    recorded = lines(name)
    last: dict[tuple[str, str, str], dict[str, Any]] = {}
    for line in recorded:
        if line["type"] != "LISTED":
            metadata = line["object"]["metadata"]
            last[line["object"]["kind"], metadata.get("namespace", ""), metadata["name"]] = line
    first = [line for line in recorded if line["type"] == "LISTED"]
    signals = await play([*first, *sorted(last.values(), key=lambda line: str(line["at"]))])
    ends = [line for line in told(signals) if line.endswith("complete")]
    assert ends == (["server rollout complete"] if name == "roll_deployment" else ends)
    assert bool(ends) == any(line.endswith("complete") for line in STORIES[name])
