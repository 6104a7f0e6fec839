"""Names that were exposed side by side before the old one went: equal in every figure at the same instant.

Many projects print old and new name for a release or two, so that the successor of a lost name is not new at the cut.
Equal labels, as many series, and the same lowest, mean and highest value of the same scrape are the sign of it; a
name that stayed and shows anything else is no candidate at all. Round numbers agree by accident, the more so under a
factor: so the two names must share words as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from functions.checks.metric_rename.families import Family
from functions.knowledge.renames_words import Words

#: (before, now) of names that the job had and has.
Kept = Sequence[tuple[Family, Family]]

#: Ratios between an old and a new name of one quantity.
_FACTORS = (1.0, 1e-3, 1e3, 1e-6, 1e6, 0.01, 100.0, 1048576.0, 1e-9, 1e9)
_EXACT = 1e-9
#: Share of the telling words of the shorter name that the other must have: for values that are equal, and for those that
#: are equal in another unit or are round numbers (which are never compared in another unit).
_AKIN, _AKIN_ROUND = 0.5, 0.6
#: What equality is worth where half of all idle metrics would show it.
_TRIVIAL = 0.2


def twins(lost: Collection[Family], kept: Kept, words: Words) -> dict[str, dict[str, float]]:
    """Lost name -> kept name that was its equal -> how telling that is, from 0 to 1.

    Idle metrics are equal by accident; they count where others show that the release had names side by side, where the
    two names read the same, or where no third metric has the HELP text of these two.
    """
    alike: dict[object, list[Family]] = {}
    for family in (*lost, *(before for before, _ in kept)):
        alike.setdefault(_key(family), []).append(family)
    stayed = {before.name for before, _ in kept}
    read = _telling({f.name for held in alike.values() for f in held}, words)
    texts: dict[str, set[str]] = {}
    for family in (f for held in alike.values() for f in held):
        texts.setdefault(family.help, set()).add(family.name)
    found: dict[str, dict[str, float]] = {}
    for was in lost:
        group = [other for other in alike[_key(was)] if other.name != was.name]
        equal = [other.name for other in group if other.name in stayed and _equal(was, other, _akin(read[was.name], read[other.name]))]
        # what strangers show as well tells nothing
        crowd = sum(_figures(other) == _figures(was) and other.name not in equal for other in group)
        if (crowd and not _idle(was)) or (len(equal) > 1 and _round(was) and not _idle(was)):
            continue
        for name in equal:
            alone = bool(was.help) and texts[was.help] == {was.name, name}
            same = sorted(words.read(name).words) == sorted(words.read(was.name).words)
            found.setdefault(was.name, {})[name] = (_TRIVIAL if _idle(was) and not alone and not same else 1.0) / len(equal)
    return found if any(value > _TRIVIAL for row in found.values() for value in row.values()) else {}


def _key(family: Family) -> object:
    return frozenset(family.labels.items()), family.series, family.targets


def _figures(family: Family) -> tuple[float | None, ...]:
    return (family.low, family.mean, family.high, family.count)


def _telling(names: Collection[str], words: Words) -> dict[str, frozenset[str]]:
    """Each name's words but those that most names have."""
    read = {name: frozenset(words.read(name).words) for name in names}
    seen = Counter(word for said in read.values() for word in said)
    return {name: frozenset(w for w in said if seen[w] <= max(2, len(names) // 2)) for name, said in read.items()}


def _akin(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / max(1, min(len(left), len(right)))


def _equal(a: Family, b: Family, akin: float) -> bool:
    if a.mean is None or b.mean is None or (a.type and b.type and a.counts_up != b.counts_up):
        return False
    if akin < (_AKIN_ROUND if _round(a) else _AKIN) or (a.mean != a.count and not _same(a.count, b.count, 1.0)):
        return False  # the observations of a distribution are counted in no unit
    factors = _FACTORS if akin >= _AKIN_ROUND and not _round(a) else (1.0,)
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
