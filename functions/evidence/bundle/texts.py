"""The files of a bundle as texts: stored series, targets, rules, Kubernetes objects. Pure; see BUNDLE.md for the format."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from functions.contract.rules import Rule, RuleKind
from functions.contract.telemetry import MetricSchema, Row, Target
from functions.evidence.masking import Masks

Raw = Mapping[str, Any]

#: Environment variables whose values say how an exporter works. The value of any other stays where it is.
_SETTINGS = re.compile(r"(DCGM|NVIDIA|KUBERNETES|NODE_NAME|HOSTNAME|OTEL_(SERVICE|RESOURCE|TRACES|METRICS|PROPAGATORS)|VLLM_(LOG|TRAC))\w*")
_UNREAD_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/desired-replicas")


def prom(rows: Iterable[Row], schema: Iterable[MetricSchema], masks: Masks) -> str:
    """Series as they are stored, with the TYPE and HELP lines that are known."""
    described = {metric.name: metric for metric in schema}
    lines: list[str] = []
    families: set[str] = set()
    for row in sorted(rows, key=lambda r: (r.labels.get("__name__", ""), sorted(r.labels.items()))):
        name = row.labels.get("__name__", "")
        metric = described.get(name)
        if metric and metric.family not in families:
            families.add(metric.family)
            if metric.help:
                lines.append(f"# HELP {metric.family} {_help(masks.text(metric.help))}")
            if metric.type:
                lines.append(f"# TYPE {metric.family} {metric.type}")
        labels = ",".join(f'{key}="{_escaped(masks.text(value))}"' for key, value in sorted(row.labels.items()) if key != "__name__")
        lines.append(f"{name}{{{labels}}} {_number(row.value)}" if labels else f"{name} {_number(row.value)}")
    return "\n".join(lines) + "\n"


def targets(held: Iterable[Target], masks: Masks) -> str:
    """An answer of GET /api/v1/targets. `honorLabels` is beside what a server answers."""
    active = [
        {
            "discoveredLabels": {},
            "labels": {key: masks.text(value) for key, value in target.labels.items()},
            "scrapePool": target.job,
            "scrapeUrl": masks.text(target.url),
            "lastError": masks.text(target.error),
            "lastScrape": target.scraped_at.isoformat().replace("+00:00", "Z") if target.scraped_at else "0001-01-01T00:00:00Z",
            "lastScrapeDuration": target.duration or 0,
            "health": "up" if target.up else "down",
            **({"scrapeInterval": f"{target.interval:g}s"} if target.interval is not None else {}),
            **({"scrapeTimeout": f"{target.timeout:g}s"} if target.timeout is not None else {}),
            **({"honorLabels": target.honor_labels} if target.honor_labels is not None else {}),
        }
        for target in held
    ]
    return _json({"status": "success", "data": {"activeTargets": active, "droppedTargets": []}})


def rules(held: Iterable[Rule], masks: Masks) -> str:
    """A Prometheus rule file with every rule in its group."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for rule in held:
        entry: dict[str, Any] = {"alert" if rule.kind is RuleKind.ALERT else "record": rule.name, "expr": rule.expr}
        if rule.duration:
            entry["for"] = f"{round(rule.duration * 1000)}ms"
        if rule.labels:
            entry["labels"] = dict(rule.labels)
        if rule.annotations:
            entry["annotations"] = masks.tree(rule.annotations)
        groups.setdefault(rule.group or "rules", []).append(entry)
    return yaml.safe_dump({"groups": [{"name": name, "rules": entries} for name, entries in groups.items()]}, sort_keys=False)


def objects(held: Iterable[Raw], masks: Masks) -> str:
    """A List of objects, reduced and masked."""
    return _json({"apiVersion": "v1", "kind": "List", "items": [masks.tree(reduced(raw)) for raw in held]})


def reduced(raw: Raw) -> dict[str, Any]:
    """An object without what no audit reads and without values that may be secret."""
    kept = {key: value for key, value in raw.items() if key != "metadata"}
    metadata = {key: value for key, value in (raw.get("metadata") or {}).items() if key not in ("managedFields", "selfLink")}
    if isinstance(annotations := metadata.get("annotations"), Mapping):
        metadata["annotations"] = {key: value for key, value in annotations.items() if key not in _UNREAD_ANNOTATIONS}
    kept["metadata"] = metadata
    if raw.get("kind") == "Node" and isinstance(status := kept.get("status"), Mapping):
        kept["status"] = {key: value for key, value in status.items() if key not in ("images", "volumesInUse", "volumesAttached")}
    return {key: _without_values(value) for key, value in kept.items()}


def _without_values(value: Any) -> Any:
    """Every `env` in the tree without its values, except settings of exporters."""
    if isinstance(value, Mapping):
        return {key: _env(held) if key == "env" and isinstance(held, list) else _without_values(held) for key, held in value.items()}
    return [_without_values(item) for item in value] if isinstance(value, list) else value


def _env(entries: list[Any]) -> list[Any]:
    kept = []
    for entry in entries:
        if isinstance(entry, Mapping) and "value" in entry and not _SETTINGS.fullmatch(str(entry.get("name", ""))):
            kept.append({key: "" if key == "value" else held for key, held in entry.items()})
        else:
            kept.append(entry)
    return kept


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")
