"""Grafana dashboards from files, the API's envelope and ConfigMaps. What can't be read in one is listed, not dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from functions.contract.rules import Dashboard, PanelQuery

Raw = Mapping[str, Any]


def from_json(text: str | bytes, origin: str) -> Dashboard:
    """A bare dashboard or the API's {"dashboard": …}. Raises ValueError with `origin` where it is none."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{origin}: not JSON: {error}") from None
    if isinstance(document, Mapping) and isinstance(document.get("dashboard"), Mapping):
        document = document["dashboard"]
    if not isinstance(document, Mapping) or not ("panels" in document or "rows" in document or "title" in document):
        raise ValueError(f"{origin}: not a dashboard")
    unreadable: list[tuple[str, str]] = []
    queries = [*_panels(document, unreadable), *_variables(document, unreadable), *_annotations(document)]
    title = str(document.get("title") or origin)
    return Dashboard(title, str(document.get("uid") or ""), origin, tuple(queries), tuple(unreadable))


def from_configmap(raw: Raw) -> tuple[Dashboard, ...]:
    """The dashboards in a ConfigMap's JSON files; a file that is none is passed over (sidecars mount anything)."""
    metadata = raw.get("metadata") or {}
    found = []
    for name, text in (raw.get("data") or {}).items():
        if str(name).endswith(".json") and isinstance(text, str):
            try:
                found.append(from_json(text, f"ConfigMap/{metadata.get('namespace', '')}/{metadata.get('name', '')}/{name}"))
            except ValueError:
                continue
    return tuple(found)


def _list(value: Any) -> list[Raw]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _panels(holder: Raw, unreadable: list[tuple[str, str]]) -> Iterator[PanelQuery]:
    """Panels, nested ones and those of the old `rows` included."""
    for row in _list(holder.get("rows")):
        yield from _panels(row, unreadable)
    for panel in _list(holder.get("panels")):
        title = str(panel.get("title") or f"panel {panel.get('id', '?')}")
        library = panel.get("libraryPanel")
        if isinstance(library, Mapping) and isinstance(library.get("model"), Mapping):
            panel = {**library["model"], **{k: v for k, v in panel.items() if k != "libraryPanel"}}
        elif isinstance(library, Mapping) and not panel.get("targets"):
            unreadable.append(
                (title, f"a library panel ({library.get('name') or library.get('uid')}), whose queries are not in the dashboard")
            )
        unit = _get(panel, "fieldConfig", "defaults", "unit")
        for target in _list(panel.get("targets")):
            if isinstance(target.get("expr"), str) and target["expr"].strip() and _is_prometheus(target, panel):
                legend = target.get("legendFormat")
                yield PanelQuery(
                    title, "panel", target["expr"], legend if isinstance(legend, str) else "", unit if isinstance(unit, str) else ""
                )
        yield from _panels(panel, unreadable)


def _variables(document: Raw, unreadable: list[tuple[str, str]]) -> Iterator[PanelQuery]:
    for variable in _list(_get(document, "templating", "list")):
        if variable.get("type") != "query" or not _is_prometheus(variable, {}):
            continue
        query: Any = variable.get("query")
        if isinstance(query, Mapping):
            query = query.get("query") or query.get("expr")
        query = query or variable.get("definition")
        name = str(variable.get("name") or "?")
        if isinstance(query, str) and query.strip():
            if not query.strip().startswith("label_names("):
                yield PanelQuery(name, "variable", query)
        else:
            unreadable.append((name, "a variable without a query that can be read"))


def _annotations(document: Raw) -> Iterator[PanelQuery]:
    for annotation in _list(_get(document, "annotations", "list")):
        expr = annotation.get("expr") or _get(annotation, "target", "expr")
        if isinstance(expr, str) and expr.strip() and _is_prometheus(annotation, {}):
            yield PanelQuery(str(annotation.get("name") or "?"), "annotation", expr)


def _is_prometheus(item: Raw, panel: Raw) -> bool:
    """Whether a query goes to a Prometheus: so unless its data source says another type."""
    source = item.get("datasource") or panel.get("datasource")
    kind = source.get("type") if isinstance(source, Mapping) else None
    return kind in (None, "", "prometheus", "-- Mixed --", "mixed") or "prometheus" in str(kind)


def _get(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
