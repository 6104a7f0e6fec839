"""The request layer: spans and log lines, reduced to what links a request to its Pod and its device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Ids are lower-case hex, 32 and 16 digits, leading zeros kept; durations in seconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    start: datetime
    duration: float
    namespace: str = ""
    pod: str = ""
    node: str = ""
    sampled: bool = True
    error: bool = False
    #: span and resource attributes, values as text
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """All spans of one trace that are known, by start."""

    trace_id: str
    spans: tuple[Span, ...]

    @property
    def start(self) -> datetime:
        return min(s.start for s in self.spans)

    @property
    def duration(self) -> float:
        """Seconds from the first start to the last end."""
        return max((s.start - self.start).total_seconds() + s.duration for s in self.spans)
