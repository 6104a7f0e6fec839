"""Which selectors find nothing, and whether a change is to blame: what the judgement of rules and dashboards rests on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from functions.contract.rules import Matcher, Rule, RuleKind, Selector, SelectorCount
from functions.promql import NO_CHANGES, Changes, Expression, Place, all_lost, demands, names_of, read

#: Series that a server writes itself, wherever rules are evaluated.
_OWN = re.compile(r"up|ALERTS|ALERTS_FOR_STATE|scrape_\w+")


class State(StrEnum):
    """What one selector, or one whole expression, amounts to."""

    #: finds series, or need not find any
    WELL = "well"
    #: finds nothing because of a change of names or labels
    DEAD = "dead"
    #: finds nothing for any other reason
    BLIND = "blind"
    #: can't be told
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Found:
    """A state and its reason. `certain` is False where the metric is there and only a value of a label is not."""

    state: State
    why: str = ""
    certain: bool = True


_WELL = Found(State.WELL)


@dataclass(frozen=True)
class World:
    """What is known about the stored series. `counts` None: they were not counted, and only changes can be judged."""

    rules: tuple[Rule, ...] = ()
    changes: Changes = NO_CHANGES
    counts: Mapping[Selector, int] | None = None
    counts_before: Mapping[Selector, int] | None = None
    #: stored names, now and in the baseline
    names: frozenset[str] = frozenset()
    names_before: frozenset[str] = frozenset()
    #: jobs that were looked at; None: every job was
    jobs: frozenset[str] | None = None
    #: whether the absence of a metric is in good order (an event that has not happened yet)
    silent: Callable[[str], bool] = lambda _name: False


def counted(counts: Iterable[SelectorCount] | None) -> Mapping[Selector, int] | None:
    """Series by selector."""
    return None if counts is None else {c.selector: c.series for c in counts}


class Judge:
    """Answers about one world, each once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._records: dict[str, list[Expression]] = {}
        for rule in world.rules:
            if rule.kind is RuleKind.RECORD:
                self._records.setdefault(rule.name, []).append(read(rule.expr))
        self._states: dict[Selector, Found] = {}
        self._asked: set[tuple[str, str]] = set()

    def missing(self, selector: Selector) -> bool:
        return self.state(selector).state in (State.DEAD, State.BLIND)

    def lost(self, selector: Selector, label: str) -> bool:
        """Whether the series of a selector had a label that a change took, recorded series included."""
        name = selector.name or ""
        if name not in self._records:
            return self.world.changes.label_of(selector, label) is not None
        if (name, label) in self._asked:
            return False  # a rule that reads itself is not its own cause
        self._asked.add((name, label))
        try:
            return any(all_lost(expression.supply(label), self.lost) for expression in self._records[name])
        finally:
            self._asked.discard((name, label))

    def state(self, selector: Selector) -> Found:
        if selector not in self._states:
            self._states[selector] = _WELL  # a rule that reads itself is not its own cause
            self._states[selector] = self._recorded(selector) if selector.name in self._records else self._stored(selector)
        return self._states[selector]

    def of(self, expression: Expression) -> Found:
        """What an expression amounts to. What also rests on something that never had data did not die of a change."""
        if expression.error:
            return Found(State.UNTOLD, f"its expression can't be read: {expression.error}")
        cause = expression.blind(self.missing, self.lost, self.world.changes.lost_labels)
        if cause is None:
            return self._untold(expression)
        found = [self.state(selector) for selector in cause.selectors]
        had = self.world.counts_before or {}
        never = [f for f, s in zip(found, cause.selectors, strict=True) if f.state is State.BLIND and not had.get(s)]
        dead = [f for f in found if f.state is State.DEAD]
        dead += [Found(State.DEAD, f"it joins on {label}, which {selector} lost") for selector, label in cause.joins]
        return (never or dead or found)[0]

    def unseen(self, expression: Expression, selector: Selector) -> bool:
        """Whether a dashboard's selector is dead: also where a variable stands in a matcher on a label that is gone."""
        if self.state(selector).state is State.DEAD:
            return True
        filled = {m.label for m in selector.matchers if not demands(m)}
        uses = (u for u in expression.label_uses if u.place is Place.MATCHER and u.label in filled)
        return any((selector, u.label) in u.supply.sources and self.lost(selector, u.label) for u in uses)

    def _untold(self, expression: Expression) -> Found:
        """An expression that is not known to be empty: well, unless what it needs can't be told."""
        cause = expression.blind(lambda s: self.state(s).state is not State.WELL, self.lost)
        told = [self.state(s) for s in cause.selectors] if cause else []
        return next((f for f in told if f.state is State.UNTOLD), _WELL)

    def _recorded(self, selector: Selector) -> Found:
        """A recorded series is there where any of the rules that record it sees something."""
        found = [self.of(expression) for expression in self._records[selector.name or ""]]
        if any(f.state is State.WELL for f in found):
            return _WELL
        worst = next((f for f in found if f.state is State.UNTOLD), found[0])
        return Found(worst.state, f"{selector.name} records nothing: {worst.why}", worst.certain)

    def _stored(self, selector: Selector) -> Found:
        world, names = self.world, names_of(selector)
        count = None if world.counts is None else world.counts.get(selector)
        if count or (names and all(_OWN.fullmatch(name) for name in names)):
            return _WELL
        had = None if world.counts_before is None else world.counts_before.get(selector)
        if had != 0 and (why := self._blamed(selector)):
            return Found(State.DEAD, why)
        if count is None:
            return Found(State.UNTOLD, f"nothing tells how many series {selector} selects")
        if any(world.silent(name) for name in names):
            return _WELL
        if outside := self._outside(selector, names):
            return Found(State.UNTOLD, outside)
        if any(name in world.names for name in names):
            return Found(State.BLIND, f"no series of {' and '.join(names)} matches {selector}", certain=bool(had))
        was = f"selected {had} series before the change and selects none now" if had else "selects nothing"
        return Found(State.BLIND, f"{selector} {was}")

    def _blamed(self, selector: Selector) -> str:
        """The change that took all series of a selector; "" where there is none."""
        changes = self.world.changes
        if lost := [change for change in changes.metrics_of(selector) if change.lost]:
            return " and ".join(f"{change.name} {_now(change.to)}" for change in lost)
        for matcher in filter(demands, selector.matchers):
            if change := changes.label_of(selector, matcher.label):
                return f"label {change.label} {_now(change.to)}"
            for respelled in changes.labels:
                if respelled.label == matcher.label and changes.concerns(respelled, selector):
                    for old in respelled.values.keys() & set(re.split(r"[|()]", matcher.value)):
                        return f"value {old} of {matcher.label} is written {respelled.values[old]} now"
        return ""

    def _outside(self, selector: Selector, names: tuple[str, ...]) -> str:
        """Why a selector is about a job that was not looked at; "" where it is about one that was."""
        jobs = self.world.jobs
        if jobs is None:
            return ""
        wanted = [m for m in selector.matchers if m.label == "job" and not m.negative]
        if wanted:
            held = any(all(_matches(m, job) for m in wanted) for job in jobs)
            return "" if held else f"{selector} is about a job that was not looked at"
        words = {_first_word(name) for name in self.world.names | self.world.names_before}
        kin = any(_first_word(name) in words for name in names)
        return "" if kin else f"{' and '.join(names) or selector} may belong to a job that was not looked at"


def _now(to: str | None) -> str:
    return f"is called {to} now" if to else "is gone"


def _matches(matcher: Matcher, value: str) -> bool:
    try:
        return matcher.value == value if matcher.op == "=" else re.fullmatch(matcher.value, value) is not None
    except re.error:
        return False


def _first_word(name: str) -> str:
    return re.split(r"[_:.\-]", name, maxsplit=1)[0].lower()
