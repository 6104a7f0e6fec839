"""What label-mapping knows about exporters and the GPU stack, read from mapping.yaml."""

from __future__ import annotations

import fnmatch
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    source: str = Field(min_length=1)


class Text(_Row):
    text: str


class Load(_Row):
    concept: str
    ratio: float | None = None
    percent: float | None = None
    mib: float | None = None


class Concept(_Row):
    concept: str


class Pattern(_Row):
    pattern: str


class Label(_Row):
    label: str


class Driver(_Row):
    driver: str


class Namespace(_Row):
    namespace: str


class Image(_Row):
    part: str


class Taint(_Row):
    taint: str


class Upgrade(_Row):
    label: str
    calm: tuple[str, ...]


class Remedy(_Row):
    when: str
    text: str


class MappingKnowledge(BaseModel):
    """The whole file. The cached properties are the forms in which a check asks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    exporter_period: float
    exporter_period_source: str
    no_identity: tuple[Text, ...]
    no_host: tuple[Text, ...]
    load: tuple[Load, ...]
    split_by_process: tuple[Concept, ...]
    single_valued_rows: tuple[Concept, ...] = Field(alias="single_valued")
    per_container_names: tuple[Pattern, ...]
    ratio_names: tuple[Pattern, ...]
    byte_names: tuple[Pattern, ...]
    replica_label_rows: tuple[Label, ...] = Field(alias="replica_labels")
    product_label_rows: tuple[Label, ...] = Field(alias="product_labels")
    claim_driver_rows: tuple[Driver, ...] = Field(alias="claim_drivers")
    infrastructure_namespace_rows: tuple[Namespace, ...] = Field(alias="infrastructure_namespaces")
    infrastructure_image_rows: tuple[Image, ...] = Field(alias="infrastructure_images")
    driver_upgrade: Upgrade
    leaving_taint_rows: tuple[Taint, ...] = Field(alias="leaving_taints")
    remedies: tuple[Remedy, ...]

    @cached_property
    def replica_labels(self) -> tuple[str, ...]:
        return tuple(row.label for row in self.replica_label_rows)

    @cached_property
    def leaving_taints(self) -> frozenset[str]:
        """Taints of nodes that are being taken away."""
        return frozenset(row.taint for row in self.leaving_taint_rows)

    @cached_property
    def product_labels(self) -> tuple[str, ...]:
        return tuple(row.label for row in self.product_label_rows)

    @cached_property
    def claim_drivers(self) -> frozenset[str]:
        return frozenset(row.driver for row in self.claim_driver_rows)

    @cached_property
    def infrastructure_namespaces(self) -> frozenset[str]:
        return frozenset(row.namespace for row in self.infrastructure_namespace_rows)

    @cached_property
    def infrastructure_images(self) -> tuple[str, ...]:
        return tuple(row.part for row in self.infrastructure_image_rows)

    @cached_property
    def process_concepts(self) -> frozenset[str]:
        """Concepts that a per-process exporter splits between the Pods of a device."""
        return frozenset(row.concept for row in self.split_by_process)

    @cached_property
    def load_concepts(self) -> frozenset[str]:
        return frozenset(row.concept for row in self.load)

    @cached_property
    def single_valued(self) -> frozenset[str]:
        return frozenset(row.concept for row in self.single_valued_rows)

    def per_container(self, metric: str) -> bool:
        """Whether a metric tells each container's own part by its definition."""
        return any(fnmatch.fnmatchcase(metric.lower(), row.pattern) for row in self.per_container_names)

    def names_nothing(self, value: str) -> bool:
        """Whether an identity label holds a text that says "no value"."""
        text = value.strip().lower()
        return (text.startswith("<<<") and text.endswith(">>>")) or any(text == row.text.lower() for row in self.no_identity)

    def no_machine(self, value: str) -> bool:
        """Whether a host label holds a name that every machine has."""
        return any(value.strip().lower() == row.text for row in self.no_host)

    def busy(self, concept: str, metric: str, value: float, unit: str = "") -> bool | None:
        """Whether a reading shows a device in use; None for a concept that shows no load.

        `unit` as signals.yaml has it; where it is "" the metric's name must tell. A share above 1 is a percentage
        whatever the name says: DCGM_FI_DEV_GPU_UTIL_RATIO was 0 to 100 before DCGM 4.7.
        """
        row = next((r for r in self.load if r.concept == concept), None)
        if row is None or not value >= 0:
            return None
        if row.mib is not None:
            return value * self._mib(metric, unit) >= row.mib
        ratio = value <= 1 and (unit == "ratio" or (unit == "" and self._ratio(metric)))
        floor = row.ratio if ratio else row.percent
        return floor is not None and value >= floor

    def _ratio(self, metric: str) -> bool:
        """Whether the name says that 1 is all of it."""
        return any(fnmatch.fnmatchcase(metric.lower(), p.pattern) for p in self.ratio_names)

    def _mib(self, metric: str, unit: str) -> float:
        """The factor that makes MiB of a memory reading."""
        factors = {"bytes": 1 / 2**20, "kilobytes": 1e3 / 2**20, "kibibytes": 1 / 1024, "megabytes": 1e6 / 2**20, "mebibytes": 1.0}
        named = any(fnmatch.fnmatchcase(metric.lower(), p.pattern) for p in self.byte_names)
        return factors.get(unit or ("bytes" if named else "mebibytes"), 1.0)

    def remedy(self, when: str) -> str:
        """What to change in a circumstance."""
        return next(row.text for row in self.remedies if row.when == when)


@lru_cache(maxsize=1)
def load_mapping() -> MappingKnowledge:
    """The file that ships with Telltale."""
    text = resources.files("functions.knowledge").joinpath("mapping.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.safe_load(text)
    return MappingKnowledge.model_validate(data)
