"""Labels that a job lost while its metrics live: renamed, or lost without a successor.

A label is judged over all metrics of the job that had it, so that one change is one answer. A label that was only on
some series of a metric comes and goes with what the series describe (a Pod on a busy device), and is not lost when it
goes; nor is the workload's name on a device exporter, which label-mapping judges.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from functions.checks.metric_rename.families import Family
from functions.checks.metric_rename.forms import same_things
from functions.contract.telemetry import LabelValues, PartialLoss
from functions.knowledge.renames import Catalogue, Kind, Rename
from functions.knowledge.renames_words import Words, akin

Values = Mapping[tuple[str, str], LabelValues]
#: Below this no successor of a label is claimed.
_ENOUGH = 0.75


@dataclass(frozen=True, slots=True)
class LabelChange:
    """One label of one job that is gone from metrics that still live."""

    job: str
    label: str
    #: None: lost without a successor
    renamed_to: str | None
    #: families (as they are called now) that lost it, and whether other families of the job still have it
    families: tuple[str, ...]
    everywhere: bool
    #: every stored name of them, before and now
    names: frozenset[str] = frozenset()
    confidence: float = 1.0
    why: str = ""
    row: Rename | None = None
    #: a change of relabelling or honor_labels changed it: the target carried it, or the new label was the target's
    of_target: bool = False
    #: some series still have the old one (a canary)
    partial: bool = False
    #: targets that lost it and that still have it, where only some lost it and the targets are known
    lost_on: tuple[str, ...] = ()
    kept_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelWorld:
    """What the judgement of one job's labels rests on."""

    job: str
    pairs: tuple[tuple[Family, Family], ...]
    values_before: Values
    values: Values
    #: labels that the targets carried, before or now
    target_labels: frozenset[str]
    #: label names that say whose a device is: they go when a device is idle
    attribution: frozenset[str]
    catalogue: Catalogue | None
    words: Words
    #: labels by which the servers of a pair mark what they store: they go where a store begins to merge the pair
    server_marks: frozenset[str] = frozenset()
    #: label -> which targets lost it, where only some did
    on_some: Mapping[str, PartialLoss] = field(default_factory=dict)


def label_changes(world: LabelWorld) -> tuple[LabelChange, ...]:
    """Every label of the job that is gone, one answer a label, or one for each group of metrics that fared alike."""
    lost: dict[str, list[tuple[Family, Family]]] = {}
    for was, now in world.pairs:
        for label, count in was.labels.items():
            if count and not now.labels.get(label):
                lost.setdefault(label, []).append((was, now))
    found: list[LabelChange] = []
    taken: set[str] = set()
    scored = [(label, held, _best(label, held, world)) for label, held in sorted(lost.items())]
    for label, held, (new, confidence, why, row) in sorted(scored, key=lambda item: -item[2][1]):
        if new and confidence >= _ENOUGH and new not in taken:
            taken.add(new)
            found.append(_change(world, label, held, new, confidence, why, row))
        elif _is_lost(label, held, world):
            found.append(_change(world, label, held, None, 1.0, "", _removal(label, held, world)))
    return (*found, *_canaries(world, {change.label for change in found}))


def _change(
    world: LabelWorld,
    label: str,
    held: Sequence[tuple[Family, Family]],
    new: str | None,
    confidence: float,
    why: str,
    row: Rename | None,
) -> LabelChange:
    names = tuple(sorted(now.name for _, now in held))
    others = any(now.labels.get(label) for _, now in world.pairs)
    stored = frozenset(name for pair in held for family in pair for name in family.names)
    # what takes over a label that was there before is honor_labels or a relabelling
    of_target = label in world.target_labels or any(was.labels.get(new or "") for was, _ in held)
    return LabelChange(world.job, label, new, names, not others, stored, round(confidence, 2), why, row, of_target=of_target)


def _best(label: str, held: Sequence[tuple[Family, Family]], world: LabelWorld) -> tuple[str, float, str, Rename | None]:
    """(new label, confidence, why, row) of the likeliest successor; ("", 0, …) where there is no candidate."""
    gained: dict[str, int] = {}
    for was, now in held:
        for name, count in now.labels.items():
            if count and not was.labels.get(name):
                gained[name] = gained.get(name, 0) + 1
    candidates = {name for name, count in gained.items() if count * 5 >= len(held) * 4}
    rows = _documented(label, held, world)
    best: tuple[str, float, str, Rename | None] = ("", 0.0, "", None)
    for name in sorted(candidates | rows.keys() | _former_twins(label, held, world)):
        row = rows.get(name)
        confidence, why = (1.0, f"{row.system} {row.version}") if row else _likeness(label, name, held, world, len(candidates))
        if confidence > best[1]:
            best = (name, confidence, why, row)
    return best


def _documented(label: str, held: Sequence[tuple[Family, Family]], world: LabelWorld) -> dict[str, Rename]:
    """The new labels that the catalogue knows, as they are stored.

    Where a target has a label of that name, the exporter's own is stored as `exported_…`; without that it has taken
    the target's place (honor_labels). That is believed where the metrics changed name as well or the values agree:
    else the old one may only be gone with what it described.
    """
    rows = {row.new: row for _, now in held for row in world.catalogue.labels(label, now.name)} if world.catalogue else {}
    found = {}
    for new, row in rows.items():
        spelled = next((n for n in (f"exported_{new}", new) if new and _most(n, held)), "")
        anew = all(was.name != now.name or not was.labels.get(spelled) for was, now in held)
        if spelled and (anew or _overlap(label, spelled, world) >= 0.5):
            found[spelled] = row
    return found


def _most(label: str, held: Sequence[tuple[Family, Family]]) -> bool:
    """Whether nearly all of the families carry a label now."""
    return sum(bool(now.labels.get(label)) for _, now in held) * 5 >= len(held) * 4


def _former_twins(label: str, held: Sequence[tuple[Family, Family]], world: LabelWorld) -> set[str]:
    """Labels that were there before and hold now, and did not then, what the lost one held: `exported_pod` into `pod` when honoured.

    The target's own value may stay beside it: a device that names no Pod keeps the exporter's.
    """
    if label not in world.attribution:
        return set()
    names = set[str]().union(*(now.labels for _, now in held)) & world.attribution
    return {n for n in names if _overlap(label, n, world) >= 0.5 and _shared_before(label, n, world) < 0.5}


def _likeness(label: str, name: str, held: Sequence[tuple[Family, Family]], world: LabelWorld, rivals: int) -> tuple[float, str]:
    if _fold(label) == _fold(name):
        return 0.97, "the same name, spelled differently"
    overlap = _overlap(label, name, world)
    even = sum(was.labels[label] * now.series == now.labels.get(name, 0) * was.series for was, now in held) * 2 > len(held)
    alike = _alike(label, name, world.words)
    if overlap >= 0.5 and not _ordinals(label, world):
        return min(0.96, 0.75 + 0.2 * overlap + (0.05 if even else -0.05)), f"{round(overlap * 100)} % of its values are the same"
    if even and (same := _written_otherwise(label, name, world)):
        return 0.85, same
    known = (world.job, label) in world.values_before and (world.job, name) in world.values
    if alike >= 0.5 and even and rivals == 1 and not (known and label not in world.attribution and overlap == 0):
        return 0.8, "on the same series, with a name of the same words"
    return 0.3 * alike + (0.2 if even else 0.0), ""


def _alike(label: str, name: str, words: Words) -> float:
    a, b = set(words.read(label).words), set(words.read(name).words)
    both = sum(any(akin(x, y) for y in b) for x in a)
    return both / max(len(a), len(b))


def _fold(label: str) -> str:
    return re.sub(r"[_.]", "", label).lower().removeprefix("exported")


def _overlap(label: str, name: str, world: LabelWorld) -> float:
    """Share of the lost label's values that the new one shows."""
    before, now = world.values_before.get((world.job, label)), world.values.get((world.job, name))
    return share(before.values, now.values) if before and now else 0.0


def _ordinals(label: str, world: LabelWorld) -> bool:
    """Whether the lost label only counted (0, 1, 2 …): any two such labels share their values by chance."""
    before = world.values_before.get((world.job, label))
    return before is not None and all(value.isdecimal() and len(value) < 3 for value in before.values)


def _written_otherwise(label: str, name: str, world: LabelWorld) -> str:
    """In which way the new label's values are those of the lost one in another spelling."""
    before, now = world.values_before.get((world.job, label)), world.values.get((world.job, name))
    return same_things(before.values, now.values) if before and now and not before.truncated and not now.truncated else ""


def _shared_before(label: str, name: str, world: LabelWorld) -> float:
    """Share of the lost label's values that the other one showed at the same time."""
    lost, other = (world.values_before.get((world.job, each)) for each in (label, name))
    return share(lost.values, other.values) if lost and other else 0.0


def share(a: Collection[str], b: Collection[str]) -> float:
    """Of the smaller set, how much the other holds too; empty values count for nothing."""
    left, right = set(a) - {""}, set(b) - {""}
    return len(left & right) / min(len(left), len(right)) if left and right else 0.0


def _removal(label: str, held: Sequence[tuple[Family, Family]], world: LabelWorld) -> Rename | None:
    if world.catalogue is None:
        return None
    rows: Iterable[Rename] = (row for _, now in held for row in world.catalogue.labels(label, now.name) if row.kind is Kind.LABEL_REMOVED)
    return next(iter(rows), None)


def _is_lost(label: str, held: Sequence[tuple[Family, Family]], world: LabelWorld) -> bool:
    """Whether its absence is a loss: it was on every series, and names neither whoever uses a device nor the server that stored it."""
    if label in world.attribution and label not in world.target_labels:
        return False
    if label in world.server_marks and all(was.labels.get(label, 0) >= was.series for was, _ in world.pairs):
        return False
    whole = [was for was, _ in held if was.labels[label] >= was.series]
    return len(whole) * 2 > len(held)


def _canaries(world: LabelWorld, known: Collection[str]) -> Iterable[LabelChange]:
    """Labels that only some targets renamed (both spellings share the series between them) or lost."""
    found: dict[tuple[str, str | None], list[str]] = {}
    for was, now in world.pairs:
        for new in now.labels.keys() - was.labels.keys():
            for old in now.labels.keys() & was.labels.keys():
                split = was.labels[old] >= was.series and 0 < now.labels[old] == now.series - now.labels[new]
                if split and _fold(old) == _fold(new) and old not in known:
                    found.setdefault((old, new), []).append(now.name)
    for label in world.on_some.keys() - {old for old, _ in found} - set(known):
        names = [now.name for was, now in world.pairs if was.labels.get(label, 0) >= was.series > 0 and _on_part(label, now)]
        found[label, None] = names
    for (old, to), names in sorted(found.items(), key=lambda item: item[0][0]):
        stored = frozenset(n for was, now in world.pairs if now.name in names for f in (was, now) for n in f.names)
        some = world.on_some.get(old)
        yield LabelChange(
            world.job,
            old,
            to,
            tuple(sorted(names)),
            True,
            stored,
            0.97 if to else 1.0,
            "the same name, spelled differently" if to else "",
            of_target=old in world.target_labels,
            partial=True,
            lost_on=some.lost if some else (),
            kept_on=some.kept if some else (),
        )


def _on_part(label: str, family: Family) -> bool:
    """Whether some of the series carry a label and some do not."""
    return 0 < family.labels.get(label, 0) < family.series
