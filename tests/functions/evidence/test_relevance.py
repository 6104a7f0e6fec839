"""What a node's audit compares: the targets that are there, and those that should be."""

from __future__ import annotations

from functions.contract.cluster import Pod
from functions.contract.telemetry import Target
from functions.evidence.relevance import moved_away

NODE = "gpu-1"


def pod(name: str, workload: str, node: str = NODE) -> Pod:
    return Pod("ml", name, f"uid-{name}", node, "Running", workload, ())


def target(name: str, instance: str = "10.0.0.1:8000") -> Target:
    return Target("vllm", instance, {"namespace": "ml", "pod": name, "node": NODE}, up=True)


def gone(of: Target, *pods: Pod, scraped: frozenset[str] = frozenset()) -> bool:
    return moved_away(of, scraped, NODE, pods)


def test_what_was_drained_runs_elsewhere_and_is_no_loss_of_the_node() -> None:
    assert gone(target("server-abc12"))
    assert gone(target("server-abc12"), pod("server-xyz89", "Deployment/server", node="gpu-2"))


def test_a_pod_that_is_still_there_and_is_not_scraped_any_more_is_one() -> None:
    assert not gone(target("server-abc12"), pod("server-abc12", "Deployment/server"))


def test_a_daemon_set_whose_new_pod_is_not_scraped_is_one() -> None:
    assert not gone(target("exporter-abc12"), pod("exporter-xyz89", "DaemonSet/exporter"))
    assert gone(target("exporter-abc12"), pod("server-xyz89", "Deployment/server"))


def test_a_target_that_is_scraped_or_names_no_pod_stays() -> None:
    assert not gone(target("server-abc12"), scraped=frozenset({"10.0.0.1:8000"}))
    assert not gone(Target("node", NODE, {"node": NODE}, up=True))
