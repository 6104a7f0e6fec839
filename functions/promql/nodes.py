"""The tree of an expression. Every node knows where in the text it begins and ends.

`promql_parser` has a tree as well, but without places; a suggestion that keeps the author's own words needs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from functions.contract.rules import Matcher, Selector


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Name:
    """A label as it is written somewhere, quoted or not."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class WrittenMatcher:
    matcher: Matcher
    label: Span
    value: Span
    #: a variable of a dashboard is part of the value: what it will match is not known
    open: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """`span` covers the node with its modifiers (offset, @)."""

    span: Span


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number or a text."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A vector or range selector. `selector` has no open matchers in it."""

    selector: Selector
    matchers: tuple[WrittenMatcher, ...] = ()
    #: where the metric's name is written; for a pattern over __name__ the pattern's text
    name: Span | None = None
    #: the name is in quotes
    quoted: bool = False
    #: from the opening to the closing brace
    braces: Span | None = None
    ranged: bool = False
    #: the metric's name is not known, since a variable stands in it
    open: bool = False


@dataclass(frozen=True, slots=True)
class Paren(Node):
    inner: Node


@dataclass(frozen=True, slots=True)
class Unary(Node):
    inner: Node


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    inner: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    function: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    operator: str
    args: tuple[Node, ...]
    labels: tuple[Name, ...] = ()
    #: `without (…)`; False also where there is neither
    without: bool = False

    @property
    def inner(self) -> Node | None:
        return self.args[-1] if self.args else None


@dataclass(frozen=True, slots=True)
class Binary(Node):
    operator: str
    left: Node
    right: Node
    #: labels of on() or ignoring(); None where there is neither
    matching: tuple[Name, ...] | None = None
    ignoring: bool = False
    #: "left" or "right" where group_left() or group_right() is written
    group: str = ""
    extra: tuple[Name, ...] = ()
    #: `fill…()` supplies what one side lacks
    filled: bool = False


def children(node: Node) -> tuple[Node, ...]:
    """In the order of the text."""
    match node:
        case Paren() | Unary() | Subquery():
            return (node.inner,)
        case Call() | Aggregate():
            return node.args
        case Binary():
            return (node.left, node.right)
    return ()


def walk(node: Node) -> list[Node]:
    """The node and everything under it, in the order of the text."""
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        found.append(current)
        stack.extend(reversed(children(current)))
    return found
