"""Healthy clusters of every flavour, in each of which a hasty check would cry out: nothing may be found in them."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.worlds import BEFORE, DCGM, DCGM_1, DCGM_49, DCGM_MIG, JUST_NOW, LONG_AGO, NOW, Gpu, World, dcgm, fleet, lines_of, uuid

HEALTHY: list[Callable[[], World]] = []


def healthy(build: Callable[[], World]) -> Callable[[], World]:
    HEALTHY.append(build)
    return build


def one_node(**more: object) -> World:
    """A node with two GPUs, and ml/a-1 on the first; no exporter yet."""
    world = World()
    world.node("n-1", **more)  # type: ignore[arg-type]
    world.pod("a-1", "n-1", owner="StatefulSet/a")
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    return world


BUSY, IDLE = Gpu(0, uuid("n-1", 0), 70.0, "ml/a-1"), Gpu(1, uuid("n-1", 1))


# ------------------------------------------------------------------------------------------------ exporters


@healthy
def honor_labels_false() -> World:
    return fleet()


@healthy
def honor_labels_true_with_empty_labels_on_idle_devices() -> World:
    world = one_node()
    body = dcgm("n-1", [BUSY, IDLE]).replace('Hostname="n-1"}', 'Hostname="n-1",container="",namespace="",pod=""}')
    world.both(world.section(world.exporter("n-1"), body, honor="true", node="n-1"))
    return world


@healthy
def dcgm_exporter_1_names_with_the_old_namespace() -> World:
    world = one_node()
    exporter = world.exporter("n-1", image="nvidia/dcgm-exporter:1.7.2")
    own = lambda g: f'gpu="{g.index}",uuid="{g.uuid}",device="nvidia{g.index}"{g.of_pod("pod_name", "pod_namespace", "container_name")}'  # noqa: E731
    world.both(world.section(exporter, lines_of([BUSY, IDLE], DCGM_1, own), node="n-1"))
    return world


@healthy
def dcgm_exporter_4_9_names() -> World:
    world = one_node()
    exporter = world.exporter("n-1", image="nvcr.io/nvidia/k8s/dcgm-exporter:4.7.0-4.9.0")
    world.both(world.section(exporter, dcgm("n-1", [BUSY, IDLE], DCGM_49, "hostname"), node="n-1"))
    return world


@healthy
def nvlink_nvswitch_and_cpu_rows_beside_devices() -> World:
    world = one_node()
    more = "".join(
        f'DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{nvlink="{n}",nvswitch="",gpu="0",gpu_uuid="{BUSY.uuid}",hostname="n-1"}} 12\n'
        for n in range(4)
    )
    more += 'DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="0",hostname="n-1"} 44\n'
    more += 'DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="0",hostname="n-1"} 0.2\nDCGM_FI_DEV_CPU_UTIL_TOTAL{cpucore="0",cpu="0",hostname="n-1"} 0.2\n'
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]) + more, node="n-1"))
    return world


@healthy
def mig_mixed_with_idle_instances() -> World:
    world = World()
    world.node("n-1", 3, "nvidia.com/mig-1g.10gb", labels={"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.count": "1"})
    world.pod("a-1", "n-1", {"nvidia.com/mig-1g.10gb": 1}, owner="StatefulSet/a")
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    gpus = [
        Gpu(0, uuid("n-1", 0), 60, "ml/a-1", ("1g.10gb", "7")),
        Gpu(0, uuid("n-1", 0), 0, "", ("1g.10gb", "8")),
        Gpu(0, uuid("n-1", 0), 0, "", ("1g.10gb", "9")),
    ]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", gpus, DCGM_MIG), node="n-1"))
    return world


@healthy
def mig_single_strategy() -> World:
    world = World()
    labels = {
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
        "nvidia.com/gpu.count": "2",
    }
    world.node("n-1", 2, labels=labels)
    world.pod("a-1", "n-1", owner="StatefulSet/a")
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    gpus = [Gpu(0, uuid("n-1", 0), 60, "ml/a-1", ("3g.40gb", "1")), Gpu(0, uuid("n-1", 0), 0, "", ("3g.40gb", "2"))]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", gpus, DCGM_MIG), node="n-1"))
    return world


@healthy
def time_slicing_with_one_pod_a_device() -> World:
    world = one_node(
        gpus=8, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "NVIDIA-A10-SHARED", "nvidia.com/gpu.count": "2"}
    )
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    return world


AMD = {
    "gpu_gfx_activity": DCGM["DCGM_FI_DEV_GPU_UTIL"],
    "gpu_package_power": DCGM["DCGM_FI_DEV_POWER_USAGE"],
    "gpu_junction_temperature": DCGM["DCGM_FI_DEV_GPU_TEMP"],
    "gpu_used_vram": DCGM["DCGM_FI_DEV_FB_USED"],
}


@healthy
def amd_device_metrics_exporter_with_honor_labels() -> World:
    world = World()
    world.node("n-1", 2, "amd.com/gpu")
    world.pod("a-1", "n-1", {"amd.com/gpu": 1}, owner="StatefulSet/a")
    world.add("StatefulSet", "a", "ml", {"replicas": 1})

    def own(g: Gpu) -> str:
        named = g.of_pod() or ',container="",namespace="",pod=""'
        return f'gpu_id="{g.index}",serial_number="69230000{g.index}",card_model="0x74a1",hostname="n-1",gpu_partition_id="0"{named}'

    exporter = world.exporter("n-1", image="rocm/device-metrics-exporter:v1.4.2", namespace="kube-amd-gpu", owner="amd-metrics")
    body = lines_of([BUSY, IDLE], AMD, own)
    world.both(world.section(exporter, body, job="amd-metrics", honor="true", namespace="kube-amd-gpu", node="n-1", port=5000))
    return world


_REGISTER = "".join(f"{g.uuid},10,81920,100,NVIDIA-NVIDIA A100,0,true,{g.index},hami-core:" for g in (BUSY, IDLE))


@healthy
def hami_beside_a_dcgm_exporter_that_names_no_pod() -> World:
    world = World()
    world.node("n-1", 20, labels={"gpu": "on"}, annotations={"hami.io/node-nvidia-register": _REGISTER})
    world.pod("a-1", "n-1", {"nvidia.com/gpu": 1}, owner="StatefulSet/a")
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    plain = [Gpu(0, BUSY.uuid, 70.0), IDLE]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", plain), node="n-1"))
    host = lines_of(
        plain,
        {
            "hami_host_gpu_utilization_ratio": DCGM["DCGM_FI_DEV_GPU_UTIL"],
            "hami_host_gpu_memory_used_bytes": lambda g: 4e9 if g.util else 4e6,
        },
        lambda g: f'node="n-1",device_index="{g.index}",device_uuid="{g.uuid}",device_type="NVIDIA A100"',
    )
    held = f'hami_vgpu_memory_used_bytes{{namespace="ml",pod="a-1",container="main",device_uuid="{BUSY.uuid}",vdevice_index="0"}} 4e9\n'
    monitor = world.exporter("n-1", image="projecthami/hami:v2.10.0", namespace="kube-system", owner="hami-device-plugin")
    world.both(world.section(monitor, host + held, job="hami", namespace="kube-system", node="n-1", port=9394))
    return world


@healthy
def nvidia_gpu_exporter_beside_dcgm_exporter() -> World:
    world = one_node()
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    second = world.exporter("n-1", image="utkuozdemir/nvidia_gpu_exporter:1.3.0", namespace="monitoring", owner="nge")
    body = lines_of(
        [BUSY, IDLE],
        {
            "nvidia_smi_utilization_gpu_ratio": lambda g: g.util / 100,
            "nvidia_smi_power_draw_watts": DCGM["DCGM_FI_DEV_POWER_USAGE"],
            "nvidia_smi_memory_used_bytes": lambda g: 4e9 if g.util else 4e6,
        },
        lambda g: f'uuid="{g.uuid.removeprefix("GPU-")}"',
    )
    world.both(world.section(second, body, job="nge", namespace="monitoring", node="n-1", port=9835))
    return world


@healthy
def gke_device_plugin() -> World:
    world = one_node()
    plugin = world.exporter(
        "n-1", image="gke.gcr.io/nvidia-gpu-device-plugin@sha256:1", namespace="kube-system", owner="nvidia-gpu-device-plugin"
    )

    def held(g: Gpu) -> str:
        return f'namespace="ml",pod="a-1",container="main",make="nvidia",accelerator_id="{g.uuid}",model="NVIDIA L4"'

    body = lines_of([BUSY], {"duty_cycle": DCGM["DCGM_FI_DEV_GPU_UTIL"], "memory_used": lambda g: 4e9}, held)
    body += lines_of(
        [BUSY, IDLE],
        {"duty_cycle_gpu_node": DCGM["DCGM_FI_DEV_GPU_UTIL"], "memory_used_gpu_node": lambda g: 4e9 if g.util else 4e6},
        lambda g: f'make="nvidia",accelerator_id="{g.uuid}",model="NVIDIA L4"',
    )
    world.both(world.section(plugin, body, job="gke-gpu", namespace="kube-system", node="n-1", port=2112))
    return world


@healthy
def intel_xpumanager_with_its_own_pod_labels() -> World:
    world = World()
    world.node("n-1", 2, "gpu.intel.com/i915")
    world.pod("a-1", "n-1", {"gpu.intel.com/i915": 1}, owner="StatefulSet/a")
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    body = lines_of(
        [BUSY, IDLE],
        {"xpum_engine_ratio": lambda g: g.util / 100, "xpum_power_watts": DCGM["DCGM_FI_DEV_POWER_USAGE"]},
        lambda g: (
            f'uuid="{g.uuid}",dev_name="Intel Data Center GPU Max 1550",pci_bdf="0000:3{g.index}:00.0",dev_file="card{g.index}"'
            + g.of_pod("kube_pod", "kube_namespace", "kube_container")
        ),
    )
    exporter = world.exporter("n-1", image="intel/xpumanager:V1.2.40", namespace="monitoring", owner="xpum")
    world.both(world.section(exporter, body, job="xpum", namespace="monitoring", node="n-1", port=29999))
    return world


@healthy
def a_claim_under_dynamic_resource_allocation() -> World:
    world = World()
    world.node("n-1", 0)
    world.pod("a-1", "n-1", 0, owner="StatefulSet/a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "a-1-gpu"}]})
    world.objects[-1]["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    world.objects[-1]["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "a-1-gpu"}]
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    world.add(
        "ResourceClaim", "a-1-gpu", "ml", {},
        {"allocation": {"devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "n-1", "device": "gpu-0", "request": "gpu"}]}}},
    )  # fmt: skip
    devices = [{"name": f"gpu-{g.index}", "attributes": {"uuid": {"string": g.uuid}, "type": {"string": "gpu"}}} for g in (BUSY, IDLE)]
    world.add("ResourceSlice", "n-1-gpus", "", {"nodeName": "n-1", "driver": "gpu.nvidia.com", "pool": {"name": "n-1"}, "devices": devices})
    for made in world.objects[-2:]:
        made["apiVersion"] = "resource.k8s.io/v1"
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    return world


@healthy
def triton_that_exports_the_device_it_holds() -> World:
    world = one_node(gpus=1)
    world.objects[1]["spec"]["containers"][0]["image"] = "nvcr.io/nvidia/tritonserver:25.05-py3"
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY]), node="n-1"))
    body = f'nv_gpu_utilization{{gpu_uuid="{BUSY.uuid}"}} 0.7\nnv_gpu_power_usage{{gpu_uuid="{BUSY.uuid}"}} 271\n'
    body += 'nv_inference_request_success{model="m",version="1"} 7\nnv_inference_count{model="m",version="1"} 7\n'
    world.both(world.section("a-1", body, job="triton", namespace="ml", node="n-1", port=8002))
    return world


@healthy
def an_amd_exporter_with_a_prefix() -> World:
    world = World()
    world.node("n-1", 2, "amd.com/gpu")
    world.pod("a-1", "n-1", {"amd.com/gpu": 1}, owner="StatefulSet/a")

    def own(g: Gpu) -> str:
        return f'gpu_id="{g.index}",serial_number="69230000{g.index}",hostname="n-1"' + (g.of_pod() or ',container="",namespace="",pod=""')

    exporter = world.exporter("n-1", image="rocm/device-metrics-exporter:v1.4.2", namespace="kube-amd-gpu", owner="amd-metrics")
    body = lines_of([BUSY, IDLE], {f"amd_{name}": value for name, value in AMD.items()}, own)
    world.both(world.section(exporter, body, job="amd-metrics", honor="true", namespace="kube-amd-gpu", node="n-1", port=5000))
    return world


@healthy
def labels_as_annotated_pods_are_relabelled() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    body = dcgm("n-1", [BUSY, IDLE]).replace('Hostname="n-1"', 'kubernetes_node="n-1"').replace(',pod="', ',kubernetes_pod_name="')
    body = body.replace(',namespace="', ',kubernetes_namespace="').replace(',container="', ',kubernetes_container_name="')
    world.both(f'# TARGET job="kubernetes-pods" instance="{world.ips[exporter]}:9400" honor_labels="false"\n{body}')
    return world


# ------------------------------------------------------------------------------------------------ pipelines


def stored(body: str, **labels: str) -> str:
    """Lines as a server stores them: target labels in each."""
    extra = "".join(f',{k}="{v}"' for k, v in labels.items())
    kept = []
    for line in body.splitlines():
        name = line.partition("{")[0]
        if not line.startswith("#"):
            line = line.replace('",namespace="', '",exported_namespace="').replace(',container="', ',exported_container="')
            line = line.replace(',pod="', ',exported_pod="').replace("}", extra + "}", 1)
        if line and name:
            kept.append(line)
    return "\n".join(kept) + "\n"


@healthy
def federated_series_without_up() -> World:
    world = one_node()
    world.exporter("n-1")
    where = {"job": "dcgm", "instance": "10.0.0.2:9400", "pod": "dcgm-n-1", "namespace": "gpu-operator", "container": "exporter"}
    world.both(stored(dcgm("n-1", [BUSY, IDLE]), **where))
    return world


@healthy
def a_pair_of_servers_with_a_replica_label() -> World:
    world = one_node()
    world.exporter("n-1")
    where = {"job": "dcgm", "instance": "10.0.0.2:9400", "pod": "dcgm-n-1", "namespace": "gpu-operator", "container": "exporter"}
    body = dcgm("n-1", [BUSY, IDLE])
    world.both(*(stored(body, **where, prometheus="monitoring/k8s", prometheus_replica=f"prometheus-k8s-{n}") for n in range(2)))
    return world


@healthy
def the_store_began_to_merge_the_pair() -> World:
    world = one_node()
    world.exporter("n-1")
    where = {"job": "dcgm", "instance": "10.0.0.2:9400", "pod": "dcgm-n-1", "namespace": "gpu-operator", "container": "exporter"}
    body = dcgm("n-1", [BUSY, IDLE])
    world.before(*(stored(body, **where, cluster="lab", prometheus_replica=f"prometheus-k8s-{n}") for n in range(2)))
    world.now(stored(body, **where, cluster="lab"))
    return world


@healthy
def the_other_server_of_a_pair_took_over() -> World:
    world = one_node()
    world.exporter("n-1")
    where = {"job": "dcgm", "instance": "10.0.0.2:9400", "pod": "dcgm-n-1", "namespace": "gpu-operator", "container": "exporter"}
    body = dcgm("n-1", [BUSY, IDLE])
    world.before(stored(body, **where, cluster="lab", prometheus_replica="prometheus-k8s-0"))
    world.now(stored(body, **where, cluster="lab", prometheus_replica="prometheus-k8s-1"))
    return world


@healthy
def a_site_prefix_that_the_policy_names() -> World:
    world = one_node()
    world.about["policy"] = {"signals": {"rewrite": {"acme_": ""}}}
    names = {f"acme_{name}": value for name, value in DCGM.items()}
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE], names), node="n-1"))
    return world


# ------------------------------------------------------------------------------------------------ what happens every day


@healthy
def the_exporter_was_rolled() -> World:
    world = one_node()
    world.before(world.section("dcgm-n-1-old", dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(world.exporter("n-1", "dcgm-n-1-new", since=JUST_NOW), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    return world


@healthy
def workload_pods_were_replaced_and_jobs_finished() -> World:
    world = World()
    world.node("n-1")
    world.pod("train-abc12", "n-1", owner="Job/train", since=JUST_NOW)
    world.pod("done-xyz98", "n-1", owner="Job/done", phase="Succeeded", ended="2026-11-03T11:30:00Z")
    world.add("Job", "train", "ml", {"template": {}})
    exporter = world.exporter("n-1")
    gpu0, gpu1 = uuid("n-1", 0), uuid("n-1", 1)
    world.before(world.section(exporter, dcgm("n-1", [Gpu(0, gpu0, 80, "ml/done-xyz98"), Gpu(1, gpu1)]), node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [Gpu(0, gpu0), Gpu(1, gpu1, 90, "ml/train-abc12")]), node="n-1"))
    return world


@healthy
def a_node_was_added_and_another_one_removed() -> World:
    world = fleet(1)
    gone = World()
    world.before(gone.section("dcgm-n-9", dcgm("n-9", [Gpu(0, uuid("n-9", 0)), Gpu(1, uuid("n-9", 1))]), node="n-9"))
    world.node("n-3", creationTimestamp=JUST_NOW)
    new = world.exporter("n-3", since=JUST_NOW)
    world.now(world.section(new, dcgm("n-3", [Gpu(0, uuid("n-3", 0)), Gpu(1, uuid("n-3", 1))]), node="n-3"))
    return world


@healthy
def a_spot_node_was_replaced_with_its_pods() -> World:
    world = World()
    world.node("n-2", creationTimestamp=JUST_NOW)
    world.pod("a-1", "n-2", owner="StatefulSet/a", since=JUST_NOW)
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    old = World()
    world.before(old.section("dcgm-n-1", dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    exporter = world.exporter("n-2", since=JUST_NOW)
    world.now(world.section(exporter, dcgm("n-2", [Gpu(0, uuid("n-2", 0), 66, "ml/a-1"), Gpu(1, uuid("n-2", 1))]), node="n-2"))
    return world


@healthy
def the_namespace_of_the_workload_was_renamed() -> World:
    world = World()
    world.node("n-1")
    world.pod("a-1", "n-1", namespace="research", owner="StatefulSet/a", since=JUST_NOW)
    world.add("StatefulSet", "a", "research", {"replicas": 1})
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [Gpu(0, BUSY.uuid, 70, "research/a-1"), IDLE]), node="n-1"))
    return world


@healthy
def a_node_was_split_into_mig_instances() -> World:
    world = World()
    world.node("n-1", 2, "nvidia.com/mig-3g.40gb", labels={"nvidia.com/mig.strategy": "mixed"})
    world.pod("a-1", "n-1", {"nvidia.com/mig-3g.40gb": 1}, owner="StatefulSet/a", since=JUST_NOW)
    world.add("StatefulSet", "a", "ml", {"replicas": 1})
    world.before(world.section("dcgm-n-1-old", dcgm("n-1", [Gpu(0, BUSY.uuid, 50, "ml/a-1")]), node="n-1"))
    split = [Gpu(0, BUSY.uuid, 50, "ml/a-1", ("3g.40gb", "1")), Gpu(0, BUSY.uuid, 0, "", ("3g.40gb", "2"))]
    world.now(world.section(world.exporter("n-1", since=JUST_NOW), dcgm("n-1", split, DCGM_MIG), node="n-1"))
    return world


@healthy
def a_cordoned_node_whose_exporter_is_down() -> World:
    world = fleet(1)
    world.node("n-2", spec={"unschedulable": True})
    exporter = world.exporter("n-2")
    body = dcgm("n-2", [Gpu(0, uuid("n-2", 0)), Gpu(1, uuid("n-2", 1))])
    world.before(world.section(exporter, body, node="n-2"))
    world.now(world.section(exporter, "", node="n-2", up="0", error="connect: connection refused"))
    return world


@healthy
def a_node_in_a_driver_upgrade_offers_nothing() -> World:
    world = fleet(1)
    world.node("n-2", offered=0, labels={"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"})
    world.before(World().section("dcgm-n-2", dcgm("n-2", [Gpu(0, uuid("n-2", 0)), Gpu(1, uuid("n-2", 1))]), node="n-2"))
    return world


VLLM = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m",engine="0"} 3
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m",engine="0"} 0
# TYPE vllm:request_success_total counter
vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 41
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.5"} 40
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} 41
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} 12
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} 41
"""


@healthy
def a_service_that_was_scaled_to_zero() -> World:
    world = fleet(1)
    world.add(
        "Deployment",
        "llm",
        "serving",
        {"replicas": 0, "template": {"spec": {"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.10"}]}}},
    )
    world.before(world.section("llm-6c8d9f7b5-x2x4z", VLLM, job="vllm", namespace="serving", port=8000))
    world.alert("LlmQueue", "vllm:num_requests_waiting > 10")
    return world


@healthy
def a_service_that_was_scaled_down_and_rolled() -> World:
    world = fleet(1)
    world.add(
        "Deployment",
        "llm",
        "serving",
        {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.10"}]}}},
    )
    world.pod("llm-7d9f8c6b54-aaaaa", "n-1", 0, "serving", owner="ReplicaSet/llm-7d9f8c6b54", since=JUST_NOW)
    world.add(
        "ReplicaSet",
        "llm-7d9f8c6b54",
        "serving",
        {"replicas": 1},
        ownerReferences=[{"kind": "Deployment", "name": "llm", "uid": "u", "controller": True}],
    )
    for name in ("llm-6c8d9f7b5-x2x4z", "llm-6c8d9f7b5-q9q8w"):
        world.before(world.section(name, VLLM, job="vllm", namespace="serving", port=8000))
    world.now(world.section("llm-7d9f8c6b54-aaaaa", VLLM, job="vllm", namespace="serving", port=8000))
    world.alert("LlmQueue", "vllm:num_requests_waiting > 10")
    return world


@healthy
def kube_state_metrics_shows_no_rows_for_what_is_not() -> World:
    world = fleet(1)
    world.pod("ksm-0", "n-1", 0, "monitoring", owner="StatefulSet/ksm", image="registry.k8s.io/kube-state-metrics:v2.20.0")
    world.add("StatefulSet", "ksm", "monitoring", {"replicas": 1})
    info = 'kube_pod_info{namespace="ml",pod="a-1",uid="u",node="n-1"} 1\n'
    rare = 'kube_pod_container_status_terminated_reason{namespace="ml",pod="b-1",container="main",reason="OOMKilled"} 1\n'
    where = {"job": "kube-state-metrics", "honor": "true", "namespace": "monitoring", "port": "8080"}
    world.before(world.section("ksm-0", info + rare, job=where["job"], honor="true", namespace="monitoring", port=8080))
    world.now(world.section("ksm-0", info, job=where["job"], honor="true", namespace="monitoring", port=8080))
    world.alert("OutOfMemory", 'kube_pod_container_status_terminated_reason{reason="OOMKilled"} == 1')
    return world


@healthy
def no_xid_has_happened_since_the_restart() -> World:
    world = one_node()
    exporter = world.exporter("n-1", since=JUST_NOW)
    xid = f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="{BUSY.uuid}",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="n-1"}} 0\n'
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]) + xid, node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.alert("Xid", "DCGM_FI_DEV_XID_ERRORS > 0")
    return world


@healthy
def the_metrics_server_was_restarted() -> World:
    world = fleet(1)
    own = "prometheus_config_last_reload_successful 1\nprometheus_tsdb_wal_corruptions_total 0\nprocess_start_time_seconds {}\n"
    world.pod("prometheus-0", "n-1", 0, "monitoring", owner="StatefulSet/prometheus")
    world.add("StatefulSet", "prometheus", "monitoring", {"replicas": 1})
    for into, started in ((world.before, 1793000000), (world.now, 1793706000)):
        into(world.section("prometheus-0", own.format(started), job="prometheus", namespace="monitoring", port=9090))
    return world


@healthy
def a_pod_that_ended_a_moment_ago_is_still_named() -> World:
    world = World()
    world.node("n-1")
    world.pod("done-1", "n-1", owner="Job/done", phase="Succeeded", ended="2026-11-03T11:59:30Z")
    exporter = world.exporter("n-1")
    world.both(world.section(exporter, dcgm("n-1", [Gpu(0, BUSY.uuid, 70, "ml/done-1"), IDLE]), node="n-1"))
    return world


@healthy
def several_pods_behind_a_pod_monitor() -> World:
    return fleet(3, job="gpu-operator/dcgm")


# ------------------------------------------------------------------------------------------------ names and addresses


@healthy
def nodes_with_domain_names_and_short_hosts() -> World:
    world = World()
    name = "ip-10-1-2-3.eu.compute.internal"
    world.node(name)
    world.pod("a-1", name, owner="StatefulSet/a")
    world.both(world.section(world.exporter(name), dcgm("ip-10-1-2-3", [BUSY, IDLE])))
    return world


@healthy
def hosts_in_upper_case() -> World:
    world = one_node()
    world.both(world.section(world.exporter("n-1"), dcgm("N-1", [BUSY, IDLE])))
    return world


@healthy
def an_exporter_in_the_hosts_network_beside_others() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.ips[exporter] = "192.168.0.1"
    world.pod("node-exporter-x", "n-1", 0, "monitoring", owner="DaemonSet/node-exporter")
    for made in world.objects:
        if made["metadata"]["name"] in (exporter, "node-exporter-x") and made["kind"] == "Pod":
            made["status"]["podIP"] = "192.168.0.1"
    world.both(f'# TARGET job="dcgm" instance="192.168.0.1:9400" honor_labels="false"\n{dcgm("n-1", [BUSY, IDLE])}')
    return world


@healthy
def kubelets_at_addresses_that_pods_share() -> World:
    world = fleet(2)
    for number in (1, 2):
        for name in (f"a-{number}", f"proxy-{number}"):
            if name not in world.ips:
                world.pod(name, f"n-{number}", 0, "kube-system", owner="DaemonSet/proxy")
            pod = next(o for o in world.objects if o["kind"] == "Pod" and o["metadata"]["name"] == name)
            address = next(o for o in world.objects if o["metadata"]["name"] == f"n-{number}")["status"]["addresses"][1]["address"]
            pod["status"]["podIP"] = address
        world.both(f'# TARGET job="kubelet" instance="{address}:10250" node="n-{number}"\nkubelet_running_pods 3\n')
    world.add("DaemonSet", "proxy", "kube-system", {})
    return world


@healthy
def a_monitor_that_never_scraped_more_than_one_pod_of_a_workload() -> World:
    world = fleet(2)
    world.both(world.section("a-1", "vllm:num_requests_running 3\n", job="vllm", namespace="ml", port=8000))
    return world


@healthy
def the_instance_became_the_name_of_the_node() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    section = world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1")
    world.before(section)
    world.now(section.replace(f'instance="{world.ips[exporter]}:9400"', 'instance="n-1"'))
    return world


@healthy
def a_store_that_holds_another_cluster_as_well() -> World:
    world = one_node()
    world.exporter("n-1")
    where = {"job": "dcgm", "namespace": "gpu-operator", "container": "exporter"}
    ours = stored(dcgm("n-1", [BUSY, IDLE]), **where, instance="10.0.0.2:9400", pod="dcgm-n-1", cluster="lab")
    theirs = [Gpu(0, uuid("x-1", 0), 50, "prod/z-0")]
    world.both(ours + stored(dcgm("x-1", theirs), **where, instance="10.9.9.9:9400", pod="dcgm-x-1", cluster="prod"))
    return world


@healthy
def another_cluster_in_the_same_store_had_its_exporter_upgraded() -> World:
    world = one_node()
    ours = world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1", cluster="lab")
    theirs = [Gpu(0, uuid("x-1", 0), 50, "prod/z-0")]
    world.ips["dcgm-x-1"] = "10.9.9.9"
    world.before(ours, world.section("dcgm-x-1", dcgm("x-1", theirs), node="x-1", cluster="prod"))
    world.now(ours, world.section("dcgm-x-1", dcgm("x-1", theirs, DCGM_49, "hostname"), node="x-1", cluster="prod"))
    return world


# ------------------------------------------------------------------------------------------------ sharing


@healthy
def time_sharing_as_gke_does_it() -> World:
    world = World()
    world.node("n-1", 4, labels={"cloud.google.com/gke-max-shared-clients-per-gpu": "4"})
    world.pod("a-1", "n-1", owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY]), node="n-1"))
    return world


@healthy
def mig_instances_that_are_shared_in_turn() -> World:
    world = World()
    labels = {"nvidia.com/mig-1g.10gb.replicas": "4", "nvidia.com/mig.strategy": "mixed"}
    world.node("n-1", 8, "nvidia.com/mig-1g.10gb.shared", labels=labels)
    world.pod("a-1", "n-1", {"nvidia.com/mig-1g.10gb.shared": 1}, owner="StatefulSet/a")
    gpus = [Gpu(0, BUSY.uuid, 60, "ml/a-1", ("1g.10gb", "7")), Gpu(0, BUSY.uuid, 0, "", ("1g.10gb", "8"))]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", gpus, DCGM_MIG), node="n-1"))
    return world


@healthy
def a_fraction_behind_a_reservation_pod() -> World:
    world = World()
    world.node("n-1")
    world.pod("gpu-reservation-n-1-abcde", "n-1", 1, "runai-reservation")
    world.pod("frac-1", "n-1", 0, owner="Deployment/frac", annotations={"gpu-fraction": "0.5"})
    held = Gpu(0, BUSY.uuid, 70, "runai-reservation/gpu-reservation-n-1-abcde")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [held, IDLE]), node="n-1"))
    return world


@healthy
def two_containers_with_a_device_each() -> World:
    world = World()
    world.node("n-1")
    containers = world.pod("a-1", "n-1", owner="StatefulSet/a")["spec"]["containers"]
    containers.append({**containers[0], "name": "side"})
    gpus = [Gpu(0, BUSY.uuid, 70, "ml/a-1/main"), Gpu(1, IDLE.uuid, 70, "ml/a-1/side")]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", gpus), node="n-1"))
    return world


@healthy
def container_insights_of_aws() -> World:
    world = one_node()
    agent = world.exporter(
        "n-1", image="public.ecr.aws/cloudwatch-agent/cloudwatch-agent:1", namespace="amazon-cloudwatch", owner="cwagent"
    )
    own = lambda g: f'NodeName="n-1",GpuDevice="nvidia{g.index}",UUID="{g.uuid}"'  # noqa: E731
    node = {"node_gpu_utilization": DCGM["DCGM_FI_DEV_GPU_UTIL"], "node_gpu_power_draw": DCGM["DCGM_FI_DEV_POWER_USAGE"]}
    body = lines_of([BUSY, IDLE], node, lambda g: f'Type="NodeGPU",{own(g)}')
    named = f'{own(BUSY)},Namespace="ml",PodName="a-1"'
    body += f'pod_gpu_utilization{{Type="PodGPU",{named}}} 70\n'
    body += f'container_gpu_utilization{{Type="ContainerGPU",{named},ContainerName="main"}} 70\n'
    world.both(world.section(agent, body, job="cw", namespace="amazon-cloudwatch", node="n-1"))
    return world


@healthy
def container_insights_of_aws_with_the_controllers_name_beside_the_pods() -> World:
    world = container_insights_of_aws()
    world.bodies = {w: [b.replace('PodName="a-1"', 'PodName="a",FullPodName="a-1"') for b in bodies] for w, bodies in world.bodies.items()}
    return world


# ------------------------------------------------------------------------------------------------ more of every day


@healthy
def the_autoscaler_takes_a_node_away() -> World:
    world = fleet(1)
    world.node("n-2", spec={"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule", "value": "1"}]})
    exporter = world.exporter("n-2")
    world.before(world.section(exporter, dcgm("n-2", [Gpu(0, uuid("n-2", 0)), Gpu(1, uuid("n-2", 1))]), node="n-2"))
    world.now(world.section(exporter, "", node="n-2", up="0", error="connection refused"))
    return world


@healthy
def a_device_was_replaced() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [BUSY, Gpu(1, "GPU-99999999-0000-4000-8000-000000000001")]), node="n-1"))
    return world


@healthy
def the_driver_was_upgraded_and_a_label_added() -> World:
    world = one_node()
    old, new = (f',DCGM_FI_DRIVER_VERSION="{version}"' for version in ("550.54.14", "570.172.08"))
    world.before(world.section("dcgm-n-1-old", dcgm("n-1", [BUSY, IDLE], more=old), node="n-1"))
    body = dcgm("n-1", [BUSY, IDLE], more=f'{new},pci_bus_id="00000000:41:00.0"')
    world.now(world.section(world.exporter("n-1", since=JUST_NOW), body, node="n-1"))
    return world


@healthy
def an_engine_was_upgraded_and_tells_more_in_other_buckets() -> World:
    world = fleet(1)
    world.pod("llm-0", "n-1", 0, "serving", owner="StatefulSet/llm", since=JUST_NOW)
    world.add("StatefulSet", "llm", "serving", {"replicas": 1})
    more = '# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total{model_name="m",engine="0"} 3\n'
    world.before(world.section("llm-0", VLLM, job="vllm", namespace="serving", port=8000))
    world.now(world.section("llm-0", VLLM.replace('le="0.5"', 'le="0.75"') + more, job="vllm", namespace="serving", port=8000))
    return world


@healthy
def a_pod_that_crashes_again_and_again_keeps_its_device() -> World:
    world = one_node()
    status = world.objects[1]["status"]
    status["conditions"] = [{"type": "Ready", "status": "False"}]
    status["containerStatuses"][0] |= {"ready": False, "restartCount": 12, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [Gpu(0, BUSY.uuid, 0, "ml/a-1"), IDLE]), node="n-1"))
    return world


@healthy
def the_old_target_is_still_listed_halfway_through_a_rollout() -> World:
    world = one_node()
    world.before(world.section("dcgm-n-1-old", dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    new = world.exporter("n-1", since="2026-11-03T11:58:00Z")
    world.now(
        world.section("dcgm-n-1-old", "", node="n-1", up="0", error="connection refused"),
        world.section(new, dcgm("n-1", [BUSY, IDLE]), node="n-1"),
    )
    return world


@healthy
def a_pod_that_is_being_deleted_has_given_its_device_back() -> World:
    world = one_node()
    world.pod("b-1", "n-1", owner="StatefulSet/b", deletionTimestamp="2026-11-03T11:59:50Z")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    return world


@healthy
def a_pod_still_pulls_its_image_and_has_its_device() -> World:
    world = one_node()
    world.objects[1]["status"] |= {"phase": "Pending", "conditions": []}
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [Gpu(0, BUSY.uuid, 0, "ml/a-1"), IDLE]), node="n-1"))
    return world


@healthy
def a_resource_with_a_name_of_the_sites_own() -> World:
    world = World()
    world.node("n-1", 2, "nvidia.com/gpu-a100")
    world.pod("a-1", "n-1", {"nvidia.com/gpu-a100": 1}, owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    return world


@healthy
def devices_that_are_passed_through_to_virtual_machines() -> World:
    world = fleet(1)
    world.node("v-1", 2, "nvidia.com/GA102GL_A10")
    world.pod("virt-launcher-vm-x", "v-1", {"nvidia.com/GA102GL_A10": 1}, "vms")
    return world


@healthy
def a_drained_node_keeps_its_exporter() -> World:
    world = fleet(1)
    world.node("n-2", spec={"unschedulable": True})
    exporter = world.exporter("n-2")
    held = [Gpu(0, uuid("n-2", 0), 60, "ml/b-1"), Gpu(1, uuid("n-2", 1))]
    world.before(world.section(exporter, dcgm("n-2", held), node="n-2"))
    world.now(world.section(exporter, dcgm("n-2", [Gpu(0, uuid("n-2", 0)), Gpu(1, uuid("n-2", 1))]), node="n-2"))
    return world


@healthy
def a_node_returned_with_its_devices_in_another_order() -> World:
    world = one_node()
    exporter = world.exporter("n-1", since=JUST_NOW)
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [Gpu(1, BUSY.uuid, 70, "ml/a-1"), Gpu(0, IDLE.uuid)]), node="n-1"))
    return world


@healthy
def load_went_from_full_to_next_to_nothing() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [Gpu(0, BUSY.uuid, 100, "ml/a-1"), IDLE]), node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [Gpu(0, BUSY.uuid, 1, "ml/a-1"), IDLE]), node="n-1"))
    return world


@healthy
def pods_of_one_name_in_two_namespaces() -> World:
    world = one_node()
    world.pod("a-1", "n-1", 1, "dev", owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, Gpu(1, IDLE.uuid, 30, "dev/a-1")]), node="n-1"))
    return world


assert BEFORE < NOW
assert LONG_AGO < BEFORE
