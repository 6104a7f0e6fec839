"""Rules in the manner of the collections that people install: every one is read, needs what it should, and can be rewritten."""

from __future__ import annotations

import pytest

from functions.promql import Changes, MetricChange, names_of, objection, read, rewrite

#: expression -> metrics that it needs
RULES = {
    # nodes and Kubernetes
    """
    (
      node_filesystem_avail_bytes{job="node-exporter",fstype!="",mountpoint!=""} / node_filesystem_size_bytes{job="node-exporter",fstype!=""} * 100 < 5
    and
      node_filesystem_readonly{job="node-exporter",fstype!=""} == 0
    )
    """: "node_filesystem_avail_bytes node_filesystem_size_bytes node_filesystem_readonly",
    'kube_pod_container_status_waiting_reason{reason="CrashLoopBackOff", job="kube-state-metrics"} >= 1': "kube_pod_container_status_waiting_reason",
    """
    sum by (namespace, pod, cluster) (
      max by(namespace, pod, cluster) (kube_pod_status_phase{phase=~"Pending|Unknown"})
      * on(namespace, pod, cluster) group_left(owner_kind) topk by(namespace, pod, cluster) (
        1, max by(namespace, pod, owner_kind, cluster) (kube_pod_owner{owner_kind!="Job"})
      )
    ) > 0
    """: "kube_pod_status_phase kube_pod_owner",
    """
    sum(namespace_cpu:kube_pod_container_resource_requests:sum{}) by (cluster)
      - (sum(kube_node_status_allocatable{resource="cpu"}) by (cluster) - max(kube_node_status_allocatable{resource="cpu"}) by (cluster)) > 0
    """: "namespace_cpu:kube_pod_container_resource_requests:sum kube_node_status_allocatable",
    'absent(up{job="kubelet"} == 1)': "",
    "count without(instance, pod) (up == 0) / count without(instance, pod) (up) > 0.1": "up",
    "histogram_quantile(0.99, sum(rate(kubelet_pleg_relist_duration_seconds_bucket[5m])) by (cluster, instance, le)"
    " * on(cluster, instance) group_left(node) kubelet_node_name) >= 10": "kubelet_pleg_relist_duration_seconds_bucket kubelet_node_name",
    'ALERTS{alertname!="InfoInhibitor",severity="info"} == 1 unless on(namespace) ALERTS{severity=~"warning|critical"} == 1': "ALERTS",
    "sum(rate(a_total[1h])) > (14.4 * 0.01) and sum(rate(a_total[5m])) > (14.4 * 0.01)": "a_total",
    "predict_linear(node_filesystem_avail_bytes[6h], 24*60*60) < 0": "node_filesystem_avail_bytes",
    # devices
    "DCGM_FI_DEV_GPU_TEMP > 85": "DCGM_FI_DEV_GPU_TEMP",
    "increase(DCGM_FI_DEV_XID_ERRORS[5m]) > 0 or (DCGM_FI_DEV_XID_ERRORS > 0 unless DCGM_FI_DEV_XID_ERRORS offset 5m > 0)": "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.95": "DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_FREE",
    """
    sum by (exported_namespace, exported_pod) (DCGM_FI_DEV_POWER_USAGE{exported_pod!=""})
      * on (exported_namespace, exported_pod) group_left(created_by_name)
        max by (exported_namespace, exported_pod, created_by_name) (
          label_replace(label_replace(kube_pod_info,"exported_pod","$1","pod","(.+)"),"exported_namespace","$1","namespace","(.+)"))
    """: "DCGM_FI_DEV_POWER_USAGE kube_pod_info",
    """
    count by (namespace,pod) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"}
        * on (namespace,pod) group_left() (kube_pod_status_phase{phase="Running"}==1))
      unless on (namespace,pod) label_replace(DCGM_FI_DEV_GPU_TEMP{exported_pod!=""},"pod","$1","exported_pod","(.+)")
    """: "kube_pod_container_resource_requests kube_pod_status_phase",
    "count by (Hostname) (count by (Hostname,UUID) (DCGM_FI_DEV_GPU_TEMP)) < 8": "DCGM_FI_DEV_GPU_TEMP",
    "(avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[30m]) < 0.05) and on (UUID) (DCGM_FI_DEV_FB_USED > 1000)": (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_DEV_FB_USED"
    ),
    "sum(rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[5m])) by (gpu) > 0 or on() vector(0) > 1": "",
    # requests
    "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:e2e_request_latency_seconds_bucket[5m]))) > 20": "vllm:e2e_request_latency_seconds_bucket",
    'sum(rate(vllm:request_success_total{finished_reason="abort"}[5m])) / sum(rate(vllm:request_success_total[5m])) > 0.05': (
        "vllm:request_success_total"
    ),
    "(sum by (model_name) (vllm:num_requests_waiting) > 40) and on (model_name) (sum by (model_name) (vllm:num_requests_running) > 0)": (
        "vllm:num_requests_waiting vllm:num_requests_running"
    ),
    "1 - (sum(rate(a_errors_total[5m])) or vector(0)) / sum(rate(a_requests_total[5m])) < 0.99": "a_requests_total",
    "time() - max by (job) (backup_last_success_timestamp_seconds) > 86400": "backup_last_success_timestamp_seconds",
}


@pytest.mark.parametrize(("expr", "needed"), RULES.items(), ids=range(len(RULES)))
def test_rules_in_use_are_read_and_need_what_they_need(expr: str, needed: str) -> None:
    found = read(expr)
    assert (found.error, found.doubt) == ("", "")
    assert {name for use in found.selectors if use.needed for name in names_of(use.selector)} == set(needed.split())


@pytest.mark.parametrize("expr", RULES, ids=range(len(RULES)))
def test_rules_in_use_can_be_rewritten_for_new_names_and_units(expr: str) -> None:
    names = {name for use in read(expr).selectors for name in names_of(use.selector)}
    changes = Changes(tuple(MetricChange(name, f"new_{name}", None if name.endswith("_bucket") else 1000) for name in names))
    suggested = rewrite(expr, changes)
    assert suggested is not None
    assert objection(suggested) == ""
    assert {name for use in read(suggested).selectors for name in names_of(use.selector)} == {f"new_{name}" for name in names}
