"""What label-mapping says about devices and Pods, from hand-made facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.checks import base
from functions.checks.label_mapping.check import CHECK
from functions.contract.cluster import Container, ResourceClaim, ResourceSlice
from functions.contract.facts import Facts, Missing, Why, Windows
from functions.contract.findings import Severity, Verdict
from functions.contract.policy import Policy
from functions.contract.telemetry import MetricSchema
from functions.knowledge import load
from tests.functions.checks.mapping_facts import (
    LONG_AGO,
    NOW,
    A,
    B,
    C,
    codes,
    exporter,
    judge,
    killed,
    known,
    node,
    only,
    passes,
    pod,
    series,
    target,
    util,
)  # fmt: skip

SHARED = {"labels": {"nvidia.com/gpu.replicas": "4"}}


def test_a_device_that_names_its_pod_passes_and_says_what_was_proven() -> None:
    result = judge(pods=(pod("a-0"),), devices=(series(A, name="a-0"), series(B)))
    passes(result)
    assert result.judged == 3  # two devices and a Pod
    assert "1 device on 1 node names the Pod that holds it, 1 names none" in result.summary


def test_without_devices_pods_or_nodes_nothing_is_known() -> None:
    facts = Facts(Windows(None, NOW), pods=known(()), nodes=known(()))
    result = base.run(CHECK, facts, {"policy": Policy(), "knowledge": load(), "cluster": "lab"})
    assert result.verdict is Verdict.UNKNOWN
    assert result.missing[0].fact == "devices"
    assert {m.fact for m in result.missing} == set(CHECK.needs) - {"pods", "nodes"}


def test_a_pod_that_no_series_names_is_missing() -> None:
    found = only(judge(pods=(pod("a-0"),), devices=(series(A), series(B))), "pod-missing")
    assert found.subject.parts() == {"node": "n-1", "namespace": "ml", "pod": "a-0", "workload": "Deployment/a"}
    assert found.severity is Severity.WARNING
    assert "1 nvidia.com/gpu" in found.observed
    assert "DCGM_EXPORTER_KUBERNETES=true" in found.hint
    assert [e.source for e in found.evidence] == ["kubernetes", "prometheus", "prometheus"]


def test_any_series_of_any_exporter_maps_a_pod() -> None:
    other = series(A, name="a-0", job="second", at="10.9.9.9:1")
    passes(judge(pods=(pod("a-0"),), devices=(series(A), other)))


def test_a_mapping_that_only_one_node_lost_is_told_as_such() -> None:
    devices = (series(A, name="a-0"), series(B, "n-2"))
    found = only(judge(pods=(pod("a-0"), pod("b-0", "n-2")), devices=devices), "pod-missing")
    assert found.subject.node == "n-2"
    assert "kubelet.sock" in found.hint


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
def test_requests_of_pods_that_do_not_run_hold_nothing(phase: str) -> None:
    where = "" if phase == "Pending" else "n-1"
    passes(judge(pods=(pod("a-0", where, phase=phase, finished_at=LONG_AGO), pod("b-0")), devices=(series(A), series(B, name="b-0"))))


def test_a_pod_that_has_only_just_started_is_no_fault_and_is_mentioned() -> None:
    result = judge(pods=(pod("a-0", started_at=NOW - timedelta(minutes=2)),), devices=(series(A),))
    passes(result)
    assert "too young" in result.summary


def test_the_load_of_a_young_pod_is_not_called_unattributed() -> None:
    bare = series(A)
    passes(judge(pods=(pod("a-0", started_at=NOW - timedelta(minutes=2)),), devices=(bare,), readings=(util(bare, 90),)))


def test_a_node_without_series_leaves_its_pods_unjudged() -> None:
    result = judge(pods=(pod("a-0"), pod("b-0", "n-2")), devices=(series(A, name="a-0"),))
    assert result.verdict is Verdict.UNKNOWN
    assert "telemetry-gap/node-uncovered" in result.unjudged[0].why


def test_a_target_that_is_down_leaves_its_pods_unjudged() -> None:
    devices = (series(A, name="a-0"), series(B, "n-2", job="other"))
    result = judge(pods=(pod("a-0"), pod("b-0", "n-2")), devices=devices, targets=(target(), target("n-2", up=False)))
    assert result.verdict is Verdict.UNKNOWN
    assert "telemetry-gap/target-down" in result.unjudged[0].why


def test_a_device_that_is_not_shown_may_be_the_pods_own() -> None:
    idle = series(A)
    result = judge(pods=(pod("a-0"),), devices=(idle,), readings=(util(idle, 0),))
    assert result.verdict is Verdict.UNKNOWN
    assert "device-missing" in result.unjudged[0].why


@pytest.mark.parametrize(
    "more",
    [{"labels": {"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"}}, {"labels": {"maintenance": "yes"}}],
)
def test_planned_absence_is_no_failure(more: dict[str, object]) -> None:
    policy = Policy.model_validate({"planned": {"labels": ["maintenance=yes"]}})
    nodes = (node("n-1"), node("n-2", **more))
    result = judge(policy=policy, nodes=nodes, pods=(pod("a-0"), pod("b-0", "n-2")), devices=(series(A, name="a-0"), series(B, "n-2")))
    passes(result)
    assert "planned" in result.summary


def test_pods_of_a_node_that_is_not_ready_cannot_be_judged() -> None:
    nodes = (node("n-1"), node("n-2", ready=False))
    result = judge(nodes=nodes, pods=(pod("a-0"), pod("b-0", "n-2")), devices=(series(A, name="a-0"), series(B, "n-2")))
    assert result.verdict is Verdict.UNKNOWN
    assert "not ready" in result.unjudged[0].why


def test_a_cordoned_node_whose_series_name_their_pods_is_judged() -> None:
    passes(judge(nodes=(node("n-1", unschedulable=True),), pods=(pod("a-0"),), devices=(series(A, name="a-0"),)))


def test_exempt_pods_are_left_alone() -> None:
    policy = Policy.model_validate({"exempt": {"namespaces": ["ml*"]}})
    assert codes(judge(policy=policy, pods=(pod("a-0"),), devices=(series(A),))) == []


# --- exporter-pod


def honored(gpu: str, node: str = "n-1", name: str = "", **more: object):
    """A series under honor_labels="true": without a Pod of its own the target's label stays."""
    base_series = series(gpu, node)
    labels = {"gpu": "0", "UUID": gpu, "Hostname": node, "pod": name or f"dcgm-{node}", "namespace": "ml" if name else "gpu-operator"}
    spelling = {"gpu": "UUID", "index": "gpu", "host": "Hostname", **({"pod": "pod", "namespace": "namespace"} if name else {})}
    attribution = {"namespace": "ml" if name else "", "pod": name, "container": ""}
    return replace(base_series, labels=labels, spelling=spelling, honor_labels=True, **{**attribution, **more})


def test_the_exporters_pod_on_a_busy_device_is_told_and_explains_the_missing_pod() -> None:
    busy = honored(A)
    result = judge(pods=(pod("a-0"),), devices=(busy,), readings=(util(busy, 80),))
    found = only(result, "exporter-pod")
    assert found.severity is Severity.CRITICAL
    assert found.subject.pod == "dcgm-n-1"
    assert "honorLabels: false" in found.hint
    assert "ml/a-0" in found.expected
    assert [u.subject.pod for u in result.unjudged] == ["a-0"]


def test_an_idle_device_with_the_exporters_pod_is_told_with_less_weight() -> None:
    idle = honored(A)
    assert only(judge(devices=(idle,), readings=(util(idle, 0),)), "exporter-pod").severity is Severity.WARNING


def test_with_honor_labels_false_pod_is_the_target_by_right() -> None:
    passes(judge(pods=(pod("a-0"),), devices=(series(A, name="a-0"), series(B))))


def test_a_label_that_stands_beside_the_workloads_own_is_the_targets_by_right() -> None:
    spell = {"pod": "podname"}
    named = series(A, name="a-0", extra={"podname": "dcgm-n-1"}, honor_labels=None)
    bare = series(B, extra={"podname": "dcgm-n-1"}, spell=spell, pod="dcgm-n-1", namespace="", honor_labels=None)
    passes(judge(pods=(pod("a-0"),), devices=(named, bare)))


def test_an_exporter_that_prints_itself_is_told_under_any_honor_labels() -> None:
    itself = series(A, name="dcgm-n-1", namespace="gpu-operator", container="exporter")
    assert only(judge(pods=(pod("a-0"),), devices=(itself,)), "exporter-pod").subject.gpu == A


def test_an_engine_that_exports_its_own_gpu_is_the_workload() -> None:
    own = series(
        A,
        job="triton",
        target_pod="a-0",
        target_namespace="ml",
        target_container="main",
        extra={"pod": "a-0", "namespace": "ml"},
        honor_labels=None,
    )
    passes(judge(pods=(pod("a-0"),), devices=(own,)))


# --- stale-pod


def test_a_pod_that_ended_long_ago_is_stale() -> None:
    done = pod("a-0", phase="Succeeded", finished_at=NOW - timedelta(minutes=29))
    found = only(judge(pods=(done,), devices=(series(A, name="a-0"),)), "stale-pod")
    assert "succeeded" in found.observed
    assert found.severity is Severity.CRITICAL


def test_a_pod_that_ended_a_scrape_ago_is_not() -> None:
    passes(judge(pods=(pod("a-0", phase="Succeeded", finished_at=NOW - timedelta(seconds=40)),), devices=(series(A, name="a-0"),)))


def test_a_pod_that_is_gone_is_stale_unless_an_event_says_it_went_just_now() -> None:
    assert "gone" in only(judge(devices=(series(A, name="a-0"),)), "stale-pod").observed
    passes(judge(devices=(series(A, name="a-0"),), events=(killed("a-0", 30),)))
    assert codes(judge(devices=(series(A, name="a-0"),), events=(killed("a-0", 1800),))) == ["stale-pod"]


def test_a_returning_name_is_told_apart_by_uid() -> None:
    old = series(A, name="a-0", extra={"pod_uid": "uid-old"}, spell={"pod_uid": "pod_uid"})
    result = judge(pods=(pod("a-0"),), devices=(old,))
    assert "uid-old" in only(result, "stale-pod").observed
    passes(judge(pods=(pod("a-0"),), devices=(replace(old, labels={**old.labels, "pod_uid": "uid-a-0"}),)))


def test_a_stale_name_explains_the_pod_that_took_its_device() -> None:
    result = judge(nodes=(node("n-1", 1),), pods=(pod("b-0"),), devices=(series(A, name="a-0"),))
    only(result, "stale-pod")
    assert [u.subject.pod for u in result.unjudged] == ["b-0"]


# --- wrong-node, wrong-container, unrequested-use


def test_a_pod_of_another_node_is_wrong() -> None:
    found = only(judge(pods=(pod("a-0", "n-2"),), devices=(series(A, name="a-0"), series(B, "n-2"))), "wrong-node")
    assert found.subject.node == "n-1"
    assert "n-2" in found.observed


def test_a_device_whose_node_is_not_told_is_no_proof_of_a_wrong_node() -> None:
    assert codes(judge(pods=(pod("a-0", "n-2"),), devices=(replace(series(A, name="a-0"), node="", host=""),))) == []


@pytest.mark.parametrize(("container", "wrong"), [("main", False), ("sidecar", True), ("nobody", True), ("", False)])
def test_the_named_container_must_hold_the_device(container: str, wrong: bool) -> None:
    both = (Container("main", gpus={"nvidia.com/gpu": 1}, started_at=LONG_AGO), Container("sidecar", started_at=LONG_AGO))
    result = judge(pods=(pod("a-0", containers=both),), devices=(series(A, name="a-0", container=container),))
    assert codes(result) == (["wrong-container"] if wrong else [])


def test_a_named_pod_that_requests_nothing_is_told() -> None:
    assert only(judge(pods=(pod("a-0", gpus=0),), devices=(series(A, name="a-0"),)), "unrequested-use").severity is Severity.WARNING


def test_infrastructure_that_sees_every_gpu_is_no_fault() -> None:
    plugin = pod("plugin-x", gpus=0, namespace="gpu-operator", workload="DaemonSet/nvidia-device-plugin")
    passes(judge(pods=(plugin, pod("a-0")), devices=(series(A, name="plugin-x", namespace="gpu-operator"), series(B, name="a-0"))))


# --- unattributed-use


def test_a_busy_device_that_nobody_can_own_is_told() -> None:
    bare = series(B)
    result = judge(pods=(pod("a-0"),), devices=(series(A, name="a-0"), bare), readings=(util(bare, 97),))
    found = only(result, "unattributed-use")
    assert found.subject.gpu == B
    assert "97" in found.observed


def test_an_idle_device_without_a_pod_is_in_good_order() -> None:
    bare = series(B)
    passes(judge(pods=(pod("a-0"),), devices=(series(A, name="a-0"), bare), readings=(util(bare, 0),)))


def test_a_busy_device_is_explained_by_a_pod_that_no_series_names() -> None:
    bare = series(A)
    only(judge(pods=(pod("a-0"),), devices=(bare, series(B)), readings=(util(bare, 97),)), "pod-missing")


def test_the_gpu_behind_mig_instances_is_no_device_of_its_own() -> None:
    parent = series(A)
    nodes = (node("n-1", 1, "nvidia.com/mig-1g.10gb"),)
    pods = (pod("a-0", gpus={"nvidia.com/mig-1g.10gb": 1}),)
    passes(judge(nodes=nodes, pods=pods, devices=(parent, series(A, name="a-0", part="7")), readings=(util(parent, 50),)))


def test_two_exporters_that_print_one_device_differently_speak_of_one_device() -> None:
    plain = series(A.removeprefix("GPU-").upper(), job="smi", at="10.0.0.1:9835")
    by_index = series("0", job="plugin", at="10.0.0.1:2112", labels={"gpu": "0"}, spelling={"gpu": "gpu"})
    result = judge(
        pods=(pod("a-0"),),
        devices=(series(A, name="a-0"), plain, by_index),
        readings=(util(plain, 0.9, "nvidia_smi_utilization_gpu_ratio"),),
    )
    passes(result)


# --- sharing and counting


def three() -> tuple:
    return tuple(pod(f"s{n}-0") for n in range(3)), tuple(series(A, name=f"s{n}-0", extra={"vgpu": str(n)}) for n in range(3))


def test_copies_of_the_whole_value_for_each_pod_are_told_once_a_device() -> None:
    pods, devices = three()
    result = judge(nodes=(node("n-1", 4, **SHARED),), pods=pods, devices=devices, readings=tuple(util(d, 71) for d in devices))
    assert "3 times" in only(result, "shared-device").hint


def test_shares_of_each_pod_are_in_good_order() -> None:
    pods, devices = three()
    readings = [util(d, 20 + n) for n, d in enumerate(devices)] + [util(d, 0.7, "DCGM_FI_PROF_GR_ENGINE_ACTIVE") for d in devices]
    passes(judge(nodes=(node("n-1", 4, **SHARED),), pods=pods, devices=devices, readings=tuple(readings)))


def test_zero_for_each_pod_beside_a_working_device_is_told_as_zero() -> None:
    pods, devices = three()
    whole = series(A)
    readings = (util(whole, 83), *(util(d, 0) for d in devices))
    found = only(judge(nodes=(node("n-1", 4, **SHARED),), pods=pods, devices=(*devices, whole), readings=readings), "shared-zero")
    assert "hostPID" in found.hint


def test_a_device_series_beside_its_parts_counts_twice() -> None:
    pods, devices = three()
    whole = series(A)
    readings = (util(whole, 60), *(util(d, 20 + n) for n, d in enumerate(devices)))
    only(judge(nodes=(node("n-1", 4, **SHARED),), pods=pods, devices=(*devices, whole), readings=readings), "duplicate-series")


def test_one_exporter_scraped_by_two_jobs_counts_twice() -> None:
    first, second = series(A, name="a-0"), series(A, name="a-0", job="dcgm-again")
    found = only(judge(pods=(pod("a-0"),), devices=(first, second), readings=(util(first, 5), util(second, 5))), "duplicate-series")
    assert "2 targets" in found.observed


def test_two_exporters_with_different_metrics_do_not() -> None:
    first, second = series(A, name="a-0"), series(A, name="a-0", job="amd")
    readings = (util(first, 5), util(second, 5, "gpu_gfx_activity"))
    passes(judge(pods=(pod("a-0"),), devices=(first, second), readings=readings))


def test_the_target_that_a_rollout_replaced_is_no_second_target() -> None:
    old, new = series(A, name="a-0", at="10.0.0.77:9400"), series(A, name="a-0")
    readings = (util(old, 5), util(new, 6))
    passes(judge(pods=(pod("a-0"),), devices=(old, new), readings=readings, targets=(target(),)))


def test_without_values_sharing_is_unknown() -> None:
    pods, devices = three()
    result = judge(
        nodes=(node("n-1", 4, **SHARED),), pods=pods, devices=devices, readings=Missing(Why.TIMED_OUT, "the server took too long", "q")
    )
    assert result.verdict is Verdict.UNKNOWN


def test_default_mode_on_a_shared_device_leaves_pods_unnamed_and_says_which_switch() -> None:
    pods, devices = three()
    result = judge(nodes=(node("n-1", 4, **SHARED),), pods=pods, devices=devices[:1])
    assert codes(result) == ["pod-missing", "pod-missing"]
    assert "KUBERNETES_VIRTUAL_GPUS=true" in result.findings[0].hint


@pytest.mark.parametrize(
    ("resource", "word"),
    [("nvidia.com/gpu.shared", "NVIDIA_RESOURCE_NAMES=nvidia.com/gpu.shared"), ("nvidia.com/mig-1g.10gb", "NVML")],
)
def test_the_hint_fits_the_resource(resource: str, word: str) -> None:
    nodes = (node("n-1", 1, resource),)
    assert word in only(judge(nodes=nodes, pods=(pod("a-0", gpus={resource: 1}),), devices=(series(A, part="1"),)), "pod-missing").hint


# --- identity


@pytest.mark.parametrize(
    ("label", "role", "value"),
    [
        ("GPU_I_PROFILE", "profile", "<<<NULL>>>"),
        ("UUID", "gpu", "<<<NOT_FOUND>>>"),
        ("UUID", "gpu", "N/A"),
        ("GPU_I_ID", "gpu_instance", "<<<NULL>>>"),
    ],
)
def test_a_no_value_text_identifies_nothing(label: str, role: str, value: str) -> None:
    odd = series(A, name="a-0", extra={label: value}, spell={role: label})
    found = only(judge(pods=(pod("a-0"),), devices=(odd,)), "device-identity")
    assert found.subject.label == label


@pytest.mark.parametrize(("profile", "wrong"), [("1g.12gb", False), ("1g.12gb+me", False), ("1g.11gb", True)])
def test_a_profile_must_be_one_that_the_node_offers(profile: str, wrong: bool) -> None:
    resource = "nvidia.com/mig-1g.12gb"
    odd = series(A, name="a-0", part="3", profile=profile, extra={"GPU_I_PROFILE": profile}, spell={"profile": "GPU_I_PROFILE"})
    result = judge(nodes=(node("n-1", 1, resource),), pods=(pod("a-0", gpus={resource: 1}),), devices=(odd,))
    assert codes(result) == (["device-identity"] if wrong else [])


def test_an_instance_without_its_id_cannot_be_told_from_the_others() -> None:
    odd = series(A, name="a-0", profile="1g.10gb", extra={"GPU_I_PROFILE": "1g.10gb"}, spell={"profile": "GPU_I_PROFILE"})
    assert only(judge(pods=(pod("a-0"),), devices=(odd,)), "device-identity").subject.label == "GPU_I_ID"


def test_a_device_without_the_uuid_that_its_neighbours_have_is_told() -> None:
    lost = series("1", labels={"gpu": "1", "Hostname": "n-1"}, spelling={"gpu": "gpu", "host": "Hostname"})
    found = only(judge(pods=(pod("a-0"),), devices=(series(A, name="a-0"), lost)), "device-identity")
    assert found.subject.parts() == {"node": "n-1", "gpu": "1"}


def test_the_exporters_container_on_the_workloads_series_is_wrong() -> None:
    half = honored(A, name="a-0")
    half = replace(half, labels={**half.labels, "container": "exporter"})
    assert only(judge(pods=(pod("a-0"),), devices=(half,)), "wrong-container").subject.container == "exporter"


def test_a_service_instead_of_its_pods_is_no_target() -> None:
    through = replace(
        series(A, name="a-0"), instance="dcgm-exporter.gpu-operator:9400", target_pod="", target_namespace="", target_container=""
    )
    result = judge(pods=(pod("a-0"), pod("b-0", "n-2")), devices=(through,))
    assert codes(result) == ["device-identity"]
    assert result.findings[0].subject.target == "dcgm-exporter.gpu-operator:9400"


def test_two_nodes_in_one_target_are_told_once() -> None:
    one = replace(series(A, name="a-0"), instance="dcgm:9400", target_pod="", target_namespace="")
    two = replace(series(B, "n-2", name="b-0"), instance="dcgm:9400", target_pod="", target_namespace="")
    only(judge(pods=(pod("a-0"), pod("b-0", "n-2")), devices=(one, two)), "device-identity")


def test_an_aggregator_may_speak_for_many_nodes() -> None:
    def hami(gpu: str, node: str, name: str):
        item = series(gpu, node, name, extra={"node": node}, spell={"host": "node"})
        return replace(item, job="hami", instance="10.1.1.1:9395", target_pod="hami-scheduler-1", target_namespace="kube-system")

    passes(judge(pods=(pod("a-0"), pod("b-0", "n-2")), devices=(hami(A, "n-1", "a-0"), hami(B, "n-2", "b-0"))))


def test_one_uuid_on_two_nodes_is_told() -> None:
    found = only(judge(devices=(series(A), series(A, "n-2"))), "device-identity")
    assert found.subject.gpu == A
    assert "n-1, n-2" in found.observed


def test_an_index_alone_without_a_node_is_ambiguous() -> None:
    alone = [replace(series("0", f"n-{n}", labels={"gpu": "0"}, spelling={"gpu": "gpu"}), node="", host="") for n in (1, 2)]
    only(judge(devices=tuple(alone)), "device-identity")


@pytest.mark.parametrize(
    ("host", "wrong"),
    [
        ("n-1", False), ("N-1", False), ("n-1.example.org", False), ("10.7.0.1", False),
        ("localhost", True), ("dcgm-n-1", True), ("dcgm-exporter-6ldbb", True), ("n-2", True),
    ],
)  # fmt: skip
def test_the_host_label_must_name_the_node(host: str, wrong: bool) -> None:
    nodes = (node("n-1", addresses=("10.7.0.1",)), node("n-2"))
    result = judge(nodes=nodes, pods=(pod("a-0"),), devices=(series(A, name="a-0", host=host),))
    assert codes(result) == (["hostname-wrong"] if wrong else [])
    if wrong:
        assert result.findings[0].subject.parts() == {"node": "n-1", "gpu": A, "label": "Hostname"}


def test_a_machine_outside_the_cluster_is_unjudged() -> None:
    outside = replace(series(A, host="lab-7"), node="", target_pod="", target_namespace="", labels={"UUID": A, "Hostname": "lab-7"})
    result = judge(devices=(outside,))
    assert result.verdict is Verdict.UNKNOWN
    assert "lab-7" in result.unjudged[0].why


# --- policy


def test_required_labels_are_the_policys_alone() -> None:
    devices = (series(A, name="a-0"), series(B))
    passes(judge(pods=(pod("a-0"),), devices=devices))
    policy = Policy.model_validate({"labels": {"required": {"device": ["pod_uid", "host"]}}})
    found = only(judge(policy=policy, pods=(pod("a-0"),), devices=devices), "required-label-missing")
    assert found.subject.parts() == {"node": "n-1", "gpu": A, "label": "pod_uid"}


def test_required_labels_of_other_layers_come_from_the_schema() -> None:
    policy = Policy.model_validate({"labels": {"required": {"request": ["model_name"], "device": ["cluster"]}}})
    schema = (
        MetricSchema("vllm", "vllm:num_requests_waiting", 4, 4, 0, 1, 0.5, {"model_name": 3}),
        MetricSchema("dcgm", "DCGM_FI_DEV_GPU_UTIL", 2, 1, 0, 1, 0.5, {"cluster": 2}),
    )
    found = only(judge(policy=policy, pods=(pod("a-0"),), devices=(series(A, name="a-0"),), schema=schema), "required-label-missing")
    assert found.subject.parts() == {"metric": "vllm:num_requests_waiting", "label": "model_name", "job": "vllm"}


# --- dynamic resource allocation

CLAIM = ResourceClaim("ml", "a-0-gpu", (("gpu.nvidia.com", "n-1", "gpu-0"),))
SLICE = ResourceSlice("s", "n-1", "gpu.nvidia.com", "n-1", {"gpu-0": {"uuid": A}})


def claimed(name: str = "a-0"):
    return pod(name, gpus=0, claims={"gpu": f"{name}-gpu"}, containers=(Container("main", claims=("gpu",), started_at=LONG_AGO),))


def test_a_pod_with_a_claim_that_is_named_passes() -> None:
    passes(judge(pods=(claimed(),), devices=(series(A, name="a-0"),), claims=(CLAIM,), slices=(SLICE,)))


def test_a_claimed_device_whose_series_names_nobody_is_missing() -> None:
    found = only(judge(pods=(claimed(),), devices=(series(A), series(B)), claims=(CLAIM,), slices=(SLICE,)), "pod-missing")
    assert "KUBERNETES_ENABLE_DRA=true" in found.hint


@pytest.mark.parametrize(
    "facts",
    [
        {"claims": Missing(Why.UNAUTHORISED, "forbidden", "")},
        {"claims": ()},
        {"claims": (replace(CLAIM, devices=()),)},
        {"claims": (CLAIM,), "slices": ()},
        {"claims": (CLAIM,), "slices": (replace(SLICE, devices={"gpu-0": {"uuid": C}}),)},
    ],
)
def test_a_claim_that_cannot_be_followed_is_unknown(facts: dict[str, object]) -> None:
    result = judge(pods=(claimed(),), devices=(series(A), series(B)), **facts)
    assert only(result, "dra-unverifiable").verdict is Verdict.UNKNOWN
    assert result.verdict is Verdict.UNKNOWN


def test_a_claim_for_another_kind_of_device_holds_no_gpu() -> None:
    network = replace(CLAIM, devices=(("nic.example.com", "n-1", "eth1"),))
    passes(judge(pods=(claimed(),), devices=(series(A),), claims=(network,), slices=()))


# --- the catalogue


def test_every_code_says_why_and_what_to_do() -> None:
    assert len(CHECK.codes) == 14
    for code in CHECK.codes:
        assert code.id.startswith("label-mapping/")
        assert all([code.title, code.why, code.todo, code.example])


def test_an_exporter_known_by_its_image_alone_is_an_exporter() -> None:
    stored = replace(
        series(A), labels={"UUID": A, "pod": "dcgm-n-1", "namespace": "gpu-operator"}, honor_labels=None, target_pod="", target_namespace=""
    )
    stored = replace(stored, pod="dcgm-n-1", namespace="gpu-operator", spelling={"gpu": "UUID", "pod": "pod", "namespace": "namespace"})
    assert exporter("dcgm-n-1", "n-1").containers[0].image
    only(judge(pods=(pod("a-0"),), devices=(stored,)), "exporter-pod")
