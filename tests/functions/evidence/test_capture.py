"""A bundle written from live sources: what is in it, what is never in it, and what it says it leaves out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from functions.contract.facts import Known, Missing, Why, Windows
from functions.contract.policy import Policy
from functions.contract.rules import Rule, RuleKind
from functions.contract.signals import Subject, Trigger, TriggerKind
from functions.contract.telemetry import Target
from functions.evidence.bundle.capture import About, Captured, CaptureError, Limits, capture
from functions.evidence.masking import Masks
from functions.evidence.sources import Metadata
from functions.knowledge import load
from tests.support.memory_metrics import MemoryMetrics, series

NOW = datetime(2026, 11, 1, 10, 30, tzinfo=UTC)
BEFORE = NOW - timedelta(minutes=30)
TRIGGER = Trigger(TriggerKind.ROLLOUT, "complete", Subject("DaemonSet", "exporter", "gpu"))
LINES = 'up 1\nscrape_samples_scraped 2\nDCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",owner="ann@example.com"} 90\nDCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1"} NaN\n'


class Objects:
    def __init__(self, *held: dict[str, Any]) -> None:
        self.held = held
        self.kinds: set[str] = set()

    async def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Any:
        self.kinds.add(kind)
        if kind == "Event":
            return Missing(Why.UNAUTHORISED, "may not list events", kind)
        key = labels.partition("=")[0]
        found = [o for o in self.held if o["kind"] == kind and (not key or key in o["metadata"].get("labels", {}))]
        return Known(tuple(found), NOW, f"kubernetes {kind}")


def metrics(**options: Any) -> MemoryMetrics:
    held = series(LINES, job="dcgm", instance="n1")
    target = Target("dcgm", "n1", {"job": "dcgm", "instance": "n1"}, up=True, honor_labels=True, interval=15.0, scraped_at=NOW)
    rule = Rule(RuleKind.ALERT, "Hot", "gpu", "DCGM_FI_DEV_GPU_TEMP > 90", 60.0, {"severity": "page"}, {"summary": "ask ann@example.com"})
    known = {("", "DCGM_FI_DEV_GPU_UTIL"): Metadata("gauge", "Busy share.")}
    defaults: dict[str, Any] = {"targets": [target], "rules": [rule], "metadata": known}
    return MemoryMetrics({BEFORE: held, NOW: held}, **(defaults | options))


async def captured(source: MemoryMetrics, directory: Path, objects: Objects | None = None, **options: Any) -> Captured:
    about = About("lab", Windows(BEFORE, NOW), TRIGGER)
    return await capture(source, objects, directory, about=about, knowledge=load(), policy=options.pop("policy", Policy()), **options)


async def test_a_bundle_holds_series_targets_and_rules_of_what_matters(tmp_path: Path) -> None:
    await captured(metrics(), tmp_path / "b")
    described = yaml.safe_load((tmp_path / "b/bundle.yaml").read_text())
    assert described["cluster"] == "lab"
    assert described["trigger"]["subject"]["name"] == "exporter"
    assert described["jobs"] == ["dcgm"]
    assert (datetime.fromisoformat(described["baseline"]), datetime.fromisoformat(described["current"])) == (BEFORE, NOW)
    after = (tmp_path / "b/metrics/after/dcgm.prom").read_text()
    assert "# TYPE DCGM_FI_DEV_GPU_UTIL gauge" in after
    assert 'DCGM_FI_DEV_FB_USED{UUID="GPU-1",gpu="0",instance="n1",job="dcgm"} NaN' in after
    assert 'up{instance="n1",job="dcgm"} 1.0' in after
    assert (tmp_path / "b/metrics/before/dcgm.prom").exists()
    (target,) = json.loads((tmp_path / "b/targets/after.json").read_text())["data"]["activeTargets"]
    assert (target["health"], target["honorLabels"], target["scrapeInterval"]) == ("up", True, "15s")
    (group,) = yaml.safe_load((tmp_path / "b/rules/loaded.yaml").read_text())["groups"]
    assert group["rules"][0] | {"annotations": {}} == {
        "alert": "Hot",
        "expr": "DCGM_FI_DEV_GPU_TEMP > 90",
        "for": "60000ms",
        "labels": {"severity": "page"},
        "annotations": {},
    }


async def test_nothing_personal_or_secret_is_written(tmp_path: Path) -> None:
    container = {
        "name": "c",
        "image": "trainer",
        "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "DCGM_EXPORTER_LISTEN", "value": ":9400"}],
        "args": ["--api-key=abcdef123456", "--user", "bob@corp.example"],
    }
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "ml",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "note": "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln"},
        },
        "spec": {"containers": [container]},
    }
    board = {
        "kind": "ConfigMap",
        "metadata": {"name": "gpu", "namespace": "mon", "labels": {"grafana_dashboard": "1"}},
        "data": {"gpu.json": '{"title":"GPU","annotations":"https://user:pw123456@grafana"}'},
    }
    objects = Objects(pod, board)
    await captured(metrics(), tmp_path / "b", objects)
    text = "".join(path.read_text() for path in (tmp_path / "b").rglob("*") if path.is_file())
    for secret in ("hunter2", "abcdef123456", "bob@corp", "ann@example", "eyJhbGci", "pw123456", "managedFields"):
        assert secret not in text
    assert ":9400" in text
    assert "Secret" not in objects.kinds


async def test_what_could_not_be_read_is_said(tmp_path: Path) -> None:
    bundle = await captured(metrics(fails=lambda name: name == "rules"), tmp_path / "b", Objects())
    assert {what for what, _ in bundle.left_out} == {"rules", "kubernetes Event"}
    assert "# left out: rules: rules timed out" in (tmp_path / "b/bundle.yaml").read_text()


async def test_a_job_that_does_not_fit_is_left_out_whole(tmp_path: Path) -> None:
    big = [s for n in range(20) for s in series(LINES, job="big", instance=f"n{n}")]
    small = series(LINES, job="dcgm", instance="n1")
    source = MemoryMetrics({BEFORE: small + series(LINES, job="big", instance="n1"), NOW: small + big})
    bundle = await captured(source, tmp_path / "b", limits=Limits(series=30))
    assert bundle.jobs == {"dcgm"}
    assert [what for what, _ in bundle.left_out if what.startswith("job")] == ["job big"]
    assert not list((tmp_path / "b").rglob("big.prom"))


async def test_a_window_that_could_not_be_read_has_no_file(tmp_path: Path) -> None:
    source = metrics()
    source.moments = {NOW: source.moments[NOW]}
    await captured(source, tmp_path / "b")
    assert not (tmp_path / "b/metrics/before").exists()
    assert "baseline" not in yaml.safe_load((tmp_path / "b/bundle.yaml").read_text())


async def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(CaptureError, match="not empty"):
        await captured(metrics(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_masked_values_stay_apart_and_keep_their_kind() -> None:
    masks = Masks((r"customer-\d+",))
    one, two = masks.text("ann@example.com"), masks.text("bob@example.com")
    assert one != two
    assert one.endswith("@masked.invalid")
    assert masks.text("ghp_abcdefghijklmnopqrstuvwxyz012345").startswith("ghp_")
    assert len(masks.text("ghp_abcdefghijklmnopqrstuvwxyz012345")) == len("ghp_abcdefghijklmnopqrstuvwxyz012345")
    assert masks.text("customer-42").startswith("masked-")
    assert masks.text("GPU-817340a9-1fcf-4898-a748-5a95e59afa04") == "GPU-817340a9-1fcf-4898-a748-5a95e59afa04"
