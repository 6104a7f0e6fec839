"""Suggested expressions: the reader's own text with new names, labels, values, and the old scale."""

from __future__ import annotations

import pytest

from functions.checks._rename_suggest import Rewriting, suggest

CHANGE = Rewriting(
    names={
        "TEMP": ("TEMP_CELSIUS", ""),
        "FB_FREE": ("FB_FREE_BYTES", ""),
        "ENERGY": ("ENERGY_JOULES_TOTAL", ""),
        "tpot_bucket": ("itl_bucket", ""),
        "disks_active": ("disks", 'state="active"'),
    },
    factors={"FB_FREE": 1048576.0, "ENERGY": 0.001, "TEMP": 1.0},
    labels=(("Hostname", "hostname", frozenset({"TEMP", "TEMP_CELSIUS", "POWER"})),),
    values={("le", "1"): "1.0"},
)


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        ("TEMP > 85", "TEMP_CELSIUS > 85"),
        ("FB_FREE < 1024", "(FB_FREE_BYTES / 1048576) < 1024"),
        ('FB_FREE{gpu="0"} < 1024', '(FB_FREE_BYTES{gpu="0"} / 1048576) < 1024'),
        ("sum(rate(ENERGY[5m])) by (gpu)", "sum((rate(ENERGY_JOULES_TOTAL[5m]) / 0.001)) by (gpu)"),
        ("max by (Hostname, gpu) (TEMP)", "max by (hostname, gpu) (TEMP_CELSIUS)"),
        ('POWER{Hostname=~"$host"}', 'POWER{hostname=~"$host"}'),
        ("label_values(TEMP, Hostname)", "label_values(TEMP_CELSIUS, hostname)"),
        (
            'max by (Hostname) (TEMP) * on (Hostname) group_left (rack) label_replace(kube_node, "Hostname", "$1", "node", "(.*)")',
            'max by (hostname) (TEMP_CELSIUS) * on (hostname) group_left (rack) label_replace(kube_node, "hostname", "$1", "node", "(.*)")',
        ),
        (
            "histogram_quantile(0.95, sum by (le) (rate(tpot_bucket[$__rate_interval])))",
            "histogram_quantile(0.95, sum by (le) (rate(itl_bucket[$__rate_interval])))",
        ),
        ("disks_active < 1", 'disks{state="active"} < 1'),
        ('disks_active{device="md0"} < 1', 'disks{state="active",device="md0"} < 1'),
        ('wait_bucket{le="1"} > 5', 'wait_bucket{le="1.0"} > 5'),
        ('wait_bucket{le=~"1|10"} > 5', 'wait_bucket{le=~"1.0|10"} > 5'),
    ],
)
def test_an_expression_is_rewritten_for_what_is_stored_now(expr: str, wanted: str) -> None:
    assert suggest(expr, CHANGE) == wanted


@pytest.mark.parametrize(
    "expr",
    [
        "other_metric > 1",
        'other{Hostname="x"} > 1',
        'sum by (Hostname) (other_metric{name="TEMP"})',
        "",
        "# TEMP is hot\nother > 1",
    ],
)
def test_what_does_not_change_has_no_suggestion(expr: str) -> None:
    assert suggest(expr, CHANGE) is None


@pytest.mark.parametrize("expr", ["TEMP{", 'TEMP{a="b', "rate(FB_FREE[5m", "FB_FREE[5m]", "}}}((TEMP"])
def test_a_broken_expression_does_not_break_the_suggestion(expr: str) -> None:
    suggest(expr, CHANGE)
