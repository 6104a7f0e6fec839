"""What one gathering of telemetry is about, and what is known before it starts."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from functions.contract.cluster import Node, Pod
from functions.contract.facts import NO_BASELINE, NOT_ASKED, Fact, Known, Missing, Windows
from functions.contract.policy import Policy
from functions.contract.rules import Selector
from functions.contract.signals import Scope
from functions.knowledge import Knowledge

if TYPE_CHECKING:  # it reads the facts that are gathered here
    from functions.evidence.kept import Remembered

T = TypeVar("T")
U = TypeVar("U")
#: Facts by their name in `contract.facts.Facts`.
Found = dict[str, Fact[Any]]


@dataclass(frozen=True, slots=True)
class Request:
    """What one gathering of telemetry is about, and what is known already."""

    windows: Windows
    scope: Scope
    knowledge: Knowledge
    policy: Policy
    needs: frozenset[str]
    #: all that the source holds; None: look for the jobs that matter
    jobs: frozenset[str] | None = None
    nodes: Fact[tuple[Node, ...]] = NOT_ASKED
    pods: Fact[tuple[Pod, ...]] = NOT_ASKED
    pods_before: Fact[tuple[Pod, ...]] = NO_BASELINE
    #: selectors of rules and dashboards; names of recorded series
    selectors: tuple[Selector, ...] = ()
    #: why neither rules nor dashboards are known, where they should be
    unread: Missing | None = None
    recorded: frozenset[str] = frozenset()
    #: the cluster's name, for a store that holds several
    cluster: str = ""
    #: what was kept from before the change, for what the source can't tell of it
    remembered: Remembered | None = None

    def wants(self, *names: str) -> bool:
        return any(name in self.needs for name in names)


def value_of(fact: Fact[tuple[T, ...]] | None) -> tuple[T, ...]:
    """The value of a known fact; nothing where it is missing, for what only gets better by it."""
    return fact.value if isinstance(fact, Known) else ()


def carried(known: Known[T], value: U) -> Known[U]:
    """Another value of the same origin."""
    return Known(value, known.at, known.source, known.warnings, known.lost)


async def put(found: Found, name: str, asked: Awaitable[Fact[Any] | None] | None) -> None:
    """Enter a fact under its name, unless it was not wanted."""
    answer = await asked if asked is not None else None
    if answer is not None:
        found[name] = answer
