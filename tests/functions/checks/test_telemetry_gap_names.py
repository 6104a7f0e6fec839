"""Which lost and missing names telemetry-gap speaks of, and which it leaves to others or excuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from functions.checks.telemetry_gap.fields import parse_amd, parse_csv
from functions.contract.facts import NO_BASELINE
from functions.contract.findings import Severity, Verdict
from functions.contract.policy import Policy, Signals
from functions.contract.rules import Rule, RuleKind
from functions.contract.telemetry import BadLine, Body, PartialLoss
from tests.functions.checks.gap_facts import (
    BEFORE,
    JOB,
    NAMES,
    NOW,
    codes,
    daemonset,
    exporter,
    fields,
    judge,
    metric,
    node,
    only,
    passes,
    series,
    target,
)

LOST = "DCGM_FI_DEV_GPU_NVLINK_ERRORS"


def before(*more: str, **values: Any) -> tuple[Any, ...]:
    return (*(metric(n) for n in NAMES), *(metric(n, **values) for n in more))


# ------------------------------------------------------------------------------------------------------- went-silent


def test_a_name_that_was_there_and_is_gone() -> None:
    found = only(judge(schema_before=before(LOST)), "went-silent")
    assert (found.subject.metric, found.subject.job, found.verdict) == (LOST, JOB, Verdict.FAIL)
    assert found.severity is Severity.INFO  # rules and dashboards are known, and nothing reads it


def test_an_alert_on_the_lost_name_makes_it_critical_and_is_listed() -> None:
    rule = Rule(RuleKind.ALERT, "Links", "gpu", f"increase({LOST}[5m]) > 0")
    result = judge(schema_before=before(LOST), rules=(rule,), selectors=NO_BASELINE)
    found = next(f for f in result.findings if f.code.endswith("went-silent"))
    assert found.severity is Severity.CRITICAL
    assert [i.name for i in found.impact] == ["Links"]


def test_a_name_with_a_documented_successor_is_not_ours() -> None:
    now = (*(metric(n) for n in NAMES if n != "DCGM_FI_DEV_GPU_TEMP"), metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS"))
    assert "went-silent" not in codes(judge(schema=now))


@pytest.mark.parametrize(
    "name", ["DCGM_FI_DEV_XID_ERRORS", "dcgm_fi_dev_xid_errors", "DCGM_EXP_XID_ERRORS_COUNT", "kube_pod_status_reason", "kube_cronjob_info"]
)
def test_what_is_silent_by_nature_is_no_loss(name: str) -> None:
    passes(judge(schema_before=before(name)))


def test_what_the_policy_ignores_is_no_loss() -> None:
    passes(judge(policy=Policy(signals=Signals(ignore=("*NVLINK*",))), schema_before=before(LOST)))
    passes(judge(policy=Policy(signals=Signals(ignore=("gpu.nvlink.errors",))), schema_before=before(LOST)))


def test_a_node_that_was_split_into_instances_lost_nothing() -> None:
    now = tuple(metric(n) for n in NAMES if n != "DCGM_FI_DEV_GPU_UTIL")
    split = node(gpus=2, resource="nvidia.com/mig-1g.10gb")
    seen = (series("GPU-a"), series("GPU-a", instance="1"), series("GPU-a", instance="2"))
    passes(judge(schema=now, nodes=(split,), devices=seen, readings=()))
    assert codes(judge(schema=now)) == {"went-silent"}


def test_a_counter_of_a_process_that_restarted_may_not_have_counted_yet() -> None:
    lost = before("engine_aborts_total", type="counter")
    young = exporter(container_started=NOW - timedelta(minutes=20))
    found = only(judge(schema_before=lost, pods=(young,)), "went-silent")
    assert found.verdict is Verdict.UNKNOWN
    assert "20 min ago" in found.observed
    assert only(judge(schema_before=lost), "went-silent").verdict is Verdict.FAIL
    policy = Policy.model_validate({"windows": {"lazy": 600}})
    assert only(judge(schema_before=lost, pods=(young,), policy=policy), "went-silent").verdict is Verdict.FAIL


def test_a_counter_that_the_catalogue_knows_to_be_there_from_the_start_is_lost() -> None:
    young = exporter(container_started=NOW - timedelta(minutes=20))
    found = only(
        judge(schema_before=before("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", type="counter"), pods=(young,)), "went-silent"
    )
    assert found.verdict is Verdict.FAIL


def test_a_histogram_is_one_family() -> None:
    parts = before("my_seconds_bucket", "my_seconds_sum", "my_seconds_count", type="histogram")
    assert only(judge(schema_before=parts), "went-silent").subject.metric == "my_seconds"


def test_a_name_that_lives_on_in_another_job_says_so() -> None:
    now = (*(metric(n) for n in NAMES), metric(LOST, job="other"))
    assert "job other" in only(judge(schema_before=before(LOST), schema=now), "went-silent").observed


def test_a_name_that_some_targets_lost_says_which() -> None:
    two = (target(), target(2))
    facts: dict[str, Any] = {
        "nodes": (node(), node("n-2")),
        "pods": (exporter(), exporter(2)),
        "targets": two,
        "targets_before": two,
        "devices": (series("GPU-a"), series("GPU-b"), series("GPU-c", 2), series("GPU-d", 2)),
        "schema_before": before(LOST, targets=2),
        "schema": before(LOST, targets=1),
    }
    loss = PartialLoss(JOB, LOST, ("10.0.2.1:9400",), ("10.0.1.1:9400",))
    found = only(judge(**facts, partial_losses=(loss,)), "went-silent")
    assert found.subject.parts() == {"metric": LOST, "job": JOB}
    assert "gone from 10.0.2.1:9400 (n-2)" in found.observed


def test_names_behind_a_target_that_cannot_be_read_are_unknown() -> None:
    result = judge(targets=(target(up=False, error="refused"),), schema=(), devices=())
    assert codes(result) == {"target-down"}
    assert any(u.subject.job == JOB for u in result.unjudged)


def test_a_whole_job_without_targets_that_are_known_is_one_finding() -> None:
    stored = {"targets": (), "targets_before": (), "nodes": (), "devices": (), "devices_before": (), "readings": ()}
    found = only(judge(**stored, schema=(), schema_before=before(LOST)), "went-silent")
    assert found.subject.parts() == {"job": JOB}


def test_a_workload_scaled_to_zero_took_its_telemetry_with_it() -> None:
    labels = {"job": "vllm", "instance": "10.9.0.1:8000", "namespace": "llm", "pod": "chat-6d9-x1", "container": "vllm"}
    engine = target(job="vllm", instance="10.9.0.1:8000", labels=labels)
    gone = (*(metric(n) for n in NAMES), metric("vllm:num_requests_waiting", job="vllm"))
    passes(judge(targets_before=(target(), engine), schema_before=gone))


def test_jobs_that_were_not_captured_are_not_judged() -> None:
    result = judge(jobs=frozenset({JOB}), schema_before=(*before(), metric("x", job="elsewhere")), targets_before=(target(),))
    passes(result)


def test_what_a_recording_rule_wrote_is_the_rules_matter() -> None:
    rule = Rule(RuleKind.RECORD, "gpu:util:avg", "gpu", "avg(DCGM_FI_DEV_GPU_UTIL)")
    assert "went-silent" not in codes(judge(schema_before=before("gpu:util:avg"), rules=(rule,)))


def test_a_name_that_is_served_and_no_longer_stored_was_dropped() -> None:
    body = Body(JOB, "10.0.1.1:9400", {}, 9, None, NOW, 900, {LOST: frozenset({"UUID"})})
    assert only(judge(schema_before=before(LOST), bodies=(body,)), "series-dropped").subject.metric == LOST


# ------------------------------------------------------------------------------------------------------ field-absent


CSV = """\
# a comment, with a comma
DCGM_FI_DEV_GPU_UTIL, gauge, How busy (in %).

  DCGM_FI_DEV_GPU_TEMP,  gauge, "Heat, in C"
DCGM_FI_DEV_POWER_USAGE,gauge,W\t
DCGM_FI_DEV_FB_USED, gauge, MiB
DCGM_FI_DEV_XID_ERRORS, gauge, last
DCGM_FI_DEV_MEMORY_TEMP, gauge, C
DCGM_FI_PROF_SM_ACTIVE, gauge, share
DCGM_FI_DRIVER_VERSION, label, driver
#DCGM_FI_DEV_FB_FREE, gauge, off
this line is nothing
"""
PATH = "/etc/dcgm-exporter/counters.csv"


def test_a_field_list_is_read_as_the_exporter_reads_it() -> None:
    rows = parse_csv(CSV)
    assert [r.name for r in rows] == [
        "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DRIVER_VERSION",
    ]  # fmt: skip
    assert rows[-1].type == "label"


def test_the_json_list_of_amds_exporter_is_read() -> None:
    text = '{"GPUConfig": {"Fields": ["GPU_GFX_ACTIVITY", 3]}, "CommonConfig": {"MetricsFieldPrefix": "amd_"}}'
    assert [r.name for r in parse_amd(text)] == ["amd_gpu_gfx_activity"]


@pytest.mark.parametrize(
    ("workload", "config"),
    [
        (daemonset(args=("-f", PATH), config="counters", at=PATH), fields(CSV)),
        (daemonset(args=(f"--collectors={PATH}",), config="counters", at=PATH), fields(CSV)),
        (daemonset(env={"DCGM_EXPORTER_COLLECTORS": PATH}, config="counters", at=PATH), fields(CSV)),
        (daemonset(env={"DCGM_EXPORTER_CONFIGMAP_DATA": "monitoring:own"}), fields(CSV, "own", "metrics", "monitoring")),
    ],
)
def test_a_configured_field_that_exists_nowhere_is_absent(workload: Any, config: Any) -> None:
    result = judge(workloads=(workload,), configmaps=(config,), schema_before=NO_BASELINE, partial_losses=NO_BASELINE)
    found = {f.subject.metric: f.verdict for f in result.findings}
    # XID waits for an event and not every GPU has a memory thermometer; whether profiling could work nothing tells
    assert found == {"DCGM_FI_DEV_FB_USED": Verdict.FAIL, "DCGM_FI_PROF_SM_ACTIVE": Verdict.UNKNOWN}
    assert codes(result) == {"field-absent"}


def test_a_configured_field_that_was_there_before_is_lost_and_not_absent() -> None:
    facts = {
        "workloads": (daemonset(args=("-f", PATH), config="counters", at=PATH),),
        "configmaps": (fields("DCGM_FI_DEV_FB_USED, gauge, x"),),
    }
    assert codes(judge(**facts, schema_before=before("DCGM_FI_DEV_FB_USED"))) == {"went-silent"}


def test_a_configured_field_in_another_spelling_is_there() -> None:
    now = tuple(metric(n.lower()) for n in NAMES)
    facts = {
        "workloads": (daemonset(args=("-f", PATH), config="counters", at=PATH),),
        "configmaps": (fields("\n".join(f"{n}, gauge, x" for n in NAMES)),),
    }
    passes(judge(**facts, schema=now, schema_before=now))


def test_a_field_list_that_cannot_be_found_is_unknown() -> None:
    result = judge(workloads=(daemonset(args=("-f", PATH), config="counters", at=PATH),))
    assert result.verdict is Verdict.UNKNOWN
    assert "gpu-operator/counters" in result.unjudged[0].why


def test_a_list_inside_the_image_demands_nothing() -> None:
    passes(judge(workloads=(daemonset(args=("-f", "/etc/dcgm-exporter/default-counters.csv")),)))


def test_utilisation_is_not_demanded_of_mig_instances() -> None:
    now = (metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),)
    facts = {
        "workloads": (daemonset(args=("-f", PATH), config="counters", at=PATH),),
        "configmaps": (fields("DCGM_FI_DEV_GPU_UTIL, gauge, x"),),
    }
    split = node(gpus=1, resource="nvidia.com/mig-1g.10gb")
    passes(judge(**facts, schema=now, schema_before=now, nodes=(split,), devices=(series("GPU-a", instance="1"),), readings=()))
    assert codes(judge(**facts, schema=now, schema_before=now)) == {"field-absent"}


def test_what_the_policy_requires_must_exist_in_some_spelling() -> None:
    policy = Policy(signals=Signals(required=("gpu.power", "gpu.energy", "my_metric")))
    result = judge(policy=policy)
    assert {f.subject.metric for f in result.findings} == {"gpu.energy", "my_metric"}
    assert codes(result) == {"field-absent"}


def test_what_is_required_may_hide_behind_a_broken_target() -> None:
    policy = Policy(signals=Signals(required=("gpu.energy",)))
    result = judge(policy=policy, targets=(target(), target(2, up=False)), pods=(exporter(), exporter(2)))
    assert codes(result) == {"target-down"}
    assert any(u.subject.metric == "gpu.energy" for u in result.unjudged)


def test_a_bad_body_hides_names_and_is_the_only_finding() -> None:
    body = Body(JOB, "10.0.1.1:9400", {}, 1, BadLine(2, "x ERROR", "not a number"), NOW, 20)
    result = judge(targets=(target(up=False),), bodies=(body,), schema=(), devices=(), readings=())
    assert codes(result) == {"bad-exposition"}
    assert BEFORE < NOW
