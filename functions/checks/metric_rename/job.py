"""One job at two instants: what HELP, the catalogue and the data, in this order, say about each name it lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functions.checks.metric_rename.families import Family
from functions.checks.metric_rename.help import Advice, advice, former, resolve
from functions.checks.metric_rename.inference import Guess, infer
from functions.checks.metric_rename.losses import Dual, How, Loss, State
from functions.checks.metric_rename.targets import JobTargets
from functions.checks.metric_rename.values import best_factor
from functions.contract.policy import Policy
from functions.contract.telemetry import PartialLoss
from functions.knowledge.renames import Catalogue, Step
from functions.knowledge.renames_words import load_words


class Job:
    """One job's names at both instants, and the sources that know something about them."""

    def __init__(
        self, job: str, before: Mapping[str, Family], after: Mapping[str, Family], catalogue: Catalogue | None, policy: Policy
    ) -> None:
        self.job, self.before, self.after = job, before, after
        self.catalogue = catalogue
        self.policy = policy
        self.rewrite = policy.signals.rewrite
        # the catalogue's spelling of each present name -> as stored
        self.spelled = {self._spelling(name): name for name in sorted(after, reverse=True)} if catalogue else {}
        self.former = {former(f.help): name for name, f in after.items() if name not in before and former(f.help)}

    def _spelling(self, name: str) -> str:
        for stored, printed in self.rewrite.items():
            if name.startswith(stored):
                name = printed + name.removeprefix(stored)
                break
        return self.catalogue.spelling(name) if self.catalogue else name

    def decide(self, gone: Sequence[str], partly: Mapping[str, PartialLoss], world: JobTargets) -> list[Loss]:
        """All that is known first; what is left is inferred among the names that nobody has claimed."""
        names = [*gone, *(n for n in partly if n not in gone)]
        known = {name: loss for name in names if (loss := self._known(self.before[name]))}
        taken = {loss.now.name for loss in known.values() if loss.now and not loss.renamed_to.endswith("}")}
        open_names = [self.before[n] for n in names if n not in known]
        guesses = infer(open_names, self.before, self.after, load_words(), taken)
        losses = []
        for name in names:
            loss = known.get(name) or self._guessed(self.before[name], guesses)
            if name in partly:
                loss = _on_some(loss, partly[name], world)
            if loss:
                losses.append(loss)
        return losses

    def _known(self, was: Family) -> Loss | None:
        return self._from_help(was) or self._from_catalogue(was) or self._from_end(was)

    def _from_help(self, was: Family) -> Loss | None:
        """The successor that HELP names, of the old metric or of the new one."""
        said = advice(was.help)
        if said and said.name and (new := resolve(said.name, self.after)) and new != was.name:
            return self._renamed(was, new, How.HELP, new + said.selector)
        if said and said.expression:
            return Loss(self.job, was, State.REMOVED, How.HELP, expression=said.expression)
        if (new := self.former.get(was.name, "")) and new in self.after:
            return self._renamed(was, new, How.HELP, new)
        return None

    def _from_catalogue(self, was: Family) -> Loss | None:
        if self.catalogue is None:
            return None
        if step := self._best(was):
            new = self.spelled[step.name]
            renamed_to = step.target.replace(step.name, new, 1)
            return self._renamed(was, new, How.CATALOGUE, renamed_to, step)
        if row := self.catalogue.removed(self._spelling(was.name)):
            others = self._alternatives(was)
            return Loss(self.job, was, State.REMOVED, How.CATALOGUE, rows=(row,), expression=row.expr, alternatives=others)
        return None

    def _from_end(self, was: Family) -> Loss | None:
        """HELP announced the end and named nothing: documented, without a successor."""
        said: Advice | None = advice(was.help)
        if said is None or said.name:
            return None
        return Loss(self.job, was, State.REMOVED, How.HELP)

    def _best(self, was: Family) -> Step | None:
        """Among the present ends of all ways: a name new at the cut before one that was there, the shortest way first."""
        if self.catalogue is None:
            return None
        ways = self.catalogue.ways(self._spelling(was.name), self.spelled)
        ways = tuple(w for w in ways if self.spelled[w.name] != was.name and (w.last.match or not w.last.filled or self._fresh(w)))
        return min(ways, key=lambda w: (not w.last.match and not self._fresh(w), len(w.rows), w.name), default=None)

    def _fresh(self, way: Step) -> bool:
        return self.spelled[way.name] not in self.before

    def _renamed(self, was: Family, new: str, how: How, renamed_to: str, step: Step | None = None) -> Loss:
        return Loss(
            self.job,
            was,
            State.RENAMED,
            how,
            renamed_to,
            self.after[new],
            factors=step.factors if step else (),
            rows=step.rows if step else (),
        )

    def _guessed(self, was: Family, guesses: Mapping[str, Guess]) -> Loss:
        guess = guesses.get(was.name)
        others = self._alternatives(was)
        if guess is None:
            return Loss(self.job, was, State.SILENT, alternatives=others)
        if guess.confidence >= self.policy.renames.min_confidence:
            now = self.after[guess.new]
            return Loss(self.job, was, State.RENAMED, How.INFERRED, guess.new, now, round(guess.confidence, 2), guess.signals)
        return Loss(self.job, was, State.SILENT, candidates=guess.candidates, alternatives=others)

    def _alternatives(self, was: Family) -> tuple[str, ...]:
        """Present metrics that answer the same question without being the successor."""
        rows = self.catalogue.alternatives(self._spelling(was.name)) if self.catalogue else ()
        return tuple(self.spelled[row.new] for row in rows if row.new in self.spelled)

    def duals(self, world: JobTargets) -> list[Dual]:
        """Old and new name at once, known from HELP or the catalogue, on at least one common target."""
        found = []
        for name, old in sorted(self.after.items()):
            said = advice(old.help)
            if said and said.name and not said.selector and (new := resolve(said.name, self.after)) and new != name:
                if world.overlap(old, self.after[new]):
                    found.append(Dual(self.job, old, self.after[new], How.HELP))
                continue
            step = self._living(name)
            if step and world.overlap(old, self.after[self.spelled[step.name]]):
                found.append(Dual(self.job, old, self.after[self.spelled[step.name]], How.CATALOGUE, step.factors, step.rows))
        return found

    def _living(self, name: str) -> Step | None:
        """The catalogue's successor of a living name, where it is new at the cut or shows the same values."""
        if self.catalogue is None:
            return None
        for way in self.catalogue.ways(self._spelling(name), self.spelled):
            new = self.spelled[way.name]
            if new == name or way.last.match or way.last.filled or len(way.rows) > 1:
                continue
            if new not in self.before and name in self.before:
                return way
            old, now = self.after[name], self.after[new]
            fit = best_factor(old, now, way.factors or (1.0,))
            if fit and fit[1] < 0.02 and old.series == now.series:
                return way
        return None


def _on_some(loss: Loss, partial: PartialLoss, world: JobTargets) -> Loss | None:
    """A loss that only some targets had. Those that are down lost nothing."""
    lost = tuple(i for i in partial.lost if world.alive(i))
    return replace(loss, lost_on=lost, kept_on=partial.kept) if lost else None
