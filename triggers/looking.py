"""How the cluster is looked at: patience, intervals, and what a look reports. No logic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from functions.contract.facts import Why
from functions.contract.signals import Signal
from functions.evidence.kubernetes.errors import KubernetesError
from triggers import rollouts
from triggers.exempt import Exempt
from triggers.observer import Contended, Limits

#: in this order: what surrounds an object is there before the object is judged
KINDS = ("Pod", "Node", *rollouts.KINDS)
#: where it is kept when the whole cluster was last looked at, and which nodes there were
MARK = "watch/mark"
#: Events written shortly before the last look may have been in flight
OVERLAP = timedelta(seconds=60)
#: faults that waiting doesn't mend: the kind is done without
FOR_GOOD = (Why.UNAUTHORISED, Why.UNSUPPORTED, Why.NOT_CONFIGURED)


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which changes of a kind may have gone unseen. Transitions are made up for by comparing; Events aren't."""

    kind: str
    since: datetime
    until: datetime
    why: str

    def as_dict(self) -> dict[str, str]:
        return {"kind": self.kind, "since": self.since.isoformat(), "until": self.until.isoformat(), "why": self.why}


async def _ignore(_gap: Gap) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Options:
    """How to look."""

    limits: Limits = field(default_factory=Limits)
    exempt: Exempt = field(default_factory=Exempt)
    #: seconds between two sweeps (each kind is listed again and compared)
    sweep: float = 300
    #: seconds in which changes of one object are taken together
    debounce: float = 0.2
    #: seconds between two looks at what may change with time alone; 0: short enough for the limits
    timer: float = 0
    #: seconds to wait after the store or the API was away, doubled up to a minute
    backoff: float = 1
    #: what sink and episodes raise when they are away for now
    again: tuple[type[Exception], ...] = (OSError, TimeoutError)
    #: called for each gap; like the sink it may raise what `again` names
    on_gap: Callable[[Gap], Awaitable[None]] = _ignore
    clock: Callable[[], datetime] = _utc_now

    @property
    def interval(self) -> float:
        """Seconds between two looks at what may change with time alone."""
        shortest = min(self.limits.rollout_deadline, self.limits.drain_deadline, self.limits.not_ready_grace)
        return self.timer or min(5.0, max(0.2, shortest.total_seconds() / 5))

    @property
    def passing(self) -> tuple[type[Exception], ...]:
        """Everything that another try may mend."""
        return (*self.again, Contended, KubernetesError)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one sweep did."""

    first: bool
    objects: int
    signals: tuple[Signal, ...]
    #: when the whole cluster was looked at before
    since: datetime | None = None
    #: kinds that could not be read, and why
    missing: Mapping[str, str] = field(default_factory=dict)
