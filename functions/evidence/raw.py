"""Raw Kubernetes JSON, read without taking anything for granted: a missing or mistyped field is its empty value.

What is no object at all (no name) is refused with `Unusable`, so that the caller can record it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Raw = Mapping[str, Any]

_SUFFIXES: Mapping[str, float] = {
    "": 1, "m": 1e-3, "u": 1e-6, "n": 1e-9, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?)([KMGTPE]i|[munkMGTPE]?)\s*")
_FRACTION = re.compile(r"(\.\d{6})\d+")


class Unusable(ValueError):
    """Not a Kubernetes object: no mapping, or no name."""


def quantity(value: object) -> float | None:
    """A Kubernetes quantity ("8", "1k", "16Gi", 4) as a number; None for anything else."""
    if isinstance(value, bool):
        return None
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    try:
        found = float(value) if isinstance(value, int | float) else float(match[1]) * _SUFFIXES[match[2]] if match else math.nan
    except OverflowError:  # a whole number beyond all floats
        return None
    return found if math.isfinite(found) else None


#: Years in which something can have been observed; times outside them can't even be compared safely.
FIRST_YEAR, LAST_YEAR = 1970, 9998


def instant(value: object) -> datetime | None:
    """An RFC 3339 time, nanoseconds cut to microseconds; None for anything else, and for Go's zero time."""
    if isinstance(value, str) and value:
        try:
            value = datetime.fromisoformat(_FRACTION.sub(r"\1", value.strip()))
        except ValueError:
            return None
    if not isinstance(value, datetime) or not FIRST_YEAR <= value.year <= LAST_YEAR:
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def meta(raw: object) -> Raw:
    """The metadata of an object. Raises Unusable where there is no name."""
    if not isinstance(raw, Mapping):
        raise Unusable(f"not an object but {type(raw).__name__}")
    metadata = at(raw, "metadata")
    if not text(metadata.get("name")):
        raise Unusable(f"{text(raw.get('kind')) or 'an object'} without metadata.name")
    return metadata


def at(raw: object, *path: str) -> Raw:
    """The mapping at a path; an empty one where there is none."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw if isinstance(raw, Mapping) else {}


def items(raw: object, *path: str) -> list[Raw]:
    """The mappings in the list at a path."""
    *parents, last = path
    found = at(raw, *parents).get(last)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def text(value: object) -> str:
    """A scalar as text; "" for null and for structures."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def texts(value: object) -> dict[str, str]:
    """A mapping of texts (labels, annotations, data)."""
    return {text(k): text(v) for k, v in value.items()} if isinstance(value, Mapping) else {}
