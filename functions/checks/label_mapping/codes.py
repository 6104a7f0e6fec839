"""The codes of label-mapping, as the catalogue prints them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from functions.checks.base import Code
from functions.contract.findings import Evidence, Finding, Severity, Subject, Verdict

CODES = (
    Code(
        "label-mapping/pod-missing",
        Severity.WARNING,
        "No device series names a Pod that holds a GPU",
        "Whoever follows an alert from the Pod finds no device, and whoever looks at the device finds no Pod.",
        "Restore the exporter's view of the kubelet's pod-resources: the hint names the switch for this node, resource or kind of sharing.",
        'a running Pod requests nvidia.com/mig-1g.10gb, and its node prints DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID="11"} without pod',
    ),
    Code(
        "label-mapping/exporter-pod",
        Severity.CRITICAL,
        "The device names the exporter's own Pod",
        "Every query by Pod says that the exporter uses the GPU; the workload is charged nothing and alerted for nothing.",
        "Set honorLabels: false and read exported_pod, and restore the mapping of devices to Pods.",
        'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-91ad…",namespace="gpu-metrics",pod="dcgm-exporter-jvxnd",container="exporter"} 84',
    ),
    Code(
        "label-mapping/stale-pod",
        Severity.CRITICAL,
        "The device names a Pod that no longer uses it",
        "Load and faults of the device are laid at the door of a Pod that is gone, or of a new Pod that took its name.",
        "Restart the exporter of the node; for returning names switch pod_uid on and join on it.",
        'pod="resnet-sweep-7-xv6nc" half an hour after that Pod succeeded',
    ),
    Code(
        "label-mapping/wrong-node",
        Severity.CRITICAL,
        "The device names a Pod of another node",
        "An alert on the device leads to a Pod on another machine.",
        "Restart the exporter of the node, and compare the target's node label with the exporter Pod's node.",
        'a series of gpu-node-1 with pod="train-0", which runs on gpu-node-2',
    ),
    Code(
        "label-mapping/wrong-container",
        Severity.CRITICAL,
        "The device names a container that does not hold it",
        "Logs and limits of the wrong container are looked at.",
        "Drop the exporter's container label from the target (honorLabels), or restart the exporter.",
        'container="istio-proxy" on a GPU that container "server" requests',
    ),
    Code(
        "label-mapping/unrequested-use",
        Severity.WARNING,
        "The named Pod requests no GPU",
        "The scheduler gives the device to somebody else as well; both slow down, and the quota is not charged.",
        "Give the Pod a GPU limit, or keep NVIDIA_VISIBLE_DEVICES from Pods without one.",
        'pod="notebook-7" on a GPU, and no container of notebook-7 requests nvidia.com/gpu',
    ),
    Code(
        "label-mapping/unattributed-use",
        Severity.WARNING,
        "A busy device names no Pod",
        "Somebody uses the device, and neither the scheduler nor the dashboard knows who.",
        "Look for the process on the node, and give its Pod a limit or take the device away.",
        "DCGM_FI_DEV_GPU_UTIL 97 without a Pod, on a node whose GPU Pods are all named on other devices",
    ),
    Code(
        "label-mapping/shared-device",
        Severity.CRITICAL,
        "Several Pods carry the value of the whole device",
        "A sum over Pods counts the device once for each, and no Pod's own share can be told.",
        "Aggregate with max by device first; use per-process values where each Pod's share is needed.",
        "three Pods of one time-sliced GPU, each with DCGM_FI_DEV_GPU_UTIL 71",
    ),
    Code(
        "label-mapping/shared-zero",
        Severity.CRITICAL,
        "Every Pod of a working device shows 0",
        "All Pods look idle while the device is busy: an idle-GPU reaper may take it from them.",
        "Give the exporter hostPID and a token that may read Pods.",
        "DCGM_FI_DEV_GPU_UTIL 83 without a Pod, and 0 for each Pod of the same GPU",
    ),
    Code(
        "label-mapping/duplicate-series",
        Severity.WARNING,
        "The device is counted more than once in one metric",
        "Sums double, and joins on the device fail with many-to-many.",
        "Scrape each exporter once, or select the device series or the per-Pod series in every query.",
        "two jobs scrape the same exporter; or a GPU with one series with and one without exported_pod",
    ),
    Code(
        "label-mapping/device-identity",
        Severity.CRITICAL,
        "Labels that cannot identify a device",
        "Nobody can say which device, instance or machine a value is from.",
        "Restart the exporter after MIG changes, upgrade it where it computes profiles wrongly, and scrape Pods instead of a Service.",
        'GPU_I_PROFILE="<<<NULL>>>"; instance="nvidia-dcgm-exporter.gpu-operator:9400"',
    ),
    Code(
        "label-mapping/hostname-wrong",
        Severity.CRITICAL,
        "The host label names no machine",
        "Joins with node metrics are empty, and a person is sent to a machine that does not exist.",
        "Give the exporter NODE_NAME from spec.nodeName.",
        'Hostname="dcgm-exporter-6ldbb" or Hostname="localhost"',
    ),
    Code(
        "label-mapping/required-label-missing",
        Severity.WARNING,
        "A required label is missing",
        "The site's policy says that people and tools rely on the label.",
        "Switch the label on at the exporter, or look for the relabelling that drops it.",
        "labels.required.device: [pod_uid], and series with a Pod but without pod_uid",
    ),
    Code(
        "label-mapping/dra-unverifiable",
        Severity.WARNING,
        "A Pod's claimed device cannot be compared with any series",
        "Under dynamic resource allocation only claims and slices say which device a Pod holds; without them nothing is proven.",
        "Let Telltale list ResourceClaims and ResourceSlices, and switch DRA on in the exporter.",
        "a Pod with an allocated claim of gpu.nvidia.com whose device has no UUID in any ResourceSlice",
    ),
)

_BY_ID = {code.id: code for code in CODES}


@dataclass(frozen=True, slots=True)
class Said:
    """What a finding tells a person."""

    observed: str
    expected: str
    hint: str


def finding(
    what: str,
    subject: Subject,
    said: Said,
    evidence: Iterable[Evidence],
    *,
    severity: Severity | None = None,
    verdict: Verdict = Verdict.FAIL,
) -> Finding:
    """A finding of the code `label-mapping/what`, with the title and, unless another is given, the severity of the code."""
    code = _BY_ID[f"label-mapping/{what}"]
    return Finding(
        code=code.id,
        title=code.title,
        observed=said.observed,
        expected=said.expected,
        hint=said.hint,
        subject=subject,
        severity=severity or code.severity,
        verdict=verdict,
        evidence=tuple(evidence),
    )
