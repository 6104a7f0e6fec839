"""What can become of a metric that a job lost, and of one that it has under two names. Nouns only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from functions.checks.metric_rename.families import Family
from functions.knowledge.renames import Rename


class State(StrEnum):
    RENAMED = "renamed"
    REMOVED = "removed"
    SILENT = "silent"


class How(StrEnum):
    """How a rename or removal is known."""

    HELP = "help"
    CATALOGUE = "catalogue"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Loss:
    """One family that a job lost, and what became of it."""

    job: str
    was: Family
    state: State
    how: How = How.UNKNOWN
    #: the new name as it is printed, with its selector where it is a merge
    renamed_to: str = ""
    now: Family | None = None
    confidence: float = 1.0
    #: what an inference rests on, for a person
    signals: tuple[str, ...] = ()
    #: (name, confidence), best first, where the inference is not sure enough
    candidates: tuple[tuple[str, float], ...] = ()
    #: new value ÷ old value as it is known; empty where it is not
    factors: tuple[float, ...] = ()
    #: the rows of the catalogue it rests on
    rows: tuple[Rename, ...] = ()
    #: what gives the same, where no plain successor does; or another metric that answers the question
    expression: str = ""
    alternatives: tuple[str, ...] = ()
    #: instances that lost it, where others of the job still have it
    lost_on: tuple[str, ...] = ()
    kept_on: tuple[str, ...] = ()
    #: other jobs in which the name lives on
    elsewhere: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        return bool(self.kept_on)


@dataclass(frozen=True, slots=True)
class Dual:
    """Old and new name at once on the same targets."""

    job: str
    old: Family
    new: Family
    how: How
    factors: tuple[float, ...] = ()
    rows: tuple[Rename, ...] = ()
