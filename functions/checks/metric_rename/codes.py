"""The codes of metric-rename, with what a person should know about each."""

from __future__ import annotations

from functions.checks.base import Code
from functions.contract.findings import Severity

CODES = (
    Code(
        "metric-rename/renamed",
        Severity.WARNING,
        "A metric has a new name",
        "Every alert, rule and panel on the old name selects nothing and reports no error.",
        "Use the new name where the old one is listed; keep both (`new or old`) while a rollout is under way.",
        "before: DCGM_FI_DEV_GPU_TEMP; now: DCGM_FI_DEV_GPU_TEMP_CELSIUS",
    ),
    Code(
        "metric-rename/removed",
        Severity.WARNING,
        "A metric was taken away on purpose",
        "Its maker says that it ends and names no plain successor; what reads it is empty for good.",
        "Replace it by the expression that is given, or take out what still reads it.",
        "before: vllm:num_requests_swapped; now: nothing, as documented",
    ),
    Code(
        "metric-rename/label-renamed",
        Severity.WARNING,
        "A label has a new name",
        "Metric names stay, so nothing looks broken, but matchers, joins, groupings and legends on the old label are empty.",
        "Use the new label where the old one is listed.",
        'before: …{Hostname="gpu-1"}; now: …{hostname="gpu-1"}',
    ),
    Code(
        "metric-rename/label-lost",
        Severity.WARNING,
        "A label is gone",
        "Series can no longer be told apart or joined by it.",
        "Look for the relabelling, allow-list or version that took it away; drop it from queries where it is gone for good.",
        'before: kube_pod_labels{label_team="a"}; now: kube_pod_labels{} without any label_team',
    ),
    Code(
        "metric-rename/label-value-changed",
        Severity.WARNING,
        "The values of a label are written differently",
        "Matchers compare text: a value in another spelling no longer matches.",
        "Change the literal in the matcher to the new spelling.",
        'before: le="1"; now: le="1.0"',
    ),
    Code(
        "metric-rename/type-changed",
        Severity.WARNING,
        "A metric has another type",
        "rate() of a gauge and the raw value of a counter are numbers without a meaning.",
        "Rewrite the queries for the new type.",
        "before: counter; now: gauge",
    ),
    Code(
        "metric-rename/unit-changed",
        Severity.WARNING,
        "A metric has another scale",
        "Thresholds and axes are off by the factor, and no query fails.",
        "Convert thresholds, or the value, by the factor that is given.",
        "before: 1410 (MHz); now: 1.41e9 (Hz)",
    ),
    Code(
        "metric-rename/meaning-changed",
        Severity.WARNING,
        "A metric means something else now",
        "Name, type and scale are the same; only its definition tells.",
        "Read the note and judge the queries that use it.",
        "alertmanager_notifications_total counts attempts since 0.16, successes before",
    ),
    Code(
        "metric-rename/dual-emitted",
        Severity.WARNING,
        "A metric is exposed under its old and its new name",
        "Sums over a pattern that matches both count everything twice, and the old name will go.",
        "Move queries to the new name, then switch the old one off.",
        "now: inference_objective_request_total beside llm_d_epp_request_total",
    ),
    Code(
        "metric-rename/rule-dead",
        Severity.CRITICAL,
        "A rule has no data any more because of a rename",
        "An alert that selects nothing can never fire.",
        "Load the suggested expression.",
        "expr: DCGM_FI_DEV_GPU_TEMP > 85, and the metric is called DCGM_FI_DEV_GPU_TEMP_CELSIUS now",
    ),
    Code(
        "metric-rename/dashboard-dead",
        Severity.WARNING,
        "Panels are empty because of a rename",
        "An empty panel looks like a quiet system.",
        "Change the listed queries.",
        "panel Temperature: DCGM_FI_DEV_GPU_TEMP, and the metric is called DCGM_FI_DEV_GPU_TEMP_CELSIUS now",
    ),
    Code(
        "metric-rename/grouping-collapsed",
        Severity.CRITICAL,
        "A rule groups by a label that is gone",
        "It still answers: one number over everything, where it gave one for each value before.",
        "Group by the new label.",
        "sum by (Hostname) (…), and the label is called hostname now",
    ),
)
