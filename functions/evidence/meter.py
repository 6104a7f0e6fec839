"""What a gathering costs the servers it asks, and how much more it may. A source adds to the meter of its gathering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

#: Requests that an audit sends to one metrics server at most, whatever the size of the fleet: those that are planned,
#: and those that are sent again or in smaller pieces.
REQUESTS = 25
#: Of these, what is left for the second kind.
SPARE = 2


@dataclass(slots=True)
class Meter:
    """Requests sent, bytes received, seconds spent waiting (summed over requests that ran side by side)."""

    queries: int = 0
    bytes: int = 0
    seconds: float = 0.0
    spare: int = SPARE

    def add(self, size: int, seconds: float) -> None:
        self.queries += 1
        self.bytes += size
        self.seconds += seconds

    def cost(self) -> Mapping[str, float]:
        return {"queries": self.queries, "bytes": self.bytes, "seconds": round(self.seconds, 3)}


_METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered(spare: int = SPARE) -> Iterator[Meter]:
    """Everything asked inside, in tasks started inside as well, is counted on one meter."""
    meter = Meter(spare=spare)
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def count(size: int, seconds: float) -> None:
    """Count one request on the meter that is running, if any."""
    if meter := _METER.get():
        meter.add(size, seconds)


def spare(requests: int = 1) -> bool:
    """Take so many requests that were not planned from what is left of them; False where too few are."""
    meter = _METER.get()
    if meter is None:
        return True
    if meter.spare < requests:
        return False
    meter.spare -= requests
    return True
