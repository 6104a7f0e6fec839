"""Telltale's own alerts and dashboard ask only for metrics that it exports."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import yaml

from functions.evidence import dashboards, rules
from functions.promql import read, read_grafana
from functions.store import Store
from functions.store.embedded import EmbeddedServer
from triggers.serve import Meters

FOLDER = Path(__file__).resolve().parents[2] / "deploy/knative/monitoring"


async def exported(folder: Path) -> set[str]:
    """Names that the metrics page can show: its own, and the store's gauges."""
    async with EmbeddedServer(folder) as server:
        store = await Store.open(server.url, "lab")
        await store.notes.beat("tick", datetime.now(UTC))
        gauges = await store.gauges(datetime.now(UTC))
        await store.close()
    # open findings are there once there is one
    own = {f"{metric.name}_total" for metric in Meters().registry.collect()}
    return {f"telltale_{name}" for name in gauges} | own | {"telltale_store_up", "telltale_open_findings"}


async def test_rules_and_dashboard_ask_only_for_what_is_exported(tmp_path: Path) -> None:
    names = await exported(tmp_path)
    queries = [read(r.expr) for r in rules.from_yaml((FOLDER / "prometheusrule.yaml").read_text(), "rule")]
    board = dashboards.from_json((FOLDER / "dashboard.json").read_text(), "dashboard")
    queries += [read_grafana(q.expr) for q in board.queries]
    assert len(queries) >= 10
    for query in queries:
        assert not query.error, query
        assert query.selectors, query
        assert {use.selector.name for use in query.selectors} <= names, query


def test_every_alert_has_a_section_in_the_handbook() -> None:
    handbook = (FOLDER.parents[2] / "docs/knative.md").read_text()
    document = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())
    for rule in document["spec"]["groups"][0]["rules"]:
        assert re.search(rf"^### {rule['alert']}$", handbook, re.MULTILINE), rule["alert"]
    assert json.loads((FOLDER / "dashboard.json").read_text())["uid"] == "telltale"
