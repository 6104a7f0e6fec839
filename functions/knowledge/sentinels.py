"""Codes that mean "no value" and were stored as one: the float64 values and the strings, and what each says.

Exact codes only: a large number is not a sentinel. In units whose sound values grow past 2^31 (bytes, energy,
clocks in hertz) the 32-bit codes are not looked for at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Value(_Model):
    code: str
    meaning: str
    floats: tuple[float, ...]
    source: str


class _String(_Model):
    text: str
    meaning: str
    source: str


class _File(_Model):
    values: tuple[_Value, ...]
    strings: tuple[_String, ...]
    threshold: float
    wide_units: frozenset[str]
    narrow_codes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sentinel:
    """One code: its name, what it says, and where that is written."""

    code: str
    meaning: str
    source: str


@dataclass(frozen=True, slots=True)
class Sentinels:
    """All codes. `threshold` is the smallest of the values: nothing below it needs a second look."""

    values: Mapping[float, Sentinel]
    strings: Mapping[str, Sentinel]
    threshold: float
    wide_units: frozenset[str]
    narrow_codes: frozenset[str]

    def of(self, value: float, unit: str = "") -> Sentinel | None:
        """The code that this stored value is, if it is one in a metric of that unit ("" where the unit is unknown)."""
        found = self.values.get(float(value))
        if found is None or (unit in self.wide_units and found.code in self.narrow_codes):
            return None
        return found

    def of_string(self, text: str) -> Sentinel | None:
        """The code that this label value is."""
        return self.strings.get(text.strip())


@lru_cache(maxsize=1)
def load_sentinels() -> Sentinels:
    """The shipped codes."""
    text = resources.files("functions.knowledge").joinpath("sentinels.yaml").read_text(encoding="utf-8")
    file = _File.model_validate(yaml.safe_load(text))
    return Sentinels(
        values={number: Sentinel(row.code, row.meaning, row.source) for row in file.values for number in row.floats},
        strings={row.text: Sentinel(row.text, row.meaning, row.source) for row in file.strings},
        threshold=file.threshold,
        wide_units=file.wide_units,
        narrow_codes=file.narrow_codes,
    )
