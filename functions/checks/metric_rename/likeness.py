"""How much two families are alike, as a few numbers of about -1 to 1: the evidence for and against a rename.

What agrees is weighed against how often it agrees by accident in this job: a label set that every metric has, a level
of zero or a HELP text of the whole collector tells nothing, a rare one much. Which pairs are in the end taken for
renames, and with what confidence, is decided in `inference.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from functions.checks.metric_rename.families import Family
from functions.checks.metric_rename.patterns import Rules, contrast, contrasts
from functions.checks.metric_rename.rivals import lead, rivals
from functions.checks.metric_rename.texts import Texts
from functions.checks.metric_rename.twins import Kept, twins
from functions.checks.metric_rename.values import UNIT_FACTORS, Restart, agreement
from functions.knowledge.renames_words import Reading, Words, akin

#: Names of the features, in the order of the weights. `unit` weighs nothing and rules out: see `veto`.
FEATURES = (
    "name", "inside", "words", "letters", "pattern", "labels", "label_set", "series", "type", "unit", "qualifier", "contrast", "values",
    "help", "text", "cross", "twin", "mutual", "rule",
)  # fmt: skip
_LETTERS, _HELP = FEATURES.index("letters"), FEATURES.index("help")
#: What contradicting units leave of the odds: seconds do not become bytes. The same for contradicting numbers.
_UNIT_VETO = 1e-6
_VALUE_VETO = 0.05
#: Names of the job that stand for what agrees by accident.
_POPULATION = 60

Table = dict[str, dict[str, tuple[float, ...]]]


@dataclass(frozen=True, slots=True)
class Setting:
    """What the likeness of two names of one job depends on besides the two."""

    words: Words
    #: how much a word says, from the names of the job: word -> weight
    weights: Mapping[str, float]
    #: labels that the whole job gained or lost at the cut; they tell nothing about a pair
    shifted: frozenset[str]
    restarted: Restart | None
    texts: Texts
    #: what the job stores now, for how often things agree by accident
    population: tuple[Family, ...]

    def own_labels(self, family: Family) -> frozenset[str]:
        return frozenset(family.labels) - self.shifted


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


class Evidence:
    """The features of every pair worth a look, of one job."""

    def __init__(self, lost: Collection[Family], new: Collection[Family], setting: Setting, kept: Kept = ()) -> None:
        self.setting = setting
        beside = twins(lost, kept, setting.texts)
        equals = set[str]().union(*beside.values())
        new = [*new, *(now for _, now in kept if now.name in equals)]
        self.read = {f.name: setting.words.read(f.name) for f in (*lost, *new)}
        self._twins, self._kept = beside, frozenset(now.name for _, now in kept)
        self._label_sets = Counter((setting.own_labels(f), f.series) for f in setting.population)
        stayed = [setting.words.read(now.name) for _, now in kept]
        old_names, new_names = ([self.read[f.name] for f in held if f.name not in self._kept] for held in (lost, new))
        # where names stood side by side with their successors, lost and kept ones are no siblings
        groups = [old_names, stayed, new_names] if any(beside.values()) else [[*old_names, *stayed], [*new_names, *stayed]]
        self._contrasts = contrasts(groups)
        self._texts_old, self._texts_new = (Counter(setting.texts.words(f.help) for f in held if f.help) for held in (lost, new))
        looked_at = [
            (was, [now for now in held if now.name not in self._kept or now.name in beside.get(was.name, ())])
            for was, held in rivals(lost, new, self.read, setting)
        ]
        shared = patterns([(self.read[was.name], self.read[now.name]) for was, held in looked_at for now in held])
        pairs = {was.name: {now.name: self._pair(was, now, shared) for now in held} for was, held in looked_at}
        # a pair that its unit or its numbers rule out is nobody's rival
        alike = {old: {n: (v[0] + v[_LETTERS] + v[_HELP]) * (veto(v) == 1) for n, v in row.items()} for old, row in pairs.items()}
        leads = lead(alike)
        self.table: Table = {old: {n: (*v, leads[old][n], 0.0) for n, v in row.items()} for old, row in pairs.items()}

    def ruled(self, rules: Rules) -> Table:
        """The same with what the rules of the release say about each pair."""
        return {
            old: {n: (*v[:-1], rules.explains(self.read[old], self.read[n])) for n, v in row.items()} for old, row in self.table.items()
        }

    def _pair(self, was: Family, now: Family, shared: Mapping[tuple[object, object], int]) -> tuple[float, ...]:
        """The likeness of a pair by itself, in the order of FEATURES, without the last two."""
        old, new, setting = self.read[was.name], self.read[now.name], self.setting
        said, same_text, cross = self._said(was, now)
        return (
            *_name(old, new, setting.weights),
            float(sorted(old.words) == sorted(new.words)),
            SequenceMatcher(None, "_".join(old.raw), "_".join(new.raw), autojunk=False).ratio(),
            min(1.0, max(0, shared.get(difference(old, new), 0) - 1) / 3),
            _overlap(setting.own_labels(was), setting.own_labels(now)),
            self._label_set(was, now),
            min(was.series, now.series) / max(was.series, now.series, 1),
            _type(was, now),
            unit_agreement(old, new),
            _qualifier(old, new, setting.words),
            contrast(old, new, self._contrasts),
            agreement(was, now, factors_of(old, new), setting.restarted),
            said,
            same_text,
            cross,
            self._twins.get(was.name, {}).get(now.name, 0.0),
        )

    def _label_set(self, was: Family, now: Family) -> float:
        """How telling it is that both have the same labels on as many series; 0 where they have not."""
        own = self.setting.own_labels(now)
        if own != self.setting.own_labels(was) or not 0.8 <= now.series / max(1, was.series) <= 1.25:
            return 0.0
        return _rarity(self._label_sets[own, now.series], len(self.setting.population))

    def _said(self, was: Family, now: Family) -> tuple[float, float, float]:
        """What the HELP texts say: their likeness, whether they are one and the same, and each about the other's name."""
        texts, old, new = self.setting.texts, self.read[was.name], self.read[now.name]
        said = same = 0.0
        if was.help and now.help:
            a, b = texts.words(was.help), texts.words(now.help)
            bearers = max(self._texts_old[a], self._texts_new[b], 1)
            said = (texts.likeness(was.help, now.help) - 0.35) / bearers
            same = 1.0 / bearers if a == b else 0.0
        told = [
            texts.covers(set(mine.words) - set(other.words), text) - 0.15
            for mine, other, text in ((old, new, now.help), (new, old, was.help))
            if text and set(mine.words) - set(other.words)
        ]
        return said, same, sum(told) / len(told) if told else 0.0


def _rarity(count: int, of: int) -> float:
    """From about 0 (everything has it) to 1 (one in fifty has it)."""
    return min(1.0, -math.log((count + 1) / (of + 2)) / 4)


def sample(families: Iterable[Family]) -> tuple[Family, ...]:
    """At most so many of a job's families, spread over the alphabet."""
    held = sorted(families, key=lambda f: f.name)
    return tuple(held[:: max(1, len(held) // _POPULATION)])


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


def _name(old: Reading, new: Reading, weights: Mapping[str, float]) -> tuple[float, float]:
    """What both names say of all that either says, and of what the one that says less says."""
    both, only_old, only_new = _shared(old, new, weights)
    return both / (both + only_old + only_new or 1.0), both / (both + min(only_old, only_new) or 1.0)


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


_ALIKE = {"counter": "counts", "histogram": "spreads", "summary": "spreads", "gauge": "levels", "gaugehistogram": "spreads"}


def _type(was: Family, now: Family) -> float:
    """Whether both are of one type. Where none is stated, the stored names still tell a distribution from a single value."""
    old, new = _ALIKE.get(was.type, ""), _ALIKE.get(now.type, "")
    if not old or not new:
        return -1.0 if "spreads" in (old, new) else 0.0
    return 1.0 if old == new else -1.0


def veto(values: Sequence[float]) -> float:
    unit = _UNIT_VETO if values[FEATURES.index("unit")] < 0 else 1.0
    return unit * (_VALUE_VETO if values[FEATURES.index("values")] <= -1 else 1.0)


@dataclass(frozen=True, slots=True)
class Model:
    """What each feature weighs, in the order of FEATURES."""

    weights: tuple[float, ...]
    bias: float

    def score(self, values: Sequence[float]) -> float:
        return self.bias + sum(v * w for v, w in zip(values, self.weights, strict=True))

    def odds(self, table: Table) -> dict[str, dict[str, float]]:
        """The odds that each pair is a rename, before its rivals are heard."""
        return {old: {n: veto(v) * math.exp(min(30.0, self.score(v))) for n, v in row.items()} for old, row in table.items()}
