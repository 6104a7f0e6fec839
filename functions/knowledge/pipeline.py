"""What a metrics server writes itself, and how it tells that it is ill: figures with thresholds, error texts of scrapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from functions.contract.findings import Severity, Verdict

#: Written about each target at every scrape (https://prometheus.io/docs/concepts/jobs_instances/).
ABOUT_TARGETS = (
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
    "scrape_timeout_seconds",
    "scrape_sample_limit",
    "scrape_body_size_bytes",
)
#: All that a Prometheus writes by itself: no exporter's, and there wherever rules are evaluated.
SYNTHETIC = frozenset({*ABOUT_TARGETS, "ALERTS", "ALERTS_FOR_STATE"})


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Figure(_Model):
    """One figure, and what makes it a finding: it is above or below a number, or reaches another figure.

    `ahead_of` subtracts another figure first: how far the one is behind.
    """

    metric: str
    above: float | None = None
    below: float | None = None
    reaches: str | None = None
    ahead_of: str | None = None
    severity: Severity
    code: Literal["pipeline-unhealthy", "series-dropped", "clock-skew"] = "pipeline-unhealthy"
    verdict: Verdict = Verdict.FAIL
    title: str
    what: str
    todo: str
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _one_threshold(self) -> Figure:
        if sum(limit is not None for limit in (self.above, self.below, self.reaches)) != 1:
            raise ValueError(f"{self.metric}: exactly one of above, below, reaches")
        return self


class _Error(_Model):
    code: Literal["series-dropped", "bad-exposition", "scrape-overrun"]
    pattern: str
    source: str = Field(min_length=1)


class _File(_Model):
    figures: tuple[Figure, ...]
    errors: tuple[_Error, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All figures by metric, and the classification of scrape errors."""

    figures: Mapping[str, Figure]
    errors: tuple[tuple[re.Pattern[str], str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every figure that has to be read: those that are judged, and those they are compared with."""
        figures = self.figures.values()
        return tuple(dict.fromkeys(n for f in figures for n in (f.metric, f.reaches, f.ahead_of) if n))

    def code_of(self, error: str) -> str:
        """The code that the error text of a failed scrape speaks for."""
        return next((code for pattern, code in self.errors if pattern.search(error)), "target-down")


@lru_cache(maxsize=1)
def load_pipeline() -> Pipeline:
    """The shipped figures and error texts."""
    text = resources.files("functions.knowledge").joinpath("pipeline.yaml").read_text(encoding="utf-8")
    file = _File.model_validate(yaml.safe_load(text))
    return Pipeline(
        figures={figure.metric: figure for figure in file.figures},
        errors=tuple((re.compile(row.pattern, re.IGNORECASE), row.code) for row in file.errors),
    )
