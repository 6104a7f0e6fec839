"""The shipped spellings of GPUs: every row has a source, and the patterns catch what they should and no more."""

from __future__ import annotations

import re

import pytest

from functions.contract.policy import Policy
from functions.knowledge import load
from functions.knowledge.devices import ATTRIBUTION, ROLES, DeviceKnowledge, load_devices


def test_the_parts_are_loaded_once_and_on_demand() -> None:
    assert load() is load()
    assert load().devices is load_devices()
    assert isinstance(load().devices, DeviceKnowledge)


@pytest.mark.parametrize(
    "name",
    [
        "DCGM_FI_DEV_GPU_UTIL", "DCGM_EXP_XID_ERRORS_COUNT", "dcgm_fi_dev_gpu_util", "dcgm_sm_clock", "gpu_gfx_activity", "amd_gpu_power_usage",
        "hami_host_gpu_utilization_ratio", "HostCoreUtilization", "vGPU_device_memory_usage_in_bytes", "nvidia_smi_power_draw_watts",
        "xpum_power_watts", "hw_gpu_utilization_ratio", "duty_cycle", "container_gpu_utilization",
    ],
)  # fmt: skip
def test_metrics_of_every_exporter_are_device_metrics(name: str) -> None:
    assert re.fullmatch(load_devices().metric_pattern, name)


@pytest.mark.parametrize(
    "name",
    [
        "up",
        "vllm:gpu_cache_usage_perc",
        "node_cpu_seconds_total",
        "kube_pod_info",
        "my_DCGM_FI_DEV_GPU_UTIL",
        "container_memory_usage_bytes",
    ],
)
def test_other_metrics_are_not(name: str) -> None:
    assert not re.fullmatch(load_devices().metric_pattern, name)


def test_a_prefix_that_a_site_adds_is_known() -> None:
    policy = Policy.model_validate({"signals": {"rewrite": {"site.": "", "x_": "DCGM_"}}})
    pattern = load_devices().pattern_for(policy)
    assert re.fullmatch(pattern, "site.DCGM_FI_DEV_GPU_UTIL")
    assert re.fullmatch(pattern, "DCGM_FI_DEV_GPU_UTIL")
    assert re.fullmatch(pattern, "x_FI_DEV_GPU_UTIL")
    assert not re.fullmatch(pattern, "siteXDCGM_FI_DEV_GPU_UTIL")


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        ("nvidia.com/gpu", "device"), ("nvidia.com/gpu.shared", "device"), ("nvidia.com/mig-1g.10gb", "instance"), ("amd.com/gpu", "device"),
        ("amd.com/cpx_nps4", "instance"), ("gpu.intel.com/xe", "device"), ("gpu.intel.com/memory.max", ""), ("nvidia.com/gpumem", ""),
        ("nvidia.com/gpucores", ""), ("nvidia.com/gpumem-percentage", ""), ("aliyun.com/gpu", "device"), ("aliyun.com/gpu-mem", ""), ("cpu", ""),
        ("xnvidia.com/gpu", ""),
    ],
)  # fmt: skip
def test_resources_that_count_devices(resource: str, kind: str) -> None:
    assert load_devices().resource_kind(resource) == kind


@pytest.mark.parametrize(
    ("image", "exports"),
    [
        ("nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0", True),
        ("registry:5000/mirror/dcgm-exporter@sha256:" + "0" * 64, True),
        ("rocm/device-metrics-exporter:v1.4", True),
        ("vllm/vllm-openai:v0.11", False),
        ("", False),
    ],
)
def test_exporters_are_known_by_their_image(image: str, exports: bool) -> None:
    assert load_devices().is_exporter_image(image) is exports


def test_lower_case_forms_and_a_sites_own_labels_are_spellings() -> None:
    policy = Policy.model_validate({"labels": {"aliases": {"gpu": ["card"], "pod": ["workload"]}}})
    for role in (*ROLES, *ATTRIBUTION):
        spelled = load_devices().spellings(role, policy)
        assert len(spelled) == len(set(spelled))
    assert load_devices().spellings("gpu", policy)[0] == "card"
    assert load_devices().spellings("pod", policy)[0] == "workload"
    assert "gpu_i_id" in load_devices().spellings("gpu_instance", Policy())
