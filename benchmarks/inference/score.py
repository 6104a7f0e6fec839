"""What is counted: successors found, successors claimed, and names that were dropped and got a false one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.inference.events import Event
from benchmarks.inference.worlds import Metadata, World, world
from functions.checks.metric_rename.families import families
from functions.checks.metric_rename.inference import infer
from functions.checks.metric_rename.likeness import Model
from functions.checks.metric_rename.successors import How, State, successors
from functions.contract.facts import NOT_ASKED
from functions.contract.policy import Policy, Renames
from functions.knowledge import load
from functions.knowledge.renames_words import load_words

POLICY = Policy(renames=Renames(catalogue=False))


@dataclass
class Tally:
    renamed: int = 0
    right: int = 0
    claimed: int = 0
    dropped: int = 0
    stolen: int = 0
    misses: list[str] = field(default_factory=list)
    #: (confidence, whether it was right) of every best candidate, for the calibration
    said: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.right / self.renamed if self.renamed else 1.0

    @property
    def precision(self) -> float:
        return self.right / self.claimed if self.claimed else 1.0

    @property
    def false_successors(self) -> float:
        return self.stolen / self.dropped if self.dropped else 0.0

    def at(self, confidence: float) -> tuple[float, float]:
        """(recall, precision) where a claim is a confidence of at least this."""
        default = POLICY.renames.min_confidence
        inferred = [right for said, right in self.said if said >= default]
        known_right, known = self.right - sum(inferred), self.claimed - len(inferred)
        held = [right for said, right in self.said if said >= confidence]
        right, claimed = known_right + sum(held), known + len(held)
        return right / (self.renamed or 1), right / (claimed or 1)

    def line(self) -> str:
        return (
            f"recall {self.recall:.3f} ({self.right}/{self.renamed})  precision {self.precision:.3f} ({self.right}/{self.claimed})  "
            f"dropped with a false successor {self.false_successors:.3f} ({self.stolen}/{self.dropped})"
        )

    def add(self, other: Tally) -> None:
        for name in ("renamed", "right", "claimed", "dropped", "stolen"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.misses += other.misses
        self.said += other.said


def judge(drawn: World, tally: Tally, where: str, model: Model | None) -> None:
    """Add one world to a tally: as an audit answers, or with the weights of another fit."""
    tally.renamed += len(drawn.truth)
    tally.dropped += len(drawn.dropped)
    told = _inferred(drawn, model) if model else _audited(drawn)
    for old, new in (drawn.truth | dict.fromkeys(drawn.dropped, "")).items():
        said, confidence, known = told.get(old, ("", 0.0, False))
        claimed = bool(said) and (known or confidence >= POLICY.renames.min_confidence)
        tally.claimed += claimed
        tally.right += claimed and said == new
        tally.stolen += claimed and not new
        if said and not known:
            tally.said.append((confidence, said == new))
        if (said if claimed else "") != new:
            tally.misses.append(
                f"{where}: {old} -> {new or 'dropped'}, {'said' if claimed else 'thought of'} {said or 'none'} {confidence:.2f}"
            )


def _audited(drawn: World) -> dict[str, tuple[str, float, bool]]:
    """Lost name -> (best successor, confidence, whether it is known rather than inferred), as the checks are told."""
    found = successors(
        drawn.before,
        drawn.after,
        knowledge=load(),
        policy=POLICY,
        targets_before=NOT_ASKED,
        targets=NOT_ASKED,
        partial_losses=NOT_ASKED,
    )
    told = {}
    for loss in found.losses:
        if loss.state is State.RENAMED:
            told[loss.was.name] = (loss.renamed_to, loss.confidence, loss.how is not How.INFERRED)
        elif loss.candidates:
            told[loss.was.name] = (*loss.candidates[0], False)
    return told


def _inferred(drawn: World, model: Model) -> dict[str, tuple[str, float, bool]]:
    """The same from the inference alone, which is all there is where HELP announces nothing."""
    before, after = families(drawn.before)["job"], families(drawn.after)["job"]
    lost = [f for name, f in sorted(before.items()) if name not in after]
    guesses = infer(lost, before, after, load_words(), model=model)
    return {old: (guess.new, guess.confidence, False) for old, guess in guesses.items()}


def run(suite: Iterable[Event], seeds: int, metadata: Metadata, *, announced: bool = False, model: Model | None = None) -> Tally:
    """All worlds of a suite in which HELP announced the successors, or all in which it did not."""
    tally = Tally()
    for event in suite:
        for seed in range(seeds):
            drawn = world(event, seed, metadata)
            if drawn.announced is announced:
                judge(drawn, tally, f"[{metadata.value}] {event.system} {event.version}", model)
    return tally


def calibration(said: Iterable[tuple[float, bool]], steps: int = 5) -> list[tuple[float, float, int]]:
    """(mean confidence, share that was right, how many) in bands of confidence."""
    bands: list[list[tuple[float, bool]]] = [[] for _ in range(steps)]
    for confidence, right in said:
        bands[min(steps - 1, int(confidence * steps))].append((confidence, right))
    return [(sum(c for c, _ in b) / len(b), sum(r for _, r in b) / len(b), len(b)) for b in bands if b]
