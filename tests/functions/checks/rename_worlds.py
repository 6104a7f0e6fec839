"""Small schemas for the tests of metric-rename: one line a metric, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from functions.checks.metric_rename.successors import Loss, Succession, successors
from functions.contract.facts import NOT_ASKED, Fact, Known
from functions.contract.policy import Policy
from functions.contract.telemetry import MetricSchema, PartialLoss, Target
from functions.knowledge import load

AT = datetime(2026, 11, 17, 10, 0, tzinfo=UTC)


def metric(
    name: str,
    mean: float | None = 1.0,
    *,
    job: str = "job",
    series: int = 4,
    targets: int = 2,
    labels: tuple[str, ...] = ("instance", "gpu"),
    type: str = "",
    help: str = "",
    spread: float = 0.5,
    unit: str = "",
    counts: Mapping[str, int] | None = None,
) -> MetricSchema:
    """A metric whose labels are on every series, with values around the mean."""
    low, high = (None, None) if mean is None else (mean * (1 - spread), mean * (1 + spread))
    return MetricSchema(job, name, series, targets, low, high, mean, {**dict.fromkeys(labels, series), **(counts or {})}, type, help, unit)


def histogram(name: str, count: float, observed: float, **more: object) -> list[MetricSchema]:
    """The three stored names of a classic histogram."""
    base = metric(name, count, type="histogram", **more)  # type: ignore[arg-type]
    return [
        replace(base, name=name + "_bucket", series=base.series * 5, labels={**base.labels, "le": base.series * 5}),
        replace(base, name=name + "_sum", mean=count * observed, low=count * observed, high=count * observed),
        replace(base, name=name + "_count"),
    ]


def target(instance: str, *, job: str = "job", up: bool = True, **labels: str) -> Target:
    return Target(job, instance, {"job": job, "instance": instance, **labels}, up)


def known(*values: object) -> Fact[tuple]:  # type: ignore[type-arg]
    return Known(tuple(values), AT, "test")


def decide(
    before: list[MetricSchema],
    after: list[MetricSchema],
    *,
    policy: Policy | None = None,
    targets_before: Fact[tuple[Target, ...]] = NOT_ASKED,
    targets: Fact[tuple[Target, ...]] = NOT_ASKED,
    partial: tuple[PartialLoss, ...] = (),
) -> Succession:
    return successors(
        before,
        after,
        knowledge=load(),
        policy=policy or Policy(),
        targets_before=targets_before,
        targets=targets,
        partial_losses=known(*partial),
    )


def outcome(found: Succession, name: str) -> Loss:
    (loss,) = [loss for loss in found.losses if loss.was.name == name]
    return loss


NO_CATALOGUE = Policy.model_validate({"renames": {"catalogue": False}})
