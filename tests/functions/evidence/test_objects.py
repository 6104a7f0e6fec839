"""Raw Kubernetes JSON becomes the contract's nouns, however much of it is missing or of the wrong type."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.contract.cluster import Workload
from functions.evidence import objects
from functions.evidence.raw import Unusable, instant, quantity

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def pod(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "chat-1", "namespace": "ml", "uid": "u", **metadata},
        "spec": {"nodeName": "n-1", **(spec or {})},
        "status": {"phase": "Running", **(status or {})},
    }


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"limits": resources}}


@pytest.mark.parametrize(
    ("value", "number"),
    [("8", 8), (4, 4), ("1k", 1000), ("100m", 0.1), ("2Ki", 2048), ("1e3", 1000), (" 3 ", 3), ("1E", 1e18), (0.5, 0.5)],
)
def test_quantities_are_read_as_kubernetes_writes_them(value: object, number: float) -> None:
    assert quantity(value) == pytest.approx(number)


@pytest.mark.parametrize("value", [None, "", "eight", "1KiB", True, float("nan"), float("inf"), [], {}, "9" * 100])
def test_what_is_no_quantity_is_none(value: object) -> None:
    assert quantity(value) is None


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2026-11-01T12:00:00Z", NOON),
        ("2026-11-01T13:00:00+01:00", NOON),
        ("2026-11-01T12:00:00.123456789Z", NOON.replace(microsecond=123456)),
        ("2026-11-01T12:00:00", NOON),
        ("yesterday", None),
        (None, None),
        (17, None),
    ],
)
def test_times_are_read_with_any_fraction_and_zone(value: object, wanted: datetime | None) -> None:
    assert instant(value) == wanted


def test_only_what_counts_devices_is_a_gpu_resource() -> None:
    read = objects.gpu_resources(
        {
            "cpu": "8",
            "nvidia.com/gpu": "2",
            "nvidia.com/gpu.shared": "1k",
            "nvidia.com/mig-1g.10gb": 1,
            "nvidia.com/gpumem": "4096",
            "nvidia.com/gpucores": "50",
            "amd.com/gpu": "1",
            "gpu.intel.com/i915": "1",
            "gpu.intel.com/millicores": "100",
            "aliyun.com/gpu-mem": "8",
            "example.com/gpu": "1",
            "nvidia.com/gpu.count": "junk",
        }
    )
    assert read == {
        "nvidia.com/gpu": 2,
        "nvidia.com/gpu.shared": 1000,
        "nvidia.com/mig-1g.10gb": 1,
        "amd.com/gpu": 1,
        "gpu.intel.com/i915": 1,
    }


def test_a_pod_holds_what_its_side_cars_and_its_largest_init_container_need() -> None:
    read = objects.pod(
        pod(
            {
                "containers": [container("main", **{"nvidia.com/gpu": "1"})],
                "initContainers": [
                    {**container("proxy", **{"nvidia.com/gpu": "1"}), "restartPolicy": "Always"},
                    container("warm", **{"nvidia.com/gpu": "4"}),
                    container("small", **{"nvidia.com/gpu": "1"}),
                ],
            }
        )
    )
    assert read.gpus == {"nvidia.com/gpu": 4}
    assert {c.name for c in read.containers} == {"main", "proxy", "warm"}


def test_a_request_counts_where_there_is_no_limit_and_zero_is_none() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"nvidia.com/gpu": 2}}}, container("b", **{"nvidia.com/gpu": "0"})]}
    assert objects.pod(pod(spec)).gpus == {"nvidia.com/gpu": 2}


def test_the_state_of_a_finished_pod() -> None:
    status = {
        "phase": "Failed",
        "podIP": "10.0.0.9",
        "startTime": "2026-11-01T11:00:00Z",
        "containerStatuses": [
            {"name": "main", "restartCount": 3, "state": {"terminated": {"finishedAt": "2026-11-01T12:00:00Z"}}},
            {"name": "side", "state": {"terminated": {"finishedAt": "2026-11-01T11:30:00Z"}}},
        ],
    }
    read = objects.pod(pod({"containers": [container()]}, status, deletionTimestamp="2026-11-01T12:00:00Z"))
    assert (read.finished, read.finished_at, read.deleted_at) == (True, NOON, NOON)
    assert read.containers[0].restarts == 3
    assert not read.holds_gpu


def test_claims_are_found_by_their_own_name_or_by_the_one_that_was_made() -> None:
    spec = {
        "containers": [{"name": "a", "resources": {"claims": [{"name": "gpu"}, {"name": "shared"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "shared", "resourceClaimName": "one"}],
    }
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "chat-1-gpu-x7"}]}
    read = objects.pod(pod(spec, status))
    assert read.claims == {"gpu": "chat-1-gpu-x7", "shared": "one"}
    assert read.containers[0].claims == ("gpu", "shared")
    assert read.holds_gpu


@pytest.mark.parametrize(
    ("kind", "name", "labels", "known", "workload"),
    [
        ("ReplicaSet", "chat-70b-5d9f", {"pod-template-hash": "5d9f"}, True, "Deployment/chat-70b"),
        ("ReplicaSet", "chat-70b-5d9f", {"pod-template-hash": "5d9f"}, False, "Deployment/chat-70b"),
        ("ReplicaSet", "chat-70b-5d9f", {}, False, "ReplicaSet/chat-70b-5d9f"),
        ("ReplicaSet", "chat-70b-5d9f", {"pod-template-hash": "other"}, False, "ReplicaSet/chat-70b-5d9f"),
        ("Job", "nightly-289", {}, True, "CronJob/nightly"),
        ("Job", "nightly-289", {}, False, "Job/nightly-289"),
        ("StatefulSet", "db", {}, True, "StatefulSet/db"),
        ("Node", "n-1", {}, True, "Pod/chat-1"),
    ],
)
def test_the_owner_is_the_one_a_person_thinks_of(kind: str, name: str, labels: dict[str, str], known: bool, workload: str) -> None:
    owners = [{"kind": "Other", "name": "x"}, {"kind": kind, "name": name, "controller": True}]
    read = objects.pod(pod(ownerReferences=owners, labels=labels))
    above = [
        Workload("ReplicaSet", "ml", "chat-70b-5d9f", owner="Deployment/chat-70b"),
        Workload("Job", "ml", "nightly-289", owner="CronJob/nightly"),
        Workload("Job", "other", "nightly-289", owner="CronJob/wrong"),
    ]
    assert objects.resolve_owners([read], above if known else [])[0].workload == workload


def test_owners_that_own_each_other_come_to_an_end() -> None:
    read = objects.pod(pod(ownerReferences=[{"kind": "Job", "name": "a"}]))
    ring = [Workload("Job", "ml", "a", owner="Job/b"), Workload("Job", "ml", "b", owner="Job/a")]
    assert objects.resolve_owners([read], ring)[0].workload.startswith("Job/")


def test_a_node_keeps_its_gpus_its_names_and_its_state() -> None:
    read = objects.node(
        {
            "metadata": {"name": "n-1", "labels": {"a": "b"}},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}, {"effect": "x"}]},
            "status": {
                "capacity": {"cpu": "8", "nvidia.com/gpu": "8"},
                "allocatable": {"nvidia.com/gpu": "0"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n-1"}],
                "conditions": [{"type": "Ready", "status": "Unknown"}],
                "nodeInfo": {"bootID": "b"},
            },
        }
    )
    assert (read.capacity, read.allocatable) == ({"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 0})
    assert (read.unschedulable, read.ready, read.boot_id, read.addresses) == (True, False, "b", ("10.0.0.1", "n-1"))
    assert [t.key for t in read.taints] == ["k"]


@pytest.mark.parametrize(
    ("raw", "count", "first", "last", "about", "message"),
    [
        (
            {"count": 3, "firstTimestamp": "2026-11-01T11:00:00Z", "lastTimestamp": "2026-11-01T12:00:00Z", "message": "m", "involvedObject": {"kind": "Pod", "name": "p"}},
            3, 11, 12, ("Pod", "ml", "p"), "m",
        ),
        (
            {"count": None, "firstTimestamp": None, "lastTimestamp": None, "eventTime": "2026-11-01T12:00:00.5Z", "message": "m", "involvedObject": {"kind": "Node", "name": "n"}},
            1, 12, 12, ("Node", "", "n"), "m",
        ),
        (
            {"eventTime": "2026-11-01T11:00:00Z", "series": {"count": 7, "lastObservedTime": "2026-11-01T12:00:00Z"}, "note": "n", "regarding": {"kind": "Pod", "name": "p", "namespace": "x"}},
            7, 11, 12, ("Pod", "x", "p"), "n",
        ),
        ({"note": "n", "deprecatedCount": 2, "deprecatedLastTimestamp": "2026-11-01T12:00:00Z"}, 2, 9, 12, ("", "ml", ""), "n"),
        ({}, 1, 9, 9, ("", "ml", ""), ""),
    ],
)  # fmt: skip
def test_events_of_both_apis_have_one_shape(raw: Any, count: int, first: int, last: int, about: tuple[str, str, str], message: str) -> None:
    read = objects.event({"metadata": {"name": "e", "namespace": "ml", "creationTimestamp": "2026-11-01T09:00:00Z"}, **raw})
    assert read.first_at
    assert read.last_at
    assert (read.count, read.first_at.hour, read.last_at.hour, read.message) == (count, first, last, message)
    assert (read.kind, read.namespace, read.name) == about


def test_workloads_of_every_kind() -> None:
    template = {"spec": {"containers": []}}
    daemon = objects.workload(
        {
            "kind": "DaemonSet",
            "metadata": {"name": "d"},
            "spec": {"template": template},
            "status": {"desiredNumberScheduled": 3, "numberReady": 2},
        }
    )
    cron = objects.workload({"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": {"template": template}}}})
    plain = objects.workload({"kind": "Deployment", "metadata": {"name": "x"}, "spec": {}})
    assert (daemon.replicas, daemon.ready, daemon.template) == (3, 2, template)
    assert cron.template == template
    assert (plain.replicas, plain.namespace) == (1, "default")


def test_older_templates_come_newest_first_and_without_the_present_one() -> None:
    def revision(number: int, image: str, owner: str = "u") -> dict[str, Any]:
        return {
            "kind": "ControllerRevision",
            "metadata": {"name": f"r{number}", "namespace": "ml", "ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": owner}]},
            "revision": number,
            "data": {"spec": {"template": {"spec": {"image": image}}}},
        }

    now = objects.workload(
        {"kind": "DaemonSet", "metadata": {"name": "d", "namespace": "ml", "uid": "u"}, "spec": {"template": {"spec": {"image": "3"}}}}
    )
    found = objects.older_templates(now, [revision(1, "1"), revision(3, "3"), revision(2, "2"), revision(9, "9", "else")])
    assert [t["spec"]["image"] for t in found] == ["2", "1"]


def test_slices_of_both_api_versions_and_claims() -> None:
    def slice_(device: dict[str, Any]) -> dict[str, Any]:
        return {
            "metadata": {"name": "s"},
            "spec": {"nodeName": "n", "driver": "gpu.nvidia.com", "pool": {"name": "p"}, "devices": [{"name": "gpu-0", **device}]},
        }

    attributes = {"uuid": {"string": "GPU-1"}, "index": {"int": 0}, "gpu.nvidia.com/mig": {"bool": False}, "driver": {"version": "1.2"}}
    wanted = {"gpu-0": {"uuid": "GPU-1", "index": "0", "mig": "false", "driver": "1.2"}}
    assert objects.slice_(slice_({"attributes": attributes})).devices == wanted
    assert objects.slice_(slice_({"basic": {"attributes": attributes}})).devices == wanted
    claim = objects.claim(
        {
            "metadata": {"name": "c", "namespace": "ml"},
            "status": {
                "allocation": {"devices": {"results": [{"driver": "d", "pool": "p", "device": "gpu-0"}, {}]}},
                "reservedFor": [{"resource": "pods", "name": "a", "uid": "u"}, {"resource": "jobs", "name": "b"}],
            },
        }
    )
    assert claim.devices == (("d", "p", "gpu-0"),)
    assert claim.reserved_for == (("ml", "a", "u"),)


REDUCERS = [objects.pod, objects.node, objects.workload, objects.configmap, objects.budget, objects.event, objects.claim, objects.slice_]


@pytest.mark.parametrize(
    "raw", [None, [], "x", 5, {}, {"metadata": None}, {"metadata": []}, {"metadata": {"name": ""}}, {"metadata": {"name": {}}}]
)
@pytest.mark.parametrize("reduce", REDUCERS)
def test_what_has_no_name_is_refused(reduce: Any, raw: Any) -> None:
    with pytest.raises(Unusable):
        reduce(raw)


_KEYS = [
    "spec",
    "status",
    "metadata",
    "labels",
    "annotations",
    "containers",
    "initContainers",
    "resources",
    "limits",
    "requests",
    "claims",
    "name",
    "namespace",
    "ownerReferences",
    "kind",
    "containerStatuses",
    "state",
    "running",
    "terminated",
    "finishedAt",
    "startedAt",
    "conditions",
    "addresses",
    "capacity",
    "allocatable",
    "taints",
    "data",
    "template",
    "series",
    "count",
    "eventTime",
    "involvedObject",
    "regarding",
    "source",
    "devices",
    "attributes",
    "allocation",
    "results",
    "reservedFor",
    "pool",
    "selector",
    "matchLabels",
    "nodeName",
    "jobTemplate",
    "restartPolicy",
    "resourceClaims",
    "resourceClaimStatuses",
    "nvidia.com/gpu",
    "nodeInfo",
    "revision",
    "restartCount",
]
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["8", "Always", "Pod", "2026-11-01T12:00:00Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(_KEYS), _json, max_size=6), st.dictionaries(st.sampled_from(_KEYS), _json, max_size=4))
def test_no_object_with_a_name_makes_a_reducer_raise(raw: dict[str, Any], metadata: dict[str, Any]) -> None:
    for reduce in REDUCERS:
        reduce({**raw, "metadata": {**metadata, "name": "x"}})
    found = objects.workload({**raw, "metadata": {"name": "x"}})
    objects.older_templates(found, [{**raw, "metadata": {"ownerReferences": [{"kind": found.kind, "name": "x"}], "namespace": "default"}}])
