"""The catalogue of renames: it loads fast, chains end, numbers are filled in, and every row can be read."""

from __future__ import annotations

import pytest

from functions.knowledge.renames import Catalogue, Kind, Rename, bare, load_renames
from functions.knowledge.renames_words import akin, load_words

CATALOGUE = load_renames()

#: The 22 renames of dcgm-exporter 4.9, with the factor between the scales.
EXPORTER_4_9 = {
    "DCGM_FI_DEV_GPU_TEMP": ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1),
    "DCGM_FI_DEV_MEMORY_TEMP": ("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", 1),
    "DCGM_FI_DEV_POWER_USAGE": ("DCGM_FI_DEV_BOARD_POWER_WATTS", 1),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", 1),
    "DCGM_FI_DEV_SM_CLOCK": ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6),
    "DCGM_FI_DEV_MEM_CLOCK": ("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1e6),
    "DCGM_FI_DEV_GPU_UTIL": ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_ENC_UTIL": ("DCGM_FI_DEV_ENC_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_DEC_UTIL": ("DCGM_FI_DEV_DEC_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_XID_ERRORS": ("DCGM_FI_DEV_XID_ERROR", 1),
    "DCGM_FI_DEV_FB_FREE": ("DCGM_FI_DEV_FB_FREE_BYTES", 1048576),
    "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", 1048576),
    "DCGM_FI_DEV_FB_RESERVED": ("DCGM_FI_DEV_FB_RESERVED_BYTES", 1048576),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ("DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1e6),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", 1),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", 1),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("DCGM_FI_DEV_ROW_REMAP_FAILED", 1),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("DCGM_FI_PROF_DRAM_UTIL_RATIO", 1),
}


@pytest.mark.parametrize(("old", "new", "factor"), [(o, n, f) for o, (n, f) in EXPORTER_4_9.items()])
def test_the_default_set_of_the_exporter_4_9_is_known_with_its_units(old: str, new: str, factor: float) -> None:
    present = {name for name, _ in EXPORTER_4_9.values()}
    ways = CATALOGUE.ways(old, present)
    assert [way.name for way in ways] == [new] * len(ways)
    assert factor in ways[0].factors


def test_every_row_has_a_source_and_is_complete() -> None:
    assert len(CATALOGUE.rows) >= 928
    for row in CATALOGUE.rows:
        assert row.source, row
        assert row.kind is Kind.NOTE or row.old or row.new, row
        assert row.kind is not Kind.METRIC or (row.old and row.new), row
        assert row.kind is not Kind.TYPE or row.types, row
        assert row.kind is not Kind.LABEL_VALUE or row.label, row
        assert row.kind is not Kind.MEANING or row.note, row


def test_a_chain_over_two_releases_ends_at_the_name_that_is_there() -> None:
    (way,) = CATALOGUE.ways("dcgm_sm_clock", {"DCGM_FI_DEV_SM_CLOCK_HERTZ"})
    assert way.name == "DCGM_FI_DEV_SM_CLOCK_HERTZ"
    assert way.factors == (1e6,)
    assert [row.new for row in way.rows] == ["DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ"]


def test_a_rename_that_was_taken_back_does_not_go_round_in_circles() -> None:
    assert [w.name for w in CATALOGUE.ways("system_cpu_time_seconds_total", {"cpu_time_seconds_total"})] == ["cpu_time_seconds_total"]
    assert CATALOGUE.ways("system_cpu_time_seconds_total", {"something_else"}) == ()
    ring = Catalogue([_row("a_x", "b_x"), _row("b_x", "c_x"), _row("c_x", "a_x")])
    assert ring.ways("a_x", {"d_x"}) == ()
    assert [w.name for w in ring.ways("a_x", {"c_x"})] == ["c_x"]


def test_a_merge_is_printed_as_a_selector() -> None:
    (way,) = CATALOGUE.ways("node_md_disks_active", {"node_md_disks"})
    assert way.target == 'node_md_disks{state="active"}'


def test_a_prefix_added_to_everything_is_no_endless_chain() -> None:
    assert CATALOGUE.ways("some_unknown_metric", {"another_metric"}) == ()


def test_numbered_names_are_filled_in() -> None:
    (way,) = CATALOGUE.ways("DCGM_FI_PROF_NVDEC3_ACTIVE", {"DCGM_FI_PROF_NVDEC_UTIL_3_RATIO", "DCGM_FI_PROF_NVDEC_UTIL_4_RATIO"})
    assert way.name == "DCGM_FI_PROF_NVDEC_UTIL_3_RATIO"


@pytest.mark.parametrize(
    ("old", "present", "new"),
    [
        ("http_server_duration_milliseconds", "http_server_request_duration_seconds", "http_server_request_duration_seconds"),
        ("http.server.duration", "http.server.request.duration", "http.server.request.duration"),
        ("http_server_duration", "http_server_request_duration_seconds", "http_server_request_duration_seconds"),
    ],
)
def test_an_opentelemetry_name_is_found_in_each_of_its_stored_forms(old: str, present: str, new: str) -> None:
    assert [w.name for w in CATALOGUE.ways(old, {present})] == [new]


def test_a_removed_metric_has_no_successor_however_alike_another_is() -> None:
    assert CATALOGUE.ways("vllm:cpu_cache_usage_perc", {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}) == ()
    assert CATALOGUE.removed("vllm:cpu_cache_usage_perc")
    removed = CATALOGUE.removed("vllm:gpu_prefix_cache_hit_rate")
    assert removed
    assert "/" in removed.expr


def test_the_lookalike_of_the_token_latency_is_not_its_successor() -> None:
    present = {"vllm:request_time_per_output_token_seconds", "vllm:inter_token_latency_seconds"}
    assert [w.name for w in CATALOGUE.ways("vllm:time_per_output_token_seconds", present)] == ["vllm:inter_token_latency_seconds"]


@pytest.mark.parametrize(
    ("stored", "printed"),
    [
        ("dcgm_fi_dev_gpu_temp_celsius", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
        ("vllm_gpu_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ("ray_vllm_gpu_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ("dcgm_gpu_temp", "dcgm_gpu_temp"),
        ("unheard_of", "unheard_of"),
    ],
)
def test_a_name_that_a_pipeline_respelled_is_recognised(stored: str, printed: str) -> None:
    assert CATALOGUE.spelling(stored) == printed


def test_labels_are_renamed_within_their_system_only() -> None:
    assert [r.new for r in CATALOGUE.labels("Hostname", "DCGM_FI_DEV_GPU_TEMP")] == ["hostname"]
    assert CATALOGUE.labels("nodename", "kube_node_info") == ()
    assert [r.new for r in CATALOGUE.labels("DCGM_FI_DRIVER_VERSION", "DCGM_FI_DEV_GPU_TEMP")] == ["DCGM_FI_SYSTEM_DRIVER_VERSION"]
    assert {r.new for r in CATALOGUE.labels("url", "rest_client_request_duration_seconds")} == {"host"}
    assert CATALOGUE.labels("url", "http_requests_total") == ()


def test_a_bare_name_has_no_unit_and_no_type() -> None:
    assert bare("http.server.request.duration") == bare("http_server_request_duration_seconds")
    assert bare("system_cpu_time_seconds_total") == "system_cpu_time"


def test_words_are_read_with_their_unit() -> None:
    read = load_words().read
    assert read("kubelet_pod_worker_latency_microseconds").scale == 1e-6
    assert read("DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND").quantity == "data/time"
    assert read("GPUDeviceMemoryAllocated").words == ("gpu", "device", "memory", "allocated")
    assert read("vGPUMemoryAllocated").words == ("vgpu", "memory", "allocated")
    assert read("kube_hpa_spec_max_replicas").words == read("kube_horizontalpodautoscaler_spec_max_replicas").words
    assert akin("vol", "volatile")
    assert akin("deleted", "deletion")
    assert not akin("hits", "misses")


def _row(old: str, new: str) -> Rename:
    return Rename("test", "1", "test", Kind.METRIC, old, new)
