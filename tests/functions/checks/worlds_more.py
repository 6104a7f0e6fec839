"""More healthy clusters: exporters that are run by a cloud, engines, and what pipelines make of labels."""

from __future__ import annotations

from collections.abc import Callable

from tests.functions.checks.worlds_healthy import BUSY, IDLE, VLLM, a_claim_under_dynamic_resource_allocation, one_node, stored
from tests.support.worlds import JUST_NOW, LONG_AGO, World, dcgm, fleet, lines_of

MORE: list[Callable[[], World]] = []


def healthy(build: Callable[[], World]) -> Callable[[], World]:
    MORE.append(build)
    return build


def engine(before: str, *now: str, job: str = "engine", since: str = LONG_AGO) -> World:
    """A GPU node, and an engine of as many Pods as there are bodies."""
    world = fleet(1)
    for number, body in enumerate(now):
        pod = f"llm-{number}"
        world.pod(pod, "n-1", 0, "serving", owner="StatefulSet/llm", since=since)
        world.before(world.section(pod, before, job=job, namespace="serving", port=8000))
        world.now(world.section(pod, body, job=job, namespace="serving", port=8000))
    world.add("StatefulSet", "llm", "serving", {"replicas": len(now)})
    return world


@healthy
def managed_dcgm_of_gke_with_project_and_location() -> World:
    world = one_node()
    exporter = world.exporter("n-1", image="gke.gcr.io/dcgm-exporter:3.3", namespace="gke-managed-system", owner="dcgm-exporter")
    where = {"cluster": "lab", "location": "us-central1", "project_id": "p", "namespace": "gke-managed-system"}
    world.both(world.section(exporter, dcgm("n-1", [BUSY, IDLE]), job="gke-managed-dcgm-exporter", node="n-1", **where))
    return world


@healthy
def multi_process_service_with_one_client_a_device() -> World:
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.sharing-strategy": "mps"}
    world = one_node(gpus=8, labels=labels)
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    return world


@healthy
def a_claim_whose_labels_the_exporter_prints() -> World:
    world = a_claim_under_dynamic_resource_allocation()
    claim = 'pod="a-1",pod_uid="uid-Pod-ml-a-1",dra_claim_name="a-1-gpu",dra_claim_namespace="ml",dra_driver_name="gpu.nvidia.com"'
    world.bodies = {w: [b.replace('pod="a-1"', f'{claim},dra_pool_name="n-1"') for b in bodies] for w, bodies in world.bodies.items()}
    return world


@healthy
def links_of_switches_and_cores_of_processors() -> World:
    world = one_node()
    more = "".join(
        f'DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX{{nvlink="{n}",nvswitch="nvswitch0",Hostname="n-1"}} 100\n'
        f'DCGM_FI_DEV_CPU_POWER_CURRENT{{cpu="{n}",Hostname="n-1"}} 9\n'
        for n in range(2)
    )
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]) + more, node="n-1"))
    return world


@healthy
def two_replicas_of_remote_written_series() -> World:
    world = one_node()
    world.exporter("n-1")
    where = {"job": "dcgm", "instance": "10.0.0.2:9400", "pod": "dcgm-n-1", "namespace": "gpu-operator", "container": "exporter"}
    world.both(*(stored(dcgm("n-1", [BUSY, IDLE]), **where, cluster="lab", replica=f"r{n}") for n in range(2)))
    return world


@healthy
def a_node_pool_that_wrote_the_host_in_small_letters_before_too() -> World:
    world = fleet(2)
    for window in world.bodies.values():
        window[1] = window[1].replace("Hostname=", "hostname=")
    return world


@healthy
def a_static_scrape_that_knows_no_pods() -> World:
    world = fleet(2)
    for window, bodies in world.bodies.items():
        ports = [f"{world.ips[f'dcgm-n-{n}']}:9400" for n in (1, 2)]
        sections = [body.partition("\n")[2] for body in bodies]
        world.bodies[window] = [
            f'# TARGET job="dcgm" instance="{p}" honor_labels="false"\n{s}' for p, s in zip(ports, sections, strict=True)
        ]
    return world


@healthy
def a_ray_cluster_with_a_new_session() -> World:
    body = 'ray_node_cpu_utilization{{SessionName="session_{0}",ip="10.1.1.1"}} 10\nray_serve_num_http_requests_total{{SessionName="session_{0}",route="/"}} 5\n'
    return engine(body.format("2026-11-01_a"), body.format("2026-11-03_b"), job="ray", since=JUST_NOW)


@healthy
def an_idle_sglang() -> World:
    body = '# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{model_name="m",tp_rank="0"} 0\n'
    return engine(body, body, job="sglang")


@healthy
def a_failure_was_counted_for_the_first_time() -> World:
    body = "# TYPE tgi_queue_size gauge\ntgi_queue_size 0\n# TYPE tgi_request_count counter\ntgi_request_count 7\n"
    return engine(body, body + '# TYPE tgi_request_failure counter\ntgi_request_failure{err="overloaded"} 1\n', job="tgi")


@healthy
def a_pool_of_llm_d() -> World:
    body = '# TYPE inference_pool_ready_pods gauge\ninference_pool_ready_pods{name="p"} 2\n'
    return engine(body, body, job="epp")


@healthy
def one_replica_serves_the_next_version_of_a_model() -> World:
    return engine(VLLM, VLLM, VLLM, VLLM.replace('model_name="m"', 'model_name="m-v2"'), job="vllm")


@healthy
def the_metrics_server_restarted_and_counts_anew() -> World:
    world = fleet(1)
    world.pod("prometheus-0", "n-1", 0, "monitoring", owner="StatefulSet/prometheus", since="2026-11-03T11:50:00Z")
    world.add("StatefulSet", "prometheus", "monitoring", {"replicas": 1})
    own = 'process_start_time_seconds {}\nprometheus_rule_evaluation_failures_total{{rule_group="g"}} {}\n'
    for into, started, failures in ((world.before, 1793000000, 4), (world.now, 1793706000, 0)):
        into(world.section("prometheus-0", own.format(started, failures), job="prometheus", namespace="monitoring", port=9090))
    return world


@healthy
def nvidia_gpu_exporter_with_rows_of_its_own() -> World:
    world = one_node()
    world.both(world.section(world.exporter("n-1"), dcgm("n-1", [BUSY, IDLE]), node="n-1"))
    second = world.exporter("n-1", image="utkuozdemir/nvidia_gpu_exporter:1.2.1", owner="nge")
    body = lines_of([BUSY, IDLE], {"nvidia_smi_utilization_gpu_ratio": lambda g: g.util / 100}, lambda g: f'uuid="{g.uuid[4:]}"')
    body += "".join(f'nvidia_smi_gpu_info{{uuid="{g.uuid[4:]}",name="A100",driver_model_current=""}} 1\n' for g in (BUSY, IDLE))
    world.both(world.section(second, body + "nvidia_smi_failed_scrapes_total 0\nnvidia_smi_command_exit_code 0\n", job="nge", node="n-1"))
    return world
