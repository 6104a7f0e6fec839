"""A suggestion over the new series answers what the author's expression answered over the old ones: promtool is the judge."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from functions.promql import Changes, LabelChange, MetricChange, rewrite

CHANGES = Changes(
    (
        MetricChange("free", "free_bytes", 1048576),
        MetricChange("util", "util_ratio", 0.01),
        MetricChange("energy", "energy_joules_total", 0.001),
        MetricChange("wait_seconds", "wait_milliseconds", 1000),
        MetricChange("active", 'disks{state="active"}'),
    ),
    (LabelChange("Hostname", "hostname", frozenset({"free", "util", "energy"})),),
)
#: Old and new series side by side; both are at hand at once, under different names.
SERIES = {
    'free{Hostname="a",gpu="0"}': "512+0x30",
    'free_bytes{hostname="a",gpu="0"}': f"{512 * 1048576}+0x30",
    'free{Hostname="b",gpu="1"}': "4096+0x30",
    'free_bytes{hostname="b",gpu="1"}': f"{4096 * 1048576}+0x30",
    'util{Hostname="a",gpu="0"}': "10+2x30",
    'util_ratio{hostname="a",gpu="0"}': "0.1+0.02x30",
    'energy{Hostname="a",gpu="0"}': "0+60000x30",
    'energy_joules_total{hostname="a",gpu="0"}': "0+60x30",
    'wait_seconds_bucket{le="0.5"}': "0+2x30",
    'wait_seconds_bucket{le="2"}': "0+5x30",
    'wait_seconds_bucket{le="+Inf"}': "0+5x30",
    'wait_milliseconds_bucket{le="500"}': "0+2x30",
    'wait_milliseconds_bucket{le="2000"}': "0+5x30",
    'wait_milliseconds_bucket{le="+Inf"}': "0+5x30",
    "wait_seconds_sum": "0+3x30",
    "wait_milliseconds_sum": "0+3000x30",
    "wait_seconds_count": "0+5x30",
    "wait_milliseconds_count": "0+5x30",
    'active{dev="md0"}': "3+0x30",
    'disks{dev="md0",state="active"}': "3+0x30",
    'disks{dev="md0",state="failed"}': "1+0x30",
    'racks{node="a",rack="r1"}': "1+0x30",
    'owners{Hostname="a",team="t"}': "1+0x30",
}
EXPRESSIONS = [
    "free < 1024",
    'free{Hostname=~"a|b"} offset 1m',
    "sum by (Hostname) (free)",
    "-free ^ 2",
    "free / on (Hostname, gpu) util",
    "avg_over_time(util[5m]) > 15",
    "max_over_time((util > 20)[10m:1m])",
    "stdvar_over_time(util[5m])",
    "changes(util[5m])",
    "rate(energy[5m]) > 500",
    "histogram_quantile(0.9, sum by (le) (rate(wait_seconds_bucket[5m])))",
    "rate(wait_seconds_sum[5m]) / rate(wait_seconds_count[5m])",
    "active > 2",
    'free * on (Hostname) group_left (rack) label_replace(racks, "Hostname", "$1", "node", "(.+)")',
    "rate(energy[5m]) * on (Hostname) group_left (team) owners",
    "free * on (Hostname) group_left (team) owners",
    "count(util > 20)",
    "absent(free)",
]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus' package")
def test_a_suggestion_answers_what_the_author_s_expression_answered(tmp_path: Path) -> None:
    rules, questions = [], []
    for number, expr in enumerate(EXPRESSIONS):
        suggested = rewrite(expr, CHANGES)
        assert suggested, expr
        rules += [{"record": f"was:{number}", "expr": expr}, {"record": f"now:{number}", "expr": suggested}]
        for question in (f"abs(sum(was:{number}) - sum(now:{number})) > 1e-6", f"count(was:{number}) != count(now:{number})"):
            questions.append({"expr": question, "eval_time": "20m", "exp_samples": []})
        # both are empty together, or neither is
        questions.append({"expr": f"was:{number} unless on () now:{number}", "eval_time": "20m", "exp_samples": []})
        questions.append({"expr": f"now:{number} unless on () was:{number}", "eval_time": "20m", "exp_samples": []})
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    series = [{"series": name, "values": values} for name, values in SERIES.items()]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": questions}]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    run = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
