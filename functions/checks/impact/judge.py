"""What whole expressions amount to, recording rules followed: the answers of one world, each found once.

How an expression depends on its selectors and labels is `functions.promql`'s knowledge; what one selector over stored
series amounts to is `world.py`'s.
"""

from __future__ import annotations

from functools import cached_property

from functions.checks.impact.world import WELL, Found, State, World
from functions.contract.rules import RuleKind, Selector
from functions.promql import Expression, LabelUse, Place, all_lost, demands, read


class Judge:
    """Answers about one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: name -> the expressions that record it
        self.records: dict[str, list[Expression]] = {}
        for rule in world.rules:
            if rule.kind is RuleKind.RECORD:
                self.records.setdefault(rule.name, []).append(read(rule.expr))
        self._states: dict[Selector, Found] = {}
        self._lost: dict[tuple[Selector, str], bool] = {}

    def state(self, selector: Selector) -> Found:
        if selector not in self._states:
            self._states[selector] = WELL  # a rule that reads itself is not its own cause
            self._states[selector] = self._recorded(selector) if selector.name in self.records else self.world.found(selector)
        return self._states[selector]

    def missing(self, selector: Selector) -> bool:
        return self.state(selector).state in (State.DEAD, State.BLIND)

    def lost(self, selector: Selector, label: str) -> bool:
        """Whether the series of a selector had a label that a change took, recorded series included."""
        key = (selector, label)
        if key not in self._lost:
            self._lost[key] = False  # a rule that reads itself is not its own cause
            if held := self.records.get(selector.name or ""):
                self._lost[key] = any(all_lost(expression.supply(label), self.lost) for expression in held)
            else:
                self._lost[key] = self.world.changes.label_of(selector, label) is not None
        return self._lost[key]

    def of(self, expression: Expression) -> Found:
        """What an expression amounts to. What also rests on something that never had data did not die of a change."""
        if expression.error:
            return Found(State.UNTOLD, f"its expression can't be read: {expression.error}")
        cause = expression.blind(self.missing, self.lost, self.world.changes.lost_labels)
        if cause is None:
            return self._untold(expression)
        found = [self.state(selector) for selector in cause.selectors]
        never = [f for f in found if f.state is State.BLIND and f.never]
        dead = [f for f in found if f.state is State.DEAD]
        dead += [Found(State.DEAD, f"it joins on {label}, which {selector} lost", selector=selector) for selector, label in cause.joins]
        sure = [f for f in found if f.sure]
        return (never or dead or sure or found)[0]

    def unseen(self, expression: Expression, selector: Selector) -> bool:
        """Whether a dashboard's selector is dead: also where a variable stands in a matcher on a label that is gone."""
        if self.state(selector).state is State.DEAD:
            return True
        filled = {m.label for m in selector.matchers if not demands(m)}
        uses = (u for u in expression.label_uses if u.place is Place.MATCHER and u.label in filled)
        return any((selector, u.label) in u.supply.sources and self.lost(selector, u.label) for u in uses)

    def gone_from(self, use: LabelUse) -> bool:
        """Whether a label came to a place through series that are there, and comes through none or not through all of them."""
        living = [source for source in use.supply.sources if not self.missing(source[0])] or list(use.supply.sources)
        if use.place is Place.BY and not use.supply.made:
            return any(self.lost(*source) for source in living)
        return bool(living) and not use.supply.made and all(self.lost(*source) for source in living)

    def _untold(self, expression: Expression) -> Found:
        """An expression that is not known to be empty: well, unless what it needs can't be told."""
        cause = expression.blind(lambda s: self.state(s).state is not State.WELL, self.lost)
        told = [self.state(s) for s in cause.selectors] if cause else []
        return next((f for f in told if f.state is State.UNTOLD), WELL)

    def _recorded(self, selector: Selector) -> Found:
        """A recorded series is there where any of the rules that record it sees something, with the labels that are asked for."""
        found = [self.of(expression) for expression in self.records[selector.name or ""]]
        if any(f.state is State.WELL for f in found):
            gone = next((m.label for m in selector.matchers if demands(m) and self.lost(selector, m.label)), "")
            return Found(State.DEAD, f"{selector.name} is recorded without {gone} now", selector=selector) if gone else WELL
        worst = next((f for f in found if f.state is State.UNTOLD), found[0])
        return Found(worst.state, f"{selector.name} records nothing: {worst.why}", worst.sure, worst.never, worst.selector)

    @cached_property
    def _labels(self) -> frozenset[str]:
        return frozenset(label for held in self.world.now.values() for label in held.labels)

    def carried(self, label: str) -> bool:
        """Whether any stored series has a label."""
        return label in self._labels
