"""A GPU fleet of any size, as its exporters, its API server and its rule files show it: before and after an upgrade.

Eight GPUs a node, one Pod a GPU, one dcgm-exporter a node that goes from 4.8 to 4.9 (other names, other units, another
host label). Beside it kube-state-metrics, a little cAdvisor, and a vLLM server for every hundredth GPU. One node in a
hundred loses its Pod labels with the upgrade, one in 500 stops serving: an audit has something to find. Drawn by a
fixed seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

GPUS_A_NODE = 8
GPUS_A_TEAM = 100
GPUS_A_RULE = 5
EXPORTER = "nvidia-dcgm-exporter"
#: The addresses of exporter Pods begin here, those of the Pods with GPUs at 0.
EXPORTERS = 500_000

#: old name, new name, type, lowest and highest value before, factor between the units
FAMILIES = (
    ("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ", "gauge", 210, 1980, 1e6),
    ("DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "gauge", 1593, 2619, 1e6),
    ("DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", "gauge", 35, 90, 1),
    ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "gauge", 30, 80, 1),
    ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "gauge", 70, 690, 1),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "counter", 1e9, 9e11, 1e-3),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL", "counter", 0, 3, 1),
    ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "gauge", 5, 100, 0.01),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_MEMORY_UTIL_RATIO", "gauge", 0, 100, 0.01),
    ("DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_ENC_UTIL_RATIO", "gauge", 0, 100, 0.01),
    ("DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_DEC_UTIL_RATIO", "gauge", 0, 100, 0.01),
    ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE_BYTES", "gauge", 100, 70000, 2**20),
    ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_BYTES", "gauge", 1000, 80000, 2**20),
    ("DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_RESERVED_BYTES", "gauge", 500, 600, 2**20),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "counter", 0, 0, 1),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", "counter", 0, 2, 1),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED", "gauge", 0, 0, 1),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", "gauge", 0.05, 1, 1),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO", "gauge", 0, 1, 1),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", "gauge", 0, 1, 1),
)

#: How people write rules about such a fleet; a team's own copy of each.
RULES = (
    ("GpuHot", 'DCGM_FI_DEV_GPU_TEMP{{exported_namespace="{team}"}} > {n}'),
    ("GpuIdle", 'avg by (Hostname, exported_pod) (DCGM_FI_DEV_GPU_UTIL{{exported_namespace="{team}"}}) < {n}'),
    ("GpuXid", 'max by (Hostname, gpu) (DCGM_FI_DEV_XID_ERRORS{{exported_namespace="{team}"}}) > 0'),
    ("GpuMemoryFull", "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.{n}"),
    ("GpuPowerHigh", 'avg_over_time(DCGM_FI_DEV_POWER_USAGE{{exported_namespace="{team}",Hostname=~"gpu-.*"}}[10m]) > 6{n}'),
    ("GpuRowsRemapped", 'increase(DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{exported_namespace="{team}"}}[1h]) > 0'),
    ("PodPending", 'kube_pod_status_phase{{namespace="{team}",phase="Pending"}} == 1'),
    ("CpuThrottled", 'sum by (pod) (rate(container_cpu_usage_seconds_total{{namespace="{team}"}}[5m])) > {n}'),
    (
        "RequestsSlow",
        'histogram_quantile(0.95, sum by (le) (rate(vllm:e2e_request_latency_seconds_bucket{{namespace="{team}"}}[5m]))) > {n}',
    ),
    (":gpu_busy:avg", 'avg by (exported_namespace) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{{exported_namespace="{team}"}})'),
)


@dataclass(frozen=True)
class Gpu:
    number: int
    node: int
    index: int
    uuid: str
    namespace: str
    pod: str


@dataclass(frozen=True)
class Fleet:
    """The fleet with that many GPUs."""

    gpus: int

    @property
    def nodes(self) -> int:
        return -(-self.gpus // GPUS_A_NODE)

    @property
    def rules(self) -> int:
        return max(len(RULES), self.gpus // GPUS_A_RULE)

    @cached_property
    def devices(self) -> tuple[Gpu, ...]:
        rng = random.Random(self.gpus)
        found = []
        for n in range(self.gpus):
            bits = f"{rng.getrandbits(128):032x}"
            uuid = f"GPU-{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"
            pod = f"train-{n // 10:04d}-{bits[5:14]}-{bits[-5:]}"
            found.append(Gpu(n, n // GPUS_A_NODE, n % GPUS_A_NODE, uuid, f"team-{n // GPUS_A_TEAM:03d}", pod))
        return tuple(found)

    def of_node(self, node: int) -> tuple[Gpu, ...]:
        return self.devices[node * GPUS_A_NODE : (node + 1) * GPUS_A_NODE]

    # ------------------------------------------------------------------------------------------------- exporters

    def targets(self) -> dict[str, list[tuple[str, dict[str, str]]]]:
        """job -> (name of the exporter's path, target labels)."""
        dcgm = [
            (
                f"dcgm-{n}",
                {
                    "instance": f"{pod_address(EXPORTERS + n)}:9400",
                    **_place("gpu-operator", exporter_pod(n), EXPORTER),
                    "node": node_name(n),
                },
            )
            for n in range(self.nodes)
        ]
        vllm = [
            (f"vllm-{g.number}", {"instance": f"{pod_address(g.number)}:8000", **_place(g.namespace, g.pod, "main")})
            for g in self.devices[::100]
        ]
        kubelet = [(f"kubelet-{n}", {"instance": f"{address(n)}:10250", "node": node_name(n)}) for n in range(self.nodes)]
        state = [("ksm", {"instance": "10.0.0.9:8080", **_place("monitoring", "kube-state-metrics-0", "kube-state-metrics")})]
        return {EXPORTER: dcgm, "vllm": vllm, "kubelet": kubelet, "kube-state-metrics": state}

    def bodies(self, *, after: bool, scrape: int) -> dict[str, bytes]:
        """What every exporter serves; `scrape` varies the values."""
        rng = random.Random(f"{after} {scrape}")
        found = {f"dcgm-{n}": self._dcgm(n, after, scrape, rng) for n in range(self.nodes)}
        found |= {f"vllm-{g.number}": _vllm(rng, scrape) for g in self.devices[::100]}
        found |= {f"kubelet-{n}": self._cadvisor(n, scrape) for n in range(self.nodes)}
        return found | {"ksm": self._state()}

    def _dcgm(self, node: int, after: bool, scrape: int, rng: random.Random) -> bytes:
        if after and node % 500 == 499:
            return b"<html>502 Bad Gateway</html>\n"
        host, driver = ("hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION") if after else ("Hostname", "DCGM_FI_DRIVER_VERSION")
        named = not (after and node % 100 == 42 % self.nodes)
        labels = []
        for g in self.of_node(node):
            pod = f',container="main",namespace="{g.namespace}",pod="{g.pod}"' if named else ""
            labels.append(
                f'gpu="{g.index}",UUID="{g.uuid}",pci_bus_id="00000000:{g.index * 16 + 11:02X}:00.0",device="nvidia{g.index}",'
                f'modelName="NVIDIA H200",{host}="{node_name(node)}",{driver}="580.95.05"{pod}'
            )
        lines = []
        for old, new, kind, low, high, factor in FAMILIES:
            name = new if after else old
            lines += [f"# HELP {name} {name.lower()} of the device.", f"# TYPE {name} {kind}"]
            for held in labels:
                value = rng.uniform(low, high) if kind == "gauge" else low + scrape
                lines.append(f"{name}{{{held}}} {value * (factor if after else 1):.6g}")
        return ("\n".join(lines) + "\n").encode()

    def _cadvisor(self, node: int, scrape: int) -> bytes:
        lines = []
        for name, kind in (("container_cpu_usage_seconds_total", "counter"), ("container_memory_working_set_bytes", "gauge")):
            lines.append(f"# TYPE {name} {kind}")
            for g in self.of_node(node):
                place = f'container="main",id="/kubepods/pod{g.uuid[4:]}",image="registry.example.com/train:1.4",namespace="{g.namespace}",pod="{g.pod}"'
                lines.append(f"{name}{{{place}}} {g.number + 10 * scrape}")
        return ("\n".join(lines) + "\n").encode()

    def _state(self) -> bytes:
        lines = ["# TYPE kube_pod_info gauge"]
        for g in self.devices:
            lines.append(
                f'kube_pod_info{{namespace="{g.namespace}",pod="{g.pod}",node="{node_name(g.node)}",host_ip="{address(g.node)}"}} 1'
            )
        lines.append("# TYPE kube_pod_status_phase gauge")
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            for g in self.devices:
                lines.append(f'kube_pod_status_phase{{namespace="{g.namespace}",pod="{g.pod}",phase="{phase}"}} {int(phase == "Running")}')
        return ("\n".join(lines) + "\n").encode()

    # ---------------------------------------------------------------------------------------- rules and objects

    def rule_file(self) -> str:
        """Rules as Prometheus loads them, ten a group."""
        teams = sorted({g.namespace for g in self.devices})
        lines = ["groups:"]
        for n in range(self.rules):
            if n % len(RULES) == 0:
                lines += [f"- name: group-{n // len(RULES)}", "  interval: 1h", "  rules:"]
            name, shape = RULES[n % len(RULES)]
            round_, team = divmod(n // len(RULES), len(teams))
            expr = shape.format(team=teams[team], n=80 + round_)
            kind, title = ("record", f"{teams[team].replace('-', '_')}_{round_}{name}") if name[0] == ":" else ("alert", f"{name}-{n}")
            lines += [f"  - {kind}: {title}", f"    expr: '{expr}'"]
            if kind == "alert":
                lines += [
                    "    for: 5m",
                    "    labels: {severity: warning}",
                    f"    annotations: {{summary: {name}, runbook_url: 'https://runbooks.example.com/{name}'}}",
                ]
        return "\n".join(lines) + "\n"


def node_name(n: int) -> str:
    return f"gpu-{n:04d}"


def address(n: int) -> str:
    return f"10.{1 + n // 250}.{n % 250}.7"


def pod_address(n: int) -> str:
    """Of the Pod that holds GPU n, or of the exporter of node n - EXPORTERS."""
    return f"172.{16 + n // 62500}.{n // 250 % 250}.{n % 250 + 1}"


def exporter_pod(n: int) -> str:
    return f"{EXPORTER}-{n:05x}"


def _place(namespace: str, pod: str, container: str) -> dict[str, str]:
    return {"namespace": namespace, "pod": pod, "container": container}


def _vllm(rng: random.Random, scrape: int) -> bytes:
    lines = ["# TYPE vllm:num_requests_running gauge", f'vllm:num_requests_running{{model_name="m"}} {rng.randrange(40)}']
    name = "vllm:e2e_request_latency_seconds"
    lines.append(f"# TYPE {name} histogram")
    lines += [f'{name}_bucket{{le="{le}",model_name="m"}} {n * (scrape + 1)}' for n, le in enumerate((0.5, 1, 2.5, 5, 10, 30, "+Inf"), 1)]
    lines += [f'{name}_sum{{model_name="m"}} {20 * scrape}', f'{name}_count{{model_name="m"}} {7 * (scrape + 1)}']
    return ("\n".join(lines) + "\n").encode()
