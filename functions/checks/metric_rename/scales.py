"""Changes of type and of scale, under a new name or the same one.

A scale is believed changed where the catalogue says so, where the unit in the name or in the metadata changed, or
where every figure moved by one and the same unit factor. Values that could be a change of load decide nothing; zeros
never do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from functions.checks.metric_rename.families import Family
from functions.checks.metric_rename.values import UNIT_FACTORS, best_factor, distance
from functions.knowledge.renames import Rename
from functions.knowledge.renames_words import Words

#: |log| within which values are taken to agree with a known factor; a load may change by half, a unit does not.
_AGREES = 1.1
#: The same where the values alone must prove the factor.
_PROVES = 0.2
#: Symbols that are too short to be read as words wherever they stand.
_SYMBOLS = {"%": ("share", 0.01), "J": ("energy", 1.0), "W": ("power", 1.0)}
_IN_UNIT = re.compile(r"[(\[](?:in\s+)?([A-Za-z%]+)(?:/s| per second)?[)\]]|\bin ([A-Za-z]+)\b")


@dataclass(frozen=True, slots=True)
class Scale:
    """New value ÷ old value, and how it is known."""

    factor: float
    why: str
    row: Rename | None = None


def changed_scale(was: Family, now: Family, words: Words, *, factors: Sequence[float] = (), rows: Sequence[Rename] = ()) -> Scale | None:
    """The change of scale between two families that tell the same thing, or None. `factors`: what the catalogue says."""
    row = rows[-1] if rows else None
    if factors:
        return _documented(was, now, factors, row)
    stated = _stated(was, now, words)
    if stated is not None:
        fit = best_factor(was, now, (stated, 1.0)) if not was.counts_up else None
        if fit and fit[0] == 1.0 and fit[1] < _AGREES:
            return None  # the name lied before, or lies now: the values did not move
        return Scale(stated, "the unit in the name or the metadata changed")
    return _proven(was, now)


def _documented(was: Family, now: Family, factors: Sequence[float], row: Rename | None) -> Scale | None:
    why = f"{row.system} {row.version}" if row else "the catalogue"
    if 1.0 not in factors:
        fit = best_factor(was, now, tuple(factors))
        return Scale(fit[0] if fit else factors[0], why, row)
    if len(factors) == 1:
        return None
    # one name, two scales by version: only the values tell which
    fit = best_factor(was, now, tuple(factors))
    apart = distance(was, now, 1.0)
    if fit and fit[0] != 1.0 and fit[1] < _AGREES and apart is not None and apart > 2 * fit[1]:
        return Scale(fit[0], f"{why}, and the values", row)
    return None


def _stated(was: Family, now: Family, words: Words) -> float | None:
    """The factor between the units that name or metadata state, where they state two of one quantity."""
    old, new = words.read(was.name), words.read(now.name)
    if was.name != now.name and old.quantity and old.quantity == new.quantity:
        return old.scale / new.scale if old.scale != new.scale else None
    a, b = (_unit_of(family, words, by_name=was.name != now.name) for family in (was, now))
    if a and b and a[0] == b[0] and a[1] != b[1]:
        return a[1] / b[1]
    return None


def _unit_of(family: Family, words: Words, *, by_name: bool) -> tuple[str, float] | None:
    """The unit that the metadata, the text or, where it may count, the name states.

    A name that stayed states what it did before; that its text is known only now is no change.
    """
    name = words.read(family.name)
    named = (name.quantity, name.scale) if name.quantity and by_name else None
    return words.unit(family.unit) or _unit_in_help(family.help, words) or named


def _unit_in_help(text: str, words: Words) -> tuple[str, float] | None:
    """The unit that a HELP text puts in brackets or after "in"; the last one, where there are several."""
    units = [unit for found in _IN_UNIT.finditer(text or "") if (unit := _unit(found[1] or found[2], words))]
    return units[-1] if units else None


def _unit(word: str, words: Words) -> tuple[str, float] | None:
    if word in _SYMBOLS:
        return _SYMBOLS[word]
    return words.unit(word) if len(word) > 1 or word == "s" else None


def _proven(was: Family, now: Family) -> Scale | None:
    """A factor that mean, highest and lowest value all moved by, and that no load explains."""
    if (was.counts_up and not _spreads(was)) or was.counts_up != now.counts_up:
        return None
    fit = best_factor(was, now, UNIT_FACTORS)
    if fit is None or fit[0] == 1.0 or fit[1] > _PROVES:
        return None
    factor = fit[0]
    if _spreads(was):
        return Scale(factor, "the mean observation moved by a unit's factor") if was.count and now.count and factor not in _LOADS else None
    if was.series < 2 or was.high is None or was.low is None or now.high is None or now.low is None:
        return None
    if was.low and now.low and abs(now.low / (was.low * factor) - 1) > 0.5:
        return None
    if factor in _LOADS and not _share(was, now, factor):
        return None
    return Scale(factor, "all values moved by a unit's factor")


#: Factors that a change of load makes as well.
_LOADS = (0.01, 100.0, 60.0, 1 / 60)


def _share(was: Family, now: Family, factor: float) -> bool:
    """Percent to ratio or back: one side within 0 to 1 and broken, the other within 0 to 100 and beyond 1."""
    small, large = (now, was) if factor < 1 else (was, now)
    if small.high is None or large.high is None or small.low is None or large.low is None:
        return False
    return factor in (0.01, 100.0) and 0 < small.high <= 1 and 1 < large.high <= 100 and large.low > 1 and small.low > 0


def _spreads(family: Family) -> bool:
    return family.type in ("histogram", "summary")


#: A histogram in one series each, without buckets of their own.
NATIVE = "native histogram"


@dataclass(frozen=True, slots=True)
class Retyped:
    before: str
    after: str


def changed_type(was: Family, now: Family) -> Retyped | None:
    """A change of type that changes how it must be queried; None where either type is unknown."""
    old, new = _shape(was), _shape(now)
    return Retyped(old, new) if old and new and old != new else None


def _shape(family: Family) -> str:
    if family.type in ("histogram", "gaugehistogram"):
        return "histogram" if any(n.endswith("_bucket") for n in family.names) else NATIVE
    return {"unknown": "", "untyped": "", "info": "gauge", "stateset": "gauge"}.get(family.type, family.type)
