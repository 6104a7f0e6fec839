"""The two sides of every gathering: a source of metrics and a source of Kubernetes objects, live or recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from functions.contract.facts import Fact
from functions.contract.rules import Rule, Selector, SelectorCount
from functions.contract.telemetry import Body, Row, Target
from functions.evidence.questions import Question

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Metadata:
    """TYPE, HELP and UNIT of one metric family, as the exporter printed them."""

    type: str = ""
    help: str = ""
    unit: str = ""


class MetricSource(Protocol):
    """Something that answers questions about stored metrics at an instant. Never raises for an outside fault."""

    async def ask(self, question: Question, at: datetime) -> Fact[tuple[Row, ...]]: ...

    async def count_selectors(self, selectors: Sequence[Selector], at: datetime) -> Fact[tuple[SelectorCount, ...]]: ...

    async def targets(self, at: datetime) -> Fact[tuple[Target, ...]]: ...

    async def metadata(self, at: datetime) -> Fact[Mapping[tuple[str, str], Metadata]]:
        """(job, family name) -> metadata; job "" where it can't be told apart."""
        ...

    async def rules(self) -> Fact[tuple[Rule, ...]]: ...

    async def bodies(self, at: datetime) -> Fact[tuple[Body, ...]]:
        """Raw expositions, where they can be had."""
        ...


class ObjectSource(Protocol):
    """Something that lists raw Kubernetes objects (as decoded JSON)."""

    async def list(self, kind: str, *, namespace: str = "", labels: str = "", fields: str = "") -> Fact[tuple[Mapping[str, Any], ...]]:
        """All objects of a kind ("Pod", "Node", "DaemonSet", "ResourceClaim" …)."""
        ...


@runtime_checkable
class PagedSource(ObjectSource, Protocol):
    """A source that reads a list in pages, so that a long one need not be held whole."""

    async def reduced(
        self, kind: str, reduce: Callable[[Mapping[str, Any]], T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> Fact[tuple[T, ...]]:
        """What `reduce` makes of each object of a kind."""
        ...
