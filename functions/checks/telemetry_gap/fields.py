"""The field list of an exporter, as the cluster itself states it: which metrics it is configured to export.

dcgm-exporter reads a CSV file (`-f`/`--collectors`/DCGM_EXPORTER_COLLECTORS) that a ConfigMap is mounted over, or a
ConfigMap by name (DCGM_EXPORTER_CONFIGMAP_DATA, `namespace:name`); AMD's exporter reads a JSON file. A list that is
baked into the image is not known here, and nothing is demanded on its account.
"""

from __future__ import annotations

import csv
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from functions.contract.cluster import ConfigMap, Workload

#: A metric or field name as a field list prints it.
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_TYPES = frozenset({"gauge", "counter", "histogram", "summary", "label", "untyped"})
_FLAGS = ("-f", "--collectors", "-collectors")
_CONFIGMAP_FLAGS = ("-m", "--configmap-data", "-configmap-data")
#: The key under which a ConfigMap that is read by name holds its list.
_CONFIGMAP_KEY = "metrics"
#: Where AMD's exporter looks for its configuration.
_AMD_PATH = "/etc/metrics/config.json"


@dataclass(frozen=True, slots=True)
class Field:
    """One configured row."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class FieldList:
    """What one exporter workload is configured to export, and where that is written."""

    workload: Workload
    fields: tuple[Field, ...]
    #: ConfigMap namespace/name/key
    origin: str
    #: why the list could not be read, where it exists and could not
    problem: str = ""


def parse_csv(text: str) -> tuple[Field, ...]:
    """Rows of a counters file. Comments, blank lines and rows that are none are skipped, as the exporter does."""
    rows: list[Field] = []
    lines = (line.strip() for line in text.splitlines())
    for row in csv.reader((line for line in lines if line and not line.startswith("#")), skipinitialspace=True):
        cells = [cell.strip() for cell in row]
        if len(cells) >= 2 and _NAME.fullmatch(cells[0]) and cells[1].lower() in _TYPES:
            rows.append(Field(cells[0], cells[1].lower()))
    return tuple(dict.fromkeys(rows))


def parse_amd(text: str) -> tuple[Field, ...]:
    """Fields of AMD's config.json; the exporter prints them in lower case. Raises ValueError on anything else."""
    data = json.loads(text)
    gpu = data.get("GPUConfig") if isinstance(data, dict) else None
    if not isinstance(gpu, dict):
        return ()
    common = data.get("CommonConfig")
    prefix = str(common.get("MetricsFieldPrefix", "")) if isinstance(common, dict) else ""
    names = [name for name in gpu.get("Fields") or () if isinstance(name, str) and _NAME.fullmatch(name)]
    return tuple(Field(prefix + name.lower(), "gauge") for name in dict.fromkeys(names))


def field_lists(workloads: Iterable[Workload], configmaps: Iterable[ConfigMap], is_exporter: Any) -> Iterator[FieldList]:
    """The field list of each exporter workload that has one in the cluster. `is_exporter(image)` tells exporters apart."""
    maps = {(c.namespace, c.name): c for c in configmaps}
    for workload in workloads:
        spec = _mapping(workload.template.get("spec"))
        for container in _mappings(spec.get("containers")):
            if is_exporter(str(container.get("image") or "")) and (found := _of_container(workload, spec, container, maps)):
                yield found


def _of_container(
    workload: Workload, spec: Mapping[str, Any], container: Mapping[str, Any], maps: Mapping[tuple[str, str], ConfigMap]
) -> FieldList | None:
    env = {str(e.get("name")): str(e.get("value") or "") for e in _mappings(container.get("env"))}
    arguments = [str(a) for a in [*_list(container.get("command")), *_list(container.get("args"))]]
    if by_name := _option(arguments, _CONFIGMAP_FLAGS) or env.get("DCGM_EXPORTER_CONFIGMAP_DATA", ""):
        namespace, _, name = by_name.rpartition(":")
        if name and name != "none":
            return _read(workload, maps, (namespace or workload.namespace, name), _CONFIGMAP_KEY)
    path = _option(arguments, _FLAGS) or env.get("DCGM_EXPORTER_COLLECTORS", "")
    for candidate in [path] if path else ["/etc/dcgm-exporter/default-counters.csv", _AMD_PATH]:
        if source := _mounted(spec, container, candidate):
            return _read(workload, maps, (workload.namespace, source[0]), source[1])
    return None


def _option(arguments: list[str], flags: tuple[str, ...]) -> str:
    """The value of a flag, written as `-f X`, `--flag X` or `--flag=X`."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        flag, equals, value = argument.partition("=")
        if flag in flags:
            return value if equals else following
    return ""


def _mounted(spec: Mapping[str, Any], container: Mapping[str, Any], path: str) -> tuple[str, str] | None:
    """The ConfigMap and key that a path of the container shows, or None where the file is the image's own."""
    volumes = {str(v.get("name")): _mapping(v.get("configMap")) for v in _mappings(spec.get("volumes"))}
    for mount in _mappings(container.get("volumeMounts")):
        config = volumes.get(str(mount.get("name")))
        at, sub = str(mount.get("mountPath") or "").rstrip("/"), str(mount.get("subPath") or "")
        if not config or not config.get("name"):
            continue
        if path == at and sub:
            shown = sub
        elif posixpath.dirname(path) == at and not sub:
            shown = posixpath.basename(path)
        else:
            continue
        keys = {str(i.get("path")): str(i.get("key")) for i in _mappings(config.get("items"))}
        return str(config["name"]), keys.get(shown, shown)
    return None


def _read(workload: Workload, maps: Mapping[tuple[str, str], ConfigMap], ref: tuple[str, str], key: str) -> FieldList:
    origin = f"{ref[0]}/{ref[1]}"
    config = maps.get(ref)
    if config is None:
        return FieldList(workload, (), origin, f"ConfigMap {origin} is not among what was read")
    if key not in config.data and len(config.data) == 1:
        key = next(iter(config.data))
    if key not in config.data:
        return FieldList(workload, (), origin, f"ConfigMap {origin} has no key {key}")
    text = config.data[key]
    try:
        fields = parse_amd(text) if text.lstrip().startswith("{") else parse_csv(text)
    except (ValueError, csv.Error) as error:
        return FieldList(workload, (), f"{origin}/{key}", f"{key} of ConfigMap {origin} can't be read: {error}")
    return FieldList(workload, fields, f"{origin}/{key}")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in _list(value) if isinstance(item, Mapping)]
