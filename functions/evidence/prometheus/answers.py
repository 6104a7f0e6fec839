"""The bodies that a Prometheus API answers with, read into the nouns of the project. Pure.

What a body of another shape raises (KeyError, TypeError, ValueError, AttributeError) is dealt with where it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from functions.contract.facts import Why
from functions.contract.telemetry import Row, Target
from functions.evidence.bundle import targets as bundle_targets
from functions.evidence.prometheus.http import PrometheusError
from functions.evidence.questions import LABEL
from functions.evidence.raw import items
from functions.evidence.sources import Metadata


@dataclass(frozen=True, slots=True)
class RangeSeries:
    """One series of a range query: labels, and (Unix seconds, value)."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Scrape:
    honor_labels: bool | None
    interval: float | None
    timeout: float | None


def rows(body: Mapping[str, Any]) -> tuple[Row, ...]:
    data = body["data"]
    if data["resultType"] != "vector":
        raise PrometheusError(Why.MALFORMED, f"answered a query with a {data['resultType']}")
    return tuple(Row(item["metric"], float(item["value"][1])) for item in data["result"] if "value" in item)


def matrix(body: Mapping[str, Any]) -> tuple[RangeSeries, ...]:
    return tuple(
        RangeSeries(item["metric"], tuple((float(t), float(v)) for t, v in item.get("values", ()))) for item in body["data"]["result"]
    )


def label_rows(body: Mapping[str, Any]) -> tuple[Row, ...]:
    return tuple(Row({LABEL: str(name)}, 1.0) for name in body["data"])


def metadata(body: Mapping[str, Any]) -> Mapping[tuple[str, str], Metadata]:
    found: dict[tuple[str, str], Metadata] = {}
    for name, entries in body["data"].items():
        types = {str(e.get("type") or "") for e in entries} - {"unknown", "untyped", ""}
        helps = [h for e in entries if (h := str(e.get("help") or ""))]
        units = [u for e in entries if (u := str(e.get("unit") or ""))]
        # exporters that disagree about a type: it can't be told whose is whose
        found["", name] = Metadata(types.pop() if len(types) == 1 else "", helps[0] if helps else "", units[0] if units else "")
    return found


def version(body: Mapping[str, Any]) -> str:
    return str(body["data"]["version"])


def build(body: Mapping[str, Any]) -> str:
    """Which server it is and its version, as far as the answer shows: they all speak one API."""
    data = body["data"]
    said = str(data["version"])
    if data.get("application"):  # Mimir
        return f"{data['application']} {said}"
    if not data.get("goVersion"):  # VictoriaMetrics answers with a version of Prometheus that Grafana can live with
        return f"a server that speaks Prometheus' API ({said})"
    return f"{'Thanos' if said.startswith('0.') else 'Prometheus'} {said}"


def scrape_settings(body: Mapping[str, Any]) -> Mapping[str, Scrape]:
    try:
        config = yaml.load(body["data"]["yaml"], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise PrometheusError(Why.MALFORMED, f"its configuration can't be read ({type(error).__name__})") from None
    shared = config.get("global") or {} if isinstance(config, Mapping) else {}
    found = {}
    for job in items(config, "scrape_configs"):
        interval = bundle_targets.seconds(job.get("scrape_interval") or shared.get("scrape_interval"))
        timeout = bundle_targets.seconds(job.get("scrape_timeout") or shared.get("scrape_timeout"))
        found[str(job.get("job_name"))] = Scrape(job.get("honor_labels") is True, interval, timeout)
    return found


def with_scrape(target: Target, scrape: Scrape | None) -> Target:
    if scrape is None:
        return target
    return replace(
        target,
        honor_labels=scrape.honor_labels,
        interval=target.interval if target.interval is not None else scrape.interval,
        timeout=target.timeout if target.timeout is not None else scrape.timeout,
    )
