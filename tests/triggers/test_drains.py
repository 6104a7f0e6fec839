"""Node episodes: what is a drain, when it is over or stuck, and when a node is really back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from triggers.drains import Around, Limits, is_open, observe, wants_budgets

T0 = datetime(2026, 12, 1, 10, tzinfo=UTC)
LIMITS = Limits(deadline=timedelta(seconds=300), grace=timedelta(seconds=60))
GPUS = {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def node(
    *,
    ready: bool = True,
    cordoned: bool = False,
    boot: str = "b1",
    uid: str = "n1",
    since: float = -9999,
    capacity: Any = None,
    allocatable: Any = None,
    labels: Any = None,
    **conditions: str,
) -> dict[str, Any]:
    taint = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}] if cordoned else []
    listed = [
        {
            "type": "Ready",
            "status": "True" if ready else "Unknown",
            "reason": "KubeletReady" if ready else "NodeStatusUnknown",
            "lastTransitionTime": at(since).isoformat(),
        }
    ]
    return {
        "kind": "Node",
        "metadata": {"name": "gpu-1", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels or {}},
        "spec": ({"unschedulable": True} if cordoned else {}) | {"taints": taint},
        "status": {
            "conditions": listed + [{"type": k, "status": v} for k, v in conditions.items()],
            "capacity": GPUS if capacity is None else capacity,
            "allocatable": (GPUS if capacity is None else capacity) if allocatable is None else allocatable,
            "nodeInfo": {"bootID": boot},
        },
    }


def pod(
    name: str,
    owner: str = "ReplicaSet",
    *,
    ready: bool = True,
    phase: str = "Running",
    leaving: float | None = None,
    evicted: bool = False,
    mirror: bool = False,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "llm", "uid": name, "labels": {"app": name.partition("-")[0]}}
    metadata["ownerReferences"] = [{"kind": owner, "name": name.rpartition("-")[0], "controller": True}]
    if leaving is not None:
        metadata["deletionTimestamp"] = at(leaving).isoformat()
    if mirror:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "x"}
    conditions = [{"type": "Ready", "status": str(ready)}]
    if evicted:
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "lastTransitionTime": at(leaving or 0).isoformat(),
            }
        )
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "gpu-1"}, "status": {"phase": phase, "conditions": conditions}}


EXPORTER = pod("exporter-x", "DaemonSet")
SERVER = pod("server-x")


class Story:
    def __init__(self, **options: Any) -> None:
        self.state: Any = None
        self.signals: list[Any] = []
        self.options = options

    def see(self, raw: Any, seconds: float = 0, pods: Any = (EXPORTER,), budgets: Any = None, daemon_sets: Any = None) -> list[str]:
        around = Around(None if pods is None else list(pods), budgets, daemon_sets)
        self.state, signals = observe(self.state, "gpu-1", raw, at(seconds), around=around, limits=LIMITS, **self.options)
        self.signals += signals
        return [f"{signal.trigger.kind.value}/{signal.trigger.phase}" for signal in signals]

    @property
    def audits(self) -> list[str]:
        return [f"{s.trigger.kind.value}/{s.trigger.phase}" for s in self.signals if s.audit]


def in_service() -> Story:
    story = Story()
    assert story.see(node(), pods=[EXPORTER, SERVER]) == []
    return story


def test_a_drain_is_one_episode_from_the_cordon_to_the_return() -> None:
    story = in_service()
    assert story.see(node(cordoned=True), 10, [EXPORTER, SERVER]) == ["drain/cordoned"]
    assert story.see(node(cordoned=True), 12, [EXPORTER, pod("server-x", leaving=42, evicted=True)]) == ["drain/draining"]
    assert story.see(node(cordoned=True), 20) == ["drain/drained"]
    assert story.see(node(cordoned=True), 25) == []
    assert story.see(node(), 500) == ["drain/uncordoned", "rejoin/rejoined"]
    assert story.see(node(), 505) == []
    assert story.audits == ["drain/drained", "rejoin/rejoined"]
    assert {signal.baseline for signal in story.signals} == {at(9)}
    assert {str(signal.scope) for signal in story.signals} == {"node/gpu-1"}


def test_two_episodes_of_one_node_are_two_stories() -> None:
    story = in_service()
    for start in (10, 1000):
        story.see(node(cordoned=True), start, [EXPORTER, SERVER])
        story.see(node(cordoned=True), start + 10)
        story.see(node(), start + 20)
    assert story.audits == ["drain/drained", "rejoin/rejoined"] * 2
    assert len({signal.key for signal in story.signals}) == len(story.signals)


def test_a_cordon_alone_opens_and_closes_silently() -> None:
    story = in_service()
    story.see(node(cordoned=True), 10, [EXPORTER, SERVER])
    story.see(node(cordoned=True), 4000, [EXPORTER, SERVER])
    story.see(node(), 4010, [EXPORTER, SERVER])
    assert story.audits == []
    assert not is_open(story.state)


def test_a_pod_that_a_rollout_replaces_on_a_cordoned_node_is_no_drain() -> None:
    story = in_service()
    both = [EXPORTER, SERVER, pod("other-x")]
    story.see(node(cordoned=True), 10, both)
    assert story.see(node(cordoned=True), 20, [EXPORTER, SERVER, pod("other-x", leaving=50)]) == []
    assert story.see(node(cordoned=True), 60, [EXPORTER, SERVER]) == []
    assert story.see(node(cordoned=True), 4000, [EXPORTER, SERVER], budgets=[]) == []


def test_what_a_drain_leaves_alone_does_not_count() -> None:
    story = in_service()
    left = [EXPORTER, pod("static-gpu-1", "Node", mirror=True), pod("job-x", "Job", phase="Succeeded")]
    assert "drain/drained" in story.see(node(cordoned=True), 10, left)


def test_a_pod_that_is_being_deleted_is_still_there() -> None:
    story = in_service()
    assert story.see(node(cordoned=True), 10, [EXPORTER, pod("server-x", leaving=40)]) == ["drain/cordoned", "drain/draining"]
    assert story.see(node(cordoned=True), 41, [EXPORTER]) == ["drain/drained"]


def test_a_drain_without_evictions_is_a_drain() -> None:
    """`kubectl drain --disable-eviction` deletes: no condition is left on the Pods."""
    story = in_service()
    two = [EXPORTER, pod("server-x", leaving=40), pod("other-x", leaving=40)]
    assert story.see(node(cordoned=True), 10, two) == ["drain/cordoned", "drain/draining"]


def test_a_blocked_drain_stalls_and_names_the_budgets() -> None:
    """A budget that blocks is an HTTP status to kubectl and nothing in the objects: cordoned, unchanged, no disruption allowed."""
    tight = {
        "metadata": {"name": "server", "namespace": "llm"},
        "spec": {"selector": {"matchLabels": {"app": "server"}}},
        "status": {"disruptionsAllowed": 0},
    }
    loose = {"metadata": {"name": "loose", "namespace": "llm"}, "spec": {"selector": {}}, "status": {"disruptionsAllowed": 1}}
    elsewhere = tight | {"metadata": {"name": "server", "namespace": "other"}}
    story = in_service()
    pods = [EXPORTER, SERVER]
    story.see(node(cordoned=True), 10, pods)
    assert not wants_budgets(story.state, at(300), LIMITS)
    assert wants_budgets(story.state, at(311), LIMITS)
    assert story.see(node(cordoned=True), 311, pods, budgets=[tight, loose, elsewhere]) == ["drain/stalled"]
    assert story.signals[-1].detail["budgets"] == ["llm/server"]
    assert story.see(node(cordoned=True), 900, pods, budgets=[tight]) == []
    assert story.see(node(cordoned=True), 950, [EXPORTER]) == ["drain/drained"]
    assert story.see(node(), 1000) == ["drain/uncordoned", "rejoin/rejoined"]


def test_label_expressions_of_budgets_are_understood() -> None:
    def blocked_by(expression: dict[str, Any]) -> bool:
        budget = {
            "metadata": {"name": "b", "namespace": "llm"},
            "spec": {"selector": {"matchExpressions": [expression]}},
            "status": {"disruptionsAllowed": 0},
        }
        story = in_service()
        story.see(node(cordoned=True), 10, [SERVER])
        return story.see(node(cordoned=True), 400, [SERVER], budgets=[budget]) == ["drain/stalled"]

    assert blocked_by({"key": "app", "operator": "In", "values": ["server"]})
    assert blocked_by({"key": "app", "operator": "Exists"})
    assert blocked_by({"key": "tier", "operator": "DoesNotExist"})
    assert blocked_by({"key": "app", "operator": "NotIn", "values": ["db"]})
    assert not blocked_by({"key": "app", "operator": "In", "values": ["db"]})
    assert not blocked_by({"key": "tier", "operator": "Exists"})


def test_a_long_grace_period_is_no_stall() -> None:
    story = in_service()
    slow = [EXPORTER, pod("server-x", leaving=1000, evicted=True)]
    story.see(node(cordoned=True), 10, slow)
    assert story.see(node(cordoned=True), 900, slow, budgets=[]) == []
    assert story.see(node(cordoned=True), 1301, slow, budgets=[]) == ["drain/stalled"]


def test_without_the_pods_nothing_is_said_about_a_drain() -> None:
    story = in_service()
    assert story.see(node(cordoned=True), 10, None) == ["drain/cordoned"]
    assert story.see(node(cordoned=True), 1000, None) == []


def test_a_short_not_ready_is_no_absence() -> None:
    story = in_service()
    assert story.see(node(ready=False, since=10), 15) == []
    assert is_open(story.state)
    assert story.see(node(since=40), 40) == []
    assert not is_open(story.state)


def test_a_node_that_stays_not_ready_is_audited_and_so_is_its_return() -> None:
    story = in_service()
    story.see(node(ready=False, since=10), 15)
    assert story.see(node(ready=False, since=10), 71) == ["drain/not-ready"]
    assert story.signals[-1].baseline == at(9)
    assert story.see(node(ready=False, since=10), 500) == []
    assert story.see(node(since=600), 600) == ["rejoin/rejoined"]
    assert story.audits == ["drain/not-ready", "rejoin/rejoined"]


def test_a_planned_reboot_is_one_absence_with_one_return() -> None:
    story = in_service()
    story.see(node(cordoned=True), 10, [EXPORTER, SERVER])
    story.see(node(cordoned=True), 20)
    story.see(node(cordoned=True, ready=False, since=30), 200)
    story.see(node(cordoned=True, boot="b2", since=250), 250)
    story.see(node(boot="b2", since=250), 300)
    assert story.audits == ["drain/drained", "rejoin/rejoined"]


def test_a_reboot_that_nobody_saw_is_found_by_the_boot_id() -> None:
    story = in_service()
    phases = story.see(node(boot="b2", since=100), 120)
    assert phases == ["drain/rebooted", "rejoin/rejoined"]
    assert story.audits == ["rejoin/rejoined"]
    assert story.signals[-1].baseline is not None
    assert story.signals[-1].baseline < at(100)


def test_a_new_object_under_an_old_name_is_a_return() -> None:
    story = in_service()
    assert story.see(None, 10) == ["drain/gone"]
    assert story.see(None, 20) == []
    assert story.see(node(uid="n2", boot="b2", ready=False, since=100), 100) == ["drain/replaced"]
    assert story.see(node(uid="n2", boot="b2", since=130), 130) == ["rejoin/rejoined"]
    assert story.audits == ["drain/gone", "rejoin/rejoined"]


def test_a_node_is_not_back_before_its_gpus_are() -> None:
    """Ready comes minutes before the device plugin has registered again."""
    story = in_service()
    story.see(node(ready=False, since=10), 80)
    assert story.see(node(since=100, capacity={"cpu": "64"}), 100) == []
    assert story.see(node(since=100, capacity=GPUS, allocatable=GPUS | {"nvidia.com/gpu": "0"}), 150) == []
    assert story.see(node(since=100), 200) == ["rejoin/rejoined"]


def test_a_node_is_not_back_before_its_daemon_sets_are() -> None:
    story = Story()
    story.see(node(), pods=[EXPORTER, pod("cni-x", "DaemonSet")])
    story.see(node(ready=False, since=10), 80, [EXPORTER, pod("cni-x", "DaemonSet")])
    assert story.see(node(since=100), 100, [pod("exporter-x", "DaemonSet", ready=False), pod("cni-x", "DaemonSet")]) == []
    assert story.see(node(since=100), 110, [EXPORTER], daemon_sets=frozenset({"llm/exporter", "llm/cni"})) == []
    assert story.see(node(since=100), 120, [EXPORTER], daemon_sets=frozenset({"llm/exporter"})) == ["rejoin/rejoined"]


def test_a_return_that_stays_incomplete_is_audited_once() -> None:
    story = in_service()
    story.see(node(ready=False, since=10), 80)
    short = node(since=100, allocatable=GPUS | {"nvidia.com/gpu": "6"})
    assert story.see(short, 100) == []
    assert story.see(short, 401) == ["rejoin/stalled"]
    assert story.signals[-1].detail["missing"] == ["nvidia.com/gpu: 6 of 8 allocatable"]
    assert story.see(short, 999) == []
    assert story.see(node(since=100), 1000) == ["rejoin/rejoined"]


def test_repartitioned_gpus_are_still_gpus() -> None:
    story = in_service()
    story.see(node(ready=False, since=10), 80)
    assert story.see(node(since=100, capacity={"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "56"}), 100) == ["rejoin/rejoined"]


def test_a_driver_upgrade_is_over_when_its_label_says_so() -> None:
    state = "nvidia.com/gpu-driver-upgrade-state"
    story = in_service()
    story.see(node(cordoned=True, labels={state: "drain-required"}), 10, [EXPORTER, SERVER])
    story.see(node(cordoned=True, labels={state: "pod-restart-required"}), 20)
    assert story.see(node(labels={state: "uncordon-required"}), 30) == ["drain/uncordoned"]
    assert story.see(node(labels={state: "upgrade-done"}), 40) == ["rejoin/rejoined"]
    assert story.signals[0].detail["gpu_driver_upgrade"] == "drain-required"


def test_a_failed_driver_upgrade_is_a_stalled_drain() -> None:
    story = in_service()
    story.see(node(cordoned=True), 10, [EXPORTER, SERVER])
    phases = story.see(node(cordoned=True, labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), 20, [EXPORTER, SERVER])
    assert phases == ["drain/stalled"]
    assert story.signals[-1].detail["reason"] == "upgrade-failed"


def test_conditions_of_the_maintainer_are_preferred() -> None:
    """KEP-5683: whoever drains says so on the node."""
    story = in_service()
    assert story.see(node(DrainInProgress="True"), 10, [EXPORTER, SERVER]) == ["drain/cordoned", "drain/draining"]
    assert story.see(node(Drained="True"), 20, [EXPORTER, SERVER]) == ["drain/drained"]
    assert story.see(node(MaintenanceInProgress="True"), 30, [EXPORTER]) == ["drain/uncordoned"]
    assert story.see(node(), 40, [EXPORTER]) == ["rejoin/rejoined"]


def test_the_first_sight_of_a_node_is_the_state_so_far() -> None:
    for first in (node(), node(cordoned=True), node(ready=False, since=-5000), node(allocatable=GPUS | {"nvidia.com/gpu": "7"})):
        story = Story()
        assert story.see(first) == []
        assert story.see(first, 100) == []
        assert story.see(first, 5000) == []
        assert story.audits == []


def test_a_node_found_away_is_followed_home() -> None:
    story = Story()
    story.see(node(cordoned=True))
    assert story.see(node(), 100) == ["drain/uncordoned", "rejoin/rejoined"]


def test_a_node_that_joins_is_audited_when_it_is_in_order() -> None:
    story = Story(since=T0)
    fresh = node(ready=False, since=100, capacity={"cpu": "64"})
    fresh["metadata"]["creationTimestamp"] = at(100).isoformat()
    assert story.see(fresh, 100, []) == []
    assert story.see(fresh, 170, []) == [], "a machine that starts is not Ready for a while"
    up = node(since=200)
    up["metadata"]["creationTimestamp"] = at(100).isoformat()
    assert story.see(up, 200) == ["rejoin/joined"]


def test_a_known_node_that_was_never_away_stays_silent() -> None:
    story = in_service()
    beat = node()
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = at(300).isoformat()
    beat["metadata"]["labels"] = {"new": "label"}
    assert story.see(beat, 300) == []
