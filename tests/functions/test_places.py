"""Which node and which Pod a target, a host label or an address stands for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from functions.contract.cluster import Container, Node, Pod
from functions.knowledge import load
from functions.places import Places, host_of

EXPORTER = "nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0"


def node(name: str, *addresses: str) -> Node:
    return Node(name, capacity={"nvidia.com/gpu": 8}, addresses=addresses)


def pod(name: str, ip: str, *ports: int, image: str = "", phase: str = "Running") -> Pod:
    return Pod("gpu", name, name, "n-1", phase, f"DaemonSet/{name}", (Container("main", image, ports=ports),), ip=ip)


def places(pods: Sequence[Pod] = (), nodes: Sequence[Node] = (node("n-1", "10.0.0.1"), node("n-2", "10.0.0.2"))) -> Places:
    return Places(nodes, pods, load().devices)


def test_two_domain_names_with_one_first_part_are_two_machines() -> None:
    two = places(nodes=[node("gpu-1.rack-a"), node("gpu-2.rack-a")])
    assert two.node_named("gpu-1") == "gpu-1.rack-a"
    assert two.node_named("GPU-1.RACK-A") == "gpu-1.rack-a"
    assert two.node_named("gpu-1.rack-b") == ""


def test_a_nodes_own_name_counts_before_anothers_address() -> None:
    assert places(nodes=[node("a", "b"), node("b")]).node_named("b") == "b"


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("10.0.0.1:9400", "10.0.0.1"),
        ("[fd00::1]:9400", "fd00::1"),
        ("fd00::1", "fd00::1"),
        ("n-1", "n-1"),
        ("http://n-1:9400/metrics", "n-1"),
        ("", ""),
        (":9400", ""),
    ],
)
def test_the_host_of_an_instance(instance: str, host: str) -> None:
    assert host_of(instance) == host


def test_the_node_of_a_target_alone() -> None:
    assert places().node_of({}, "10.0.0.2:9400") == "n-2"


@pytest.mark.parametrize(
    ("instance", "pods", "found"),
    [
        # a Pod's own address: whatever it declares
        ("10.9.0.7:9400", [pod("dcgm", "10.9.0.7")], "dcgm"),
        ("10.9.0.7:9400", [pod("dcgm", "10.9.0.7", 8080)], "dcgm"),
        ("10.9.0.7:9400", [pod("train", "10.9.0.7", phase="Succeeded"), pod("dcgm", "10.9.0.7")], "dcgm"),
        ("10.9.0.7:9400", [pod("one", "10.9.0.7"), pod("other", "10.9.0.7")], None),
        # the host's network: who listens at that port
        ("10.0.0.1:9400", [pod("dcgm", "10.0.0.1", 9400, image=EXPORTER), pod("proxy", "10.0.0.1", 10249)], "dcgm"),
        ("10.0.0.1:10249", [pod("dcgm", "10.0.0.1", 9400, image=EXPORTER), pod("proxy", "10.0.0.1", 10249)], "proxy"),
        # the kubelet is no Pod
        ("10.0.0.1:10250", [pod("dcgm", "10.0.0.1", 9400, image=EXPORTER)], None),
        ("10.0.0.1:10250", [pod("train", "10.0.0.1")], None),
        # who declares no port is told by its image
        ("10.0.0.1:9400", [pod("dcgm", "10.0.0.1", image=EXPORTER), pod("proxy", "10.0.0.1")], "dcgm"),
        ("10.0.0.1:9400", [pod("a", "10.0.0.1", image=EXPORTER), pod("b", "10.0.0.1", image=EXPORTER)], None),
    ],
)
def test_the_pod_that_answers_at_an_address(instance: str, pods: Sequence[Pod], found: str | None) -> None:
    answer = places(pods).pod_of({}, instance)
    assert (answer.name if answer else None) == found


def test_the_pod_that_the_labels_name_counts_before_the_address() -> None:
    answer = places([pod("dcgm", "10.9.0.7"), pod("train", "10.9.0.8")]).pod_of({"namespace": "gpu", "pod": "train"}, "10.9.0.7:9400")
    assert answer is not None
    assert answer.name == "train"
