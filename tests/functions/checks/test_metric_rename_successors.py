"""What became of a lost name: known from HELP, the catalogue or the data, explained by a target, or nothing."""

from __future__ import annotations

import pytest

from functions.checks.metric_rename.help import advice, former
from functions.checks.metric_rename.successors import How, State
from functions.contract.policy import Policy
from functions.contract.telemetry import PartialLoss
from tests.functions.checks.rename_worlds import NO_CATALOGUE, decide, histogram, known, metric, outcome, target

KEPT = [metric("job_queue_depth", 3.0), metric("job_workers", 8.0), metric("process_cpu_seconds_total", 900.0, type="counter")]


def test_a_documented_rename_needs_its_successor_in_the_same_job() -> None:
    before = [metric("DCGM_FI_DEV_GPU_TEMP", 50), *KEPT]
    here = decide(before, [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 52), *KEPT])
    loss = outcome(here, "DCGM_FI_DEV_GPU_TEMP")
    assert (loss.state, loss.how, loss.renamed_to) == (State.RENAMED, How.CATALOGUE, "DCGM_FI_DEV_GPU_TEMP_CELSIUS")
    elsewhere = decide(before, [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 52, job="other"), *KEPT])
    assert outcome(elsewhere, "DCGM_FI_DEV_GPU_TEMP").state is State.SILENT


def test_a_merge_becomes_a_selector_of_a_metric_that_was_there_before() -> None:
    generic = metric("node_md_disks", 1.0, labels=("device", "state"))
    loss = outcome(decide([metric("node_md_disks_active", 2), generic], [generic]), "node_md_disks_active")
    assert loss.renamed_to == 'node_md_disks{state="active"}'


def test_a_removal_is_documented_and_carries_the_expression() -> None:
    loss = outcome(decide([metric("vllm:gpu_prefix_cache_hit_rate"), *KEPT], KEPT), "vllm:gpu_prefix_cache_hit_rate")
    assert loss.state is State.REMOVED
    assert "vllm:gpu_prefix_cache_hits_total" in loss.expression


def test_the_cpu_cache_has_no_successor_beside_the_renamed_gpu_cache() -> None:
    before = [metric("vllm:gpu_cache_usage_perc", 0.4), metric("vllm:cpu_cache_usage_perc", 0.4), *KEPT]
    found = decide(before, [metric("vllm:kv_cache_usage_perc", 0.4), *KEPT])
    assert outcome(found, "vllm:gpu_cache_usage_perc").renamed_to == "vllm:kv_cache_usage_perc"
    assert outcome(found, "vllm:cpu_cache_usage_perc").state is State.REMOVED


def test_the_latency_between_tokens_is_not_mistaken_for_the_latency_per_request() -> None:
    before = [*histogram("vllm:time_per_output_token_seconds", 1e6, 0.03), *KEPT]
    after = [
        *histogram("vllm:inter_token_latency_seconds", 1e5, 0.03),
        *histogram("vllm:request_time_per_output_token_seconds", 900, 0.03),
        *KEPT,
    ]
    loss = outcome(decide(before, after), "vllm:time_per_output_token_seconds")
    assert loss.renamed_to == "vllm:inter_token_latency_seconds"
    assert loss.now
    assert loss.now.names == (
        "vllm:inter_token_latency_seconds_bucket",
        "vllm:inter_token_latency_seconds_count",
        "vllm:inter_token_latency_seconds_sum",
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("DEPRECATED: Use new:metric_total instead.", "new:metric_total"),
        ("Requests. [Deprecated: Use llm_d_epp_request_total]", "llm_d_epp_request_total"),
        ("(Deprecated since 1.23.0) superseded by new_metric_seconds", "new_metric_seconds"),
        ("Deprecated in favour of `new_metric_seconds`.", "new_metric_seconds"),
        ("Number of things. This metric is deprecated, please use the metric new_metric_total.", "new_metric_total"),
        ("Obsolete, replaced by new_metric", "new_metric"),
        ("Renamed to new_metric.", "new_metric"),
        ("Deprecated -> new_metric", "new_metric"),
        ("This will be removed in the next release; new_metric should be used instead", "new_metric"),
        ("Deprecated: this gauge goes away.", ""),
    ],
)
def test_help_names_the_successor_in_many_wordings(text: str, name: str) -> None:
    said = advice(text)
    assert said
    assert said.name == name


@pytest.mark.parametrize(
    "text", ["Use of the CPU in seconds.", "Requests, see http_requests_total for all of them.", "Time used by requests.", ""]
)
def test_help_that_announces_no_end_is_not_read_for_names(text: str) -> None:
    assert advice(text) is None


def test_help_may_give_an_expression_or_a_selector() -> None:
    said = advice("DEPRECATED: use rate(hits_total[5m]) / rate(queries_total[5m]) instead")
    assert said
    assert said.expression.startswith("rate(hits_total")
    merged = advice('Deprecated, use disks{state="active"}')
    assert merged
    assert (merged.name, merged.selector) == ("disks", '{state="active"}')
    assert former("Share of the cache in use (formerly cache_usage_perc).") == "cache_usage_perc"


@pytest.mark.parametrize("policy", [Policy(), NO_CATALOGUE])
def test_what_the_exporter_says_in_help_counts_with_and_without_the_catalogue(policy: Policy) -> None:
    old = metric("app_old_things", 7, help="DEPRECATED: Use app_completely_different instead")
    loss = outcome(decide([old, *KEPT], [metric("app_completely_different", 0.1), *KEPT], policy=policy), "app_old_things")
    assert (loss.state, loss.how, loss.renamed_to) == (State.RENAMED, How.HELP, "app_completely_different")


def test_without_the_catalogue_a_close_name_with_the_same_level_is_inferred() -> None:
    before = [metric("DCGM_FI_DEV_GPU_TEMP", 53), metric("DCGM_FI_DEV_SM_CLOCK", 1980), *KEPT]
    after = [metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 54), metric("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1.98e9), *KEPT]
    found = decide(before, after, policy=NO_CATALOGUE)
    for name, new in (("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"), ("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ")):
        loss = outcome(found, name)
        assert (loss.state, loss.how, loss.renamed_to) == (State.RENAMED, How.INFERRED, new)
        assert 0.8 <= loss.confidence <= 1
        assert loss.signals


def test_an_unsure_inference_is_silence_with_candidates() -> None:
    found = decide(
        [metric("app_jobs_stuck", 3), *KEPT],
        [metric("app_jobs_late", 3), *KEPT],
        policy=Policy.model_validate({"renames": {"min_confidence": 1.0}}),
    )
    loss = outcome(found, "app_jobs_stuck")
    assert loss.state is State.SILENT
    assert [name for name, _ in loss.candidates] == ["app_jobs_late"]


def test_an_unrelated_new_name_is_nobodys_successor() -> None:
    found = decide([metric("app_cache_entries", 512), *KEPT], [metric("app_build_info", 1, spread=0), *KEPT])
    assert outcome(found, "app_cache_entries").state is State.SILENT


def test_seconds_do_not_become_bytes() -> None:
    found = decide([metric("app_request_seconds", 5), *KEPT], [metric("app_request_bytes", 5), *KEPT])
    assert outcome(found, "app_request_seconds").state is State.SILENT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("app:requests_total", "app_requests_total"),
        ("App_Requests_Total", "app_requests_total"),
        ("app_requests", "app_requests_total"),
        ("app.request.duration", "app_request_duration_seconds"),
    ],
)
def test_another_spelling_of_one_name_is_found(old: str, new: str) -> None:
    found = decide([metric(old, 30), *KEPT], [metric(new, 31), metric("app_other_new_thing", 400), *KEPT])
    assert outcome(found, old).renamed_to == new


def test_a_pipeline_that_lowers_names_renames_every_metric_of_the_job() -> None:
    names = ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_SM_CLOCK"]
    found = decide([metric(n, 10.0 * i + 10) for i, n in enumerate(names)], [metric(n.lower(), 10.0 * i + 10) for i, n in enumerate(names)])
    assert {loss.was.name: loss.renamed_to for loss in found.losses} == {n: n.lower() for n in names}


def test_a_site_prefix_does_not_hide_a_documented_rename() -> None:
    policy = Policy.model_validate({"signals": {"rewrite": {"site_": ""}}})
    found = decide([metric("site_DCGM_FI_DEV_GPU_TEMP", 50)], [metric("site_DCGM_FI_DEV_GPU_TEMP_CELSIUS", 50)], policy=policy)
    assert outcome(found, "site_DCGM_FI_DEV_GPU_TEMP").how is How.CATALOGUE


def test_a_native_histogram_is_the_same_family() -> None:
    found = decide([*histogram("app_latency_seconds", 100, 0.1)], [metric("app_latency_seconds", None, type="histogram")])
    assert found.losses == ()


def test_a_job_without_a_living_target_lost_nothing_here() -> None:
    down = known(target("a", up=False), target("b", up=False))
    found = decide([metric("app_a"), metric("app_b")], [], targets_before=known(target("a"), target("b")), targets=down)
    assert found.losses == ()
    assert {why for _, _, why in found.explained} == {"no target of the job is up"}


def test_what_only_the_down_target_had_is_explained_by_it() -> None:
    before = [metric("app_a", targets=2), metric("app_special", targets=1)]
    found = decide(
        before,
        [metric("app_a", targets=1)],
        targets_before=known(target("a"), target("b")),
        targets=known(target("a"), target("b", up=False)),
    )
    assert found.losses == ()
    assert [name for _, name, _ in found.explained] == ["app_special"]


def test_a_workload_that_was_scaled_away_took_its_metrics_with_it() -> None:
    earlier = known(target("a", namespace="n", pod="chat-7bxqkkpc9-4q6xn"), target("b", namespace="n", pod="batch-5d8f9c7b6-x2x4z"))
    found = decide(
        [metric("app_a", targets=2), metric("batch_rows", targets=1)],
        [metric("app_a", targets=1)],
        targets_before=earlier,
        targets=known(target("c", namespace="n", pod="chat-6cc44d7f9b-8h2xk")),
    )
    assert found.losses == ()
    assert [name for _, name, _ in found.explained] == ["batch_rows"]


def test_a_rollout_of_the_only_workload_explains_nothing() -> None:
    earlier = known(target("a", namespace="n", pod="chat-7bxqkkpc9-4q6xn"))
    now = known(target("b", namespace="n", pod="chat-6cc44d7f9b-8h2xk"))
    found = decide([metric("app_a"), metric("app_b")], [metric("app_a")], targets_before=earlier, targets=now)
    assert [loss.was.name for loss in found.losses] == ["app_b"]


def test_a_canary_lost_the_name_on_its_targets_only() -> None:
    old, new = metric("DCGM_FI_DEV_GPU_TEMP", 50, targets=2), metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 50, targets=1)
    up = known(target("a"), target("b"), target("c"))
    partial = PartialLoss("job", "DCGM_FI_DEV_GPU_TEMP", ("c",), ("a", "b"))
    found = decide([metric("DCGM_FI_DEV_GPU_TEMP", 50, targets=3)], [old, new], targets_before=up, targets=up, partial=(partial,))
    loss = outcome(found, "DCGM_FI_DEV_GPU_TEMP")
    assert (loss.renamed_to, loss.lost_on, loss.kept_on) == ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", ("c",), ("a", "b"))
    assert found.duals == ()


def test_both_names_on_the_same_targets_are_emitted_twice() -> None:
    both = [metric("inference_objective_input_tokens", 50), metric("llm_d_epp_request_input_tokens", 50)]
    found = decide([both[0]], both, targets=known(target("a"), target("b")))
    assert [(d.old.name, d.new.name) for d in found.duals] == [("inference_objective_input_tokens", "llm_d_epp_request_input_tokens")]
    assert found.losses == ()


def test_two_metrics_that_lived_side_by_side_are_no_double_emission() -> None:
    both = [metric("DCGM_FI_DEV_PCIE_TX_THROUGHPUT", 300), metric("DCGM_FI_PROF_PCIE_TX_BYTES", 9e9)]
    assert decide(both, both, targets=known(target("a"), target("b"))).duals == ()


def test_a_name_that_lives_on_in_another_job_says_so() -> None:
    other = metric("app_things", 3, job="elsewhere")
    found = decide([metric("app_things", 3), other, *KEPT], [other, *KEPT])
    assert outcome(found, "app_things").elsewhere == ("elsewhere",)
