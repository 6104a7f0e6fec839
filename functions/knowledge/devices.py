"""How exporters and Kubernetes spell a GPU, read from devices.yaml.

Label names by role, names that per-device metrics have, and the extended resources that count GPUs. Data only: who
a label speaks about is decided in `functions/evidence/devices.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from functions.contract.policy import Policy

ROLES = ("gpu", "gpu_instance", "profile", "index", "host", "pod_uid")
ATTRIBUTION = ("namespace", "pod", "container")


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    source: str = Field(min_length=1)


class Label(_Row):
    label: str


class Family(_Row):
    """Labels that name one Pod together. `family` says who they may speak about (see devices.yaml)."""

    family: Literal["exported", "plain", "own"]
    pod: str
    namespace: str
    container: str

    def label(self, role: str) -> str:
        """The label of one role of ATTRIBUTION."""
        return {"pod": self.pod, "namespace": self.namespace, "container": self.container}[role]


class Whole(_Row):
    label: str
    value: str


class Metric(_Row):
    pattern: str
    exporter: str


class Resource(_Row):
    pattern: str
    kind: Literal["device", "instance"]


class Image(_Row):
    part: str


class DeviceKnowledge(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label_rows: Mapping[Literal["gpu", "gpu_instance", "profile", "index", "host", "pod_uid"], tuple[Label, ...]] = Field(alias="labels")
    attribution: tuple[Family, ...]
    target_node_rows: tuple[Label, ...] = Field(alias="target_node")
    other_entity_rows: tuple[Label, ...] = Field(alias="other_entities")
    server_replica_rows: tuple[Label, ...] = Field(alias="server_replicas")
    cluster_rows: tuple[Label, ...] = Field(alias="clusters")
    whole_device: tuple[Whole, ...]
    metrics: tuple[Metric, ...]
    resources: tuple[Resource, ...]
    exporter_images: tuple[Image, ...]

    @cached_property
    def metric_pattern(self) -> str:
        """A regular expression (RE2 and Python) over whole names of per-device metrics."""
        return "|".join(f"({row.pattern})" if "|" in row.pattern else row.pattern for row in self.metrics)

    @cached_property
    def other_entities(self) -> tuple[str, ...]:
        """Labels that only series of other entities than one GPU carry."""
        return tuple(row.label for row in self.other_entity_rows)

    @cached_property
    def server_replicas(self) -> tuple[str, ...]:
        """Labels that tell apart the servers which stored a series, and nothing else about it."""
        return tuple(row.label for row in self.server_replica_rows)

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Labels that name the cluster of a series."""
        return tuple(row.label for row in self.cluster_rows)

    @cached_property
    def target_node(self) -> tuple[str, ...]:
        """Target labels that may name the node."""
        return tuple(row.label for row in self.target_node_rows)

    @cached_property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """role -> label names in order of preference, lower-case forms after the printed ones."""
        known: dict[str, tuple[str, ...]] = {}
        for role in ROLES:
            names = [row.label for row in self.label_rows.get(role, ())]  # type: ignore[call-overload]
            known[role] = tuple(dict.fromkeys([*names, *(name.lower() for name in names)]))
        return known

    def spellings(self, role: str, policy: Policy) -> tuple[str, ...]:
        """All labels of a role, those that the policy adds first."""
        more = policy.labels.aliases.get(role, ())
        if role in ATTRIBUTION:
            return tuple(dict.fromkeys([*more, *(family.label(role) for family in self.attribution)]))
        return tuple(dict.fromkeys([*more, *self.labels[role]]))

    def pattern_for(self, policy: Policy) -> str:
        """`metric_pattern` with the prefixes that a site adds to metric names, or puts in the place of an exporter's own."""
        added = sorted(re.escape(stored) for stored, printed in policy.signals.rewrite.items() if stored and not printed)
        put = sorted(f"{re.escape(stored)}.*" for stored, printed in policy.signals.rewrite.items() if stored and printed)
        known = f"({'|'.join(added)})?({self.metric_pattern})" if added else self.metric_pattern
        return "|".join([known, *put])

    def resource_kind(self, name: str) -> Literal["device", "instance", ""]:
        """What one unit of an extended resource is; "" where it is no GPU."""
        if name not in self.kinds:
            self.kinds[name] = next((row.kind for row in self.resources if re.fullmatch(row.pattern, name)), "")
        return self.kinds[name]

    @cached_property
    def kinds(self) -> dict[str, Literal["device", "instance", ""]]:
        """The resources that were asked about; every node and container names the same few."""
        return {}

    def is_exporter_image(self, image: str) -> bool:
        """Whether the image name says that a GPU exporter runs in it."""
        repository = image.rsplit("@", 1)[0]
        return any(row.part in repository for row in self.exporter_images)


@lru_cache(maxsize=1)
def load_devices() -> DeviceKnowledge:
    """The shipped file, read once."""
    text = resources.files("functions.knowledge").joinpath("devices.yaml").read_text(encoding="utf-8")
    return DeviceKnowledge.model_validate(yaml.safe_load(text))
