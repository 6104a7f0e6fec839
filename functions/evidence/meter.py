"""What a gathering costs the servers it asks. A source adds to the meter of the gathering that it answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    """Requests sent, bytes received, seconds spent waiting (summed over requests that ran side by side)."""

    queries: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, size: int, seconds: float) -> None:
        self.queries += 1
        self.bytes += size
        self.seconds += seconds

    def cost(self) -> Mapping[str, float]:
        return {"queries": self.queries, "bytes": self.bytes, "seconds": round(self.seconds, 3)}


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered() -> Iterator[Meter]:
    """Everything asked inside, in tasks started inside as well, is counted on one meter."""
    meter = Meter()
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def count(size: int, seconds: float) -> None:
    """Count one request on the meter that is running, if any."""
    if meter := _METER.get():
        meter.add(size, seconds)
