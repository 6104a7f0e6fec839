"""What was read of one expression, and what follows where series or labels are gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from functions.contract.rules import Selector
from functions.promql.labels import ABSENCE, NOTHING, Source, Supply, scalar, supply
from functions.promql.nodes import Aggregate, Binary, Call, Node, Paren, Select, Subquery, Unary

#: Functions that answer though their argument is empty.
_SPEAKING = ABSENCE | {"vector", "time", "pi"}


NO_LABELS: Mapping[str, Collection[str]] = MappingProxyType({})


class Place(StrEnum):
    """Where a label is used."""

    MATCHER = "matcher"
    #: a matcher that is satisfied where the label is absent (`!="POD"`, `=~".*"`, `=""`)
    EXCLUDE = "matcher that absence satisfies"
    BY = "by"
    WITHOUT = "without"
    ON = "on"
    IGNORING = "ignoring"
    #: copied by group_left() or group_right()
    GROUP = "group"
    #: read by label_replace() or label_join()
    REPLACE = "label_replace"
    #: written by them
    TARGET = "label_replace target"
    QUANTILE = "histogram_quantile"
    #: printed: legends of panels, labels and annotations of rules
    TEXT = "text"
    #: a dashboard's variable asks for its values
    VARIABLE = "variable"


@dataclass(frozen=True, slots=True)
class SelectorUse:
    """A selector in an expression. `needed`: without series for it, and it alone, the expression gives nothing."""

    selector: Selector
    needed: bool


@dataclass(frozen=True, slots=True)
class LabelUse:
    """A label at one place. What reaches that place through which selector is in `supply`.

    For a join there is one use a side, and `across` is the supply of the other side. `beside` are the other labels of
    the same list. A matcher that any value satisfies is `idle`.
    """

    label: str
    place: Place
    supply: Supply = NOTHING
    across: Supply = NOTHING
    beside: frozenset[str] = frozenset()
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an expression gives nothing: selectors without series, joins on labels that one side lost."""

    selectors: tuple[Selector, ...] = ()
    joins: tuple[Source, ...] = ()

    def __or__(self, other: Cause) -> Cause:
        return Cause(tuple(dict.fromkeys(self.selectors + other.selectors)), tuple(dict.fromkeys(self.joins + other.joins)))


@dataclass(frozen=True, slots=True)
class Expression:
    """What was read. With an `error` there is no tree: selectors are those whose text could be told, none of them needed."""

    selectors: tuple[SelectorUse, ...] = ()
    label_uses: tuple[LabelUse, ...] = ()
    error: str = ""
    #: what a parser of Prometheus 2.45 has against it, though it could be read here
    doubt: str = ""
    tree: Node | None = None
    #: variables of a dashboard in it
    variables: frozenset[str] = frozenset()

    def blind(
        self,
        missing: Callable[[Selector], bool],
        lost: Callable[[Selector, str], bool],
        labels: Mapping[str, Collection[str]] = NO_LABELS,
    ) -> Cause | None:
        """Why the expression gives nothing, if selectors are `missing` and labels are `lost`; None where it may give something.

        `labels` are those that may be lost, each with the labels that took its place: joins on all labels, or on all but
        some, are tried with them.
        """
        return _Emptiness(missing, lost, labels).of(self.tree) if self.tree is not None else None

    def supply(self, label: str) -> Supply:
        """What a label of the result comes from."""
        return supply(self.tree, label) if self.tree is not None else NOTHING


def all_lost(given: Supply, lost: Callable[[Selector, str], bool]) -> bool:
    """Whether a label that came through selectors came through none that still has it."""
    return bool(given.sources) and not given.made and all(lost(*source) for source in given.sources)


def some_left(given: Supply, lost: Callable[[Selector, str], bool]) -> bool:
    """Whether a label still comes from somewhere."""
    return given.made or any(not lost(*source) for source in given.sources)


@dataclass(frozen=True, slots=True)
class _Emptiness:
    missing: Callable[[Selector], bool]
    lost: Callable[[Selector, str], bool]
    labels: Mapping[str, Collection[str]]

    def of(self, node: Node) -> Cause | None:
        match node:
            case Select():
                return Cause((node.selector,)) if not node.open and self.missing(node.selector) else None
            case Paren() | Unary() | Subquery():
                return self.of(node.inner)
            case Call():
                # scalar() of nothing is NaN, which satisfies no comparison: as good as empty
                return None if node.function in _SPEAKING else self.any(node.args)
            case Aggregate():
                return self.any(node.args)
            case Binary():
                return self.of_binary(node)
        return None

    def any(self, nodes: tuple[Node, ...]) -> Cause | None:
        return next((cause for node in nodes if (cause := self.of(node))), None)

    def of_binary(self, node: Binary) -> Cause | None:
        left, right = self.of(node.left), self.of(node.right)
        if node.operator in ("or", "default"):
            return left | right if left and right else None
        if node.operator in ("unless", "ifnot"):
            return left
        if node.filled:
            return left | right if left and right else None
        if left and right:
            return left | right
        return left or right or self.of_join(node)

    def of_join(self, node: Binary) -> Cause | None:
        if scalar(node.left) or scalar(node.right):
            return None
        joins = tuple(dict.fromkeys(source for label in self.joined(node) for source in lost_side(node, label, self.lost)))
        joins = joins or tuple(source for label in self.ignored(node) for source in gained_side(node, label, self.lost))
        return Cause(joins=joins) if joins else None

    def joined(self, node: Binary) -> Collection[str]:
        named = [name.text for name in node.matching or ()]
        if node.matching is not None and not node.ignoring:
            return named
        return [label for label in self.labels if label not in named]

    def ignored(self, node: Binary) -> Collection[str]:
        """Labels that a join ignores by their old name alone: what took their place does not match."""
        named = {name.text for name in node.matching or ()} if node.ignoring else set()
        return [label for label, new in self.labels.items() if label in named and new and not named.intersection(new)]


def gained_side(node: Binary, label: str, lost: Callable[[Selector, str], bool]) -> tuple[Source, ...]:
    """The sources of a label that one side of a join has under a new name, which the other side has not."""
    left, right = supply(node.left, label), supply(node.right, label)
    for here, there in ((left, right), (right, left)):
        if all_lost(here, lost) and not any(lost(*source) for source in there.sources):
            return here.sources
    return ()


def lost_side(node: Binary, label: str, lost: Callable[[Selector, str], bool]) -> tuple[Source, ...]:
    """The sources of a label that one side of a join lost while the other still has it: nothing matches there."""
    left, right = supply(node.left, label), supply(node.right, label)
    for here, there in ((left, right), (right, left)):
        if all_lost(here, lost) and some_left(there, lost):
            return here.sources
    return ()


def needs(tree: Node, selector: Selector) -> bool:
    """Whether the expression is empty as soon as this selector is."""
    return _Emptiness(lambda s: s == selector, lambda _s, _l: False, NO_LABELS).of(tree) is not None
