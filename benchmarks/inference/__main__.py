"""python -m benchmarks.inference: how well successors are found with the catalogue switched off.

Of the names that a release renamed, how many get their successor (recall); of the successors that are claimed, how many
are right (precision); and how many of the names that were dropped get a false one. A claim is a confidence of at least
the policy's default.

What the figures may be taken for:
- Names come from the recorded renames; the values, labels and HELP texts around them are drawn (`worlds.py`, `texts.py`).
- Projects, not releases, are split (`events.py`): weights are fitted and features were chosen on the tuning projects. Of
  the test projects only the totals printed here are looked at. Some of their single releases were seen in an earlier
  split, when the first synonyms were chosen; so the test figures are nearly, not wholly, out of sample.
- `--cross-validate` leaves out each project in turn and fits the weights anew on all others, by the same procedure and
  with nothing chosen by hand: what a project that nobody has recorded may expect.
- HELP that announces a successor leaves nothing to infer; those worlds are counted apart.
The exit status is 1 where the test projects miss a goal, all kinds of metadata together; each kind is shown against the same
goals. A bundle has TYPE and HELP of both instants, and so has an audit from the second scheduled one on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.inference.events import Event, events
from benchmarks.inference.fit import Data, fit
from benchmarks.inference.score import Tally, calibration, run
from benchmarks.inference.worlds import Metadata
from functions.checks.metric_rename.inference import MODEL
from functions.checks.metric_rename.likeness import FEATURES

GOAL = 0.95
GOAL_DROPPED = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inference", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="worlds drawn for each event and kind of metadata")
    parser.add_argument("--misses", type=int, default=0, help="print so many wrong answers of the tuning projects")
    parser.add_argument("--fit", action="store_true", help="fit the weights on the tuning projects and print them")
    parser.add_argument("--cross-validate", action="store_true", help="leave out each project in turn; takes some minutes")
    options = parser.parse_args()
    all_events = events()
    tuning, test = [e for e in all_events if not e.held_out], [e for e in all_events if e.held_out]
    if options.fit:
        model = fit(Data(tuning, seeds=4))
        print(dict(zip(FEATURES, model.weights, strict=True)))
        print(model)
        return 0
    print(f"{_size(all_events)}: {_size(tuning)} for tuning, {_size(test)} for the test. The catalogue is off.\n")
    tuned = _table("tuning", tuning, options.seeds)
    tested = _table("test", test, options.seeds)
    _calibrated(tested[None])
    for miss in tuned[None].misses[: options.misses]:
        print("  " + miss)
    if options.cross_validate:
        _left_out(all_events, min(3, options.seeds))
    print(f"\ngoal: recall and precision at least {GOAL}, false successors at most {GOAL_DROPPED}")
    for kind, tally in tested.items():
        print(f"test    {kind.value if kind else 'all':10} {'met' if _met(tally) else 'NOT met'}")
    return 0 if _met(tested[None]) else 1


def _met(tally: Tally) -> bool:
    return tally.recall >= GOAL and tally.precision >= GOAL and tally.false_successors <= GOAL_DROPPED


def _size(suite: Sequence[Event]) -> str:
    renames, projects = sum(len(e.renamed) for e in suite), len({e.project for e in suite})
    return f"{len(suite)} events with {renames} renames of {projects} projects"


def _table(name: str, suite: Sequence[Event], seeds: int) -> dict[Metadata | None, Tally]:
    """Print and return the tally of each kind of metadata; that of all together under None."""
    whole = Tally()
    tallies: dict[Metadata | None, Tally] = {}
    for metadata in Metadata:
        one = tallies[metadata] = run(suite, seeds, metadata)
        print(f"{name:7} {metadata.value:10} {one.line()}")
        whole.add(one)
    print(f"{name:7} {'all':10} {whole.line()}")
    print(f"{name:7} {'announced':10} {run(suite, seeds, Metadata.BODIES, announced=True).line()}\n")
    return tallies | {None: whole}


def _calibrated(tally: Tally) -> None:
    bands = "  ".join(f"{confidence:.2f}: {right:.2f} ({count})" for confidence, right, count in calibration(tally.said))
    print(f"test    confidence: share that was right   {bands}")


def _thresholds(tally: Tally) -> None:
    """What another `renames.min_confidence` in the policy would do. Chosen by the test projects, it would be tuned on them."""
    found = ((confidence, *tally.at(confidence)) for confidence in (0.5, 0.6, 0.7, 0.8, 0.9))
    print("recall and precision by min_confidence   " + "  ".join(f"{c}: {r:.3f} {p:.3f}" for c, r, p in found))


def _left_out(suite: Sequence[Event], seeds: int) -> None:
    """Each project judged with weights that were fitted on all others."""
    data, whole = Data(suite, seeds=3), Tally()
    print("\neach project with weights fitted on all others")
    for project in sorted({e.project for e in suite}):
        model = fit(data, project, turns=2)
        one = Tally()
        for metadata in Metadata:
            one.add(run([e for e in suite if e.project == project], seeds, metadata, model=model))
        print(f"{project:20} {one.line()}")
        whole.add(one)
    print(f"{'all':20} {whole.line()}")
    _thresholds(whole)
    print(f"(as shipped: {len(MODEL.weights)} weights, fitted on the tuning projects)")


if __name__ == "__main__":
    sys.exit(main())
