"""Faults that real clusters had, after public reports: what must be found in each, and what must not be said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.functions.checks.worlds_healthy import AMD, BUSY, IDLE, VLLM, one_node, stored
from tests.support.worlds import (
    BEFORE,
    DCGM,
    DCGM_1,
    DCGM_49,
    DCGM_MIG,
    JUST_NOW,
    LONG_AGO,
    NOW,
    OPERATOR,
    Gpu,
    World,
    dcgm,
    fleet,
    lines_of,
    uuid,
)

Parts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    build: Callable[[], World]
    source: str
    #: (codes of which any will do, parts of the subject)
    must: tuple[tuple[str | tuple[str, ...], Parts], ...]
    #: codes, or whole checks, that may not fail
    never: tuple[str, ...] = ()
    verdicts: Mapping[str, str] = field(default_factory=dict)
    #: exactly the codes in `must` may fail
    only: bool = True
    #: what a finding among those observed
    says: str = ""


FAULTY: list[Case] = []


def case(
    source: str,
    *must: tuple[str | tuple[str, ...], Parts],
    never: tuple[str, ...] = (),
    only: bool = True,
    says: str = "",
    **verdicts: str,
) -> Callable[[Callable[[], World]], Callable[[], World]]:
    def keep(build: Callable[[], World]) -> Callable[[], World]:
        FAULTY.append(Case(build, source, must, never, {k.replace("_", "-"): v for k, v in verdicts.items()}, only, says))
        return build

    return keep


A1 = {"namespace": "ml", "pod": "a-1"}
N1, N2 = {"node": "n-1"}, {"node": "n-2"}


def nameless(util: float = 70.0) -> list[Gpu]:
    return [Gpu(0, BUSY.uuid, util), IDLE]


# ------------------------------------------------------------------------------------------------ label-mapping


@case("NVIDIA/dcgm-exporter#58, #150", ("label-mapping/pod-missing", A1), telemetry_gap="pass", metric_rename="pass")
def empty_pod_labels_under_load() -> World:
    world = one_node()
    body = dcgm("n-1", nameless()).replace('Hostname="n-1"}', 'Hostname="n-1",container="",namespace="",pod=""}')
    world.both(world.section(world.exporter("n-1"), body, node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter#138", ("label-mapping/unattributed-use", {"gpu": IDLE.uuid}), never=("label-mapping/pod-missing",))
def a_pod_without_a_limit_uses_a_gpu() -> World:
    world = one_node()
    world.pod("rogue-1", "n-1", 0, owner="Deployment/rogue")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, Gpu(1, IDLE.uuid, 88.0)]), node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter#188", ("label-mapping/pod-missing", A1), ("label-mapping/hostname-wrong", {}), label_mapping="fail")
def old_names_and_the_exporters_pod_as_host() -> World:
    world = one_node()
    own = lambda g: f'gpu="{g.index}",UUID="{g.uuid}",device="nvidia{g.index}",Hostname="dcgm-n-1",container="",namespace="",pod=""'  # noqa: E731
    world.both(world.section(world.exporter("n-1"), lines_of(nameless(), DCGM_1, own), node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter#151", ("label-mapping/pod-missing", A1), telemetry_gap="pass")
def a_shared_resource_that_the_exporter_does_not_know() -> World:
    world = World()
    world.node("n-1", 8, "nvidia.com/gpu.shared", labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"})
    world.pod("a-1", "n-1", {"nvidia.com/gpu.shared": 1}, owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", nameless()), node="n-1"))
    return world


@case("Project-HAMi/HAMi#112, #1043", ("label-mapping/pod-missing", A1), telemetry_gap="pass")
def hami_shares_devices_and_only_dcgm_exporter_is_scraped() -> World:
    world = World()
    register = "".join(f"{g.uuid},10,81920,100,NVIDIA A100,0,true,{g.index},hami-core:" for g in (BUSY, IDLE))
    world.node("n-1", 20, annotations={"hami.io/node-nvidia-register": register})
    world.pod("a-1", "n-1", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000}, owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", nameless()), node="n-1"))
    return world


@case(
    "GoogleCloudPlatform/prometheus-engine#1002",
    ("label-mapping/exporter-pod", {"gpu": BUSY.uuid}),
    never=("label-mapping/pod-missing",),
    only=False,
)
def managed_collection_overwrites_the_pod() -> World:
    world = one_node()
    world.exporter("n-1")
    plain = dcgm("n-1", nameless()).replace(
        'Hostname="n-1"}', 'Hostname="n-1",job="dcgm",instance="n-1:9400",pod="dcgm-n-1",namespace="gpu-operator"}'
    )
    world.both(plain)
    return world


@case("NVIDIA/dcgm-exporter#140", ("label-mapping/stale-pod", {"gpu": BUSY.uuid, "pod": "gone-1"}))
def a_pod_that_is_long_gone_is_still_named() -> World:
    world = one_node()
    held = [Gpu(0, BUSY.uuid, 0.0, "ml/gone-1"), Gpu(1, IDLE.uuid, 70.0, "ml/a-1")]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", held), node="n-1"))
    return world


@case("kubernetes/kubernetes#119423", ("label-mapping/wrong-node", {"pod": "a-1", "gpu": BUSY.uuid}), only=False)
def a_stateful_pod_moved_and_its_old_node_still_names_it() -> World:
    world = World()
    world.node("n-1")
    world.node("n-2")
    world.pod("a-1", "n-2", owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    there = [Gpu(0, uuid("n-2", 0), 55, "ml/a-1"), Gpu(1, uuid("n-2", 1))]
    world.both(world.section(world.exporter("n-2"), dcgm("n-2", there), node="n-2"))
    return world


@case("NVIDIA/dcgm-exporter#587, #594", ("label-mapping/shared-device", {"gpu": BUSY.uuid}), telemetry_gap="pass")
def every_pod_of_a_shared_device_has_its_whole_value() -> World:
    world = World()
    world.node("n-1", 4, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.product": "Tesla-T4-SHARED"})
    for n in range(3):
        world.pod(f"w-{n}", "n-1", owner="StatefulSet/w")
    copies = [Gpu(0, BUSY.uuid, 99.0, f"ml/w-{n}") for n in range(3)]
    body = "".join(dcgm("n-1", [c], more=f',vgpu="{n}"') for n, c in enumerate(copies))
    world.both(world.section(world.exporter("n-1"), body, node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter 4.8.2, process_metrics.go", ("label-mapping/shared-zero", {"gpu": BUSY.uuid}))
def per_pod_copies_are_zero_while_the_device_works() -> World:
    world = World()
    world.node("n-1", 4, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1"})
    for n in range(2):
        world.pod(f"w-{n}", "n-1", owner="StatefulSet/w")
    body = dcgm("n-1", [Gpu(0, BUSY.uuid, 97.0)])
    for n in range(2):
        for name in ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"):
            own = f'gpu="0",UUID="{BUSY.uuid}",device="nvidia0",Hostname="n-1",pod_uid="",container="main",namespace="ml",pod="w-{n}"'
            body += f"{name}{{{own}}} 0\n"
    world.both(world.section(world.exporter("n-1"), body, node="n-1"))
    return world


@case("NVIDIA/gpu-monitoring-tools#193", ("label-mapping/device-identity", {"label": "GPU_I_PROFILE"}), only=False)
def a_profile_that_says_null() -> World:
    world = World()
    world.node("n-1", 2, "nvidia.com/mig-1g.10gb")
    world.pod("a-1", "n-1", {"nvidia.com/mig-1g.10gb": 1}, owner="StatefulSet/a")
    gpus = [Gpu(0, BUSY.uuid, 60, "ml/a-1", ("<<<NULL>>>", "7")), Gpu(0, BUSY.uuid, 0, "", ("<<<NULL>>>", "8"))]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", gpus, DCGM_MIG), node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter#572", ("label-mapping/hostname-wrong", {"label": "Hostname"}), telemetry_gap="pass")
def every_host_is_localhost() -> World:
    world = one_node()
    world.both(world.section(world.exporter("n-1"), dcgm("localhost", [BUSY, IDLE]), node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter#277; utkuozdemir/nvidia_gpu_exporter#27", ("label-mapping/device-identity", {"job": "dcgm"}), only=False)
def one_target_is_the_service_of_two_nodes() -> World:
    world = World()
    for node in ("n-1", "n-2"):
        world.node(node)
        world.exporter(node)
    body = dcgm("n-1", [Gpu(0, uuid("n-1", 0)), Gpu(1, uuid("n-1", 1))])
    world.both(f'# TARGET job="dcgm" instance="dcgm.gpu-operator:9400" honor_labels="false"\n{body}')
    return world


@case(
    "prometheus-operator: a ServiceMonitor and a PodMonitor select one exporter",
    ("label-mapping/duplicate-series", {"gpu": BUSY.uuid}),
    only=False,
)
def one_exporter_is_scraped_by_two_jobs() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    for job in ("dcgm", "gpu-operator/dcgm-pods"):
        world.both(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1", job=job))
    return world


@case("NVIDIA/gpu-operator#2406, NVIDIA/dcgm-exporter#590", ("label-mapping/pod-missing", A1))
def a_claimed_device_names_nobody() -> World:
    world = World()
    world.node("n-1", 0)
    world.pod("a-1", "n-1", 0, owner="StatefulSet/a", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]})
    world.objects[-1]["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    world.objects[-1]["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "c"}]
    given = {"allocation": {"devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "n-1", "device": "gpu-0", "request": "gpu"}]}}}
    world.add("ResourceClaim", "c", "ml", {}, given)
    devices = [{"name": f"gpu-{g.index}", "attributes": {"uuid": {"string": g.uuid}, "type": {"string": "gpu"}}} for g in (BUSY, IDLE)]
    world.add("ResourceSlice", "n-1-gpus", "", {"nodeName": "n-1", "driver": "gpu.nvidia.com", "pool": {"name": "n-1"}, "devices": devices})
    for made in world.objects[-2:]:
        made["apiVersion"] = "resource.k8s.io/v1"
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", nameless()), node="n-1"))
    return world


@case("ROCm/device-metrics-exporter, chart default honorLabels: true", ("label-mapping/exporter-pod", {"gpu": "692300000"}), only=False)
def an_amd_exporter_without_pod_labels_and_with_honor_labels() -> World:
    world = World()
    world.node("n-1", 2, "amd.com/gpu")
    world.pod("a-1", "n-1", {"amd.com/gpu": 1}, owner="StatefulSet/a")
    own = lambda g: f'gpu_id="{g.index}",serial_number="69230000{g.index}",card_model="0x74a1",hostname="n-1"'  # noqa: E731
    exporter = world.exporter("n-1", image="rocm/device-metrics-exporter:v1.4.2", namespace="kube-amd-gpu", owner="amd-metrics")
    body = lines_of(nameless(), AMD, own)
    world.both(world.section(exporter, body, job="amd-metrics", honor="true", namespace="kube-amd-gpu", node="n-1", port=5000))
    return world


# ------------------------------------------------------------------------------------------------ telemetry-gap


@case(
    "vllm-project/vllm#7188, #7782",
    ("telemetry-gap/went-silent", {"job": "vllm"}),
    ("telemetry-gap/alert-blind", {"rule": "LlmQueue"}),
    label_mapping="pass",
)
def an_engine_serves_only_what_its_runtime_tells() -> World:
    world = fleet(1)
    python = '# TYPE python_info gauge\npython_info{version="3.12"} 1\nprocess_resident_memory_bytes 3e9\n'
    world.pod("llm-0", "n-1", 0, "serving", owner="StatefulSet/llm", image="vllm/vllm-openai:v0.5.4")
    world.add("StatefulSet", "llm", "serving", {"replicas": 1})
    world.before(world.section("llm-0", python + VLLM, job="vllm", namespace="serving", port=8000))
    world.now(world.section("llm-0", python, job="vllm", namespace="serving", port=8000))
    world.alert("LlmQueue", "vllm:num_requests_waiting > 10")
    return world


@case(
    "vllm-project/vllm#8612",
    ("telemetry-gap/empty-exposition", {"job": "vllm"}),
    never=("telemetry-gap/went-silent",),
    metric_rename="unknown",
)
def an_engine_answers_with_nothing() -> World:
    world = fleet(1)
    world.pod("llm-0", "n-1", 0, "serving", owner="StatefulSet/llm", image="vllm/vllm-openai:v0.6.1")
    world.add("StatefulSet", "llm", "serving", {"replicas": 1})
    world.before(world.section("llm-0", VLLM, job="vllm", namespace="serving", port=8000))
    world.now(world.section("llm-0", "", job="vllm", namespace="serving", port=8000))
    world.alert("LlmQueue", "vllm:num_requests_waiting > 10")
    return world


@case(
    "NVIDIA/dcgm-exporter#607",
    ("telemetry-gap/scrape-overrun", {"job": "dcgm", **N1}),
    never=("telemetry-gap/target-down",),
    label_mapping="pass",
)
def a_scrape_takes_nearly_all_of_its_time() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1", duration="0.4"))
    world.now(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1", duration="9.8"))
    return world


@case(
    "NVIDIA/dcgm-exporter#372",
    ("telemetry-gap/target-down", {"job": "dcgm", **N1}),
    never=("label-mapping", "telemetry-gap/went-silent", "telemetry-gap/device-missing"),
)
def a_target_is_down_and_everything_behind_it_is_unknown() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, "", node="n-1", up="0", error="read tcp 10.0.9.1:9400: i/o timeout"))
    return world


@case(
    "gpustack/gpustack#5902", ("telemetry-gap/pipeline-unhealthy", {"metric": "prometheus_target_scrapes_sample_duplicate_timestamp_total"})
)
def the_server_refuses_duplicates() -> World:
    world = fleet(1)
    world.pod("prometheus-0", "n-1", 0, "monitoring", owner="StatefulSet/prometheus")
    for second, count in (("11:58:00", 400), ("11:59:00", 616), ("12:00:00", 832)):
        body = f"prometheus_target_scrapes_sample_duplicate_timestamp_total {count}\nprometheus_config_last_reload_successful 1\n"
        world.now(
            world.section("prometheus-0", body, job="prometheus", namespace="monitoring", port=9090, scraped_at=f"2026-11-03T{second}Z")
        )
    world.before(world.section("prometheus-0", body, job="prometheus", namespace="monitoring", port=9090))
    return world


@case(
    "prometheus/prometheus tsdb/head.go, rules/manager.go, storage/remote",
    ("telemetry-gap/pipeline-unhealthy", {"metric": "prometheus_tsdb_wal_corruptions_total"}),
    ("telemetry-gap/pipeline-unhealthy", {"metric": "prometheus_rule_evaluation_failures_total"}),
    ("telemetry-gap/pipeline-unhealthy", {"metric": "prometheus_rule_group_iterations_missed_total"}),
    ("telemetry-gap/pipeline-unhealthy", {"metric": "prometheus_config_last_reload_successful"}),
    ("telemetry-gap/series-dropped", {"metric": "prometheus_target_scrapes_exceeded_sample_limit_total"}),
    never=("telemetry-gap/went-silent", "metric-rename"),
)
def the_server_fell_ill_between_two_scrapes_an_hour_apart() -> World:
    world = fleet(1)
    world.pod("prometheus-0", "n-1", 0, "monitoring", owner="StatefulSet/prometheus")
    names = ("tsdb_wal_corruptions", "rule_evaluation_failures", "rule_group_iterations_missed", "target_scrapes_exceeded_sample_limit")
    for into, count in ((world.before, 0), (world.now, 9)):
        body = "".join(f"# TYPE prometheus_{n}_total counter\nprometheus_{n}_total {count}\n" for n in names)
        body += f"prometheus_config_last_reload_successful {int(not count)}\nprometheus_target_scrapes_sample_out_of_order_total 5\n"
        into(world.section("prometheus-0", body, job="prometheus", namespace="monitoring", port=9090))
    return world


@case("NVIDIA/aicr#157", ("telemetry-gap/target-down", {"job": "dcgm"}), never=("telemetry-gap/went-silent", "metric-rename"))
def the_monitor_of_the_exporter_was_deleted() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.both(
        world.section(
            "ksm-0", 'kube_pod_info{namespace="ml",pod="a-1",node="n-1"} 1\n', job="ksm", honor="true", namespace="monitoring", port=8080
        )
    )
    world.pod("ksm-0", "n-1", 0, "monitoring", owner="StatefulSet/ksm")
    world.alert("GpuHot", "DCGM_FI_DEV_GPU_TEMP > 85")
    return world


@case(
    "NVIDIA/dcgm-exporter#71, #103",
    ("telemetry-gap/went-silent", {"metric": "DCGM_FI_DEV_FB_USED", "job": "dcgm"}),
    never=("metric-rename/renamed",),
    only=False,
)
def one_canary_of_three_lost_a_metric() -> World:
    world = fleet(3)
    world.bodies["after"] = world.bodies["after"][:2]
    less = {n: v for n, v in DCGM.items() if n != "DCGM_FI_DEV_FB_USED"}
    gpus = [Gpu(0, uuid("n-3", 0), 70.0, "ml/a-3"), Gpu(1, uuid("n-3", 1))]
    world.now(world.section("dcgm-n-3", dcgm("n-3", gpus, less), node="n-3"))
    return world


@case(
    "the exporter of this cluster was upgraded, another one's in the same store was not",
    ("metric-rename/renamed", {"metric": "DCGM_FI_DEV_POWER_USAGE", "renamed_to": "DCGM_FI_DEV_BOARD_POWER_WATTS"}),
    ("telemetry-gap/went-silent", {"metric": "DCGM_FI_DEV_FB_FREE"}),
    never=("telemetry-gap/series-dropped",),
    only=False,
)
def the_old_names_live_on_in_another_cluster() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE], DCGM), node="n-1", cluster="lab"))
    world.now(world.section(exporter, dcgm("n-1", [BUSY, IDLE], DCGM_49, "hostname"), node="n-1", cluster="lab"))
    world.ips["dcgm-x-1"] = "10.9.9.9"
    world.both(world.section("dcgm-x-1", dcgm("x-1", [Gpu(0, uuid("x-1", 0), 50, "prod/z-0")]), node="x-1", cluster="prod"))
    return world


def _canary(text: str) -> World:
    """Three exporters, of which the third serves another body now."""
    world = fleet(3)
    world.bodies["after"] = world.bodies["after"][:2]
    world.now(world.section("dcgm-n-3", text, node="n-3"))
    return world


@case(
    "NVIDIA/dcgm-exporter#655: one node pool was upgraded",
    ("metric-rename/label-renamed", {"label": "Hostname", "renamed_to": "hostname", "job": "dcgm"}),
    says="on 10.0.0.5:9400 (not on 10.0.0.1:9400, 10.0.0.3:9400)",
)
def one_canary_of_three_writes_a_label_in_another_way() -> World:
    return _canary(dcgm("n-3", [Gpu(0, uuid("n-3", 0), 70.0, "ml/a-3"), Gpu(1, uuid("n-3", 1))], host_label="hostname"))


@case(
    "a relabelling on one node pool drops a label",
    ("metric-rename/label-lost", {"label": "modelName", "job": "dcgm"}),
    says="on 10.0.0.5:9400 (not on 10.0.0.1:9400, 10.0.0.3:9400)",
)
def one_canary_of_three_lost_a_label() -> World:
    body = dcgm("n-3", [Gpu(0, uuid("n-3", 0), 70.0, "ml/a-3"), Gpu(1, uuid("n-3", 1))])
    return _canary(body.replace(',modelName="NVIDIA A100-SXM4-80GB"', ""))


@case("NVIDIA/gpu-monitoring-tools#188, NVIDIA/dcgm-exporter#164", ("telemetry-gap/frozen", {**N1, "job": "dcgm"}), label_mapping="pass")
def values_stand_still_after_the_host_engine_was_lost() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    for into, hour in ((world.before, 10), (world.now, 11)):
        for minute in (56, 57, 58, 59):
            into(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1", scraped_at=f"2026-11-03T{hour}:{minute}:30Z"))
    return world


@case(
    "slurm-job-exporter#30; ROCm/amdsmi amdsmi.h",
    ("telemetry-gap/blank-sentinel", {"metric": "gpu_package_power"}),
    never=("label-mapping",),
)
def an_unsupported_field_is_stored_as_all_ones() -> World:
    world = World()
    world.node("n-1", 2, "amd.com/gpu")
    world.pod("a-1", "n-1", {"amd.com/gpu": 1}, owner="StatefulSet/a")

    def own(g: Gpu) -> str:
        named = g.of_pod() or ',container="",namespace="",pod=""'
        return f'gpu_id="{g.index}",serial_number="69230000{g.index}",hostname="n-1"{named}'

    exporter = world.exporter("n-1", image="rocm/device-metrics-exporter:v1.4.2", namespace="kube-amd-gpu", owner="amd-metrics")
    body = lines_of([BUSY, IDLE], {**AMD, "gpu_package_power": lambda g: 4294967295}, own).replace("4.29497e+09", "4294967295")
    world.both(world.section(exporter, body, job="amd-metrics", honor="true", namespace="kube-amd-gpu", node="n-1", port=5000))
    return world


@case("NVIDIA/dcgm-exporter#250", ("telemetry-gap/device-missing", N1), label_mapping="pass")
def one_of_two_devices_has_no_series() -> World:
    world = one_node()
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY]), node="n-1"))
    return world


@case(
    "NVIDIA/gpu-operator: a taint that the exporter's DaemonSet does not tolerate",
    ("telemetry-gap/node-uncovered", N2),
    never=("label-mapping/pod-missing",),
)
def a_node_has_no_exporter() -> World:
    world = fleet(1)
    world.node("n-2", spec={"taints": [{"key": "dedicated", "effect": "NoSchedule", "value": "ml"}]})
    world.pod("b-1", "n-2", owner="StatefulSet/b")
    return world


@case(
    "NVIDIA/dcgm-exporter#706",
    ("telemetry-gap/empty-exposition", N1),
    never=("label-mapping", "telemetry-gap/went-silent", "telemetry-gap/node-uncovered"),
)
def an_exporter_answers_200_with_nothing_after_an_unbind() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, "", node="n-1"))
    return world


@case(
    "prometheus/prometheus scrape/scrape.go",
    ("telemetry-gap/series-dropped", {"job": "dcgm", **N1}),
    never=("telemetry-gap/target-down", "telemetry-gap/went-silent"),
)
def a_scrape_goes_over_the_sample_limit() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, "", node="n-1", up="0", error="sample limit exceeded"))
    return world


@case("a node whose time synchronisation is off", ("telemetry-gap/clock-skew", {"job": "dcgm", **N1}), label_mapping="pass")
def a_clock_is_ten_minutes_ahead() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1", scraped_at="2026-11-03T12:10:00Z"))
    return world


@case(
    "NVIDIA/dcgm-exporter#488, #482",
    ("telemetry-gap/bad-exposition", N1),
    never=("telemetry-gap/target-down", "telemetry-gap/went-silent", "label-mapping"),
)
def text_stands_where_a_number_should() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    good = dcgm("n-1", [BUSY, IDLE])
    world.before(world.section(exporter, good, node="n-1"))
    bad = 'DCGM_FI_DEV_VGPU_INSTANCE_IDS{gpu="0",UUID="x",Hostname="n-1"} ERROR - FAILED TO CONVERT TO STRING\n'
    world.now(world.section(exporter, good + bad, node="n-1"))
    return world


@case("NVIDIA/gpu-operator#313, #242", ("telemetry-gap/blank-sentinel", {**N1, "job": "dcgm"}), label_mapping="pass")
def every_value_is_zero_after_a_mig_change() -> World:
    world = World()
    world.node("n-1", 2, "nvidia.com/mig-1g.10gb")
    world.pod("a-1", "n-1", {"nvidia.com/mig-1g.10gb": 1}, owner="StatefulSet/a")
    gpus = [Gpu(0, BUSY.uuid, 0, "ml/a-1", ("1g.10gb", "7")), Gpu(0, BUSY.uuid, 0, "", ("1g.10gb", "8"))]
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", gpus, dict.fromkeys(DCGM_MIG, lambda _: 0)), node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter#388, #478", ("label-mapping/pod-missing", {"namespace": "ml", "pod": "a-2"}), telemetry_gap="pass")
def only_one_client_of_mps_is_named() -> World:
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.count": "2"}
    world = one_node(gpus=8, labels=labels)
    world.pod("a-2", "n-1", owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    return world


@case("intel/xpumanager docs/CHANGES.md: no attribution to Pods", ("label-mapping/pod-missing", A1), telemetry_gap="pass")
def an_exporter_that_knows_no_pods() -> World:
    world = World()
    world.node("n-1", 2, "gpu.intel.com/xe")
    world.pod("a-1", "n-1", {"gpu.intel.com/xe": 1}, owner="StatefulSet/a")
    body = lines_of(
        [BUSY, IDLE],
        {"hw_gpu_utilization_ratio": lambda g: g.util / 100, "hw_power_watts": DCGM["DCGM_FI_DEV_POWER_USAGE"]},
        lambda g: f'pci_bdf="0000:3{g.index}:00.0",hw_id="{g.uuid}",hw_name="gpu{g.index}"',
    )
    exporter = world.exporter("n-1", image="intel/xpumd:2.0", namespace="monitoring", owner="xpumd")
    world.both(world.section(exporter, body, job="xpumd", namespace="monitoring", node="n-1", port=29999))
    return world


@case("NVIDIA/dcgm-exporter#342: labels are missing from time to time", ("label-mapping/unattributed-use", {"gpu": IDLE.uuid}))
def one_of_the_two_devices_of_a_pod_names_it() -> World:
    world = World()
    world.node("n-1")
    world.pod("a-1", "n-1", 2, owner="StatefulSet/a")
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, Gpu(1, IDLE.uuid, 80)]), node="n-1"))
    return world


@case(
    "metric_relabel_configs that keep nothing",
    ("telemetry-gap/series-dropped", {"job": "dcgm", **N1}),
    never=("telemetry-gap/went-silent", "metric-rename"),
)
def relabelling_drops_everything() -> World:
    world = one_node()
    world.exporter("n-1")
    where = {"job": "dcgm", "instance": "10.0.0.2:9400", "pod": "dcgm-n-1", "namespace": OPERATOR, "container": "exporter"}
    own = ",".join(f'{k}="{v}"' for k, v in where.items())
    for into, kept, body in ((world.before, 18, stored(dcgm("n-1", [BUSY, IDLE]), **where)), (world.now, 0, "")):
        into(f"up{{{own}}} 1\nscrape_samples_scraped{{{own}}} 18\nscrape_samples_post_metric_relabeling{{{own}}} {kept}\n{body}")
    return world


@case(
    "a scrape that stopped twenty minutes ago",
    ("telemetry-gap/stale", {"job": "dcgm", **N1}),
    never=("telemetry-gap/went-silent", "label-mapping", "metric-rename"),
)
def nothing_new_for_twenty_minutes() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1", scraped_at="2026-11-03T11:40:00Z"))
    return world


@case("kube-state-metrics is down", ("telemetry-gap/target-down", {"job": "ksm"}), label_mapping="pass")
def another_job_is_down_and_devices_are_told_all_the_same() -> World:
    world = fleet(1)
    world.pod("ksm-0", "n-1", 0, "monitoring", owner="StatefulSet/ksm")
    info = 'kube_pod_info{namespace="ml",pod="a-1",node="n-1"} 1\n'
    world.before(world.section("ksm-0", info, job="ksm", honor="true", namespace="monitoring", port=8080))
    world.now(world.section("ksm-0", "", job="ksm", honor="true", namespace="monitoring", port=8080, up="0", error="connection refused"))
    world.alert("NoPods", "absent(kube_pod_info)")
    return world


@case(
    "NVIDIA/dcgm-exporter#352, #707",
    ("telemetry-gap/went-silent", {"metric": "DCGM_FI_PROF_GR_ENGINE_ACTIVE"}),
    label_mapping="pass",
    metric_rename="pass",
)
def one_node_lost_its_profiling_metrics() -> World:
    world = fleet(2)
    world.bodies["after"] = world.bodies["after"][:1]
    less = {n: v for n, v in DCGM.items() if "PROF" not in n}
    gpus = [Gpu(0, uuid("n-2", 0), 70, "ml/a-2"), Gpu(1, uuid("n-2", 1))]
    world.now(world.section("dcgm-n-2", dcgm("n-2", gpus, less), node="n-2"))
    return world


# ------------------------------------------------------------------------------------------------ metric-rename


@case(
    "triton-inference-server/server#7479", ("metric-rename/label-lost", {"label": "gpu_uuid"}), label_mapping="pass", telemetry_gap="pass"
)
def an_engine_lost_its_device_label() -> World:
    world = fleet(1)
    world.pod("triton-0", "n-1", 0, "serving", owner="StatefulSet/triton", image="nvcr.io/nvidia/tritonserver:24.06-py3")
    world.add("StatefulSet", "triton", "serving", {"replicas": 1})
    names = ("nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count")
    had = "".join(f'# TYPE {n} counter\n{n}{{gpu_uuid="{BUSY.uuid}",model="m",version="1"}} 177\n' for n in names)
    have = "".join(f'# TYPE {n} counter\n{n}{{model="m",version="1"}} 9\n' for n in names)
    world.before(world.section("triton-0", had, job="triton", namespace="serving", port=8002))
    world.now(world.section("triton-0", have, job="triton", namespace="serving", port=8002))
    return world


@case(
    "Project-HAMi/HAMi PR#1644",
    ("metric-rename/renamed", {"metric": "vGPU_device_memory_usage_in_bytes", "renamed_to": "hami_vgpu_memory_used_bytes"}),
    ("metric-rename/rule-dead", {"rule": "VgpuFull"}),
    only=False,
    never=("telemetry-gap/alert-blind", "telemetry-gap/went-silent"),
)
def hami_switched_its_legacy_names_off() -> World:
    world = fleet(1)
    monitor = world.exporter("n-1", image="projecthami/hami:v2.9.0", namespace="kube-system", owner="hami-device-plugin")
    old = f'podnamespace="ml",podname="a-1",ctrname="main",deviceuuid="{BUSY.uuid}",vdeviceid="0"'
    new = f'namespace="ml",pod="a-1",container="main",device_uuid="{BUSY.uuid}",vdevice_index="0"'
    world.before(
        world.section(
            monitor, f"vGPU_device_memory_usage_in_bytes{{{old}}} 4e9\n", job="hami", namespace="kube-system", node="n-1", port=9394
        )
    )
    world.now(
        world.section(monitor, f"hami_vgpu_memory_used_bytes{{{new}}} 4e9\n", job="hami", namespace="kube-system", node="n-1", port=9394)
    )
    world.alert("VgpuFull", "vGPU_device_memory_usage_in_bytes > 9e9")
    return world


# ------------------------------------------------------------------------------------------------ unknown, not failed


@case("a node that has only just joined", telemetry_gap="unknown", label_mapping="pass")
def a_node_joined_two_minutes_ago_and_has_no_exporter_yet() -> World:
    world = fleet(1)
    world.node("n-2", creationTimestamp="2026-11-03T11:58:00Z")
    return world


@case("NVIDIA/dcgm-exporter#250: a device that the kubelet withholds", telemetry_gap="unknown", label_mapping="pass")
def a_device_fell_off_the_bus_and_the_node_offers_one_less() -> World:
    world = one_node(offered=1)
    world.before(world.section("dcgm-n-1", dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    world.now(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY]), node="n-1"))
    return world


@case(
    "samber/awesome-prometheus-alerts; thaum-xyz/ankhmorpork#1525: lazily created counters", telemetry_gap="unknown", metric_rename="pass"
)
def an_error_counter_is_absent_after_a_restart() -> World:
    world = fleet(1)
    world.pod("app-0", "n-1", 0, "serving", owner="StatefulSet/app", since="2026-11-03T11:30:00Z")
    world.add("StatefulSet", "app", "serving", {"replicas": 1})
    had = (
        "# TYPE app_requests_total counter\napp_requests_total 90\n# TYPE app_upstream_errors_total counter\napp_upstream_errors_total 3\n"
    )
    have = "# TYPE app_requests_total counter\napp_requests_total 7\n"
    world.before(world.section("app-0", had, job="app", namespace="serving", port=8000))
    world.now(world.section("app-0", have, job="app", namespace="serving", port=8000))
    return world


@case("federation without target labels", telemetry_gap="pass", label_mapping="pass", metric_rename="pass")
def scraped_before_and_federated_now() -> World:
    world = one_node()
    exporter = world.exporter("n-1")
    world.before(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    where = {
        "job": "dcgm",
        "instance": f"{world.ips[exporter]}:9400",
        "pod": exporter,
        "namespace": OPERATOR,
        "container": "exporter",
        "node": "n-1",
    }
    world.now(stored(dcgm("n-1", [BUSY, IDLE]), **where))
    return world


@case("a PodMonitor in the place of a ServiceMonitor: the job has another name", telemetry_gap="pass", label_mapping="pass")
def a_job_got_another_name_and_lost_nothing() -> World:
    world = fleet(2)
    world.bodies["after"] = fleet(2, job="gpu-operator/dcgm").bodies["after"]
    return world


@case("the same, and an alert asks for the old name", ("telemetry-gap/went-silent", {"job": "dcgm"}), label_mapping="pass")
def a_job_got_another_name_and_an_alert_asks_for_the_old_one() -> World:
    world = fleet(2)
    world.bodies["after"] = fleet(2, job="gpu-operator/dcgm").bodies["after"]
    world.alert("GpuHot", 'DCGM_FI_DEV_GPU_TEMP{job="dcgm"} > 85')
    return world


@case("a node that stopped answering", ("telemetry-gap/target-down", N2), label_mapping="unknown")
def a_node_is_not_ready_and_its_pods_are_unknown() -> World:
    world = fleet(1)
    world.node("n-2", ready=False)
    exporter = world.exporter("n-2")
    world.pod("b-1", "n-2", owner="StatefulSet/b")
    world.before(world.section(exporter, dcgm("n-2", [Gpu(0, uuid("n-2", 0), 60, "ml/b-1"), Gpu(1, uuid("n-2", 1))]), node="n-2"))
    world.now(world.section(exporter, "", node="n-2", up="0", error="context deadline exceeded"))
    return world


@case("machines outside the cluster in the same server", label_mapping="unknown", telemetry_gap="pass", metric_rename="pass")
def a_machine_outside_the_cluster_is_nobodys_fault() -> World:
    world = fleet(1)
    body = dcgm("slurm-01", [Gpu(0, "GPU-77777777-0000-4000-8000-000000000000", 90)])
    world.both(f'# TARGET job="slurm" instance="slurm-01:9400" honor_labels="false"\n{body}')
    return world


@case(
    "project-koku/koku-metrics-operator#947: honor_labels was switched on",
    ("metric-rename/label-renamed", {"label": "exported_pod", "renamed_to": "pod", "job": "dcgm"}),
    ("metric-rename/rule-dead", {"rule": "BusyPod"}),
    only=False,
)
def honor_labels_true_leaves_the_exporter_on_idle_devices() -> World:
    world = one_node()
    exporter, body = world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE])
    world.before(world.section(exporter, body, node="n-1"))
    world.now(world.section(exporter, body, node="n-1", honor="true"))
    world.alert("BusyPod", 'sum by (exported_pod) (DCGM_FI_DEV_GPU_UTIL{exported_pod!=""}) > 90')
    return world


@case("a target that was down at the baseline and came back", metric_rename="unknown", telemetry_gap="pass")
def a_job_that_was_down_at_the_baseline_answers_again() -> World:
    world = _engine()
    world.before(world.section("llm-0", "", job="vllm", namespace="serving", port=8000, up="0", error="connection refused"))
    world.now(world.section("llm-0", VLLM, job="vllm", namespace="serving", port=8000))
    return world


@case("a new service and its monitor", metric_rename="pass", telemetry_gap="pass")
def a_job_is_as_new_as_its_pods() -> World:
    world = _engine(since=JUST_NOW)
    world.now(world.section("llm-0", VLLM, job="vllm", namespace="serving", port=8000))
    return world


def _engine(since: str = LONG_AGO) -> World:
    """A GPU node, and an engine beside it that nothing has been stored of yet."""
    world = fleet(1)
    world.pod("llm-0", "n-1", 0, "serving", owner="StatefulSet/llm", image="vllm/vllm-openai:v0.10", since=since)
    world.add("StatefulSet", "llm", "serving", {"replicas": 1})
    return world


@case(
    "a site prefix that the policy does not name",
    ("telemetry-gap/node-uncovered", N1),
    says="of job dcgm is up, and none of its metrics is known as a device's",
    label_mapping="unknown",
    metric_rename="pass",
)
def a_site_prefix_that_nobody_told_of() -> World:
    world = one_node()
    names = {f"acme_{name}": value for name, value in DCGM.items()}
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE], names), node="n-1"))
    return world


@case("NVIDIA/dcgm-exporter#277: a Service in front of two exporters", ("label-mapping/device-identity", N1), only=False)
def a_service_answers_for_one_exporter_at_a_time() -> World:
    world = fleet(2)
    target = (
        '# TARGET job="dcgm" instance="nvidia-dcgm-exporter.gpu-operator:9400" namespace="gpu-operator" service="nvidia-dcgm-exporter"\n'
    )
    world.bodies = {window: [target + bodies[0].partition("\n")[2]] for window, bodies in world.bodies.items()}
    return world


@case(
    "vllm-project/vllm#18354: one replica of three was upgraded",
    ("metric-rename/renamed", {"metric": "vllm:gpu_cache_usage_perc", "renamed_to": "vllm:kv_cache_usage_perc", "job": "vllm"}),
    says="documented (vLLM deprecated 0.9/0.10",
)
def one_engine_of_three_calls_its_cache_otherwise() -> World:
    old = VLLM + 'vllm:gpu_cache_usage_perc{model_name="m",engine="0"} 0.41\n'
    world = _engines(old, old.replace("gpu_cache", "kv_cache"))
    world.alert("CacheFull", "vllm:gpu_cache_usage_perc > 0.9")
    return world


@case(
    "one replica of three has another relabelling",
    ("metric-rename/label-lost", {"label": "engine", "job": "vllm"}),
    says="on 10.0.0.5:8000",
)
def one_engine_of_three_lost_a_label() -> World:
    return _engines(VLLM, VLLM.replace(',engine="0"', ""))


def _engines(old: str, new: str) -> World:
    """Three replicas of an engine, of which the third serves another body now."""
    world = fleet(1)
    for number in range(3):
        pod = f"llm-{number}"
        world.pod(pod, "n-1", 0, "serving", owner="StatefulSet/llm", image="vllm/vllm-openai:v0.10")
        world.before(world.section(pod, old, job="vllm", namespace="serving", port=8000))
        world.now(world.section(pod, new if number == 2 else old, job="vllm", namespace="serving", port=8000))
    world.add("StatefulSet", "llm", "serving", {"replicas": 3})
    return world


assert BEFORE < JUST_NOW < NOW
