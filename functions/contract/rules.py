"""What people rely on: alerting and recording rules, dashboards, and the selectors in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

#: A label that needs no quotes in PromQL.
_PLAIN_LABEL = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class RuleKind(StrEnum):
    ALERT = "alert"
    RECORD = "recording-rule"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as loaded. `name` is the alert's or the record's own name."""

    kind: RuleKind
    name: str
    group: str
    expr: str
    #: seconds
    duration: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: file, or kind/namespace/name of the object, or the server
    origin: str = ""
    health: str = ""
    error: str = ""
    #: loaded by a server (True) or only read from a file or object (False)
    loaded: bool = True


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """One query of a dashboard, with Grafana's variables still in it."""

    #: the panel's or variable's title
    where: str
    #: "panel", "variable" or "annotation"
    kind: str
    expr: str
    legend: str = ""
    #: unit of the panel's field configuration, as Grafana names it ("celsius", "decmbytes")
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    title: str
    uid: str
    origin: str
    queries: tuple[PanelQuery, ...]
    #: (where, problem) of what could not be read; listed, never dropped
    unreadable: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Matcher:
    """`op` is one of = != =~ !~ ."""

    label: str
    op: str
    value: str

    @property
    def negative(self) -> bool:
        return self.op.startswith("!")

    def __str__(self) -> str:
        plain = _PLAIN_LABEL.fullmatch(self.label) is not None
        return f"{self.label if plain else _quoted(self.label)}{self.op}{_quoted(self.value)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@dataclass(frozen=True, slots=True)
class Selector:
    """A vector selector without range, offset or @. `name` is None where only matchers say which metrics are meant."""

    name: str | None
    matchers: tuple[Matcher, ...] = ()

    def __str__(self) -> str:
        inner = ",".join(map(str, self.matchers))
        return f"{self.name or ''}{{{inner}}}" if inner or not self.name else self.name


@dataclass(frozen=True, slots=True)
class SelectorCount:
    """How many series one selector selects, by job."""

    selector: Selector
    by_job: Mapping[str, int]

    @property
    def series(self) -> int:
        return sum(self.by_job.values())
