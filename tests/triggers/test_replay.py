"""Recorded changes through the triggers, without a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from triggers.replay import MemoryEpisodes, Replay, latest_time
from triggers.watch import Options, from_cloudevent


def daemon_set(template: int, version: int, at: str) -> dict[str, Any]:
    return {
        "kind": "DaemonSet",
        "metadata": {
            "name": "exporter",
            "namespace": "gpu",
            "uid": "d1",
            "generation": template,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"deprecated.daemonset.template.generation": str(template)},
            "managedFields": [{"manager": "kubectl", "time": at, "fieldsV1": {"f:spec": {"f:template": {}}}}],
        },
        "spec": {"template": {"spec": {"containers": []}}},
        "status": {"observedGeneration": template, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1},
    }


OLD, NEW = daemon_set(1, 10, "2026-12-01T09:00:00Z"), daemon_set(2, 20, "2026-12-01T10:00:00Z")


async def test_a_recording_without_times_takes_those_of_its_objects() -> None:
    replay = Replay()
    await replay.change("ADDED", OLD)
    signals = await replay.change("MODIFIED", NEW)
    assert [s.trigger.phase for s in signals] == ["started", "complete"]
    assert replay.now == latest_time(NEW) == datetime(2026, 12, 1, 10, tzinfo=UTC)


async def test_knatives_events_are_replayed_in_any_order_and_more_than_once() -> None:
    replay = Replay()
    types = [("add", OLD), ("update", NEW), ("update", OLD), ("update", NEW)]
    signals = [s for verb, raw in types for s in await replay.cloudevent(f"dev.knative.apiserver.resource.{verb}", raw)]
    assert [s.trigger.phase for s in signals] == ["started", "complete"]
    assert await replay.cloudevent("dev.knative.apiserver.ref.update", {"kind": "Node", "name": "a"}) == []
    assert await replay.cloudevent("dev.knative.sources.ping", None) == []


async def test_without_a_cluster_an_event_is_judged_by_what_it_says() -> None:
    episodes, taken = MemoryEpisodes(), list[Any]()

    async def sink(signals: Any) -> None:
        taken.extend(signals)

    for raw in (OLD, NEW):
        await from_cloudevent("dev.knative.apiserver.resource.update", raw, None, sink, episodes, Options())
    assert [s.trigger.phase for s in taken] == ["started", "complete"]
