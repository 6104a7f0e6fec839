"""The same bodies, scraped by a real Prometheus and read from a bundle, make the same facts; so does a captured bundle."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from functions.contract.facts import Facts, Known, Windows
from functions.contract.policy import Policy
from functions.contract.signals import Scope
from functions.evidence import kept
from functions.evidence.bundle.capture import About, capture
from functions.evidence.bundle.reading import Bundle
from functions.evidence.gather import gather
from functions.evidence.prometheus.source import Access, PrometheusSource
from functions.knowledge import load
from tests.support.exporters import exporters
from tests.support.prometheus import BINARIES, job, prometheus

pytestmark = pytest.mark.real

DEVICE = 'gpu="0",UUID="GPU-{n}",Hostname="{n}",modelName="H200",pod="train-{n}",namespace="ml",container="main"'
BEFORE = """\
# HELP DCGM_FI_DEV_GPU_UTIL Busy share.
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{device}}} 97
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{{{device}}} 350.25
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{{{device}}} 71000
"""
AFTER = """\
# HELP DCGM_FI_DEV_GPU_UTIL Busy share.
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{device}}} 98
# TYPE DCGM_FI_DEV_BOARD_POWER_WATTS gauge
DCGM_FI_DEV_BOARD_POWER_WATTS{{{device}}} 351.5
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{{{device}}} 9223372036854775794
"""
ENGINE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="m"} 3
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 4
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 2.5
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 4
"""
RULES = """\
groups:
- name: gpu
  rules:
  - {alert: Busy, expr: 'DCGM_FI_DEV_GPU_UTIL{Hostname="n1"} > 200', for: 1m}
  - {alert: Power, expr: 'DCGM_FI_DEV_POWER_USAGE > 700'}
"""
TARGETS = {
    "n1": {"namespace": "gpu", "pod": "exp-1", "container": "exporter", "node": "n1"},
    "n2": {"namespace": "gpu", "pod": "exp-2", "container": "exporter", "node": "n2"},
}
LIVE = (
    "schema",
    "schema_before",
    "devices",
    "devices_before",
    "readings",
    "extremes",
    "partial_losses",
    "label_values",
    "label_values_before",
    "selectors",
)


def body(template: str, name: str, host: str = "Hostname") -> str:
    return template.format(device=DEVICE.format(n=name).replace("Hostname", host))


def bodies() -> dict[str, dict[str, str]]:
    """window -> target -> body. One exporter is upgraded; one is not."""
    return {
        "before": {"n1": body(BEFORE, "n1"), "n2": body(BEFORE, "n2"), "v1": ENGINE},
        "after": {"n1": body(AFTER, "n1", "hostname"), "n2": body(BEFORE, "n2"), "v1": ENGINE},
    }


def recorded(directory: Path, windows: Windows) -> Bundle:
    """The bodies as a person would copy them into a bundle."""
    assert windows.baseline
    for window, targets in bodies().items():
        text = ""
        for name, exposed in targets.items():
            name_of_job = "vllm" if name == "v1" else "dcgm"
            labels = {"job": name_of_job, "instance": name, **TARGETS.get(name, {})}
            text += "# TARGET " + " ".join(f'{k}="{v}"' for k, v in labels.items()) + "\n" + exposed
        path = directory / "metrics" / window / "all.prom"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (directory / "rules").mkdir()
    (directory / "rules/rules.yaml").write_text(RULES)
    (directory / "bundle.yaml").write_text(f"baseline: {windows.baseline.isoformat()}\ncurrent: {windows.current.isoformat()}\n")
    return Bundle.read(directory)


async def facts_of(metrics: Any, windows: Windows, jobs: frozenset[str] | None, objects: Any = None) -> Facts:
    return await gather(metrics, objects, windows=windows, needs=Facts.names(), scope=Scope(), knowledge=load(), policy=Policy(), jobs=jobs)


def comparable(facts: Facts, name: str) -> Any:
    """A fact without what only one side can know: the types of the baseline, and scrape settings."""
    fact = facts.fact(name)
    assert isinstance(fact, Known), (name, fact)
    items = list(fact.value)
    if name.startswith("schema"):
        # a server keeps no HELP of the past, and tells histograms by their shape alone
        items = [replace(m, type="", help="", unit="") if name.endswith("before") else m for m in items]
    if name.startswith("devices"):
        items = [replace(d, honor_labels=None) for d in items]
    if name == "readings":
        items = [replace(r, source=replace(r.source, honor_labels=None)) for r in items]
    return sorted(items, key=repr)


@pytest.mark.parametrize("binary", sorted(BINARIES))
async def test_a_live_server_a_recording_and_a_capture_make_the_same_facts(binary: str, tmp_path: Path) -> None:
    held = bodies()
    async with exporters(held["before"]) as fleet:
        scrape = [job("dcgm", fleet, *TARGETS.items()), job("vllm", fleet, "v1"), job("other", fleet, "v2")]
        fleet.serve("v2", "something_else 1\n")
        async with prometheus(scrape, rules=RULES, binary=BINARIES[binary]) as server:
            await server.scraped(2)
            baseline = datetime.now(UTC)
            for name, exposed in held["after"].items():
                fleet.serve(name, exposed)
            await asyncio.sleep(1)
            await server.scraped(2)
            windows = Windows(baseline, datetime.now(UTC))
            source = PrometheusSource(server.url, Access(timeout=10))
            live = await facts_of(source, windows, None)
            captured = await capture(source, None, tmp_path / "captured", about=About("lab", windows), knowledge=load(), policy=Policy())
            source.close()
    assert captured.jobs == {"dcgm", "vllm"}
    bundle = recorded(tmp_path / "recorded", windows)
    offline = await facts_of(bundle.metrics, windows, bundle.jobs)
    again = Bundle.read(tmp_path / "captured")
    replayed = await facts_of(again.metrics, windows, again.jobs)
    for name in LIVE:
        assert comparable(live, name) == comparable(offline, name), name
        assert comparable(live, name) == comparable(replayed, name), name
    assert {(t.job, t.instance, t.up, t.samples) for t in live.targets.value} == {  # type: ignore[union-attr]
        (t.job, t.instance, t.up, t.samples)
        for t in offline.targets.value  # type: ignore[union-attr]
    }
    assert live.cost["queries"] <= 30


async def test_texts_that_an_audit_kept_are_those_of_a_later_audits_baseline() -> None:
    """A name that a rename took away is no longer among what a server describes."""
    async with exporters({"n1": body(BEFORE, "n1")}) as fleet, prometheus([job("dcgm", fleet, "n1")]) as server:
        await server.scraped(2)
        source = PrometheusSource(server.url, Access(timeout=10))
        texts = kept.texts_of(await facts_of(source, Windows(None, datetime.now(UTC)), None))
        assert texts
        baseline = datetime.now(UTC)
        fleet.serve("n1", body(AFTER, "n1"))
        await asyncio.sleep(1)
        await server.scraped(2)
        windows = Windows(baseline, datetime.now(UTC))
        remembered = kept.Remembered(texts=kept.unpacked_texts(kept.packed(texts)))
        facts = await gather(
            source, None, windows=windows, needs=Facts.names(), scope=Scope(), knowledge=load(), policy=Policy(), remembered=remembered
        )
        source.close()
    assert isinstance(facts.schema_before, Known)
    told = {m.name: (m.type, m.help) for m in facts.schema_before.value if m.name.startswith("DCGM_")}
    assert told == {
        "DCGM_FI_DEV_GPU_UTIL": ("gauge", "Busy share."),
        "DCGM_FI_DEV_POWER_USAGE": ("gauge", ""),
        "DCGM_FI_DEV_FB_USED": ("gauge", ""),
    }
