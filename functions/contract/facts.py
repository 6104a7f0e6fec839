"""A fact is known, or it is missing for a stated reason; it is never guessed.

`Facts` is the one snapshot that a whole audit rests on: its field names are the vocabulary from which a
check's parameters are taken (see `functions/checks/base.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from functions.contract.cluster import (
    ConfigMap,
    DisruptionBudget,
    KubernetesEvent,
    Node,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Workload,
)
from functions.contract.requests import Trace
from functions.contract.rules import Dashboard, Rule, SelectorCount
from functions.contract.telemetry import (
    Body,
    DeviceReading,
    DeviceSeries,
    Extreme,
    LabelValues,
    MetricSchema,
    PartialLoss,
    PipelineSample,
    Standstill,
    Target,
)

T_co = TypeVar("T_co", covariant=True)


class Why(StrEnum):
    """Why a fact is missing."""

    UNREACHABLE = "unreachable"
    UNAUTHORISED = "unauthorised"
    TIMED_OUT = "timed-out"
    TRUNCATED = "truncated"
    UNSUPPORTED = "unsupported"
    NOT_CONFIGURED = "not-configured"
    MALFORMED = "malformed"
    NO_BASELINE = "no-baseline"


#: Reasons for which a fact that adds to the picture may be missing without leaving anything in doubt.
MOOT = (Why.NOT_CONFIGURED, Why.UNSUPPORTED)


@dataclass(frozen=True, slots=True)
class Missing:
    """No value: the reason, one line for a person, and what was asked."""

    why: Why
    detail: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Known(Generic[T_co]):
    """A value, the instant it describes, and the query, path or object it came from.

    `lost` are parts of the value that should be in it and could not be read: what rests on it is at best unknown.
    """

    value: T_co
    at: datetime
    source: str
    warnings: tuple[str, ...] = ()
    lost: tuple[Missing, ...] = ()


Fact = Known[T_co] | Missing

NOT_ASKED = Missing(Why.NOT_CONFIGURED, "no source for this was configured")
NO_BASELINE = Missing(Why.NO_BASELINE, "nothing is known from before the change")


@dataclass(frozen=True, slots=True)
class Windows:
    """The two instants of an audit. `baseline` is None where there is nothing before to compare with."""

    baseline: datetime | None
    current: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything gathered for one audit. A field that ends in `_before` describes the baseline instant."""

    windows: Windows

    # Kubernetes
    nodes: Fact[tuple[Node, ...]] = NOT_ASKED
    pods: Fact[tuple[Pod, ...]] = NOT_ASKED
    pods_before: Fact[tuple[Pod, ...]] = NO_BASELINE
    workloads: Fact[tuple[Workload, ...]] = NOT_ASKED
    configmaps: Fact[tuple[ConfigMap, ...]] = NOT_ASKED
    budgets: Fact[tuple[DisruptionBudget, ...]] = NOT_ASKED
    events: Fact[tuple[KubernetesEvent, ...]] = NOT_ASKED
    claims: Fact[tuple[ResourceClaim, ...]] = NOT_ASKED
    slices: Fact[tuple[ResourceSlice, ...]] = NOT_ASKED

    # Telemetry as Prometheus stores it
    targets: Fact[tuple[Target, ...]] = NOT_ASKED
    targets_before: Fact[tuple[Target, ...]] = NO_BASELINE
    schema: Fact[tuple[MetricSchema, ...]] = NOT_ASKED
    schema_before: Fact[tuple[MetricSchema, ...]] = NO_BASELINE
    devices: Fact[tuple[DeviceSeries, ...]] = NOT_ASKED
    devices_before: Fact[tuple[DeviceSeries, ...]] = NO_BASELINE
    readings: Fact[tuple[DeviceReading, ...]] = NOT_ASKED
    extremes: Fact[tuple[Extreme, ...]] = NOT_ASKED
    standstill: Fact[tuple[Standstill, ...]] = NOT_ASKED
    partial_losses: Fact[tuple[PartialLoss, ...]] = NO_BASELINE
    label_values: Fact[tuple[LabelValues, ...]] = NOT_ASKED
    label_values_before: Fact[tuple[LabelValues, ...]] = NO_BASELINE
    pipeline: Fact[tuple[PipelineSample, ...]] = NOT_ASKED
    bodies: Fact[tuple[Body, ...]] = NOT_ASKED

    # What people look at
    rules: Fact[tuple[Rule, ...]] = NOT_ASKED
    dashboards: Fact[tuple[Dashboard, ...]] = NOT_ASKED
    selectors: Fact[tuple[SelectorCount, ...]] = NOT_ASKED
    selectors_before: Fact[tuple[SelectorCount, ...]] = NO_BASELINE

    # Requests
    traces: Fact[tuple[Trace, ...]] = NOT_ASKED

    #: Jobs that were looked at; a rule about any other job is unjudged. None: every job was.
    jobs: frozenset[str] | None = None
    #: What the gathering cost, by name ("queries", "bytes", "seconds"); printed in the report.
    cost: Mapping[str, float] = field(default_factory=dict)
    #: What a reader of the report has to know about how the facts were had.
    remarks: tuple[str, ...] = ()

    def fact(self, name: str) -> Fact[Any]:
        """The fact of that field name."""
        value = getattr(self, name)
        assert isinstance(value, Known | Missing), name
        return value

    @staticmethod
    def names() -> frozenset[str]:
        """The field names that are facts (the vocabulary of checks)."""
        return frozenset(f.name for f in fields(Facts)) - {"windows", "jobs", "cost", "remarks"}
