"""What can be measured, under which names, in which unit, and what the absence of a name means.

`signals.yaml` holds the facts; this module answers three questions about them: which stored names tell a concept,
what a stored name tells, and how its absence is to be read. It knows nothing of renames between versions
(`renames`), only of spellings that pipelines and launch paths make of one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

Layer = Literal["device", "workload", "request", "telemetry"]

#: What a histogram or summary adds to the family's name.
SUFFIXES = ("_bucket", "_sum", "_count", "_created")


class Presence(StrEnum):
    """What the absence of a metric means. One metric can be of several classes."""

    ALWAYS = "always"
    AFTER_EVENT = "after-event"
    NOT_ON_MIG = "not-on-mig"
    NEEDS_PROFILING = "needs-profiling"
    STARTUP_ONLY = "startup-only"
    LAZY = "lazy"
    HARDWARE = "hardware"


#: Classes whose absence alone proves nothing, whatever was there before.
SILENT = frozenset({Presence.AFTER_EVENT, Presence.STARTUP_ONLY, Presence.LAZY})


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Concept(_Model):
    layer: Layer
    title: str
    aliases: tuple[str, ...] = ()
    restless: bool = False


class _Row(_Model):
    name: str
    concept: str
    type: Literal["gauge", "counter", "histogram", "summary", "label"]
    unit: str
    low: float | None = None
    high: float | None = None
    presence: tuple[Presence, ...] = (Presence.ALWAYS,)
    labels: tuple[str, ...] = ()
    still: bool = False
    note: str = ""
    source: str = ""


class _Group(_Model):
    system: str
    source: str = Field(min_length=1)
    labels: tuple[str, ...] = ()
    lowercased: bool = False
    respelled: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    metrics: tuple[_Row, ...]


class _Prefix(_Model):
    prefix: str
    presence: tuple[Presence, ...]
    source: str = Field(min_length=1)


class _File(_Model):
    concepts: dict[str, _Concept]
    prefixes: tuple[_Prefix, ...] = ()
    groups: tuple[_Group, ...]


@dataclass(frozen=True, slots=True)
class Concept:
    """Something that can be measured. `restless`: under load its value cannot stand still."""

    id: str
    layer: Layer
    title: str
    aliases: tuple[str, ...]
    restless: bool


@dataclass(frozen=True, slots=True)
class Signal:
    """One metric of one exporter or engine. `name` is the family as the exporter prints it."""

    name: str
    concept: str
    layer: Layer
    system: str
    type: str
    unit: str
    low: float | None
    high: float | None
    presence: frozenset[Presence]
    labels: tuple[str, ...]
    #: a limit or setting: it may stand still although its concept cannot
    still: bool
    note: str
    source: str
    #: every name it is stored under: as printed, lower-cased, with the prefixes that launch paths make of it
    spellings: tuple[str, ...]


class Signals:
    """The catalogue. `rewrite` is the policy's `signals.rewrite`: prefix as stored -> prefix as printed."""

    def __init__(
        self, concepts: Iterable[Concept], signals: Iterable[Signal], prefixes: Mapping[str, frozenset[Presence]] | None = None
    ) -> None:
        self._prefixes = dict(prefixes or {})
        self.concepts: Mapping[str, Concept] = {c.id: c for c in concepts}
        self.signals: tuple[Signal, ...] = tuple(signals)
        self._by_spelling: dict[str, Signal] = {}
        self._by_concept: dict[str, list[Signal]] = {}
        for signal in self.signals:
            self._by_concept.setdefault(signal.concept, []).append(signal)
            for spelling in signal.spellings:
                self._by_spelling.setdefault(spelling, signal)
        self._terms = {_plain(t): c.id for c in self.concepts.values() for t in (c.id, c.title, *c.aliases)}

    def metrics(self, concept: str, rewrite: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Every name, as stored, that tells the concept; a plain metric name stands for itself. Families, no suffixes."""
        rows = self._by_concept.get(concept)
        names = [s for row in rows for s in row.spellings] if rows else [concept] if concept not in self.concepts else []
        for stored, printed in (rewrite or {}).items():
            names += [stored + name.removeprefix(printed) for name in tuple(names) if name.startswith(printed)]
        return tuple(dict.fromkeys(names))

    def of(self, metric: str, rewrite: Mapping[str, str] | None = None) -> Signal | None:
        """What a stored name tells, with or without the suffixes of its type; None where it is not in the catalogue."""
        names = [metric] + [
            printed + metric.removeprefix(stored) for stored, printed in (rewrite or {}).items() if metric.startswith(stored)
        ]
        return next((signal for name in names if (signal := self._find(name))), None)

    def _find(self, name: str) -> Signal | None:
        if found := self._by_spelling.get(name):
            return found
        for suffix in SUFFIXES:
            if name.endswith(suffix):
                family = self._by_spelling.get(name.removesuffix(suffix))
                if family and family.type in ("histogram", "summary"):
                    return family
        # a counter is stored with or without `_total`, by the format and the client library that wrote it
        other = name.removesuffix("_total") if name.endswith("_total") else name + "_total"
        counter = self._by_spelling.get(other)
        return counter if counter and counter.type == "counter" else None

    def presence(self, metric: str, rewrite: Mapping[str, str] | None = None) -> frozenset[Presence]:
        """The presence classes of a stored name; empty where the catalogue does not know it."""
        if signal := self.of(metric, rewrite):
            return signal.presence
        return next((presence for prefix, presence in self._prefixes.items() if metric.startswith(prefix)), frozenset())

    def concept(self, term: str) -> str | None:
        """The concept that a person means by a term ("GPU/VRAM", "排队时间"), or None."""
        return self._terms.get(_plain(term))

    def restless(self) -> tuple[Signal, ...]:
        """Metrics whose values cannot stand still under load."""
        return tuple(s for s in self.signals if self.concepts[s.concept].restless and not s.still)


def _plain(term: str) -> str:
    return "".join(ch for ch in term.casefold() if ch.isalnum())


def _spellings(name: str, group: _Group) -> tuple[str, ...]:
    out = [name]
    for printed, stored in group.respelled.items():
        if name.startswith(printed):
            out += [prefix + name.removeprefix(printed) for prefix in stored]
    if group.lowercased:
        out.append(name.lower())
    return tuple(dict.fromkeys(out))


def _signal(row: _Row, group: _Group, layer: Layer) -> Signal:
    return Signal(
        name=row.name,
        concept=row.concept,
        layer=layer,
        system=group.system,
        type=row.type,
        unit=row.unit,
        low=row.low,
        high=row.high,
        presence=frozenset(row.presence),
        labels=(*group.labels, *row.labels),
        still=row.still,
        note=row.note,
        source=row.source or group.source,
        spellings=_spellings(row.name, group),
    )


@lru_cache(maxsize=1)
def load_signals() -> Signals:
    """The shipped catalogue."""
    text = resources.files("functions.knowledge").joinpath("signals.yaml").read_text(encoding="utf-8")
    file = _File.model_validate(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    concepts = [Concept(id_, c.layer, c.title, c.aliases, c.restless) for id_, c in file.concepts.items()]
    signals = (_signal(row, group, file.concepts[row.concept].layer) for group in file.groups for row in group.metrics)
    return Signals(concepts, signals, {row.prefix: frozenset(row.presence) for row in file.prefixes})
