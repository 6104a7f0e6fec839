"""Which new names are worth comparing with a lost one, and how far the best of them is ahead of the others.

In a job with hundreds of names comparing each with each would be wasteful: a successor shares a word or the HELP text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from functions.checks.metric_rename.families import Family
from functions.knowledge.renames_words import Reading

if TYPE_CHECKING:
    from functions.checks.metric_rename.likeness import Setting

#: Candidates that are looked at for one lost name; where hundreds are lost, fewer, so that the pairs of a job stay so many.
_RIVALS, _FEWEST = 30, 10
_PAIRS = 6000


def rivals(
    lost: Collection[Family], new: Collection[Family], read: Mapping[str, Reading], setting: Setting
) -> list[tuple[Family, list[Family]]]:
    """For each lost name the new ones with most in common, so that a large job costs no square of its size."""
    if len(new) <= _RIVALS:
        return [(was, list(new)) for was in lost]
    index: dict[object, list[Family]] = {}
    for now in new:
        for key in _keys(now, read, setting):
            index.setdefault(key, []).append(now)
    most = max(_FEWEST, min(_RIVALS, _PAIRS // max(1, len(lost))))
    found = []
    for was in lost:
        score: dict[str, float] = {}
        for key in _keys(was, read, setting):
            for now in index.get(key, ()):
                # the same text counts as much as all words of a name
                score[now.name] = score.get(now.name, 0.0) + (setting.weights.get(key, 1.0) if isinstance(key, str) else 10.0)
        best = {name for name, _ in sorted(score.items(), key=lambda item: (-item[1], item[0]))[:most]}
        found.append((was, [now for now in new if now.name in best]))
    return found


def _keys(family: Family, read: Mapping[str, Reading], setting: Setting) -> set[object]:
    keys: set[object] = set(read[family.name].words)
    if family.help and (said := setting.texts.words(family.help)):
        keys.add(said)
    return keys


def lead(alike: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """From -1 to 1: how far each pair leads the best other pair of either of its names, or trails it."""
    columns: dict[str, list[float]] = {}
    for row in alike.values():
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    columns = {name: sorted(values, reverse=True)[:2] for name, values in columns.items()}
    found: dict[str, dict[str, float]] = {}
    for old, row in alike.items():
        best = sorted(row.values(), reverse=True)[:2]
        found[old] = {n: max(-1.0, min(1.0, 2 * min(_ahead(value, best), _ahead(value, columns[n])))) for n, value in row.items()}
    return found


def _ahead(value: float, best: list[float]) -> float:
    if value < best[0]:
        return value - best[0]
    return value - best[1] if len(best) > 1 else 0.5
