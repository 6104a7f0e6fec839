"""Grafana dashboards from files, the API's envelope and ConfigMaps. What can't be read in one is listed, not dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from functions.contract.rules import Dashboard, PanelQuery
from functions.evidence.dashboard_sources import Sources

Raw = Mapping[str, Any]

#: Panels that show no query of their own.
_SILENT = frozenset({"row", "text", "dashlist", "alertlist", "news", "welcome", "annolist"})
#: How deep rows may hold panels that hold panels.
_DEEPEST = 20


def from_json(text: str | bytes, origin: str) -> Dashboard:
    """A bare dashboard, the API's {"dashboard": …}, or an object with a dashboard as its spec.

    Raises ValueError with `origin` where it is none.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{origin}:{error.lineno}: not JSON: {error.msg}") from None
    document = _unwrapped(document)
    if document is None:
        raise ValueError(f"{origin}: not a dashboard")
    reader = _Reader(document)
    queries = (*reader.panels(document, 0), *reader.variables(), *reader.annotations())
    return Dashboard(str(document.get("title") or origin), str(document.get("uid") or ""), origin, queries, tuple(reader.unreadable))


def from_configmap(raw: Raw) -> tuple[Dashboard, ...]:
    """The dashboards in a ConfigMap's JSON files. JSON that is no dashboard is passed over: sidecars mount anything."""
    metadata, data = raw.get("metadata"), raw.get("data")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    found = []
    for name, text in sorted(data.items()) if isinstance(data, Mapping) else ():
        if not str(name).endswith(".json") or not isinstance(text, str):
            continue
        origin = f"ConfigMap/{metadata.get('namespace', '')}/{metadata.get('name', '')}/{name}"
        try:
            found.append(from_json(text, origin))
        except ValueError as error:
            if "not JSON" in str(error):
                found.append(Dashboard(str(name), "", origin, (), ((str(name), str(error)),)))
    return tuple(found)


def _unwrapped(document: Any) -> Raw | None:
    """The dashboard itself, out of whatever holds it."""
    for key in ("dashboard", "spec"):
        if isinstance(document, Mapping) and isinstance(document.get(key), Mapping):
            document = document[key]
    if isinstance(document, Mapping) and isinstance(document.get("json"), str) and "panels" not in document:
        try:  # the text in a GrafanaDashboard object
            document = orjson.loads(document["json"])
        except orjson.JSONDecodeError:
            return None
    known = isinstance(document, Mapping) and any(key in document for key in ("panels", "rows", "elements", "templating"))
    return document if known or (isinstance(document, Mapping) and "title" in document and "schemaVersion" in document) else None


class _Reader:
    """Walks one dashboard."""

    def __init__(self, document: Raw) -> None:
        self.document = document
        self.sources = Sources(document)
        self.unreadable: list[tuple[str, str]] = []
        self._titles: dict[str, int] = {}
        elements = document.get("__elements")
        held = elements.values() if isinstance(elements, Mapping) else _mappings(elements)
        self._library = {str(e.get("uid")): e["model"] for e in held if isinstance(e, Mapping) and isinstance(e.get("model"), Mapping)}
        if isinstance(document.get("elements"), Mapping):
            self.unreadable.append(("dashboard", "it is of schema version 2, whose elements are not read"))

    def panels(self, holder: Raw, depth: int) -> Iterator[PanelQuery]:
        """Panels, nested ones and those of the old `rows` included."""
        if depth > _DEEPEST:
            self.unreadable.append((self._titled(holder), "panels nested too deep"))
            return
        for row in _mappings(holder.get("rows")):
            yield from self.panels(row, depth + 1)
        for panel in _mappings(holder.get("panels")):
            panel = self._whole(panel)
            if str(panel.get("type")) not in _SILENT:
                yield from self._queries(panel)
            yield from self.panels(panel, depth + 1)

    def _whole(self, panel: Raw) -> Raw:
        """A library panel with its model, where the dashboard has it."""
        library = panel.get("libraryPanel")
        if not isinstance(library, Mapping):
            return panel
        model = library.get("model") or self._library.get(str(library.get("uid")))
        if isinstance(model, Mapping):
            return {**model, **{key: value for key, value in panel.items() if key != "libraryPanel"}}
        if not panel.get("targets"):
            name = library.get("name") or library.get("uid")
            self.unreadable.append((self._titled(panel), f"a library panel ({name}), whose queries are not in the dashboard"))
        return panel

    def _queries(self, panel: Raw) -> Iterator[PanelQuery]:
        targets = _mappings(panel.get("targets"))
        # a hidden query counts where an expression computes with it
        computed = any(_get(t, "datasource", "type") == "__expr__" or _get(t, "datasource", "uid") == "__expr__" for t in targets)
        shown = [t for t in targets if computed or not t.get("hide")]
        found = []
        for target in shown:
            expr, legend = target.get("expr"), target.get("legendFormat")
            if self.sources.prometheus(target.get("datasource"), panel.get("datasource")) and isinstance(expr, str) and expr.strip():
                found.append((expr, legend if isinstance(legend, str) else ""))
        if found:
            where, unit = self._unique(self._titled(panel)), _unit(panel)
            yield from (PanelQuery(where, "panel", expr, legend, unit) for expr, legend in found)

    def variables(self) -> Iterator[PanelQuery]:
        for variable in _mappings(_get(self.document, "templating", "list")):
            if variable.get("type") != "query" or not self.sources.prometheus(variable.get("datasource")):
                continue
            query: Any = variable.get("query")
            if isinstance(query, Mapping):
                query = query.get("query") or query.get("expr")
            query = query or variable.get("definition")
            name = str(variable.get("name") or "?")
            if isinstance(query, str) and query.strip():
                yield PanelQuery(name, "variable", query)
            else:
                self.unreadable.append((name, "a variable without a query that can be read"))

    def annotations(self) -> Iterator[PanelQuery]:
        for annotation in _mappings(_get(self.document, "annotations", "list")):
            expr = annotation.get("expr") or _get(annotation, "target", "expr")
            live = annotation.get("enable") is not False and self.sources.prometheus(annotation.get("datasource"))
            if live and isinstance(expr, str) and expr.strip():
                yield PanelQuery(str(annotation.get("name") or "?"), "annotation", expr, str(annotation.get("titleFormat") or ""))

    def _titled(self, panel: Raw) -> str:
        return str(panel.get("title") or f"panel {panel.get('id', '?')}")

    def _unique(self, title: str) -> str:
        """Panels of one title are told apart, since they are counted."""
        self._titles[title] = self._titles.get(title, 0) + 1
        return title if self._titles[title] == 1 else f"{title} ({self._titles[title]})"


def _unit(panel: Raw) -> str:
    """The unit of a panel, as today's schema or an old one says it."""
    axes = _mappings(panel.get("yaxes"))
    said = (_get(panel, "fieldConfig", "defaults", "unit"), axes[0].get("format") if axes else None, panel.get("format"))
    return next((unit for unit in said if isinstance(unit, str) and unit), "")


def _mappings(value: Any) -> list[Raw]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _get(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
