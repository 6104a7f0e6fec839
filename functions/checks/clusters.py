"""Whose series these are, where one store holds those of several clusters: a label says the cluster.

A value of that label is this cluster's where it is this cluster's name; else where something under it runs on a node of
this cluster. What is under another value is somebody else's: its Pods and nodes can't be found here, and are no fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from functions.contract.findings import Subject, Unjudged

T = TypeVar("T")


def own(
    items: Iterable[T], labels_of: Callable[[T], Mapping[str, str]], here: Callable[[T], bool], names: Iterable[str], cluster: str
) -> tuple[tuple[T, ...], tuple[Unjudged, ...]]:
    """The items of this cluster, and what is left out although its label does not name this cluster or another for sure."""
    items, left = tuple(items), []
    for name in names:
        values: dict[str, bool] = defaultdict(bool)
        for item in items:
            if value := labels_of(item).get(name, ""):
                values[value] = values[value] or here(item)
        if len(values) < 2:
            continue
        named = cluster in values
        mine = {cluster} if named else {value for value, found in values.items() if found}
        if not mine:
            continue  # nothing tells which of them is this cluster's
        items = tuple(item for item in items if labels_of(item).get(name, "") in mine | {""})
        if not named:
            why = "nothing of it is on a node of this cluster; taken for another cluster's"
            left += [Unjudged(Subject(label=name), f'{name}="{value}": {why}') for value in sorted(values.keys() - mine)]
    return items, tuple(left)
