"""What became of every metric that a job lost: renamed, taken away on purpose, or silent without a word.

The one place where this is decided. `metric-rename` reports what is renamed or removed, `telemetry-gap` what is
silent, so that the two can't disagree about a name. Sources of knowledge in their order: the exporter's own HELP, the
catalogue, the data. A successor is looked for in the same job.

A metric is lost where its target lives and the metric does not. A target that is down, a workload that is gone and a
job that is gone lost nothing here: others report that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from functions.checks.metric_rename.families import Families, families
from functions.checks.metric_rename.job import Job
from functions.checks.metric_rename.losses import Dual, How, Loss, State
from functions.checks.metric_rename.targets import job_targets
from functions.contract.facts import Fact, Known
from functions.contract.policy import Policy
from functions.contract.telemetry import MetricSchema, PartialLoss, Target

if TYPE_CHECKING:
    from functions.knowledge import Knowledge

__all__ = ["Dual", "How", "Loss", "State", "Succession", "settled", "successors"]


@dataclass(frozen=True, slots=True)
class Succession:
    """The whole answer. `explained` are names whose absence a target or workload explains: (job, family, why)."""

    losses: tuple[Loss, ...] = ()
    duals: tuple[Dual, ...] = ()
    explained: tuple[tuple[str, str, str], ...] = ()
    #: families that were compared
    compared: int = 0
    before: Families = field(default_factory=dict)
    after: Families = field(default_factory=dict)

    def of(self, state: State) -> tuple[Loss, ...]:
        return tuple(loss for loss in self.losses if loss.state is state)


def successors(
    schema_before: Iterable[MetricSchema],
    schema: Iterable[MetricSchema],
    *,
    knowledge: Knowledge,
    policy: Policy,
    targets_before: Fact[tuple[Target, ...]],
    targets: Fact[tuple[Target, ...]],
    partial_losses: Fact[tuple[PartialLoss, ...]],
) -> Succession:
    """Decide for every lost (job, family). Facts that are missing make it more careful, never bolder."""
    before, after = families(schema_before), families(schema)
    partial = _partial(partial_losses, after)
    losses: list[Loss] = []
    duals: list[Dual] = []
    explained: list[tuple[str, str, str]] = []
    compared = 0
    for job, had in sorted(before.items()):
        have = after.get(job, {})
        world = job_targets(job, targets_before, targets)
        if why := world.silent(bool(have)):
            explained += [(job, name, why) for name in sorted(had)]
            continue
        compared += len(had)
        helper = Job(job, had, have, knowledge.renames if policy.renames.catalogue else None, policy)
        gone = [name for name in sorted(had) if name not in have]
        accounted = {name: why for name in gone if (why := world.explains(had[name]))}
        explained += [(job, name, why) for name, why in accounted.items()]
        partly = {name: loss for name, loss in partial.get(job, {}).items() if name in had and name in have}
        found = helper.decide([n for n in gone if n not in accounted], partly, world)
        losses += [_elsewhere(loss, before, after) for loss in found]
        duals += helper.duals(world)
    return Succession(tuple(losses), tuple(duals), tuple(explained), compared, before, after)


def _partial(fact: Fact[tuple[PartialLoss, ...]], after: Families) -> dict[str, dict[str, PartialLoss]]:
    """job -> family -> the loss; of a family's several stored names the one that lost the most targets."""
    found: dict[str, dict[str, PartialLoss]] = {}
    for loss in (loss for loss in fact.value if not loss.label) if isinstance(fact, Known) else ():
        owner = next((f.name for f in after.get(loss.job, {}).values() if loss.metric in f.names), loss.metric)
        held = found.setdefault(loss.job, {})
        if owner not in held or len(loss.lost) > len(held[owner].lost):
            held[owner] = loss
    return found


def _elsewhere(loss: Loss, before: Families, after: Families) -> Loss:
    others = tuple(sorted(j for j, held in after.items() if j != loss.job and loss.was.name in held))
    return replace(loss, elsewhere=others) if others else loss


def settled(losses: Iterable[Loss]) -> Collection[tuple[str, str]]:
    """(job, family) that metric-rename speaks of: nobody else needs to."""
    return {(loss.job, loss.was.name) for loss in losses if loss.state is not State.SILENT}
