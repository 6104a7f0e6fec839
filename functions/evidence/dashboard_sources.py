"""Which data source a dashboard's query goes to. Only queries that go to a Prometheus are read; others are not broken.

A data source is written in many ways: an object with a type, a name, a variable, an input of an exported dashboard.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Raw = Mapping[str, Any]

#: Types that speak PromQL.
_SPEAKS = re.compile(r"prometheus|^victoriametrics(-metrics)?-datasource$|^mimir$|^thanos$|^cortex$", re.IGNORECASE)
#: Words in a data source's name that say it does not, where nothing but the name is known.
_OTHER = re.compile(
    r"loki|elastic|opensearch|influx|graphite|tempo|jaeger|zipkin|cloudwatch|stackdriver|mysql|postgres|mssql|clickhouse"
    r"|bigquery|testdata|pyroscope|snowflake|azure.monitor|victorialogs|-- grafana --|-- dashboard --|__expr__",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"^(?:\$\{(\w+)(?::\w+)?\}|\$(\w+)|\[\[(\w+)\]\])$")
#: A panel whose queries each name their own source.
_MIXED = "-- Mixed --"


class Sources:
    """The data sources that one dashboard declares."""

    def __init__(self, document: Raw) -> None:
        self._types: dict[str, str] = {}
        for declared in _mappings(document.get("__inputs")):
            if declared.get("type") == "datasource":
                self._types[str(declared.get("name"))] = str(declared.get("pluginId") or "")
        templating = document.get("templating")
        for variable in _mappings(templating.get("list") if isinstance(templating, Mapping) else None):
            if variable.get("type") == "datasource":
                self._types[str(variable.get("name"))] = str(variable.get("query") or "")

    def prometheus(self, *sources: Any) -> bool:
        """Whether a query goes to a Prometheus: the first of these that says something decides; silence means yes."""
        for source in sources:
            if (kind := self._kind(source)) is not None:
                return kind
        return True

    def _kind(self, source: Any) -> bool | None:
        if isinstance(source, Mapping):
            kind, uid = str(source.get("type") or ""), str(source.get("uid") or "")
            if uid == _MIXED:
                return None
            return bool(_SPEAKS.search(kind)) if kind else self._named(uid)
        return self._named(source) if isinstance(source, str) else None

    def _named(self, name: str) -> bool | None:
        if not name or name in (_MIXED, "default", "-- Default --"):
            return None
        if (found := _VARIABLE.match(name)) and (kind := self._types.get(found[1] or found[2] or found[3] or "")):
            return bool(_SPEAKS.search(kind))
        return not _OTHER.search(name)


def _mappings(value: Any) -> list[Raw]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
