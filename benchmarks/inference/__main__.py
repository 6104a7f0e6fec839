"""python -m benchmarks.inference: how well successors are found without the catalogue. `--fit` refits the weights.

Printed for both splits, so that over-fitting would show: of the names that a release renamed, how many get their
successor (recall); of the successors that are claimed, how many are right (precision); and how many of the names that
were dropped get a false one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.inference.events import Event, events
from benchmarks.inference.fit import fit
from benchmarks.inference.worlds import World, world
from functions.checks._successors import State, successors
from functions.contract.facts import NOT_ASKED
from functions.contract.policy import Policy, Renames
from functions.knowledge import load

GOAL = 0.95
GOAL_DROPPED = 0.1


@dataclass
class Tally:
    renamed: int = 0
    right: int = 0
    claimed: int = 0
    dropped: int = 0
    stolen: int = 0
    misses: list[str] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.right / self.renamed if self.renamed else 1.0

    @property
    def precision(self) -> float:
        return self.right / self.claimed if self.claimed else 1.0

    @property
    def false_successors(self) -> float:
        return self.stolen / self.dropped if self.dropped else 0.0

    def line(self) -> str:
        return (
            f"recall {self.recall:.3f} ({self.right}/{self.renamed})  precision {self.precision:.3f} ({self.right}/{self.claimed})  "
            f"dropped with a false successor {self.false_successors:.3f} ({self.stolen}/{self.dropped})"
        )


def judge(drawn: World, tally: Tally, where: str) -> None:
    """Add one world to a tally."""
    found = successors(
        drawn.before,
        drawn.after,
        knowledge=load(),
        policy=Policy(renames=Renames(catalogue=False)),
        targets_before=NOT_ASKED,
        targets=NOT_ASKED,
        partial_losses=NOT_ASKED,
    )
    claims = {loss.was.name: loss for loss in found.of(State.RENAMED)}
    for old, new in drawn.truth.items():
        tally.renamed += 1
        claim = claims.get(old)
        tally.claimed += claim is not None
        tally.right += claim is not None and claim.renamed_to == new
        if claim is None or claim.renamed_to != new:
            loss = next((x for x in found.losses if x.was.name == old), None)
            seen = claim.renamed_to if claim else f"silent {loss.candidates[:2] if loss else 'not lost'}"
            tally.misses.append(f"{where}: {old} -> {new}, said {seen}")
    for old in drawn.dropped:
        tally.dropped += 1
        if claim := claims.get(old):
            tally.claimed += 1
            tally.stolen += 1
            tally.misses.append(f"{where}: {old} dropped, said {claim.renamed_to} ({claim.confidence})")


def run(suite: Iterable[Event], seeds: int, *, with_help: bool) -> Tally:
    tally = Tally()
    for event in suite:
        for seed in range(seeds):
            drawn = world(event, seed)
            if drawn.has_help is with_help:
                judge(drawn, tally, f"{event.system} {event.version}")
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inference", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="worlds drawn for each event")
    parser.add_argument("--misses", type=int, default=0, help="print so many wrong answers of the tuning split")
    parser.add_argument("--fit", action="store_true", help="fit the weights on the tuning split and print them")
    options = parser.parse_args()
    all_events = events()
    tuning = [e for e in all_events if not e.held_out]
    held_out = [e for e in all_events if e.held_out]
    if options.fit:
        fit(tuning, seeds=3)
        return 0
    print(
        f"{len(all_events)} release events with {sum(len(e.renamed) for e in all_events)} renames: {len(tuning)} for tuning, {len(held_out)} held out"
    )
    print(f"(by a hash of system and version), {options.seeds} worlds each; the catalogue is switched off.")
    results = {}
    for name, suite in (("tuning", tuning), ("held out", held_out)):
        results[name] = run(suite, options.seeds, with_help=False)
        print(f"{name:9} no HELP    {results[name].line()}")
        print(f"{'':9} with HELP  {run(suite, options.seeds, with_help=True).line()}")
    for miss in results["tuning"].misses[: options.misses]:
        print("  " + miss)
    final = results["held out"]
    met = final.recall >= GOAL and final.precision >= GOAL and final.false_successors <= GOAL_DROPPED
    print(
        f"goal (held out, no HELP): recall and precision at least {GOAL}, false successors at most {GOAL_DROPPED}: {'met' if met else 'NOT met'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
