"""Which new name of a job is the successor of a lost one, from the data alone: names, labels, series, types, values, HELP.

"No successor" is always one of the answers: dropped names must not steal a candidate. Two passes: what the plain pairs
show the release to have done to its names as a whole is evidence for the others. What HELP announces or the catalogue
knows is heard before this, in `job.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from functions.checks.metric_rename.families import Family, companion
from functions.checks.metric_rename.likeness import FEATURES, Evidence, Model, Setting, sample, word_weights
from functions.checks.metric_rename.matching import assign, marginals
from functions.checks.metric_rename.patterns import Rules, rules
from functions.checks.metric_rename.texts import Texts
from functions.checks.metric_rename.values import restart
from functions.knowledge.renames_words import Words

#: Fitted on the tuning projects (python -m benchmarks.inference --fit).
MODEL = Model(
    (3.77, 0.56, 2.06, 0.81, 1.12, 3.0, 1.95, 1.0, 0.65, 0.0, 1.81, 1.2, 3.71, 1.74, 1.81, 3.75, 2.01, 2.51, 3.11),
    -8.59,
)
#: From here on a pair is plain, and teaches the others.
_PLAIN = 0.9
#: How far the fate of the other names may lift or lower the odds of one.
_LIFT = 4.0
#: A candidate below this is not worth a line in a hint.
_WORTH_NAMING = 0.05
_HINTS = 3

Odds = dict[str, dict[str, float]]


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
    texts = Texts([*before.values(), *after.values()], words)
    return Setting(words, weights, shifted_labels(both, before, after), restart(both), texts, sample(after.values()))


def shifted_labels(kept: Sequence[tuple[Family, Family]], before: Mapping[str, Family], after: Mapping[str, Family]) -> frozenset[str]:
    """Labels that the job as a whole gained or lost."""
    if kept:
        changed = [set(was.labels) ^ set(now.labels) for was, now in kept]
        return frozenset(label for label in set().union(*changed) if sum(label in c for c in changed) * 2 > len(kept))
    had = set[str]().union(*(f.labels for f in before.values()))
    have = set[str]().union(*(f.labels for f in after.values()))
    return frozenset(had ^ have)


def infer(
    lost: Collection[Family],
    before: Mapping[str, Family],
    after: Mapping[str, Family],
    words: Words,
    taken: Collection[str] = (),
    model: Model = MODEL,
) -> dict[str, Guess]:
    """Lost name -> guess. Candidates are names new at the cut, or that stood beside it before; none is `taken` already."""
    new = [f for name, f in sorted(after.items()) if name not in before and name not in taken and not companion(name, before)]
    if not lost:
        return {}
    evidence = Evidence(lost, new, setting(before, after, words), kept(before, after, {*taken, *(f.name for f in lost)}))
    table = evidence.ruled(learned(evidence, model))
    found = marginals(lifted(model.odds(table)))
    return {old: _guess(new_name, share, found[old], table[old]) for old, (new_name, share) in assign(found).items()}


def kept(before: Mapping[str, Family], after: Mapping[str, Family], but: Collection[str] = ()) -> list[tuple[Family, Family]]:
    """(before, now) of the names that stayed."""
    return [(before[name], after[name]) for name in sorted(before.keys() & after.keys()) if name not in but]


def learned(evidence: Evidence, model: Model) -> Rules:
    """The rules of the release, as the pairs show them that are plain without any."""
    first = marginals(model.odds(evidence.table))
    read = evidence.read
    return rules((read[old], read[new]) for old, (new, share) in sorted(assign(first).items()) if share >= _PLAIN)


def lifted(held: Odds) -> Odds:
    """A job that plainly renamed most of what it lost, renamed the rest more likely as well; and the other way round."""
    renamed = [sum(row.values()) for row in marginals(held).values()]
    sure, none = sum(p for p in renamed if p >= _PLAIN), sum(1 - p for p in renamed if p < 1 - _PLAIN)
    lift = max(1 / _LIFT, min(_LIFT, ((sure + 1) / (none + 1)) ** 0.5))
    return {old: {name: value * lift for name, value in row.items()} for old, row in held.items()}


def _guess(new: str, share: float, hints: Mapping[str, float], seen: Mapping[str, tuple[float, ...]]) -> Guess:
    ranked = sorted(hints.items(), key=lambda item: (-item[1], item[0]))
    named = tuple((name, round(c, 2)) for name, c in ranked if c >= _WORTH_NAMING)[:_HINTS]
    return Guess(new, share, _signals(seen[new]), named)


_SAYS = {
    "name": "the names share their telling words",
    "letters": "they are spelled alike",
    "pattern": "other names of the job could have changed in the same way",
    "labels": "same labels",
    "label_set": "few others have these labels on as many series",
    "series": "same number of series",
    "type": "same type",
    "unit": "same unit",
    "values": "values of the same level",
    "help": "HELP says nearly the same",
    "text": "the HELP text is the same, and no other name has it",
    "cross": "HELP speaks of what the other name says",
    "twin": "both were exposed before, with the same values",
    "mutual": "no other pair is as close",
    "rule": "the release changed other names in the same way",
}
#: From where on a feature is worth a word, where that is not 0.6.
_STRONG = {"help": 0.25, "cross": 0.3, "label_set": 0.4}
#: What another feature says more exactly.
_IMPLIED = {"text": "help", "rule": "pattern", "label_set": "labels"}


def _signals(values: Sequence[float]) -> tuple[str, ...]:
    strong = [name for name, value in zip(FEATURES, values, strict=True) if name in _SAYS and value >= _STRONG.get(name, 0.6)]
    implied = {_IMPLIED[name] for name in strong if name in _IMPLIED}
    return tuple(_SAYS[name] for name in strong if name not in implied)
