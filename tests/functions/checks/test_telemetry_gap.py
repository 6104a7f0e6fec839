"""What telemetry-gap says about targets, coverage and the metrics server, from hand-made facts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from functions.checks import base
from functions.checks.telemetry_gap.check import CHECK
from functions.contract.cluster import ResourceSlice, Taint
from functions.contract.facts import NO_BASELINE, Facts, Known, Missing, Why, Windows
from functions.contract.findings import Severity, Subject, Verdict
from functions.contract.policy import Exempt, Planned, Policy
from functions.contract.signals import Scope
from functions.contract.telemetry import BadLine, Body, PipelineSample
from functions.knowledge import load
from tests.functions.checks.gap_facts import (
    BEFORE,
    JOB,
    LONG_AGO,
    NOW,
    codes,
    exporter,
    healthy,
    judge,
    known,
    metric,
    node,
    only,
    passes,
    series,
    target,
)  # fmt: skip

DEADLINE = 'Get "http://10.0.1.1:9400/metrics": context deadline exceeded'


def test_a_healthy_cluster_passes_and_says_what_was_proven() -> None:
    result = judge()
    passes(result)
    assert "1 of 1 target delivers, 1 node shows devices" in result.summary


def test_every_code_is_documented() -> None:
    assert len(CHECK.codes) == 15
    for code in CHECK.codes:
        assert code.id.startswith("telemetry-gap/")
        assert all((code.title, code.why, code.todo, code.example)), code.id


def test_without_any_fact_nothing_is_green() -> None:
    result = base.run(CHECK, Facts(Windows(None, NOW)), {"policy": Policy(), "knowledge": load(), "scope": Scope(), "cluster": "lab"})
    assert result.verdict is Verdict.UNKNOWN
    assert not result.findings


@pytest.mark.parametrize(
    "fact",
    sorted(
        set(healthy())
        - {"dashboards", "selectors", "selectors_before", "readings", "devices_before", "targets_before", "partial_losses", "pods_before"}
    ),
)
def test_a_fact_that_could_not_be_had_is_never_green(fact: str) -> None:
    result = judge(**{fact: Missing(Why.TIMED_OUT, "no answer")})
    assert result.verdict is Verdict.UNKNOWN, result.summary
    assert not result.findings


def test_without_a_baseline_what_went_silent_is_unknown_and_the_rest_is_judged() -> None:
    result = judge(
        schema_before=NO_BASELINE,
        targets_before=NO_BASELINE,
        devices_before=NO_BASELINE,
        partial_losses=NO_BASELINE,
        targets=(target(up=False, error="refused"),),
    )
    assert codes(result) == {"target-down"}
    assert any("went silent" in u.why for u in result.unjudged)


# ------------------------------------------------------------------------------------------------------- targets


def test_a_target_that_is_down_explains_what_is_missing_behind_it() -> None:
    result = judge(targets=(target(up=False, error="connect: connection refused", samples=None),), devices=(), schema=(), readings=())
    found = only(result, "target-down")
    assert found.subject.parts() == {
        "node": "n-1", "namespace": "gpu-operator", "pod": "dcgm-1", "workload": "DaemonSet/dcgm", "job": JOB, "target": "10.0.1.1:9400",
    }  # fmt: skip
    assert any(u.subject.node == "n-1" and "telemetry-gap/target-down" in u.why for u in result.unjudged)


@pytest.mark.parametrize(
    "planned",
    [
        node(unschedulable=True),
        node(labels={"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"}),
        node(offered=0),
        node(taints=(Taint("example.com/repair", "NoSchedule"),)),
        node(annotations={"example.com/window": "open"}),
    ],
)
def test_on_a_node_under_planned_work_absence_is_no_fault(planned: object) -> None:
    policy = Policy(planned=Planned(taints=("example.com/repair",), annotations=("example.com/window=open",)))
    passes(
        judge(
            policy=policy,
            nodes=(planned,),
            targets=(target(up=False, error="refused"),),
            devices=(),
            schema=(metric("up_only"),),
            schema_before=(metric("up_only"),),
        )
    )


def test_a_finished_driver_upgrade_is_no_excuse() -> None:
    upgraded = node(labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"})
    assert codes(judge(nodes=(upgraded,), targets=(target(up=False),))) == {"target-down"}


def test_the_target_of_a_pod_that_is_gone_is_no_fault() -> None:
    old = target(instance="10.0.9.9:9400", pod="dcgm-old", up=False, error="no route to host")
    passes(judge(targets=(target(), old)))


def test_an_exempt_namespace_is_not_judged() -> None:
    policy = Policy(exempt=Exempt(namespaces=("gpu-*",)))
    assert not judge(policy=policy, targets=(target(up=False),)).findings


def test_a_target_that_vanished_while_its_pod_runs_is_down() -> None:
    found = only(judge(targets=(), devices=(), schema=(), readings=()), "target-down")
    assert "no target at all" in found.observed
    assert found.subject.pod == "dcgm-1"


def test_a_target_that_vanished_with_its_pod_is_no_fault() -> None:
    passes(judge(targets_before=(target(), target(2)), pods=(exporter(),)))


def test_a_workload_whose_name_begins_like_anothers_is_not_taken_for_it() -> None:
    other = target(job="vgpu", pod="dcgm-vgpu-j7dj2", instance="10.0.9.1:9400")
    labels = {**other.labels, "node": "n-9"}
    passes(judge(targets_before=(target(), replace(other, labels=labels)), pods_before=NO_BASELINE))


def test_a_new_pod_of_a_rollout_that_is_scraped_takes_the_place_of_the_old_one() -> None:
    new = exporter(name="dcgm-x", created_at=NOW - timedelta(minutes=20), started_at=NOW - timedelta(minutes=20))
    passes(judge(pods=(new,), targets=(target(pod="dcgm-x", instance="10.0.1.7:9400"),)))


def test_a_body_that_is_rejected_is_named_with_its_line_and_explains_the_target() -> None:
    text = 'DCGM_FI_DEV_VGPU_INSTANCE_IDS{gpu="0"} ERROR - FAILED TO CONVERT TO STRING'
    body = Body(JOB, "10.0.1.1:9400", {}, 3, BadLine(7, text, "not a number"), NOW, 900)
    found = only(
        judge(targets=(target(up=False, error="strconv.ParseFloat: parsing"),), bodies=(body,), devices=(), schema=()), "bad-exposition"
    )
    assert found.subject.node == "n-1"
    assert found.observed.startswith(f"line 7: {text}")


def test_an_error_that_speaks_of_parsing_is_a_bad_exposition_without_the_body() -> None:
    error = 'expected value after metric, got "INVALID" while parsing: "X{} ERROR"'
    assert "X{} ERROR" in only(judge(targets=(target(up=False, error=error),)), "bad-exposition").observed


def test_a_bad_body_on_a_cordoned_node_is_still_a_fault() -> None:
    result = judge(nodes=(node(unschedulable=True),), targets=(target(up=False, error="invalid metric type while parsing"),))
    assert codes(result) == {"bad-exposition"}


def test_two_hundred_and_nothing_in_it() -> None:
    found = only(judge(targets=(target(samples=0, samples_kept=0),), devices=(), schema=()), "empty-exposition")
    assert found.subject.target == "10.0.1.1:9400"


def test_a_limit_explains_that_the_target_is_down() -> None:
    only(judge(targets=(target(up=False, error="sample limit exceeded"),), devices=(), schema=()), "series-dropped")


def test_relabelling_that_begins_to_drop_is_told_and_one_that_always_did_is_not() -> None:
    found = only(judge(targets=(target(samples_kept=40),)), "series-dropped")
    assert "40 of 100" in found.observed
    passes(judge(targets=(target(samples_kept=40),), targets_before=(target(samples_kept=40),)))
    passes(judge(targets=(target(samples_kept=40),), targets_before=NO_BASELINE))
    only(judge(targets=(target(samples_kept=0),), targets_before=NO_BASELINE, devices=(), schema=()), "series-dropped")


def test_a_target_that_is_up_and_was_not_scraped_for_long_is_stale() -> None:
    found = only(judge(targets=(target(scraped_at=NOW - timedelta(minutes=40)),)), "stale")
    assert "40 min" in found.title
    passes(judge(targets=(target(scraped_at=NOW - timedelta(minutes=4)),)))
    passes(judge(targets=(target(scraped_at=NOW - timedelta(minutes=20), interval=600.0),)))


def test_a_clock_that_is_ahead() -> None:
    only(judge(targets=(target(scraped_at=NOW + timedelta(minutes=5)),)), "clock-skew")
    only(judge(targets=(target(process_started=NOW.timestamp() + 900),)), "clock-skew")
    passes(judge(targets=(target(scraped_at=NOW + timedelta(seconds=20)),)))


def test_scrapes_go_on_while_an_audit_asks() -> None:
    after = tuple(target(n, scraped_at=NOW + timedelta(minutes=5)) for n in (1, 2))
    passes(judge(targets=Known(after, NOW + timedelta(minutes=5, seconds=3), "/api/v1/targets")))
    only(judge(targets=Known(after[:1], NOW + timedelta(minutes=3), "/api/v1/targets")), "clock-skew")


def test_where_every_target_is_ahead_it_is_the_servers_clock() -> None:
    found = only(judge(targets=tuple(target(n, scraped_at=NOW + timedelta(minutes=5)) for n in (1, 2, 3))), "clock-skew")
    assert found.subject == Subject()
    assert "all 3 targets" in found.observed


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"duration": 9.6, "timeout": 10.0}, "scrape-overrun"),
        ({"duration": 28.0, "timeout": 30.0}, "scrape-overrun"),
        ({"duration": 9.6}, "scrape-overrun"),
        ({"up": False, "error": DEADLINE, "duration": 10.0, "timeout": 10.0}, "scrape-overrun"),
        ({"up": False, "error": DEADLINE}, "target-down"),
    ],
)
def test_a_scrape_that_uses_up_its_time(facts: dict[str, object], code: str) -> None:
    only(judge(targets=(target(**facts),)), code)


def test_a_quick_scrape_and_a_long_timeout_are_no_fault() -> None:
    passes(judge(targets=(target(duration=9.6, timeout=30.0),)))


def test_a_timeout_of_a_pod_that_is_not_ready_is_a_target_down() -> None:
    result = judge(pods=(exporter(ready=False),), targets=(target(up=False, error=DEADLINE, duration=10.0, timeout=10.0),))
    assert "not ready" in only(result, "target-down").observed


# ------------------------------------------------------------------------------------------------------- coverage


def test_a_node_with_gpus_and_no_series_is_uncovered() -> None:
    found = only(judge(nodes=(node(), node("n-2", 8)), pods=(exporter(),)), "node-uncovered")
    assert found.subject.parts() == {"node": "n-2"}
    assert "8 devices" in found.expected


def test_a_node_without_gpus_needs_no_exporter() -> None:
    passes(judge(nodes=(node(), node("cpu-1", 0))))


def test_a_node_that_joined_just_now_is_unknown() -> None:
    result = judge(nodes=(node(), node("n-2", created_at=NOW - timedelta(minutes=2))))
    assert result.verdict is Verdict.UNKNOWN
    assert not result.findings


def test_devices_whose_node_cannot_be_told_leave_coverage_unknown() -> None:
    result = judge(nodes=(node(), node("n-2")), devices=(series("GPU-a"), series("GPU-b"), series("GPU-c", node="")))
    assert [u.subject.node for u in result.unjudged] == ["n-2"]


def test_fewer_devices_than_the_node_has() -> None:
    found = only(judge(nodes=(node(gpus=4),), devices_before=tuple(series(f"GPU-{g}") for g in "abcd")), "device-missing")
    assert found.subject.parts() == {"node": "n-1"}
    assert "2 of 4" in found.observed
    assert "GPU-c, GPU-d" in found.observed


def test_more_devices_than_allocatable_are_no_fault() -> None:
    passes(judge(nodes=(node(gpus=2, offered=1),)))


def test_as_many_as_the_node_offers_and_fewer_than_it_has_is_unknown() -> None:
    found = only(judge(nodes=(node(gpus=3, offered=2),)), "device-missing")
    assert found.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "shared",
    [
        node(gpus=8, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}),
        node(gpus=8, resource="nvidia.com/gpu.shared", labels={"nvidia.com/gpu.replicas": "4"}),
        node(gpus=8, labels={"nvidia.com/gpu.count": "2"}),
        node(gpus=20, labels={"nvidia.com/gpu.count": "2"}, annotations={"hami.io/node-nvidia-register": "…"}),
    ],
)
def test_a_shared_device_counts_once(shared: object) -> None:
    passes(judge(nodes=(shared,)))


def test_mig_instances_count_as_instances_beside_the_series_of_their_parent() -> None:
    split = node(gpus=3, resource="nvidia.com/mig-1g.10gb", labels={"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.count": "1"})
    seen = (series("GPU-a"), *(series("GPU-a", instance=str(n)) for n in (7, 8, 9)))
    passes(judge(nodes=(split,), devices=seen))
    assert "2 of 3" in only(judge(nodes=(split,), devices=seen[:-1]), "device-missing").observed


def test_under_the_single_strategy_the_gpu_resource_counts_instances() -> None:
    split = node(gpus=2, labels={"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.count": "1"})
    passes(judge(nodes=(split,), devices=(series("GPU-a", instance="1"), series("GPU-a", instance="2"))))
    assert codes(judge(nodes=(split,), devices=(series("GPU-a"),))) == {"device-missing"}


def test_two_exporters_that_spell_a_device_differently_do_not_add_up() -> None:
    other = (series("0", job="smi"), series("1", job="smi"))
    assert codes(judge(nodes=(node(gpus=4),), devices=(series("GPU-a"), series("GPU-b"), *other))) == {"device-missing"}


def test_devices_of_resource_slices_are_expected_where_there_is_no_extended_resource() -> None:
    listed = ResourceSlice("s", "n-1", "gpu.nvidia.com", "n-1", {f"gpu-{n}": {"type": "gpu"} for n in range(3)} | {"mig": {"type": "mig"}})
    assert "2 of 3" in only(judge(nodes=(node(gpus=0),), slices=(listed,)), "device-missing").observed


def test_a_node_scope_leaves_other_nodes_out() -> None:
    facts = {"nodes": (node(), node("n-2"), node("n-3")), "scope": Scope("node", "", "n-3")}
    assert [f.subject.node for f in judge(**facts).findings] == ["n-3"]


# ------------------------------------------------------------------------------------------------- metrics server


@pytest.mark.parametrize(
    ("samples", "code"),
    [
        ([("prometheus_rule_evaluation_failures_total", 0.2)], "pipeline-unhealthy"),
        ([("prometheus_config_last_reload_successful", 0)], "pipeline-unhealthy"),
        ([("prometheus_tsdb_wal_corruptions_total", 0.001)], "pipeline-unhealthy"),
        ([("prometheus_target_scrapes_exceeded_sample_limit_total", 0.1)], "series-dropped"),
        ([("prometheus_target_scrapes_sample_out_of_bounds_total", 3)], "clock-skew"),
        (
            [
                ("prometheus_remote_storage_highest_timestamp_in_seconds", 1_000_000.0),
                ("prometheus_remote_storage_queue_highest_sent_timestamp_seconds", 999_000.0),
            ],
            "pipeline-unhealthy",
        ),
    ],
)
def test_an_ill_metrics_server(samples: list[tuple[str, float]], code: str) -> None:
    held = tuple(PipelineSample("prom-0:9090", name, {}, value) for name, value in samples)
    found = only(judge(pipeline=held), code)
    assert found.subject.target == "prom-0:9090"


def test_a_sound_metrics_server_passes() -> None:
    sound = [
        ("prometheus_rule_evaluation_failures_total", 0.0),
        ("prometheus_config_last_reload_successful", 1.0),
        ("prometheus_remote_storage_highest_timestamp_in_seconds", 1_000_000.0),
        ("prometheus_remote_storage_queue_highest_sent_timestamp_seconds", 999_990.0),
        ("prometheus_notifications_queue_length", 0.0),
        ("prometheus_notifications_queue_capacity", 10000.0),
        ("prometheus_tsdb_head_series", 1e6),
    ]
    passes(judge(pipeline=tuple(PipelineSample("prom-0:9090", name, {}, value) for name, value in sound)))


def test_rules_that_fail_are_named_and_critical() -> None:
    sample = PipelineSample("prom-0:9090", "prometheus_rule_evaluation_failures_total", {"rule_group": "gpu.yaml;gpu"}, 0.5)
    found = only(judge(pipeline=(sample,)), "pipeline-unhealthy")
    assert found.severity is Severity.CRITICAL
    assert re.search("gpu.yaml;gpu", found.observed)


def test_nothing_is_decided_by_the_clock_of_the_machine() -> None:
    assert judge() == judge()
    assert BEFORE < NOW
    assert LONG_AGO < BEFORE
    assert known(1).at == NOW
