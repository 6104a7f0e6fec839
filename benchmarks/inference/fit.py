"""Fit the weights of the likeness: a multinomial logistic model with "no successor" as one of the answers.

Plain gradient ascent; the data are a few thousand rows. A name of a large release weighs less than the only name of a
small one: releases are what has to be generalised over. Weights below zero would say that likeness speaks against a
rename, so they are held at zero. What the rules of a release say rests on weights itself: fitted in turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from benchmarks.inference.events import Event
from benchmarks.inference.worlds import Metadata, world
from functions.checks.metric_rename.families import families
from functions.checks.metric_rename.inference import kept, learned, setting
from functions.checks.metric_rename.likeness import FEATURES, Evidence, Model, veto
from functions.knowledge.renames_words import load_words

#: Labels and series decide too well in drawn worlds; in real ones a release changes them along with the name.
_MOST = {"labels": 4.0, "label_set": 3.0, "series": 2.0}
#: Where every fit begins, so that no fit has seen more than its own events.
_START = Model((3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.0, 2.0, 1.0, 2.0, 2.0, 2.0, 0.5, 2.0, 1.0, 2.0), -8.0)
#: What a weight costs, so that features that tell the same share what they tell.
_RIDGE = 2e-4
#: A pair that is less likely than this after a first fit is no rival, and left out.
_FAR = -9.0

Row = tuple[list[tuple[float, ...]], int, float]


class Data:
    """The evidence of drawn worlds, gathered once: the rows of any subset of events are taken from it."""

    def __init__(self, suite: Iterable[Event], seeds: int, limit: int = 20) -> None:
        words = load_words()
        self.worlds: list[tuple[str, Evidence, dict[str, str]]] = []
        for event in suite:
            for seed in range(100, 100 + seeds):
                drawn = world(event, seed, tuple(Metadata)[seed % 3], limit)
                before, after = families(drawn.before)["job"], families(drawn.after)["job"]
                lost = [f for n, f in before.items() if n not in after]
                new = [f for n, f in sorted(after.items()) if n not in before]
                evidence = Evidence(lost, new, setting(before, after, words), kept(before, after))
                self.worlds.append((event.project, evidence, drawn.truth))

    def rows(self, without: str, model: Model | None) -> list[Row]:
        """For each lost name the features of its candidates, which of them is right (-1: none), and what the row weighs."""
        found: list[Row] = []
        for project, evidence, truth in self.worlds:
            if project == without:
                continue
            table = evidence.ruled(learned(evidence, model)) if model else evidence.table
            for old, row in table.items():
                names = [n for n, v in row.items() if veto(v) == 1 or n == truth.get(old)]
                if model:
                    names = [n for n in names if n == truth.get(old) or model.score(row[n]) > _FAR]
                right = truth.get(old, "")
                if right and right not in row:
                    continue  # not even looked at in a large job; no weight can change that
                found.append(([row[n] for n in names], names.index(right) if right else -1, 1 / len(table) ** 0.5))
        return found


def fit(data: Data, without: str = "", *, steps: int = 60, turns: int = 3) -> Model:
    """The weights that make the right answers likeliest, in all worlds but those of one project."""
    model = _START
    for turn in range(turns):
        model = _climb(data.rows(without, model if turn else None), model, steps)
    return model


def _climb(data: Sequence[Row], model: Model, steps: int) -> Model:
    weights, bias = list(model.weights), model.bias
    size = len(weights)
    squares = [1e-8] * (size + 1)
    total_weight = sum(weight for _, _, weight in data)
    for _ in range(steps):
        slope = [0.0] * (size + 1)
        for candidates, right, weight in data:
            scores = [math.exp(min(30.0, bias + sum(v * w for v, w in zip(c, weights, strict=True)))) for c in candidates]
            total = 1 + sum(scores)
            for index, (values, score) in enumerate(zip(candidates, scores, strict=True)):
                error = ((index == right) - score / total) * weight
                if abs(error) > 1e-4:
                    for k, value in enumerate(values):
                        slope[k] += error * value
                    slope[-1] += error
        for k, g in enumerate(slope):
            gradient = g / total_weight - (_RIDGE * weights[k] if k < size else 0.0)
            squares[k] += gradient**2
            move = 0.7 * gradient / math.sqrt(squares[k])
            if k < size:
                weights[k] = min(_MOST.get(FEATURES[k], 12.0), max(0.0, weights[k] + move))
            else:
                bias += move
    return Model(tuple(round(w, 2) for w in weights), round(bias, 2))
