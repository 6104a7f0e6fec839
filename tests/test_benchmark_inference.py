"""The benchmark of the inference: its split and its draws can be relied on, and what it measures does not slip unseen."""

from __future__ import annotations

from benchmarks.inference.events import NO_RENAME, events
from benchmarks.inference.score import run
from benchmarks.inference.worlds import Metadata, world


def test_a_project_is_on_one_side_of_the_split_and_so_are_its_names() -> None:
    sides: dict[str, set[bool]] = {}
    for event in events():
        sides.setdefault(event.project, set()).add(event.held_out)
    assert all(len(side) == 1 for side in sides.values())
    assert len({side.pop() for side in sides.values()}) == 2


def test_the_same_seed_draws_the_same_world_and_metadata_changes_only_what_is_known_of_it() -> None:
    event = next(e for e in events() if len(e.renamed) > 5)
    bodies, stored = world(event, 3, Metadata.BODIES), world(event, 3, Metadata.STORED)
    assert bodies == world(event, 3, Metadata.BODIES)
    assert bodies.truth == stored.truth
    assert [(m.name, m.series, m.mean) for m in bodies.before] == [(m.name, m.series, m.mean) for m in stored.before]
    assert not any(m.help for m in stored.after)


def test_a_release_that_renames_nothing_drops_and_adds_names() -> None:
    event = next(e for e in events() if e.version == NO_RENAME)
    drawn = world(event, 0, Metadata.BODIES)
    assert not drawn.truth
    assert drawn.dropped
    assert {m.name for m in drawn.after} - {m.name for m in drawn.before}


def test_with_the_texts_of_both_instants_the_tuning_projects_stay_above_the_goal() -> None:
    tally = run([e for e in events() if not e.held_out], 1, Metadata.BODIES)
    assert tally.recall >= 0.95
    assert tally.precision >= 0.97
    assert tally.false_successors <= 0.1
