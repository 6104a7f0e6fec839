"""Which new name of a job is the successor of a lost one, from the data alone: names, labels, series, types, values.

"No successor" is always one of the answers, with odds of its own: dropped names must not steal a candidate. What
HELP or the catalogue say is heard before this, in `_successors.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from functions.checks._rename_families import Family
from functions.checks._rename_likeness import FEATURES, Setting, Table, odds, word_weights
from functions.checks._rename_likeness import table as likeness
from functions.checks._rename_values import restart
from functions.knowledge.renames_words import Words

#: Fitted on the tuning split (python -m benchmarks.inference --fit), in the order of FEATURES; the weight of HELP is
#: set by hand, since no recorded event has its texts.
WEIGHTS = (6.78, 1.73, 7.7, 4.0, 2.0, 1.04, 0.25, 2.34, 3.57, 3.0, 1.85)
BIAS = -11.0
#: From here on a pair is plain, and how far plain pairs may lift the odds of the others.
_PLAIN = 0.9
_LIFT = 4.0
#: A candidate below this is not worth a line in a hint.
_WORTH_NAMING = 0.05
_HINTS = 3
#: So many unsure names are weighed anew after each that is settled.
_ONE_BY_ONE = 100


@dataclass(frozen=True, slots=True)
class Guess:
    """The best successor of a lost name, how sure, what it rests on, and the others that were considered."""

    new: str
    confidence: float
    signals: tuple[str, ...]
    candidates: tuple[tuple[str, float], ...]


def setting(before: Mapping[str, Family], after: Mapping[str, Family], words: Words) -> Setting:
    """What all pairs of one job have in common."""
    lost = [words.read(n) for n in sorted(before.keys() - after.keys())]
    new = [words.read(n) for n in sorted(after.keys() - before.keys())]
    kept = sorted(before.keys() & after.keys())
    weights = word_weights([*lost, *new, *(words.read(n) for n in kept)], lost, new)
    both = [(before[n], after[n]) for n in kept]
    return Setting(words, weights, shifted_labels(both, before, after), restart(both))


def shifted_labels(kept: Sequence[tuple[Family, Family]], before: Mapping[str, Family], after: Mapping[str, Family]) -> frozenset[str]:
    """Labels that the job as a whole gained or lost."""
    if kept:
        changed = [set(was.labels) ^ set(now.labels) for was, now in kept]
        return frozenset(label for label in set().union(*changed) if sum(label in c for c in changed) * 2 > len(kept))
    had = set[str]().union(*(f.labels for f in before.values()))
    have = set[str]().union(*(f.labels for f in after.values()))
    return frozenset(had ^ have)


def infer(
    lost: Collection[Family], before: Mapping[str, Family], after: Mapping[str, Family], words: Words, taken: Collection[str] = ()
) -> dict[str, Guess]:
    """Lost name -> guess. Candidates are the names that are new at the cut and not `taken` by a known rename."""
    new = [f for name, f in sorted(after.items()) if name not in before and name not in taken]
    if not lost or not new:
        return {}
    where = setting(before, after, words)
    seen = likeness(lost, new, where)
    return _assign(chances(seen), seen)


def chances(seen: Table) -> dict[str, dict[str, float]]:
    """The odds of every pair. A job that plainly renamed most of what it lost, renamed the rest more likely as well."""
    first = {old: {name: odds(values, WEIGHTS, BIAS) for name, values in row.items()} for old, row in seen.items()}
    best = [max(row.values(), default=0.0) for row in confidences(first).values()]
    renamed, kept = sum(b >= _PLAIN for b in best), sum(b < 1 - _PLAIN for b in best)
    lift = min(_LIFT, ((renamed + 1) / (kept + 1)) ** 0.5)
    return {old: {name: value * lift for name, value in row.items()} for old, row in first.items()}


def confidences(table: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Odds to shares: a pair competes with every other use of either of its names, and with "no successor"."""
    columns: dict[str, float] = {}
    for row in table.values():
        for new, value in row.items():
            columns[new] = columns.get(new, 0.0) + value
    return {old: {new: value / (1 + max(sum(row.values()), columns[new])) for new, value in row.items()} for old, row in table.items()}


def _assign(pairs: Mapping[str, Mapping[str, float]], seen: Table) -> dict[str, Guess]:
    """Sure pairs first, in rounds; who loses its candidate to a surer one is judged again without it."""
    rest = {old: dict(row) for old, row in pairs.items()}
    first = confidences(pairs)
    guesses: dict[str, Guess] = {}
    while True:
        shares = confidences(rest)
        sure = _mutual(shares)
        for old, new in sure.items():
            guesses[old] = _guess(new, shares[old][new], first[old], seen[old])
        if not sure:
            break
        taken = set(sure.values())
        rest = {old: {n: v for n, v in row.items() if n not in taken} for old, row in rest.items() if old not in sure}
    while rest and shares:
        # the unsure ones: each that is settled, for or against, is no rival of the others any more
        share, old, new = max(((value, o, n) for o, row in shares.items() for n, value in row.items()), default=(0.0, "", ""))
        if not old:
            break
        guesses[old] = _guess(new, share, first[old], seen[old])
        del rest[old]
        if share >= 0.5:
            rest = {o: {n: v for n, v in row.items() if n != new} for o, row in rest.items()}
        shares = confidences(rest) if len(rest) <= _ONE_BY_ONE else {o: {n: shares[o][n] for n in row} for o, row in rest.items()}
    return guesses


def _mutual(shares: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Plain pairs that neither side would give up for another."""
    columns: dict[str, tuple[float, str]] = {}
    for old, row in shares.items():
        for new, share in row.items():
            columns[new] = max(columns.get(new, (0.0, "")), (share, old))
    found = {}
    for old, row in shares.items():
        new, share = max(row.items(), key=lambda item: (item[1], item[0]), default=("", 0.0))
        if share >= _PLAIN and columns[new][1] == old:
            found[old] = new
    return found


def _guess(new: str, share: float, hints: Mapping[str, float], seen: Mapping[str, tuple[float, ...]]) -> Guess:
    ranked = sorted(hints.items(), key=lambda item: (-item[1], item[0]))
    named = tuple((name, round(c, 2)) for name, c in ranked if c >= _WORTH_NAMING)[:_HINTS]
    return Guess(new, share, _signals(seen[new]), named)


_SAYS = {
    "name": "the names share their telling words",
    "letters": "they are spelled alike",
    "pattern": "other names of the job changed in the same way",
    "labels": "same labels",
    "series": "same number of series",
    "type": "same type",
    "unit": "same unit",
    "qualifier": "",
    "values": "values of the same level",
    "help": "HELP says the same",
    "mutual": "no other pair is as close",
}


#: From where on a feature is worth a word, where that is not 0.6.
_STRONG = {"help": 0.2}


def _signals(values: Sequence[float]) -> tuple[str, ...]:
    strong = [name for name, value in zip(FEATURES, values, strict=True) if value >= _STRONG.get(name, 0.6)]
    return tuple(_SAYS[name] for name in strong if _SAYS[name])
