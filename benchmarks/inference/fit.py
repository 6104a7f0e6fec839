"""Fit the weights of the likeness: a multinomial logistic model with "no successor" as one of the answers.

Plain gradient ascent; the data are a few thousand rows. A name of a large release weighs less than the only name of a
small one: releases are what has to be generalised over. Weights below zero would say that likeness speaks against a
rename, so they are held at zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.inference.events import Event
from benchmarks.inference.worlds import world
from functions.checks._rename_families import families
from functions.checks._rename_inference import BIAS, WEIGHTS, setting
from functions.checks._rename_likeness import FEATURES, table
from functions.knowledge.renames_words import load_words

#: Labels and series decide too well in drawn worlds; in real ones a release changes them along with the name.
_MOST = {"labels": 4.0, "series": 2.0}

Row = tuple[list[tuple[float, ...]], int, float]


def rows(suite: Sequence[Event], seeds: int) -> list[Row]:
    """For each lost name the features of its candidates, which of them is right (-1: none), and what the row weighs."""
    words, found = load_words(), []
    for event in suite:
        for seed in range(100, 100 + seeds):
            drawn = world(event, seed, limit=25)
            before, after = families(drawn.before)["job"], families(drawn.after)["job"]
            lost = [f for n, f in before.items() if n not in after]
            new = [f for n, f in sorted(after.items()) if n not in before]
            where = setting(before, after, words)
            seen = table(lost, new, where)
            for was in lost:
                names = list(seen[was.name])
                truth = drawn.truth.get(was.name, "")
                if truth and truth not in names:
                    continue  # not even looked at in a large job; no weight can change that
                right = names.index(truth) if truth else -1
                found.append((list(seen[was.name].values()), right, 1 / len(lost) ** 0.5))
    return found


def fit(suite: Sequence[Event], seeds: int, steps: int = 500) -> None:
    """Print the weights that make the right answers likeliest."""
    data = rows(suite, seeds)
    weights, bias = list(WEIGHTS), BIAS
    squares = [1e-8] * (len(weights) + 1)
    for step in range(steps):
        slope, loss = [0.0] * (len(weights) + 1), 0.0
        for candidates, right, weight in data:
            scores = [math.exp(min(30.0, bias + sum(v * w for v, w in zip(c, weights, strict=True)))) for c in candidates]
            total = 1 + sum(scores)
            loss -= weight * math.log((scores[right] if right >= 0 else 1.0) / total)
            for index, (values, score) in enumerate(zip(candidates, scores, strict=True)):
                error = ((index == right) - score / total) * weight
                if abs(error) > 1e-4:
                    for k, value in enumerate(values):
                        slope[k] += error * value
                    slope[-1] += error
        for k, g in enumerate(slope):
            squares[k] += (g / len(data)) ** 2
            move = 1.5 * (g / len(data)) / math.sqrt(squares[k])
            if k < len(weights):
                weights[k] = min(_MOST.get(FEATURES[k], 20.0), max(0.0, weights[k] + move))
            else:
                bias += move
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss / len(data):.4f}")
    print(dict(zip(FEATURES, (round(w, 2) for w in weights), strict=True)))
    print(f"WEIGHTS = ({', '.join(str(round(w, 2)) for w in weights)})\nBIAS = {round(bias, 2)}")
