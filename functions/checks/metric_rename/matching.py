"""From the odds of single pairs to the probability of each: every name has at most one partner, and may have none.

The pairs of a job form a bipartite graph in which a set of pairs without a common name is as likely as the product of
its odds (the monomer-dimer model). Its marginals are taken by belief propagation, which is exact on trees and converges
on any graph. So a name whose candidate is the sure successor of another is left without it, two equally good candidates
share what one would have had, and "no successor" needs no rule of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

Odds = Mapping[str, Mapping[str, float]]

#: Pairs below these odds change nothing; odds above the cap are sure anyhow, and slow the convergence.
_NEGLIGIBLE = 1e-6
_CAP = 1e5
_ROUNDS = 60
_SETTLED = 1e-3


def marginals(odds: Odds) -> dict[str, dict[str, float]]:
    """The probability of every pair, given all others."""
    pairs = [(old, new, min(_CAP, value)) for old, row in odds.items() for new, value in row.items() if value > _NEGLIGIBLE]
    weights = [weight for _, _, weight in pairs]
    olds, news = _numbered(old for old, _, _ in pairs), _numbered(new for _, new, _ in pairs)
    # for each pair: the probability that the one side is free, were the other not there
    old_free, new_free = [1.0] * len(pairs), [1.0] * len(pairs)
    for _ in range(_ROUNDS):
        moved = _exchange(weights, old_free, new_free, olds) + _exchange(weights, new_free, old_free, news)
        if moved < _SETTLED * max(1, len(pairs)):
            break
    found: dict[str, dict[str, float]] = {old: dict.fromkeys(row, 0.0) for old, row in odds.items()}
    for (old, new, weight), one, other in zip(pairs, old_free, new_free, strict=True):
        both = weight * one * other
        found[old][new] = both / (1 + both)
    return found


def _numbered(names: Iterable[str]) -> list[int]:
    """A number for each name, the same for the same name: thousands of pairs are gone through in every round."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in names]


def _exchange(weights: Sequence[float], free: list[float], other: Sequence[float], side: Sequence[int]) -> float:
    """One round of messages from one side; damped, since sure pairs would make it swing. Returns how far it moved."""
    pulls = [weight * share for weight, share in zip(weights, other, strict=True)]
    load = [0.0] * (max(side, default=-1) + 1)
    for name, pull in zip(side, pulls, strict=True):
        load[name] += pull
    moved = 0.0
    for pair, (name, pull) in enumerate(zip(side, pulls, strict=True)):
        value = (free[pair] / (1 + max(0.0, load[name] - pull))) ** 0.5
        moved += abs(math.log(value / free[pair]))
        free[pair] = value
    return moved


def assign(probabilities: Odds) -> dict[str, tuple[str, float]]:
    """Each old name's best partner and its probability, likeliest pairs first; no new name is given away twice.

    A pair above one half is always the best of both its names, so that among those nothing depends on the order.
    """
    ranked = sorted((-p, old, new) for old, row in probabilities.items() for new, p in row.items() if p > 0)
    found: dict[str, tuple[str, float]] = {}
    taken: set[str] = set()
    for negative, old, new in ranked:
        if old not in found and new not in taken:
            found[old] = (new, -negative)
            taken.add(new)
    return found
