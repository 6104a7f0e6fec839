"""Rows become devices: the right node, the right GPU, and the Pod that a series names once the collision rule is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.contract.cluster import Container, Node, Pod
from functions.contract.facts import Known
from functions.contract.policy import Policy
from functions.contract.telemetry import DeviceSeries, Row, Target
from functions.evidence import objects as reduce
from functions.evidence import plan, relevance
from functions.evidence.bundle.reading import Bundle
from functions.evidence.devices import resolve
from functions.evidence.stored import stored_labels
from functions.knowledge import load

CASES = sorted(p.parent for p in (Path(__file__).parents[2] / "cases").glob("*/expect.yaml"))
OWN = {"namespace": "gpu-operator", "pod": "dcgm-x", "container": "exporter"}


def node(name: str, gpus: int = 8, addresses: Sequence[str] = (), **labels: str) -> Node:
    return Node(name, capacity={"nvidia.com/gpu": gpus} if gpus else {}, addresses=tuple(addresses), labels=labels)


def pod(name: str, on: str = "n-1", namespace: str = "ml", ip: str = "", phase: str = "Running", image: str = "") -> Pod:
    return Pod(namespace, name, "u", on, phase, f"Pod/{name}", (Container("main", image),), ip=ip)


def target(instance: str = "10.0.0.9:9400", honor: bool | None = None, job: str = "dcgm", **labels: str) -> Target:
    return Target(job, instance, {"job": job, "instance": instance, **labels}, True, honor_labels=honor)


def row(instance: str = "10.0.0.9:9400", job: str = "dcgm", **labels: str) -> Row:
    return Row({"job": job, "instance": instance, **labels}, 20.0)


def devices(
    rows: Sequence[Row], targets: Sequence[Target] = (), nodes: Sequence[Node] = (), pods: Sequence[Pod] = (), policy: Policy | None = None
) -> tuple[DeviceSeries, ...]:
    return resolve(rows, targets, nodes, pods, load(), policy or Policy())


def one(labels: Mapping[str, str], targets: Sequence[Target] = (), nodes: Sequence[Node] = (), pods: Sequence[Pod] = ()) -> DeviceSeries:
    (found,) = devices([row(**labels)], targets, nodes, pods)
    return found


# ------------------------------------------------------------------------------------------------------- spelling


@pytest.mark.parametrize(
    ("labels", "gpu", "instance", "profile", "spelling"),
    [
        ({"gpu": "0", "UUID": "GPU-1", "device": "nvidia0"}, "GPU-1", "", "", {"gpu": "UUID", "index": "gpu"}),
        ({"gpu": "0", "uuid": "gpu-1"}, "gpu-1", "", "", {"gpu": "uuid", "index": "gpu"}),
        (
            {"UUID": "GPU-1", "GPU_I_ID": "3", "GPU_I_PROFILE": "2g.20gb"},
            "GPU-1", "3", "2g.20gb", {"gpu": "UUID", "gpu_instance": "GPU_I_ID", "profile": "GPU_I_PROFILE"},
        ),
        (
            {"uuid": "gpu-1", "gpu_i_id": "3", "gpu_i_profile": "2g.20gb"},
            "gpu-1", "3", "2g.20gb", {"gpu": "uuid", "gpu_instance": "gpu_i_id", "profile": "gpu_i_profile"},
        ),
        ({"gpu_id": "2", "serial_number": "S7"}, "S7", "", "", {"gpu": "serial_number", "index": "gpu_id"}),
        (
            {"gpu_uuid": "a", "gpu_partition_id": "0", "gpu_compute_partition_type": "spx"},
            "a", "", "", {"gpu": "gpu_uuid"},
        ),
        (
            {"gpu_uuid": "a", "gpu_partition_id": "3", "gpu_compute_partition_type": "cpx"},
            "a", "3", "cpx", {"gpu": "gpu_uuid", "gpu_instance": "gpu_partition_id", "profile": "gpu_compute_partition_type"},
        ),
        ({"deviceuuid": "GPU-1", "deviceidx": "0"}, "GPU-1", "", "", {"gpu": "deviceuuid", "index": "deviceidx"}),
        ({"device_uuid": "GPU-1"}, "GPU-1", "", "", {"gpu": "device_uuid"}),
        ({"accelerator_id": "GPU-1"}, "GPU-1", "", "", {"gpu": "accelerator_id"}),
        ({"device": "nvidia0"}, "nvidia0", "", "", {"index": "device"}),
        ({"pci_bdf": "0000:4d:00.0", "hw_id": "7"}, "7", "", "", {"gpu": "hw_id", "index": "pci_bdf"}),
        ({"UUID": "<<<NULL>>>", "gpu": "1"}, "<<<NULL>>>", "", "", {"gpu": "UUID", "index": "gpu"}),
        ({"modelName": "H200"}, "", "", "", {}),
    ],
)  # fmt: skip
def test_every_exporters_spelling_of_a_device_is_read(
    labels: dict[str, str], gpu: str, instance: str, profile: str, spelling: dict[str, str]
) -> None:
    found = one(labels)
    assert (found.gpu, found.gpu_instance, found.profile) == (gpu, instance, profile)
    assert dict(found.spelling) == spelling
    assert found.series == 20


@pytest.mark.parametrize("label", ["nvlink", "nvswitch", "cpu", "cpucore"])
def test_links_switches_and_processors_are_no_devices(label: str) -> None:
    assert devices([row(gpu_uuid="GPU-1", **{label: "3"}), row(UUID="GPU-1")])[0].spelling == {"gpu": "UUID"}


def test_a_site_adds_spellings_of_its_own() -> None:
    policy = Policy.model_validate({"labels": {"aliases": {"gpu": ["card"], "pod": ["workload_pod"], "namespace": ["team"]}}})
    (found,) = devices([row(card="c1", UUID="GPU-1", workload_pod="a", team="t", pod="x")], policy=policy)
    assert (found.gpu, found.namespace, found.pod, found.container) == ("c1", "t", "a", "")


# -------------------------------------------------------------------------------------------------- the workload

SCRAPED = {"UUID": "GPU-1", "namespace": "ml", "pod": "chat-1", "container": "vllm"}
IDLE = {"UUID": "GPU-2"}


@pytest.mark.parametrize("honor", [True, False])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("attached", [OWN, {"namespace": "gpu-operator", "pod": "dcgm-x"}, {"pod": "dcgm-x"}, {}], ids=len)
def test_a_mapped_and_an_idle_device_are_told_apart_in_every_stored_form(honor: bool, told: bool, attached: dict[str, str]) -> None:
    labels = {"job": "dcgm", "instance": "10.0.0.9:9400", "node": "n-1", **attached}
    rows = [Row(stored_labels(labels, scraped, honor), 20.0) for scraped in (SCRAPED, IDLE)]
    known = Target("dcgm", "10.0.0.9:9400", labels, True, honor_labels=honor if told else None)
    mapped, idle = devices(rows, [known])
    assert (mapped.namespace, mapped.pod, mapped.container) == ("ml", "chat-1", "vllm")
    assert idle.pod == ""
    assert "pod" not in idle.spelling
    assert idle.target_pod == attached.get("pod", "")
    assert mapped.honor_labels is (honor if told else None)


def test_in_a_stored_view_one_exported_pod_tells_that_plain_labels_are_the_targets() -> None:
    rows = [
        row(UUID="GPU-1", exported_pod="chat-1", exported_namespace="ml", exported_container="vllm", **OWN),
        row(UUID="GPU-2", **OWN),
    ]
    mapped, idle = devices(rows)
    assert (mapped.namespace, mapped.pod, mapped.container) == ("ml", "chat-1", "vllm")
    assert mapped.spelling["pod"] == "exported_pod"
    assert (idle.pod, idle.target_pod) == ("", "dcgm-x")


def test_a_stored_view_without_any_collision_names_what_it_says() -> None:
    rows = [row(uuid="gpu-1", pod="chat-1", namespace="ml", podname="dcgm-x"), row(uuid="gpu-2", podname="dcgm-x")]
    mapped, idle = devices(rows, pods=[pod("dcgm-x", namespace="gpu", ip="10.0.0.9")])
    assert (mapped.pod, mapped.spelling["pod"], mapped.target_pod) == ("chat-1", "pod", "dcgm-x")
    assert idle.spelling.get("pod", "podname") == "podname"


@pytest.mark.parametrize(
    "labels",
    [
        {"pod_name": "chat-1", "pod_namespace": "ml", "container_name": "vllm"},
        {"podname": "chat-1", "podnamespace": "ml", "ctrname": "vllm"},
    ],
)
def test_an_exporters_own_words_for_the_workload_count_beside_the_targets_labels(labels: dict[str, str]) -> None:
    found = one({"UUID": "GPU-1", **labels, **OWN}, [target(honor=False, **OWN)])
    assert (found.namespace, found.pod, found.container) == ("ml", "chat-1", "vllm")


def test_one_jobs_collision_says_nothing_about_another_job() -> None:
    rows = [row(UUID="GPU-1", exported_pod="a", pod="dcgm-x"), row(job="amd", UUID="GPU-2", pod="b", namespace="ml")]
    assert [d.pod for d in devices(rows)] == ["a", "b"]


# ------------------------------------------------------------------------------------------------------- the node

NODES = (
    node("n-1", addresses=["10.0.0.1", "n-1.example.org"]),
    node("n-2", addresses=["10.0.0.2"], **{"kubernetes.io/hostname": "host-2"}),
    node("cpu-1", 0),
)


@pytest.mark.parametrize(
    ("labels", "attached", "instance", "on"),
    [
        ({}, {"node": "n-1"}, "10.9.9.9:9400", "n-1"),
        ({"Hostname": "n-1"}, {}, "10.9.9.9:9400", "n-1"),
        ({"hostname": "N-1"}, {}, "10.9.9.9:9400", "n-1"),
        ({"Hostname": "n-1.other.domain"}, {}, "10.9.9.9:9400", "n-1"),
        ({"Hostname": "host-2"}, {}, "10.9.9.9:9400", "n-2"),
        ({"Hostname": "10.0.0.2"}, {}, "10.9.9.9:9400", "n-2"),
        ({"Hostname": "dcgm-x"}, {"namespace": "gpu-operator", "pod": "dcgm-x"}, "10.9.9.9:9400", "n-2"),
        ({"Hostname": "localhost"}, {}, "10.2.0.7:9400", "n-2"),
        ({}, {}, "10.0.0.1:9400", "n-1"),
        ({}, {}, "n-1:9400", "n-1"),
        ({}, {}, "10.2.0.8:9400", ""),
        ({"Hostname": "elsewhere"}, {}, "10.9.9.9:9400", ""),
        ({"Hostname": "n-2"}, {"node": "n-1"}, "10.9.9.9:9400", "n-1"),
        ({"node": "n-2"}, {"node": "cpu-1"}, "10.9.9.9:9400", "n-2"),
        ({"Hostname": "10"}, {}, "10.9.9.9:9400", ""),
    ],
)
def test_the_node_is_found_by_label_host_pod_or_address(labels: dict[str, str], attached: dict[str, str], instance: str, on: str) -> None:
    pods = (
        pod("dcgm-x", "n-2", "gpu-operator"),
        pod("old", "n-1", ip="10.2.0.7", phase="Succeeded"),
        pod("dcgm-y", "n-2", ip="10.2.0.7"),
        pod("gone", "n-1", ip="10.2.0.8", phase="Failed"),
    )
    (found,) = devices([row(instance, UUID="GPU-1", **labels)], [target(instance, **attached)] if attached else [], NODES, pods)
    assert found.node == on


def test_an_aggregator_that_runs_on_one_node_speaks_for_several() -> None:
    rows = [row(device_uuid="GPU-1", exported_node="n-1", node="n-1"), row(device_uuid="GPU-2", exported_node="n-2", node="n-1")]
    assert [d.node for d in devices(rows, [target(node="n-1")], NODES)] == ["n-1", "n-2"]


def test_on_the_hosts_network_the_exporter_is_known_by_its_image() -> None:
    pods = [pod("proxy", "n-1", ip="10.0.0.1"), pod("dcgm-x", "n-1", "gpu", "10.0.0.1", image="nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0")]
    (found,) = devices([row("10.0.0.1:9400", UUID="GPU-1")], [], NODES, pods)
    assert (found.node, found.target_pod) == ("n-1", "dcgm-x")


# ------------------------------------------------------------------------------------------------------ all inputs

_names = st.sampled_from(
    [
        "UUID",
        "uuid",
        "gpu",
        "device",
        "GPU_I_ID",
        "Hostname",
        "hostname",
        "node",
        "pod",
        "namespace",
        "container",
        "exported_pod",
        "exported_namespace",
        "pod_name",
        "podname",
        "gpu_compute_partition_type",
        "nvlink",
        "job",
        "instance",
    ]
)
_values = st.sampled_from(["", "a", "n-1", "10.0.0.1", "dcgm-x", "spx", "GPU-1", "[::1]:9400", "\u00e9"])


@given(
    st.lists(st.dictionaries(_names, _values, max_size=8), max_size=5),
    st.dictionaries(_names, _values),
    st.sampled_from([True, False, None]),
)
def test_any_rows_are_resolved_in_any_order(labels: list[dict[str, str]], attached: dict[str, str], honor: bool | None) -> None:
    rows = [Row(found, 1.0) for found in labels]
    targets = [Target(attached.get("job", ""), attached.get("instance", ""), attached, True, honor_labels=honor)]
    pods = [pod("dcgm-x", ip="10.0.0.1"), pod("a", "n-2")]
    forward = devices(rows, targets, NODES, pods)
    assert forward == devices(rows[::-1], targets, NODES, pods)[::-1]
    for found in forward:
        assert all(found.labels.get(label) for label in found.spelling.values())


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
async def test_the_devices_of_a_recorded_case_are_on_its_nodes_and_name_no_exporter(path: Path) -> None:
    bundle = Bundle.read(path)
    listed, listed_nodes = await bundle.objects.list("Pod"), await bundle.objects.list("Node")
    targets = await bundle.metrics.targets(bundle.current)
    names = relevance.names(load(), Policy())
    answer = await bundle.metrics.ask(plan.devices(names.one_device, names.devices, names.by), bundle.current)
    assert isinstance(listed, Known)
    assert isinstance(listed_nodes, Known)
    assert isinstance(targets, Known)
    assert isinstance(answer, Known)
    pods = {p.name: p for p in map(reduce.pod, listed.value)}
    nodes = {n.name: n for n in map(reduce.node, listed_nodes.value)}
    found = resolve(answer.value, targets.value, list(nodes.values()), list(pods.values()), load(), Policy())
    labels = {t.instance: t.labels for t in targets.value}
    exporters = {t.labels.get("pod") for t in targets.value} & {d.target_pod for d in found}
    assert found
    for device in found:
        assert device.node in nodes
        assert any(nodes[device.node].capacity.values())
        assert device.node == labels[device.instance].get("node", device.node)
        assert device.gpu.lower().startswith("gpu-")
        assert device.pod not in exporters - {""}
        if device.pod in pods and not pods[device.pod].finished:
            assert (pods[device.pod].namespace, pods[device.pod].node) == (device.namespace, device.node) or device.pod == device.target_pod
