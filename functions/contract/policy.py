"""The policy file: what a site demands, ignores and plans. Every key has a default for a stock GPU operator."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Layer = Literal["device", "workload", "request"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Signals(_Section):
    """Concepts of `functions/knowledge/signals.yaml`, or plain metric names."""

    required: tuple[str, ...] = Field(default=(), description="Concepts or metrics that must exist in the current window.")
    ignore: tuple[str, ...] = Field(default=(), description="Concepts or metrics (or globs) whose absence is never reported.")
    rewrite: dict[str, str] = Field(
        default_factory=dict, description="Prefixes this site adds to metric names: stored prefix -> catalogue prefix."
    )


class RequiredLabels(_Section):
    """Correlation labels that every series of a layer must carry (roles, or plain label names)."""

    device: tuple[str, ...] = Field(default=(), description="Roles (gpu, host, namespace, pod, container) or labels on device series.")
    workload: tuple[str, ...] = Field(default=(), description="Labels on workload series.")
    request: tuple[str, ...] = Field(default=(), description="Labels on request-layer series (engine metrics).")


class Labels(_Section):
    required: RequiredLabels = RequiredLabels()
    aliases: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="Further spellings of a role: role -> label names.")


class Renames(_Section):
    catalogue: bool = Field(default=True, description="Use the renames that Telltale ships. Off: only HELP and the data speak.")
    min_confidence: float = Field(default=0.8, ge=0, le=1, description="An inferred successor at or above this is reported as renamed.")


class WindowsPolicy(_Section):
    baseline: float = Field(default=3600, gt=0, description="Seconds to look back for a baseline where the trigger fixes none.")
    lazy: float = Field(default=3600, ge=0, description="Seconds after a restart in which an absent counter may only not have counted yet.")
    standstill: float = Field(default=600, gt=0, description="Seconds in which values that cannot stand still must have moved.")


class Slo(_Section):
    latency_p95: float | None = Field(default=None, gt=0, description="Seconds.")
    time_to_first_token: float | None = Field(default=None, gt=0, description="Seconds.")
    error_ratio: float | None = Field(default=None, ge=0, le=1, description="Share of requests that may fail.")


class Cardinality(_Section):
    per_metric: int = Field(default=100_000, gt=0, description="Series a metric may have.")
    per_job: int = Field(default=1_000_000, gt=0, description="Series a job may have.")
    growth: float = Field(default=2.0, gt=1, description="Factor of growth against the baseline that is reported.")


class Alerts(_Section):
    layers: tuple[str, ...] = Field(default=("device", "workload", "request", "telemetry"), description="Layers that need an alert.")
    annotations: tuple[str, ...] = Field(default=("runbook_url",), description="Annotations an alert must have.")
    check_links: bool = Field(default=False, description="Fetch runbook links.")


class Exempt(_Section):
    namespaces: tuple[str, ...] = Field(default=(), description="Namespaces (or globs) that no check judges.")
    workloads: tuple[str, ...] = Field(default=(), description="Kind/namespace/name (or globs) that no check judges.")


class Planned(_Section):
    """What marks a node as under planned maintenance, so that absence there is no failure."""

    labels: tuple[str, ...] = Field(default=(), description="Node label keys, or key=value.")
    taints: tuple[str, ...] = Field(default=(), description="Taint keys.")
    annotations: tuple[str, ...] = Field(default=(), description="Node annotation keys, or key=value.")


class Retention(_Section):
    resolved_findings: float = Field(default=30 * 86400, gt=0, description="Seconds a resolved finding is kept.")
    audits: float = Field(default=30 * 86400, gt=0, description="Seconds an audit is kept.")


class Policy(_Section):
    """The whole policy file."""

    signals: Signals = Signals()
    labels: Labels = Labels()
    renames: Renames = Renames()
    windows: WindowsPolicy = WindowsPolicy()
    slo: Slo = Slo()
    cardinality: Cardinality = Cardinality()
    alerts: Alerts = Alerts()
    exempt: Exempt = Exempt()
    masks: tuple[str, ...] = Field(default=(), description="Regular expressions; what matches is masked in every output.")
    prices: dict[str, float] = Field(default_factory=dict, description="GPU model -> price of one GPU-hour.")
    planned: Planned = Planned()
    retention: Retention = Retention()
