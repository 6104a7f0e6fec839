"""The catalogue of known renames: what exporters called a metric or label before, and what they call it since.

One YAML file a group of systems under `renames/`; every change names its version and its source. A row says one of:

* `{old, new}`: a metric changed its name. `factor` is new value ÷ old value: 1 where the scale is known to be the
  same, several where releases differ under the same name, absent where nothing is known. `match` makes it a merge
  into a metric that holds more (`new{state="active"}`; a value that starts with `~` is a regular expression).
* `removed`: taken away on purpose (`expr` where an expression gives the same) · `split`: one became several ·
  `alternative`: no successor, but a metric that answers the same question.
* `label`, `label-removed`, `label-added`, `label-value`: on the metrics that `scope` names (a glob), else on all metrics
  of the system's prefixes. · `type`, `unit`, `meaning`, `buckets`: something else changed under the same name.
* `note`: what a person should know and no program can use.

`<N>` stands for digits, any other `<word>` and `*` for any text. Names of a `dotted` system are OpenTelemetry names:
they are compared in the spelling that Prometheus gives them. Nothing here looks at data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # a PyYAML without libyaml: slower, the same result
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]


class Kind(StrEnum):
    METRIC = "metric"
    REMOVED = "removed"
    SPLIT = "split"
    ALTERNATIVE = "alternative"
    LABEL = "label"
    LABEL_REMOVED = "label-removed"
    LABEL_ADDED = "label-added"
    LABEL_VALUE = "label-value"
    TYPE = "type"
    UNIT = "unit"
    MEANING = "meaning"
    BUCKETS = "buckets"
    NOTE = "note"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class _Row(_Model):
    kind: Kind = Kind.METRIC
    old: str = ""
    new: str = ""
    scope: str = ""
    label: str = ""
    match: dict[str, str] = Field(default_factory=dict)
    factor: float | tuple[float, ...] = ()
    types: tuple[str, str] | None = None
    expr: str = ""
    note: str = ""


class _Change(_Model):
    version: str
    source: str = Field(min_length=1)
    note: str = ""
    rows: tuple[_Row, ...]


class _System(_Model):
    name: str
    prefixes: tuple[str, ...] = ()
    dotted: bool = False
    changes: tuple[_Change, ...]


class _File(_Model):
    systems: tuple[_System, ...]


@dataclass(frozen=True, slots=True)
class Rename:
    """One row, with what its change and its system say."""

    system: str
    version: str
    source: str
    kind: Kind
    old: str
    new: str
    scope: str = ""
    label: str = ""
    match: tuple[tuple[str, str], ...] = ()
    #: new value ÷ old value; empty where unknown
    factors: tuple[float, ...] = ()
    types: tuple[str, str] | None = None
    expr: str = ""
    note: str = ""
    prefixes: tuple[str, ...] = ()
    dotted: bool = False
    #: placeholders were filled in
    filled: bool = False

    @property
    def target(self) -> str:
        """The new name as it is printed: with its selector where it is a merge."""
        if not self.match:
            return self.new
        inner = ",".join(f'{k}=~"{v[1:]}"' if v.startswith("~") else f'{k}="{v}"' for k, v in self.match)
        return f"{self.new}{{{inner}}}"

    def concerns(self, metric: str) -> bool:
        """Whether a label row speaks of this metric."""
        if self.scope:
            return fnmatchcase(metric, self.scope)
        return not self.prefixes or metric.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class Step:
    """A way from an old name to a name that exists, with the scales multiplied along it."""

    name: str
    rows: tuple[Rename, ...]
    factors: tuple[float, ...]

    @property
    def last(self) -> Rename:
        return self.rows[-1]

    @property
    def target(self) -> str:
        """The name that exists, with the selector of a merge."""
        return replace(self.last, new=self.name).target


#: Kinds whose `old` and `new` are metric names.
_OF_NAMES = frozenset({Kind.METRIC, Kind.REMOVED, Kind.SPLIT, Kind.ALTERNATIVE})
_PLACEHOLDER = re.compile(r"<N>|<\w+>|\*")
#: Suffixes that OpenTelemetry's translation and good manners add to a name: type first, then unit.
_TYPE_SUFFIX = re.compile(r"_(total|ratio)$")
_UNIT_SUFFIX = re.compile(
    r"_(seconds|milliseconds|microseconds|nanoseconds|minutes|hours|days|bytes|kibibytes|mebibytes|gibibytes|joules|watts|celsius|hertz|percent)$"
)


def bare(name: str) -> str:
    """A dotted or stored name without separators' spelling, type suffix and unit suffix."""
    name = re.sub(r"[.:]", "_", name)
    return _UNIT_SUFFIX.sub("", _TYPE_SUFFIX.sub("", name))


def _pattern(text: str) -> re.Pattern[str]:
    """`A_<N>_B` as a regular expression with one group a placeholder."""
    parts, at = [], 0
    for found in _PLACEHOLDER.finditer(text):
        parts += [re.escape(text[at : found.start()]), r"(\d+)" if found[0] == "<N>" else r"(.+)"]
        at = found.end()
    return re.compile("".join([*parts, re.escape(text[at:])]))


def _fill(text: str, groups: Sequence[str]) -> str:
    values = iter(groups)
    return _PLACEHOLDER.sub(lambda _: next(values, ""), text)


def _folded(name: str) -> str:
    return re.sub(r"[.:]", "_", name).lower()


def _factors(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


class Catalogue:
    """All rows, indexed by what is asked of them. Immutable once built."""

    def __init__(self, rows: Sequence[Rename]) -> None:
        self.rows = tuple(rows)
        self._plain: dict[str, list[Rename]] = {}
        self._dotted: dict[str, list[Rename]] = {}
        self._patterns: list[tuple[re.Pattern[str], Rename]] = []
        self._labels: dict[str, list[Rename]] = {}
        self._same: dict[Kind, list[Rename]] = {}
        self._spelled: dict[str, str] = {}
        # where several systems know one rename, who makes the metric speaks first
        for row in sorted(rows, key=lambda r: not (r.prefixes and r.old.startswith(r.prefixes))):
            self._file(row)
            if row.kind in _OF_NAMES and not row.dotted:
                for name in filter(None, (row.old, row.new)):
                    self._spelled.setdefault(_folded(name), name)

    def _file(self, row: Rename) -> None:
        if row.kind in _OF_NAMES:
            if _PLACEHOLDER.search(row.old):
                self._patterns.append((_pattern(row.old), row))
            elif row.dotted:
                self._dotted.setdefault(bare(row.old), []).append(row)
            else:
                self._plain.setdefault(row.old, []).append(row)
                # a field of an exporter may be printed as a label instead
                self._labels.setdefault(row.old, []).append(row) if row.kind is Kind.METRIC else None
        elif row.kind in (Kind.LABEL, Kind.LABEL_REMOVED):
            self._labels.setdefault(re.sub(r"\.", "_", row.old), []).append(row)
        else:
            self._same.setdefault(row.kind, []).append(row)

    def about(self, name: str) -> Iterator[Rename]:
        """Rows whose old name is this one, placeholders filled in."""
        yield from self._plain.get(name, ())
        yield from self._dotted.get(bare(name), ())
        for pattern, row in self._patterns:
            if found := pattern.fullmatch(name):
                yield replace(row, old=name, new=_fill(row.new, found.groups()), filled=True)

    def spelling(self, name: str) -> str:
        """The catalogue's own spelling of a stored name: pipelines lower names, and write `_` for `:`; Ray adds a prefix."""
        if name in self._plain:
            return name
        folded = _folded(name)
        return self._spelled.get(folded) or self._spelled.get(folded.removeprefix("ray_")) or name

    def removed(self, name: str) -> Rename | None:
        """The row that says it was taken away, if there is one."""
        return next((row for row in self.about(name) if row.kind in (Kind.REMOVED, Kind.SPLIT)), None)

    def alternatives(self, name: str) -> tuple[Rename, ...]:
        return tuple(row for row in self.about(name) if row.kind in (Kind.ALTERNATIVE, Kind.SPLIT))

    def ways(self, name: str, present: Collection[str]) -> tuple[Step, ...]:
        """Every successor of a name that is present, over chains.

        A name is never visited twice, and a row with placeholders begins no second step: `<x>` to `kube_<x>` would
        never end.
        """
        forms = _Forms(present)
        seen, edge = {name}, [Step(name, (), (1.0,))]
        found: dict[str, Step] = {}
        while edge:
            following: list[Step] = []
            for step in edge:
                for row in self.about(step.name):
                    if row.kind is not Kind.METRIC or row.new in seen or (step.rows and row.filled):
                        continue
                    factors = tuple(dict.fromkeys(a * b for a in step.factors for b in row.factors))
                    names = forms.of(row) - {name}
                    for each in sorted(names):
                        step_to = Step(each, (*step.rows, row), factors)
                        found[step_to.target] = _either(found[step_to.target], step_to) if step_to.target in found else step_to
                    if not names:
                        seen.add(row.new)
                        following.append(Step(row.new, (*step.rows, row), factors))
            edge = following
        return tuple(found.values())

    def labels(self, label: str, metric: str) -> tuple[Rename, ...]:
        """Rows that rename or remove this label on this metric."""
        return tuple(row for row in self._labels.get(label, ()) if row.kind is Kind.METRIC or row.concerns(metric))

    def label_values(self, label: str, metric: str) -> tuple[Rename, ...]:
        return tuple(row for row in self._same.get(Kind.LABEL_VALUE, ()) if row.label == label and row.concerns(metric))

    def same_name(self, kind: Kind, metric: str) -> tuple[Rename, ...]:
        """Rows that say what else changed under the same name (type, unit, meaning, buckets)."""
        return tuple(row for row in self._same.get(kind, ()) if fnmatchcase(metric, row.old))


def _either(first: Step, second: Step) -> Step:
    """Two rows for one rename: the first one, with the scales that either knows."""
    return replace(first, factors=tuple(dict.fromkeys((*first.factors, *second.factors))))


class _Forms:
    """The stored spellings of a catalogue name among the names that are present."""

    def __init__(self, present: Collection[str]) -> None:
        self.present = frozenset(present)
        self._bare: Mapping[str, set[str]] | None = None

    def of(self, row: Rename) -> set[str]:
        if not row.dotted:
            return {row.new} & self.present
        if self._bare is None:
            index: dict[str, set[str]] = {}
            for name in self.present:
                index.setdefault(bare(name), set()).add(name)
            self._bare = index
        return set(self._bare.get(bare(row.new), ()))


def _rows(document: Any) -> Iterator[Rename]:
    for system in _File.model_validate(document).systems:
        for change in system.changes:
            for row in change.rows:
                yield Rename(
                    system.name,
                    change.version,
                    change.source,
                    row.kind,
                    row.old,
                    row.new,
                    row.scope,
                    row.label,
                    tuple(row.match.items()),
                    _factors(row.factor),
                    row.types,
                    row.expr,
                    row.note or change.note,
                    system.prefixes,
                    system.dotted,
                )


@lru_cache(maxsize=1)
def load_renames() -> Catalogue:
    """The shipped catalogue, read once."""
    folder = resources.files("functions.knowledge") / "renames"
    rows: list[Rename] = []
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".yaml"):
            # a subclass of the safe loader: plain data only
            rows += _rows(yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader))
    return Catalogue(rows)
