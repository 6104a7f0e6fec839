"""Whether the numbers of two families fit one another: the same level, a constant ratio of units, or neither.

A counter starts again with its process, so its level says nothing by itself; it is measured against the counters
that kept their names. An idle cluster is all zeros, and zeros prove nothing either way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from functions.checks.metric_rename.families import Family

#: Ratios that a change of unit makes, new value ÷ old value, the likeliest first.
UNIT_FACTORS = (1.0, 1e-3, 1e3, 1e-6, 1e6, 0.01, 100.0, 1048576.0, 1e-9, 1e9, 1024.0, 60.0, 1 / 60, 1073741824.0, 1 / 1048576)
#: Where the type is not known: the least that values say, and what a count says less.
_MAYBE, _UNSURE = -0.6, 0.2
#: Surviving counters that are needed before their common fall or rise is believed.
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Restart:
    """What the counters of a job that kept their names did over the cut: median and spread of log(after ÷ before)."""

    shift: float
    spread: float


def restart(pairs: Iterable[tuple[Family, Family]]) -> Restart | None:
    """From (before, after) of the families that kept their names; None where too few of them count."""
    logs = [
        math.log(now.count / was.count)
        for was, now in pairs
        if was.counts_up and now.counts_up and was.count and now.count and was.count > 0 and now.count > 0
    ]
    if len(logs) < _ENOUGH:
        return None
    middle = median(logs)
    return Restart(middle, median(abs(x - middle) for x in logs))


def distance(was: Family, now: Family, factor: float) -> float | None:
    """How far the levels of two gauges are apart as |log|, under a factor; None where the numbers tell nothing."""
    pairs = [(was.mean, now.mean), (was.high, now.high)]
    logs = []
    for a, b in pairs:
        if a is None or b is None:
            continue
        if a == 0 and b == 0:
            continue
        if a * b <= 0:
            return math.inf
        logs.append(abs(math.log(b / (a * factor))))
    return max(logs) if logs else None


def best_factor(was: Family, now: Family, factors: Sequence[float]) -> tuple[float, float] | None:
    """(factor, distance) of the factor that fits best, the earlier of two that fit as well; None: nothing to tell."""
    found: tuple[float, float] | None = None
    for factor in factors:
        apart = distance(was, now, factor)
        if apart is not None and (found is None or apart < found[1] - 0.01):
            found = (factor, apart)
    return found


def agreement(was: Family, now: Family, factors: Sequence[float], restarted: Restart | None) -> float:
    """From -1 (cannot be the same quantity) over 0 (nothing to tell) to 1 (the same level)."""
    if not was.type or not now.type:
        # a counter need not say so in its name: what fits as a level or as a count fits, and nothing is ruled out
        return max(_MAYBE, _levels(was, now, factors), _spread_of(was, now, factors, restarted) - _UNSURE)
    if was.counts_up != now.counts_up:
        return 0.0
    return _spread_of(was, now, factors, restarted) if was.counts_up else _levels(was, now, factors)


def _spread_of(was: Family, now: Family, factors: Sequence[float], restarted: Restart | None) -> float:
    """The same for what only counts up."""
    parts = []
    counted = _counts(was, now, factors if _plain_counter(was) else (1.0,), restarted)
    if counted == -1.0:
        return -1.0  # the same observations, counted many times more or less often, are not the same
    if counted is not None:
        parts.append(counted)
    if not _plain_counter(was) and was.mean and now.mean:
        parts.append(_levels(was, now, factors))
    return sum(parts) / len(parts) if parts else 0.0


def _plain_counter(family: Family) -> bool:
    return family.mean == family.count


def _levels(was: Family, now: Family, factors: Sequence[float]) -> float:
    fit = best_factor(was, now, factors)
    if fit is None:
        return 0.1 if was.mean is not None and now.mean is not None else 0.0
    factor, apart = fit
    if not math.isfinite(apart):
        return -0.3  # zero on one side only: an idle moment, or another thing
    # a level far off rules nothing out: a process that starts again is empty, a queue drains
    score = 1.0 if apart < 0.02 else 0.8 if apart < 0.2 else 0.3 if apart < 0.7 else -0.3 if apart < 1.6 else -0.7
    if factor != 1.0 and score > 0:
        score -= 0.2  # some factor fits by chance now and then
    # zero and one are what half of all gauges show
    return score * 0.3 if score > 0 and _common(was) and _common(now) else score


def _common(family: Family) -> bool:
    return family.mean in (0.0, 1.0) and family.high in (0.0, 1.0, None)


def _counts(was: Family, now: Family, factors: Sequence[float], restarted: Restart | None) -> float | None:
    if was.count is None or now.count is None or restarted is None:
        return None
    if was.count == 0 or now.count == 0:
        return 0.1 if was.count == now.count else -0.2
    if was.count < 0 or now.count < 0:
        return None
    room = max(0.25, 2 * restarted.spread)
    apart = min(abs(math.log(now.count / (was.count * f)) - restarted.shift) + (0.1 if f != 1 else 0) for f in factors)
    return 0.9 if apart < room / 2 else 0.5 if apart < room else 0.0 if apart < 2 * room else -0.5 if apart < 4 * room else -1.0
