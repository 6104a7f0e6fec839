"""What an expression should say instead: in the author's own words where they may stay."""

from __future__ import annotations

import pytest

from functions.promql import Changes, LabelChange, MetricChange, objection, rewrite, rewrite_grafana

METRICS = (
    MetricChange("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    MetricChange("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE_BYTES", 1048576),
    MetricChange("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),
    MetricChange("vllm:tpot_seconds", "vllm:itl_seconds"),
    MetricChange("queue_seconds", "queue_milliseconds", 1000),
    MetricChange("disks_active", 'disks{state="active"}'),
    MetricChange("dotted", '{"gpu.temp"}'),
    MetricChange("energy", "energy", 0.001),
    MetricChange("gone", None),
)
CHANGES = Changes(
    METRICS,
    (
        LabelChange("Hostname", "hostname", frozenset({"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_FREE", "dcgm_other"})),
        LabelChange("pod_name", None, frozenset({"dcgm_other"})),
        LabelChange("le", "le", frozenset({"h_bucket"}), {"1": "1.0", "5": "5.0"}),
    ),
)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        # names
        ("DCGM_FI_DEV_GPU_TEMP > 85", "DCGM_FI_DEV_GPU_TEMP_CELSIUS > 85"),
        ("{__name__='DCGM_FI_DEV_GPU_TEMP'}", "{__name__='DCGM_FI_DEV_GPU_TEMP_CELSIUS'}"),
        ('{"DCGM_FI_DEV_GPU_TEMP"}', '{"DCGM_FI_DEV_GPU_TEMP_CELSIUS"}'),
        ('{__name__=~"DCGM_FI_DEV_GPU_TEMP|other"}', '{__name__=~"DCGM_FI_DEV_GPU_TEMP_CELSIUS|other"}'),
        ('{__name__=~"DCGM_FI_DEV_GPU_TEM."}', '{__name__=~"DCGM_FI_DEV_GPU_TEM.|DCGM_FI_DEV_GPU_TEMP_CELSIUS"}'),
        ('{__name__=~"DCGM_FI_DEV_GPU_TEMP.*"}', None),
        (
            "histogram_quantile(0.9, sum by (le) (rate(vllm:tpot_seconds_bucket[5m])))",
            "histogram_quantile(0.9, sum by (le) (rate(vllm:itl_seconds_bucket[5m])))",
        ),
        ("disks_active", 'disks{state="active"}'),
        ("disks_active{}", 'disks{state="active"}'),
        ('disks_active{ a="b" }', 'disks{state="active", a="b" }'),
        ("dotted", '{"gpu.temp"}'),
        ('dotted{a="b"}', '{"gpu.temp",a="b"}'),
        ("max_over_time(dotted[5m:1m])", 'max_over_time({"gpu.temp"}[5m:1m])'),
        # the author's own words
        ("sum(\n  DCGM_FI_DEV_GPU_TEMP # hot\n) by (gpu)", "sum(\n  DCGM_FI_DEV_GPU_TEMP_CELSIUS # hot\n) by (gpu)"),
        (
            "label_join(DCGM_FI_DEV_GPU_TEMP,'a','DCGM_FI_DEV_GPU_TEMP')",
            "label_join(DCGM_FI_DEV_GPU_TEMP_CELSIUS,'a','DCGM_FI_DEV_GPU_TEMP')",
        ),
        # units
        ("DCGM_FI_DEV_FB_FREE < 1024", "(DCGM_FI_DEV_FB_FREE_BYTES / 1048576) < 1024"),
        ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE_BYTES / 1048576"),
        ("DCGM_FI_DEV_FB_FREE offset 5m < 1", "(DCGM_FI_DEV_FB_FREE_BYTES offset 5m / 1048576) < 1"),
        ("-DCGM_FI_DEV_FB_FREE", "-(DCGM_FI_DEV_FB_FREE_BYTES / 1048576)"),
        ("avg by (x) (DCGM_FI_DEV_GPU_UTIL)", "avg by (x) (DCGM_FI_DEV_GPU_UTIL_RATIO * 100)"),
        ("avg_over_time(DCGM_FI_DEV_GPU_UTIL[5m]) < 3", "(avg_over_time(DCGM_FI_DEV_GPU_UTIL_RATIO[5m]) * 100) < 3"),
        ("changes(DCGM_FI_DEV_GPU_UTIL[5m])", "changes(DCGM_FI_DEV_GPU_UTIL_RATIO[5m])"),
        ("stdvar_over_time(DCGM_FI_DEV_GPU_UTIL[5m])", "stdvar_over_time(DCGM_FI_DEV_GPU_UTIL_RATIO[5m]) * 10000"),
        ("max_over_time(DCGM_FI_DEV_GPU_UTIL[5m:1m])", "max_over_time((DCGM_FI_DEV_GPU_UTIL_RATIO * 100)[5m:1m])"),
        ("absent(DCGM_FI_DEV_GPU_UTIL)", "absent(DCGM_FI_DEV_GPU_UTIL_RATIO)"),
        ("count(DCGM_FI_DEV_GPU_UTIL)", "count(DCGM_FI_DEV_GPU_UTIL_RATIO)"),
        ("count(DCGM_FI_DEV_GPU_UTIL > 5)", "count((DCGM_FI_DEV_GPU_UTIL_RATIO * 100) > 5)"),
        ("rate(energy[5m]) > 300", "(rate(energy[5m]) * 1000) > 300"),
        (
            "histogram_quantile(0.9, rate(queue_seconds_bucket[5m])) > 2",
            "(histogram_quantile(0.9, rate(queue_milliseconds_bucket[5m])) / 1000) > 2",
        ),
        (
            "rate(queue_seconds_sum[5m]) / rate(queue_seconds_count[5m])",
            "(rate(queue_milliseconds_sum[5m]) / 1000) / rate(queue_milliseconds_count[5m])",
        ),
        # labels
        ('dcgm_other{Hostname=~"a.+"}', 'dcgm_other{hostname=~"a.+"}'),
        ("sum by (Hostname, gpu) (dcgm_other)", "sum by (hostname, gpu) (dcgm_other)"),
        ('DCGM_FI_DEV_GPU_TEMP{Hostname="a"}', 'DCGM_FI_DEV_GPU_TEMP_CELSIUS{hostname="a"}'),
        ('label_replace(dcgm_other, "node", "$1", "Hostname", "(.+)")', 'label_replace(dcgm_other, "node", "$1", "hostname", "(.+)")'),
        (
            'max by (Hostname) (dcgm_other) * on (Hostname) group_left (r) label_replace(k, "Hostname", "$1", "node", "(.+)")',
            'max by (hostname) (dcgm_other) * on (hostname) group_left (r) label_replace(k, "hostname", "$1", "node", "(.+)")',
        ),
        # others really have the old label: the series get it back
        (
            "dcgm_other * on (Hostname) group_left (r) owners",
            'label_replace(dcgm_other, "Hostname", "$1", "hostname", "(.+)") * on (Hostname) group_left (r) owners',
        ),
        (
            "rate(dcgm_other[5m]) + on (Hostname) owners",
            'label_replace(rate(dcgm_other[5m]), "Hostname", "$1", "hostname", "(.+)") + on (Hostname) owners',
        ),
        (
            "DCGM_FI_DEV_FB_FREE + on (Hostname) owners",
            'label_replace((DCGM_FI_DEV_FB_FREE_BYTES / 1048576), "Hostname", "$1", "hostname", "(.+)") + on (Hostname) owners',
        ),
        ('owners{Hostname="a"}', None),
        ("sum by (Hostname) (owners)", None),
        # values
        ('h_bucket{le="1"}', 'h_bucket{le="1.0"}'),
        ('h_bucket{le=~"1|5|9"}', r'h_bucket{le=~"1\\.0|5\\.0|9"}'),
        # nothing to change, or nothing to change it to
        ("up == 0", None),
        ("gone > 1", None),
        ("gone + DCGM_FI_DEV_GPU_TEMP", None),
        ('dcgm_other{pod_name="a"}', None),
        ('dcgm_other{pod_name!="a",Hostname="b"}', 'dcgm_other{pod_name!="a",hostname="b"}'),
        ("sum by (pod_name) (dcgm_other)", None),
        ("sum(", None),
    ],
)
def test_an_expression_is_rewritten(expr: str, expected: str | None) -> None:
    assert rewrite(expr, CHANGES) == expected
    assert expected is None or objection(expected) == ""


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)", "label_values(DCGM_FI_DEV_GPU_TEMP_CELSIUS, hostname)"),
        ('label_values(dcgm_other{gpu="$gpu"}, Hostname)', 'label_values(dcgm_other{gpu="$gpu"}, hostname)'),
        ("label_values(owners, Hostname)", None),
        ("label_values(dcgm_other, pod_name)", None),
        ('DCGM_FI_DEV_GPU_TEMP{Hostname=~"${host:regex}"}', 'DCGM_FI_DEV_GPU_TEMP_CELSIUS{hostname=~"${host:regex}"}'),
        ("rate(energy[$__rate_interval]) > [[limit]]", "(rate(energy[$__rate_interval]) * 1000) > [[limit]]"),
        ('sum by (Hostname, $g) (dcgm_other{$f,a="b"})', 'sum by (hostname, $g) (dcgm_other{$f,a="b"})'),
        ("query_result(max(DCGM_FI_DEV_GPU_TEMP))", "query_result(max(DCGM_FI_DEV_GPU_TEMP_CELSIUS))"),
        ("$metric > 1", None),
        ("label_values(node)", None),
    ],
)
def test_a_dashboard_s_query_keeps_its_variables(expr: str, expected: str | None) -> None:
    assert rewrite_grafana(expr, CHANGES) == expected
