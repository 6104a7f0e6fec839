"""The catalogue of signals and the codes for no value: complete, sourced, and read the way pipelines spell names."""

from __future__ import annotations

import pytest

from functions.knowledge.pipeline import load_pipeline
from functions.knowledge.sentinels import load_sentinels
from functions.knowledge.signals import Presence, load_signals

SIGNALS = load_signals()
SENTINELS = load_sentinels()


def test_every_row_names_its_source_and_a_known_concept() -> None:
    for signal in SIGNALS.signals:
        assert signal.source, signal.name
        assert signal.unit, signal.name
        assert signal.concept in SIGNALS.concepts, signal.name
        assert signal.presence, signal.name


def test_every_concept_has_at_least_one_metric() -> None:
    assert all(SIGNALS.metrics(concept) for concept in SIGNALS.concepts)


def test_no_stored_name_tells_two_things() -> None:
    seen: dict[str, str] = {}
    for signal in SIGNALS.signals:
        for spelling in signal.spellings:
            assert seen.setdefault(spelling, signal.name) == signal.name


@pytest.mark.parametrize(
    ("stored", "printed"),
    [
        ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
        ("dcgm_fi_dev_gpu_temp", "DCGM_FI_DEV_GPU_TEMP"),
        ("vllm:e2e_request_latency_seconds_bucket", "vllm:e2e_request_latency_seconds"),
        ("kserve_vllm:e2e_request_latency_seconds_count", "vllm:e2e_request_latency_seconds"),
        ("ray_vllm_prompt_tokens_total", "vllm:prompt_tokens_total"),
        ("sglang_num_queue_reqs", "sglang:num_queue_reqs"),
        ("amd_gpu_gfx_activity", "gpu_gfx_activity"),
        ("vllm:prompt_tokens", "vllm:prompt_tokens_total"),
        ("ray_serve_num_http_requests_total", "ray_serve_num_http_requests"),
    ],
)
def test_a_stored_name_is_found_under_its_printed_one(stored: str, printed: str) -> None:
    found = SIGNALS.of(stored)
    assert found is not None
    assert found.name == printed


def test_a_gauge_that_ends_like_a_histogram_is_not_cut() -> None:
    assert SIGNALS.of("DCGM_FI_DEV_GPU_TEMP_count") is None


def test_a_site_prefix_is_taken_off_and_put_on() -> None:
    rewrite = {"acme_gpu_": "DCGM_FI_DEV_"}
    found = SIGNALS.of("acme_gpu_POWER_USAGE", rewrite)
    assert found is not None
    assert found.concept == "gpu.power"
    assert "acme_gpu_POWER_USAGE" in SIGNALS.metrics("gpu.power", rewrite)


def test_a_plain_metric_name_stands_for_itself() -> None:
    assert SIGNALS.metrics("my_own_metric") == ("my_own_metric",)


@pytest.mark.parametrize(
    ("term", "concept"),
    [
        ("GPU/VRAM", None),
        ("VRAM", "gpu.memory.used"),
        ("P95", "request.latency"),
        ("排队时间", "request.queue.wait"),
        ("Queue wait", "request.queue.wait"),
        ("scrape health", "scrape.health"),
        ("GPU hours", "gpu.count"),
        ("gpu.power", "gpu.power"),
        ("moon phase", None),
    ],
)
def test_a_term_of_a_person_is_read(term: str, concept: str | None) -> None:
    assert SIGNALS.concept(term) == concept


def test_presence_classes_say_what_absence_means() -> None:
    assert SIGNALS.presence("DCGM_FI_DEV_XID_ERRORS") == {Presence.AFTER_EVENT}
    assert Presence.NOT_ON_MIG in SIGNALS.presence("DCGM_FI_DEV_GPU_UTIL")
    assert SIGNALS.presence("DCGM_FI_PROF_SM_ACTIVE") == {Presence.NEEDS_PROFILING}
    assert SIGNALS.presence("kube_cronjob_info") == {Presence.LAZY}
    assert SIGNALS.presence("nobody_knows_this") == frozenset()


def test_restless_metrics_leave_out_limits() -> None:
    names = {s.name for s in SIGNALS.restless()}
    assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" in names
    assert "DCGM_FI_DEV_MAX_SM_CLOCK" not in names


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (2147483634.0, "DCGM_INT32_NOT_SUPPORTED"),
        (9223372036854775794.0, "DCGM_INT64_BLANK"),
        (float("9223372036854776000"), "DCGM_INT64_BLANK"),
        (140737488355328.0, "DCGM_FP64_BLANK"),
        (140737488355330.0, "DCGM_FP64_NOT_SUPPORTED"),
    ],
)
def test_codes_for_no_value_are_recognised_in_every_rounding(value: float, code: str) -> None:
    found = SENTINELS.of(value, "celsius")
    assert found is not None
    assert found.code == code


@pytest.mark.parametrize("value", [2147483647.0, 2147483648.0, 2663661779860.0, 1.98e9, 85899345920.0, 1e18, float("inf"), float("nan")])
def test_a_large_value_is_no_code(value: float) -> None:
    assert SENTINELS.of(value) is None


def test_a_narrow_code_is_no_code_where_sound_values_are_that_large() -> None:
    assert SENTINELS.of(2147483632.0, "bytes") is None
    assert SENTINELS.of(9.223372036854776e18, "bytes") is not None
    assert min(SENTINELS.values) == SENTINELS.threshold


def test_texts_for_no_value_are_recognised() -> None:
    assert SENTINELS.of_string("<<<NULL>>>") is not None
    assert SENTINELS.of_string("1g.10gb") is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ('strconv.ParseFloat: parsing "ERROR": invalid syntax while parsing: "X{} ERROR"', "bad-exposition"),
        ('expected label value, got "INVALID" ("INVALID") while parsing: "x{a="', "bad-exposition"),
        ("sample limit exceeded", "series-dropped"),
        ("body size limit exceeded", "series-dropped"),
        ('Get "http://10.0.0.1:9400/metrics": context deadline exceeded', "scrape-overrun"),
        ('Get "http://10.0.0.1:9400/metrics": dial tcp 10.0.0.1:9400: connect: connection refused', "target-down"),
        ("server returned HTTP status 500 Internal Server Error", "target-down"),
    ],
)
def test_the_error_of_a_scrape_tells_its_cause(error: str, code: str) -> None:
    assert load_pipeline().code_of(error) == code
