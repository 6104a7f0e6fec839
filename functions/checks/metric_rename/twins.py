"""Names that were exposed side by side before the old one went: equal in every figure at the same instant.

Many projects print old and new name for a release or two, so that the successor of a lost name is not new at the cut.
Equal labels, as many series, and the same lowest, mean and highest value of the same scrape are the sign of it; a
name that stayed and shows anything else is no candidate at all. Round numbers agree by accident, the more so under a
factor: so the two names must share words as well.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from functions.checks.metric_rename.families import Family
from functions.checks.metric_rename.texts import Texts
from functions.knowledge.renames_words import Reading

#: (before, now) of names that the job had and has.
Kept = Sequence[tuple[Family, Family]]

#: Ratios between an old and a new name of one quantity.
_FACTORS = (1.0, 1e-3, 1e3, 1e-6, 1e6, 0.01, 100.0, 1048576.0, 1e-9, 1e9)
_EXACT = 1e-9
#: Share of the telling words of the shorter name that the other must have: for values that are equal, and for those that
#: are equal in another unit or are round numbers (which are compared in another unit only where names or HELP say so).
_AKIN, _AKIN_ROUND = 0.5, 0.6
#: What equality is worth where half of all idle metrics would show it.
_TRIVIAL = 0.2


def twins(lost: Collection[Family], kept: Kept, texts: Texts) -> dict[str, dict[str, float]]:
    """Lost name -> kept name that was its equal -> how telling that is, from 0 to 1.

    Idle metrics are equal by accident; they count where others show that the release had names side by side, where the
    two names read the same, or where no third metric has the HELP text of these two. The last two tell so much that it
    does not matter how many strangers show the same figures.
    """
    alike: dict[object, list[Family]] = {}
    for family in (*lost, *(before for before, _ in kept)):
        alike.setdefault(_key(family), []).append(family)
    read = {f.name: texts.vocabulary.read(f.name) for held in alike.values() for f in held}
    spoken = {name: tuple(sorted(reading.words)) for name, reading in read.items()}
    telling = _telling(spoken)
    bearers: dict[frozenset[str], set[str]] = {}
    for family in (f for held in alike.values() for f in held):
        bearers.setdefault(texts.words(family.help), set()).add(family.name)
    stayed = {before.name for before, _ in kept}
    groups = {key: _Group(held, stayed, read) for key, held in alike.items()}
    found: dict[str, dict[str, float]] = {}
    for was in lost:
        group, mine, said = groups[_key(was)], read[was.name], texts.words(was.help)
        equal: dict[str, bool] = {}
        for other in group.near(was, mine):
            same = spoken[other.name] == spoken[was.name]
            plain = same or (bool(said) and bearers[said] == {was.name, other.name})
            akin = 1.0 if same else _akin(telling[was.name], telling[other.name])
            if _equal(was, other, akin, _factors(mine, read[other.name], plain)):
                equal[other.name] = plain
        if sum(equal.values()) == 1:
            found[was.name] = {name: 1.0 for name, plain in equal.items() if plain}
            continue
        # what strangers show as well tells nothing
        if not _idle(was) and (group.others(was, equal) or (len(equal) > 1 and _round(was))):
            continue
        for name, plain in equal.items():
            found.setdefault(was.name, {})[name] = (_TRIVIAL if _idle(was) and not plain else 1.0) / len(equal)
    return found if any(value > _TRIVIAL for row in found.values() for value in row.values()) else {}


class _Group:
    """Families with the same labels on as many series, ordered by their mean: only those near a lost one are compared."""

    def __init__(self, members: Sequence[Family], stayed: Collection[str], read: Mapping[str, Reading]) -> None:
        self._figures: dict[object, set[str]] = {}
        for family in members:
            self._figures.setdefault(_figures(family), set()).add(family.name)
        numbers = ((f.mean, f.name, f) for f in members if f.name in stayed and f.mean is not None and math.isfinite(f.mean))
        held = sorted(numbers, key=lambda item: item[:2])
        self._means, self._held = [mean for mean, _, _ in held], [family for _, _, family in held]
        self._scales: dict[str, set[float]] = {}
        for family in self._held:
            self._scales.setdefault(read[family.name].quantity, set()).add(read[family.name].scale)

    def near(self, was: Family, mine: Reading) -> list[Family]:
        """Those that stayed and whose mean is this one's under some factor that two names may have."""
        if was.mean is None or not math.isfinite(was.mean):
            return []
        scales = self._scales.get(mine.quantity, ()) if mine.quantity else ()
        places: set[int] = set()
        for factor in {*_FACTORS, *(mine.scale / scale for scale in scales)}:
            value = was.mean * factor
            room = 2 * _EXACT * max(abs(value), 1e-12)
            places.update(range(bisect_left(self._means, value - room), bisect_right(self._means, value + room)))
        return [self._held[place] for place in sorted(places) if self._held[place].name != was.name]

    def others(self, was: Family, equal: Collection[str]) -> bool:
        """Whether names that are none of its equals show the same figures."""
        names = self._figures[_figures(was)]
        return len(names) > 1 + sum(name in names for name in equal)


def _factors(old: Reading, new: Reading, plain: bool) -> tuple[float, ...]:
    """The ratios that even round numbers may have: the one that the units in both names give, any where all else is plain."""
    if old.quantity and old.quantity == new.quantity:
        return (1.0, old.scale / new.scale)
    return _FACTORS if plain else (1.0,)


def _key(family: Family) -> object:
    return frozenset(family.labels.items()), family.series, family.targets


def _figures(family: Family) -> tuple[float | None, ...]:
    return (family.low, family.mean, family.high, family.count)


def _telling(spoken: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Each name's words but those that most names have."""
    read = {name: frozenset(words) for name, words in spoken.items()}
    seen = Counter(word for said in read.values() for word in said)
    return {name: frozenset(w for w in said if seen[w] <= max(2, len(read) // 2)) for name, said in read.items()}


def _akin(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / max(1, min(len(left), len(right)))


def _equal(a: Family, b: Family, akin: float, named: tuple[float, ...]) -> bool:
    """Whether all figures are equal, under one of the `named` factors or, where no figure is round, under any."""
    if a.mean is None or b.mean is None or (a.type and b.type and a.counts_up != b.counts_up):
        return False
    if akin < (_AKIN_ROUND if _round(a) else _AKIN) or (a.mean != a.count and not _same(a.count, b.count, 1.0)):
        return False  # the observations of a distribution are counted in no unit
    factors = _FACTORS if akin >= _AKIN_ROUND and not _round(a) else named
    fitting = [factor for factor in factors if _same(a.mean, b.mean, factor)]
    return any(_same(a.low, b.low, factor) and _same(a.high, b.high, factor) for factor in fitting)


def _same(x: float | None, y: float | None, factor: float) -> bool:
    if x is None or y is None:
        return x is y
    return abs(x * factor - y) <= _EXACT * max(abs(y), 1e-12)


def _idle(family: Family) -> bool:
    return family.mean in (0.0, 1.0) and family.low == family.high


def _round(family: Family) -> bool:
    """Settings and small counts, the same few numbers everywhere: no figure has more than three digits that count."""
    return all(value is None or float(f"{value:.3g}") == value for value in _figures(family))
