"""Rollouts: what starts one, what ends it, and what must not be taken for either."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from triggers.rollouts import Surroundings, is_open, observe

T0 = datetime(2026, 12, 1, 10, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def deployment(
    *, revision: int = 1, image: str = "server:1", replicas: int = 3, done: int | None = None, generation: int = 1, **more: Any
) -> dict[str, Any]:
    """A Deployment whose controller has seen its spec; `done` Pods are of the new template and available."""
    done = replicas if done is None else done
    whole = done == replicas
    return {
        "kind": "Deployment",
        "metadata": {
            "name": "server",
            "namespace": "llm",
            "uid": "u1",
            "generation": generation,
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
        },
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 600,
            "template": {"spec": {"containers": [{"name": "main", "image": image}]}},
        },
        "status": {
            "observedGeneration": generation,
            "replicas": replicas if whole else replicas + 1,
            "updatedReplicas": done,
            "availableReplicas": done if whole else replicas,
            "conditions": [
                {
                    "type": "Progressing",
                    "status": "True",
                    "reason": "NewReplicaSetAvailable" if whole else "ReplicaSetUpdated",
                    "lastUpdateTime": "2026-12-01T09:00:00Z",
                }
            ],
        }
        | more,
    }


def daemon_set(
    *,
    template: int = 1,
    want: int = 3,
    updated: int | None = None,
    available: int | None = None,
    generation: int | None = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "kind": "DaemonSet",
        "metadata": {
            "name": "exporter",
            "namespace": "gpu",
            "uid": "d1",
            "generation": generation or template,
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "annotations": {"deprecated.daemonset.template.generation": str(template)},
        },
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": f"exporter:{template}"}]}}} | spec,
        "status": {
            "observedGeneration": generation or template,
            "desiredNumberScheduled": want,
            "updatedNumberScheduled": want if updated is None else updated,
            "numberAvailable": want if available is None else available,
        },
    }


def stateful_set(
    *,
    revision: str = "web-a",
    current: str = "",
    replicas: int = 3,
    updated: int | None = None,
    ready: int | None = None,
    generation: int = 1,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "llm", "uid": "s1", "generation": generation, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main", "image": revision}]}}} | spec,
        "status": {
            "observedGeneration": generation,
            "updateRevision": revision,
            "currentRevision": current or revision,
            "updatedReplicas": replicas if updated is None else updated,
            "readyReplicas": replicas if ready is None else ready,
        },
    }


def daemon_pod(node: str, revision: str, *, ready: bool = True, leaving: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": f"exporter-{node}-{revision}", "labels": {"controller-revision-hash": revision}}
    if leaving:
        metadata["deletionTimestamp"] = T0.isoformat()
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def node(name: str, *, ready: bool = True, cordoned: bool = False, **conditions: str) -> dict[str, Any]:
    listed = [{"type": "Ready", "status": str(ready)}, *({"type": k, "status": v} for k, v in conditions.items())]
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": cordoned}, "status": {"conditions": listed}}


NEWEST = [
    {"metadata": {"name": "exporter-b", "labels": {"controller-revision-hash": "b"}}, "revision": 2},
    {"metadata": {"name": "exporter-a", "labels": {"controller-revision-hash": "a"}}, "revision": 1},
]


class Story:
    """Observations of one object, one after the other."""

    def __init__(self, **options: Any) -> None:
        self.state: Any = None
        self.options = options
        self.signals: list[Any] = []

    def see(self, raw: Any, seconds: float = 0, **around: Any) -> list[str]:
        self.state, signals = observe(self.state, raw, at(seconds), around=Surroundings(**around), **self.options)
        self.signals += signals
        return [signal.trigger.phase for signal in signals]


def test_a_rollout_is_started_once_and_complete_once() -> None:
    story = Story()
    assert story.see(deployment()) == []
    new = {"revision": 2, "image": "server:2", "generation": 2}
    assert story.see(deployment(**new, done=1), 60) == ["started"]
    assert story.see(deployment(**new, done=2), 90) == []
    assert story.see(deployment(**new), 120) == ["complete"]
    assert story.see(deployment(**new), 180) == []
    started, complete = story.signals
    assert not started.audit
    assert complete.audit
    assert str(complete.scope) == "Deployment/llm/server"
    assert complete.baseline == started.baseline == at(59)
    assert complete.detail["images"] == {"main": "server:2"}
    assert complete.detail["images_before"] == {"main": "server:1"}


def test_a_rollout_that_is_over_when_it_is_first_noticed_is_signalled_whole() -> None:
    story = Story()
    story.see(deployment())
    assert story.see(deployment(revision=2, image="server:2", generation=2), 60) == ["started", "complete"]


def test_the_first_sight_of_an_object_is_the_state_so_far() -> None:
    assert Story().see(deployment()) == []
    assert Story().see(daemon_set()) == []
    assert Story().see(stateful_set()) == []


def test_a_rollout_in_progress_at_first_sight_is_followed_to_its_end() -> None:
    story = Story()
    assert story.see(deployment(revision=2, done=1)) == []
    assert is_open(story.state)
    assert story.see(deployment(revision=2), 60) == ["complete"]


def test_a_degraded_workload_at_first_sight_is_no_rollout() -> None:
    degraded = deployment()
    degraded["status"]["availableReplicas"] = 1
    story = Story()
    assert story.see(degraded) == []
    assert not is_open(story.state)
    assert story.see(deployment(), 60) == []


def test_an_object_made_after_the_last_look_is_a_rollout_of_its_own() -> None:
    story = Story(since=datetime(2026, 10, 1, tzinfo=UTC))
    assert story.see(deployment()) == ["complete"]


def test_an_object_just_made_is_followed_though_its_controller_has_not_seen_it() -> None:
    story = Story()
    fresh = deployment(revision=1, done=0)
    fresh["status"] = {}
    assert story.see(fresh) == []
    assert story.see(deployment(), 10) == ["complete"]


@pytest.mark.parametrize("make", [deployment, stateful_set])
def test_scaling_alone_is_no_rollout(make: Any) -> None:
    story = Story()
    story.see(make(replicas=3))
    assert story.see(make(replicas=30, generation=2), 10) == []
    assert story.see(make(replicas=2, generation=3), 20) == []


def test_more_nodes_for_a_daemon_set_are_no_rollout() -> None:
    story = Story()
    story.see(daemon_set(want=3))
    assert story.see(daemon_set(want=9, updated=7, available=5), 10) == []


def test_nothing_is_judged_before_the_controller_has_seen_the_spec() -> None:
    story = Story()
    story.see(deployment())
    unseen = deployment(revision=1, image="server:2", generation=2)
    unseen["status"]["observedGeneration"] = 1
    assert story.see(unseen, 5) == []
    assert story.see(deployment(revision=2, image="server:2", generation=2, done=0), 6) == ["started"]


def test_metadata_edits_and_replays_are_no_rollout() -> None:
    story = Story()
    story.see(deployment())
    edited = deployment()
    edited["metadata"]["labels"] = {"team": "b"}
    edited["metadata"]["resourceVersion"] = "99"
    assert story.see(edited, 5) == []
    assert story.see(deployment(), 6) == []


def test_new_server_defaults_in_the_template_are_no_rollout() -> None:
    """An API server upgrade adds fields to every template; neither revision nor generation moves."""
    for make in (deployment, daemon_set, stateful_set):
        story = Story()
        story.see(make())
        defaulted = copy.deepcopy(make())
        defaulted["spec"]["template"]["spec"]["newField"] = "default"
        assert story.see(defaulted, 5) == []


def test_without_a_revision_of_the_server_the_template_hash_stands_in() -> None:
    def bare(image: str, generation: int, **more: Any) -> dict[str, Any]:
        raw = deployment(image=image, generation=generation, **more)
        del raw["metadata"]["annotations"]
        return raw

    story = Story()
    story.see(bare("server:1", 1))
    assert story.see(bare("server:1", 2, replicas=5), 5) == []
    assert story.see(bare("server:2", 3), 10) == ["started", "complete"]
    assert story.see(bare("server:1", 4), 20) == ["started", "complete"]
    assert len({signal.key for signal in story.signals}) == 4


def test_pods_lost_after_completion_start_nothing() -> None:
    story = Story()
    story.see(deployment())
    story.see(deployment(revision=2, generation=2), 10)
    lost = deployment(revision=2, generation=2)
    lost["status"] |= {"availableReplicas": 1, "readyReplicas": 1}
    assert story.see(lost, 60) == []
    lost["status"]["conditions"][0] |= {"status": "False", "reason": "ProgressDeadlineExceeded"}
    assert story.see(lost, 900) == []


def test_a_rollback_is_a_rollout_of_its_own() -> None:
    story = Story()
    story.see(stateful_set(revision="web-a"))
    assert story.see(stateful_set(revision="web-b", generation=2), 10) == ["started", "complete"]
    assert story.see(stateful_set(revision="web-a", generation=3), 20) == ["started", "complete"]
    assert story.see(stateful_set(revision="web-b", generation=4), 30) == ["started", "complete"]
    assert len({signal.key for signal in story.signals}) == 6


def test_a_restart_is_a_rollout() -> None:
    story = Story()
    story.see(daemon_set())
    restarted = daemon_set(template=2, updated=0)
    restarted["spec"]["template"]["metadata"] = {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-12-01T10:00:00Z"}}
    assert story.see(restarted, 5) == ["started"]


def test_a_deployment_fails_by_its_own_deadline_and_may_still_complete() -> None:
    story = Story()
    story.see(deployment())
    story.see(deployment(revision=2, generation=2, done=1), 10)
    failed = deployment(revision=2, generation=2, done=1)
    failed["status"]["conditions"] = [
        {
            "type": "Progressing",
            "status": "False",
            "reason": "ProgressDeadlineExceeded",
            "message": "no",
            "lastUpdateTime": "2026-12-01T10:11:00Z",
        }
    ]
    assert story.see(failed, 700) == ["failed"]
    assert story.see(failed, 710) == []
    assert story.see(deployment(revision=2, generation=2), 800) == ["complete"]


def test_a_failure_left_over_from_the_last_rollout_says_nothing_about_this_one() -> None:
    """kubernetes/kubernetes#49637: read right after an update, the condition is still that of the rollout before."""
    stale = [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "lastUpdateTime": "2026-12-01T09:00:00Z"}]
    story = Story()
    story.see(deployment(revision=2, done=1, conditions=stale))
    assert story.state["phase"] == "failed"
    assert story.see(deployment(revision=3, generation=3, done=0, conditions=stale), 10) == ["started"]
    assert story.see(deployment(revision=3, generation=3, done=1, conditions=stale), 20) == []
    fresh = [stale[0] | {"lastUpdateTime": "2026-12-01T10:15:00Z"}]
    assert story.see(deployment(revision=3, generation=3, done=1, conditions=fresh), 900) == ["failed"]


def test_refused_pods_fail_a_rollout_only_if_it_lasts() -> None:
    refused = [
        {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"},
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": "quota",
            "lastUpdateTime": "2026-12-01T10:00:10Z",
        },
    ]
    story = Story()
    story.see(deployment())
    story.see(deployment(revision=2, generation=2, done=1), 5)
    assert story.see(deployment(revision=2, generation=2, done=1, conditions=refused), 10) == []
    assert story.see(deployment(revision=2, generation=2, done=1), 20) == []
    assert story.see(deployment(revision=2, generation=2, done=1, conditions=refused), 30) == []
    assert story.see(deployment(revision=2, generation=2, done=1, conditions=refused), 61) == ["failed"]
    assert "quota" in story.signals[-1].detail["reason"]


def test_a_paused_deployment_neither_starts_nor_stalls() -> None:
    def paused(**more: Any) -> dict[str, Any]:
        raw = deployment(**more)
        raw["spec"] |= {"paused": True, "progressDeadlineSeconds": None}
        return raw

    story = Story()
    story.see(deployment())
    assert story.see(paused(image="server:2", generation=2), 10) == []
    assert story.see(paused(image="server:2", generation=2), 5000) == []
    assert story.see(deployment(revision=2, image="server:2", generation=3, done=1), 6000) == ["started"]
    assert story.signals[0].baseline == at(5999)


def test_a_new_revision_overtakes_one_that_is_still_rolling() -> None:
    story = Story()
    story.see(daemon_set())
    assert story.see(daemon_set(template=2, updated=1), 10) == ["started"]
    assert story.see(daemon_set(template=3, updated=0), 50) == ["started"]
    assert story.see(daemon_set(template=3), 90) == ["complete"]
    assert story.signals[-1].baseline == at(9), "compared with what was before the first of them"
    assert story.signals[1].detail["supersedes"] == "2"


def test_a_deleted_and_remade_workload_is_followed_under_its_new_uid() -> None:
    story = Story()
    story.see(daemon_set())
    assert story.see(None, 10) == []
    assert story.state is None
    again = daemon_set(updated=0, available=0)
    again["metadata"]["uid"] = "d2"
    assert story.see(again, 20) == []
    done = daemon_set()
    done["metadata"]["uid"] = "d2"
    assert story.see(done, 60) == ["complete"]


def test_the_baseline_is_the_servers_own_time_of_the_change() -> None:
    """A sweep notices a rollout minutes after it began."""
    story = Story()
    story.see(deployment())
    late = deployment(revision=2, generation=2, done=1)
    late["metadata"]["managedFields"] = [
        {"manager": "kubectl", "time": at(20).isoformat(), "fieldsV1": {"f:spec": {"f:template": {}}}},
        {"manager": "hpa", "time": at(200).isoformat(), "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "controller", "time": at(250).isoformat(), "subresource": "status", "fieldsV1": {"f:status": {}}},
    ]
    assert story.see(late, 300) == ["started"]
    assert story.signals[0].baseline == at(19)


def test_a_stateful_set_with_a_partition_is_complete_below_it_and_again_when_it_goes_down() -> None:
    def part(partition: int, updated: int, **more: Any) -> dict[str, Any]:
        return stateful_set(
            revision="web-b",
            current="web-a",
            updated=updated,
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
            **more,
        )

    story = Story()
    story.see(stateful_set(revision="web-a", updateStrategy={"rollingUpdate": {"partition": 2}}))
    assert story.see(part(2, 0, generation=2), 10) == ["started"]
    assert story.see(part(2, 1, generation=2), 20) == ["complete"]
    assert story.see(part(0, 1, generation=3), 30) == ["started"]
    assert story.see(part(0, 3, generation=3), 40) == []
    assert story.see(stateful_set(revision="web-b", generation=3), 45) == ["complete"]


def test_a_stateful_set_without_a_deadline_stalls_by_ours() -> None:
    story = Story(deadline=timedelta(seconds=100))
    story.see(stateful_set())
    rolling = {"revision": "web-b", "current": "web-a", "generation": 2}
    assert story.see(stateful_set(**rolling, updated=0), 10) == ["started"]
    assert story.see(stateful_set(**rolling, updated=1), 100) == []
    assert story.see(stateful_set(**rolling, updated=1, ready=2), 199) == []
    assert story.see(stateful_set(**rolling, updated=1, ready=2), 201) == ["stalled"]
    assert story.see(stateful_set(**rolling, updated=1, ready=2), 900) == []
    assert story.see(stateful_set(revision="web-b", generation=2), 1000) == ["complete"]


def test_a_large_daemon_set_that_moves_on_is_not_stalled() -> None:
    """gardener/gardener#5628: a slow rollout over many nodes is healthy as long as it moves."""
    story = Story(deadline=timedelta(seconds=100))
    story.see(daemon_set(want=50))
    for done in range(50):
        phases = story.see(daemon_set(template=2, want=50, updated=done, available=49), 10 + done * 90)
        assert phases == (["started"] if done == 0 else [])
    assert story.see(daemon_set(template=2, want=50), 5000) == ["complete"]


def test_a_daemon_set_that_trickles_is_stalled_after_a_deadline_for_every_wave() -> None:
    story = Story(deadline=timedelta(seconds=100))
    half = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}}
    story.see(daemon_set(want=50, **half))
    story.see(daemon_set(template=2, want=50, updated=0, **half), 10)
    assert story.see(daemon_set(template=2, want=50, updated=1, available=49, **half), 100) == []
    assert story.see(daemon_set(template=2, want=50, updated=2, available=49, **half), 190) == []
    assert story.see(daemon_set(template=2, want=50, updated=3, available=49, **half), 215) == ["stalled"]


@pytest.mark.parametrize(
    ("away", "cause"),
    [
        (node("n3", ready=False), "NotReady"),
        (node("n3", cordoned=True), "cordoned"),
        (node("n3", MaintenanceInProgress="True"), "in maintenance"),
    ],
)
def test_a_daemon_set_is_complete_on_the_nodes_that_can_take_part(away: Any, cause: str) -> None:
    """kubernetes/kubernetes#139226: its status never becomes whole while a node is down."""
    story = Story()
    story.see(daemon_set())
    nodes = [node("n1"), node("n2"), away]
    rolling = daemon_set(template=2, updated=2, available=2)
    pods = [daemon_pod("n1", "b"), daemon_pod("n2", "a"), daemon_pod("n3", "a", ready=False)]
    assert story.see(rolling, 10, pods=pods, nodes=nodes, revisions=NEWEST) == ["started"]
    pods[1] = daemon_pod("n2", "b")
    assert story.see(rolling, 20, pods=pods, nodes=nodes, revisions=NEWEST) == ["complete"]
    assert story.signals[-1].detail["excluded"] == {"n3": cause}
    assert "n3" in story.signals[-1].summary


def test_a_node_that_can_take_part_and_has_not_is_waited_for() -> None:
    story = Story()
    story.see(daemon_set())
    nodes = [node("n1"), node("n2"), node("n3", ready=False)]
    pending = [daemon_pod("n1", "b"), daemon_pod("n2", "b", ready=False), daemon_pod("n3", "a", ready=False)]
    assert story.see(daemon_set(template=2, updated=2, available=1), 10, pods=pending, nodes=nodes, revisions=NEWEST) == ["started"]
    absent = [daemon_pod("n1", "b"), daemon_pod("n3", "a", ready=False)]
    assert story.see(daemon_set(template=2, updated=1, available=1), 20, pods=absent, nodes=nodes, revisions=NEWEST) == []


def test_without_pods_and_nodes_a_short_status_is_not_complete() -> None:
    story = Story()
    story.see(daemon_set())
    assert story.see(daemon_set(template=2, updated=2, available=2), 10) == ["started"]


def test_a_daemon_set_updated_by_hand_is_judged_by_each_pod() -> None:
    """The GPU driver's DaemonSet is OnDelete; other tools call it healthy at once."""
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    nodes = [node("n1"), node("n2"), node("n3")]
    story = Story(deadline=timedelta(seconds=100))
    story.see(daemon_set(**by_hand))
    pods = [daemon_pod(f"n{i}", "a") for i in (1, 2, 3)]
    around = {"nodes": nodes, "revisions": NEWEST}
    waiting = daemon_set(template=2, updated=0, **by_hand)
    assert story.see(waiting, 10, pods=pods, **around) == ["started"]
    assert story.see(waiting, 5000, pods=pods, **around) == [], "people take their time"
    pods[0] = daemon_pod("n1", "b", ready=False)
    assert story.see(daemon_set(template=2, updated=1, available=2, **by_hand), 5010, pods=pods, **around) == []
    assert story.see(daemon_set(template=2, updated=1, available=2, **by_hand), 5111, pods=pods, **around) == ["stalled"]
    done = [daemon_pod(f"n{i}", "b") for i in (1, 2, 3)]
    assert story.see(daemon_set(template=2, **by_hand), 6000, pods=done, **around) == ["complete"]


def test_a_stateful_set_updated_by_hand_is_complete_when_every_pod_is() -> None:
    by_hand = {"updateStrategy": {"type": "OnDelete"}}
    story = Story()
    story.see(stateful_set(**by_hand))
    new = stateful_set(revision="web-b", current="web-a", updated=0, generation=2, **by_hand)
    pods = [daemon_pod(f"n{i}", "web-a") for i in range(3)]
    assert story.see(new, 10, pods=pods) == ["started"]
    assert story.see(new, 20, pods=[daemon_pod("n0", "web-b"), *pods[1:]]) == []
    assert story.see(new, 30, pods=[daemon_pod(f"n{i}", "web-b") for i in range(3)]) == ["complete"]


def test_the_old_revision_may_be_the_newest_again_after_a_rollback() -> None:
    """A rollback reuses the old ControllerRevision and gives it the highest number; Pods of it need no replacing."""
    story = Story()
    story.see(daemon_set(template=2))
    reused = [{**NEWEST[1], "revision": 3}, NEWEST[0]]
    nodes = [node("n1"), node("n2", ready=False)]
    pods = [daemon_pod("n1", "a"), daemon_pod("n2", "b")]
    assert story.see(daemon_set(template=3, want=2, updated=1, available=1), 10, pods=pods, nodes=nodes, revisions=reused) == [
        "started",
        "complete",
    ]


def test_a_deployment_without_a_deadline_of_its_own_stalls_by_ours() -> None:
    def endless(**more: Any) -> dict[str, Any]:
        raw = deployment(**more)
        raw["spec"]["progressDeadlineSeconds"] = 2**31 - 1
        return raw

    story = Story(deadline=timedelta(seconds=100))
    story.see(endless())
    assert story.see(endless(revision=2, generation=2, done=1), 10) == ["started"]
    assert story.see(endless(revision=2, generation=2, done=1), 111) == ["stalled"]


def test_a_workload_scaled_to_zero_completes_with_nothing() -> None:
    story = Story()
    story.see(deployment(replicas=0))
    assert story.see(deployment(replicas=0, revision=2, generation=2), 10) == ["started", "complete"]
