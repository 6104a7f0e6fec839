"""How much two families are alike, as a few numbers between -1 and 1, and the confidence that rests on them.

The weights were fitted on the tuning half of recorded release events (benchmarks/inference); the catalogue has no
part in it. Which pairs are in the end taken for renames is decided in `_rename_inference.py`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from functions.checks._rename_families import Family
from functions.checks._rename_values import UNIT_FACTORS, Restart, agreement
from functions.knowledge.renames_words import Reading, Words, akin

#: Names of the features, in the order of the weights.
FEATURES = ("name", "letters", "pattern", "labels", "series", "type", "unit", "qualifier", "values", "help", "mutual")
#: How many of the features look at the names alone (the first ones).
_OF_NAMES = 2
#: What contradicting units leave of the odds: seconds do not become bytes. The same for contradicting numbers.
_UNIT_VETO = 1e-6
_VALUE_VETO = 0.05
#: Candidates that are looked at for one lost name.
_RIVALS = 30


@dataclass(frozen=True, slots=True)
class Setting:
    """What the likeness of two names of one job depends on besides the two."""

    words: Words
    #: how little a word says, from the names of the job: word -> weight
    weights: Mapping[str, float]
    #: labels that the whole job gained or lost at the cut; they tell nothing about a pair
    shifted: frozenset[str]
    restarted: Restart | None


def word_weights(names: Sequence[Reading], lost: Sequence[Reading], new: Sequence[Reading]) -> dict[str, float]:
    """Rare words weigh more than those that most names of the job have, or most of the lost or of the new ones.

    The last two are what a release changes everywhere (a prefix, say), which tells nothing about a single pair.
    """
    shares: dict[str, float] = {}
    # a small group is no crowd: two words too many in it keep its single names from looking common
    for group, room in ((names, 0), (lost, 2), (new, 2)):
        seen = Counter(word for reading in group for word in set(reading.words))
        for word, count in seen.items():
            shares[word] = max(shares.get(word, 0.0), count / (len(group) + room))
    return {word: math.log(1 + 1 / share) for word, share in shares.items()}


Table = dict[str, dict[str, tuple[float, ...]]]


def table(lost: Collection[Family], new: Collection[Family], setting: Setting) -> Table:
    """The features of each pair worth a look: lost name -> new name -> numbers in the order of FEATURES."""
    read = {f.name: setting.words.read(f.name) for f in (*lost, *new)}
    rivals = _rivals(lost, new, read, setting.weights)
    shared = patterns([(read[was.name], read[now.name]) for was, held in rivals for now in held])
    pairs = {
        was.name: {now.name: _pair((was, read[was.name]), (now, read[now.name]), setting, shared) for now in held} for was, held in rivals
    }
    # a pair that its unit or its numbers rule out is nobody's rival
    alike = {old: {n: sum(v[:_OF_NAMES]) * (_veto(v) == 1) for n, v in row.items()} for old, row in pairs.items()}
    columns: dict[str, list[float]] = {}
    for row in alike.values():
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    columns = {name: sorted(values, reverse=True)[:2] for name, values in columns.items()}
    for old, row in alike.items():
        best = sorted(row.values(), reverse=True)[:2]
        for name, value in row.items():
            lead = min(_lead(value, best), _lead(value, columns[name]))
            pairs[old][name] += (max(-1.0, min(1.0, 2 * lead)),)
    return pairs


def _rivals(
    lost: Collection[Family], new: Collection[Family], read: Mapping[str, Reading], weights: Mapping[str, float]
) -> list[tuple[Family, list[Family]]]:
    """For each lost name the new ones it shares most words with, so that a large job costs no square of its size."""
    if len(new) <= _RIVALS:
        return [(was, list(new)) for was in lost]
    index: dict[str, list[Family]] = {}
    for now in new:
        for word in set(read[now.name].words):
            index.setdefault(word, []).append(now)
    found = []
    for was in lost:
        score: dict[str, float] = {}
        for word in set(read[was.name].words):
            for now in index.get(word, ()):
                score[now.name] = score.get(now.name, 0.0) + weights.get(word, 1.0)
        best = {name for name, _ in sorted(score.items(), key=lambda item: (-item[1], item[0]))[:_RIVALS]}
        found.append((was, [now for now in new if now.name in best]))
    return found


def _lead(value: float, best: list[float]) -> float:
    """How far a pair leads the best of its rivals, or trails it."""
    if value < best[0]:
        return value - best[0]
    return value - best[1] if len(best) > 1 else 0.5


def _pair(
    left: tuple[Family, Reading], right: tuple[Family, Reading], setting: Setting, patterns: Mapping[tuple[object, object], int]
) -> tuple[float, ...]:
    """The likeness of a pair by itself."""
    (was, old), (now, new) = left, right
    support = patterns.get(difference(old, new), 0)
    return (
        _name(old, new, setting.weights),
        SequenceMatcher(None, "_".join(old.raw), "_".join(new.raw), autojunk=False).ratio(),
        min(1.0, max(0, support - 1) / 3),
        _overlap(set(was.labels) - setting.shifted, set(now.labels) - setting.shifted),
        min(was.series, now.series) / max(was.series, now.series, 1),
        _type(was, now),
        unit_agreement(old, new),
        _qualifier(old, new, setting.words),
        agreement(was, now, factors_of(old, new), setting.restarted),
        _help(was.help, now.help),
    )


def difference(old: Reading, new: Reading) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that differ once what both names begin and end with is taken away: the pattern of a rename."""
    a, b = old.raw, new.raw
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return a[start : len(a) - end], b[start : len(b) - end]


def patterns(pairs: Iterable[tuple[Reading, Reading]]) -> dict[tuple[object, object], int]:
    """How many names of either side one and the same difference could explain: a release renames by rule."""
    left: dict[tuple[object, object], set[tuple[str, ...]]] = {}
    right: dict[tuple[object, object], set[tuple[str, ...]]] = {}
    for a, b in pairs:
        if len(set(a.raw) & set(b.raw)) >= 2:
            key = difference(a, b)
            left.setdefault(key, set()).add(a.raw)
            right.setdefault(key, set()).add(b.raw)
    return {key: min(len(left[key]), len(right[key])) for key in left}


def factors_of(old: Reading, new: Reading) -> tuple[float, ...]:
    """The factors that the two names leave open."""
    if old.quantity and old.quantity == new.quantity:
        factor = old.scale / new.scale
        # names lie: seconds were written under a name in milliseconds, shares under "percent"
        return (factor,) if factor == 1 else (factor, 1.0)
    return UNIT_FACTORS


def unit_agreement(old: Reading, new: Reading) -> float:
    if not old.quantity or not new.quantity:
        return 0.0
    return 1.0 if old.quantity == new.quantity else -1.0


def _name(old: Reading, new: Reading, weights: Mapping[str, float]) -> float:
    both, only_old, only_new = _shared(old, new, weights)
    return both / (both + only_old + only_new or 1.0)


def _shared(old: Reading, new: Reading, weights: Mapping[str, float]) -> tuple[float, float, float]:
    """Weight of the words that both names have, and of those that only one has."""
    a, b = set(old.words), set(new.words)
    pairs = {word: word for word in a & b}
    for word in sorted(a - b):
        if match := next((other for other in sorted(b - a - set(pairs.values())) if akin(word, other)), None):
            pairs[word] = match

    def weigh(words: Iterable[str]) -> float:
        return sum(weights.get(w, 1.0) for w in words)

    return weigh(pairs), weigh(a - pairs.keys()), weigh(b - set(pairs.values()))


def _qualifier(old: Reading, new: Reading, words: Words) -> float:
    """Down to -1 where one name has words that tell siblings apart and the other has not."""
    apart = (set(old.words) ^ set(new.words)) & words.qualifiers
    return -min(1.0, len(apart) / 2)


def _overlap(a: Collection[str], b: Collection[str]) -> float:
    either = set(a) | set(b)
    return len(set(a) & set(b)) / len(either) if either else 1.0


def _help(old: str, new: str) -> float:
    """Whether the two HELP texts say the same; 0 where one of them is not known. A rename seldom rewrites its text."""
    a, b = (set(re.findall(r"[a-z0-9]{3,}", text.lower())) for text in (old, new))
    return len(a & b) / len(a | b) - 0.3 if a and b else 0.0


_ALIKE = {"counter": "counts", "histogram": "spreads", "summary": "spreads", "gauge": "levels", "gaugehistogram": "spreads"}


def _type(was: Family, now: Family) -> float:
    old, new = _ALIKE.get(was.type, ""), _ALIKE.get(now.type, "")
    if not old or not new:
        return 0.0
    return 1.0 if old == new else -1.0


def _veto(values: Sequence[float]) -> float:
    unit = _UNIT_VETO if values[FEATURES.index("unit")] < 0 else 1.0
    return unit * (_VALUE_VETO if values[FEATURES.index("values")] <= -1 else 1.0)


def odds(values: Sequence[float], weights: Sequence[float], bias: float) -> float:
    """The odds that a pair is a rename, before its rivals are heard."""
    return _veto(values) * math.exp(min(30.0, bias + sum(v * w for v, w in zip(values, weights, strict=True))))
