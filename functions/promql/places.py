"""Where in a tree something may be edited: labels outside of braces, and the node around a selector that can be wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from functions.promql.labels import NOTHING, Supply, supply
from functions.promql.nodes import Aggregate, Binary, Call, Literal, Node, Select, Span, children


@dataclass(frozen=True, slots=True)
class WrittenLabel:
    """A label written outside of braces. `across` is what the other side of a join has of it, `beside` its list."""

    label: str
    span: Span
    #: an argument in quotes, not a name in a list
    text: bool
    supply: Supply
    across: Supply = NOTHING
    beside: frozenset[str] = frozenset()


def with_ancestors(root: Node) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Every node with what stands above it, innermost last."""
    stack: list[tuple[Node, tuple[Node, ...]]] = [(root, ())]
    while stack:
        node, above = stack.pop()
        yield node, above
        stack += [(child, (*above, node)) for child in reversed(children(node))]


def host_of(node: Select, above: tuple[Node, ...]) -> tuple[Node | None, Node | None]:
    """The smallest node around a selector that is an instant vector in the metric's own unit, and what stands above it.

    Buckets count; what has the unit is the quantile over them.
    """
    if (node.selector.name or "").endswith("_bucket"):
        return _call_above(above, lambda call: call.function == "histogram_quantile")
    if node.ranged:
        return _call_above(above, lambda _call: True)
    # alternatives of one selector share its text: what stands above is above all of them
    outer = [a for a in above if a.span != node.span or not isinstance(a, Binary)]
    return node, outer[-1] if outer else None


def _call_above(above: tuple[Node, ...], wanted: Callable[[Call], bool]) -> tuple[Node | None, Node | None]:
    for index in range(len(above) - 1, -1, -1):
        node = above[index]
        if isinstance(node, Call) and wanted(node):
            return node, above[index - 1] if index else None
    return None, None


def written_labels(tree: Node) -> Iterator[WrittenLabel]:
    """Every label in a list of labels or in the arguments of label_replace() and label_join(); a join gives two, one a side."""
    for node, _ in with_ancestors(tree):
        match node:
            case Aggregate(labels=names) if node.inner:
                beside = frozenset(n.text for n in names)
                yield from (WrittenLabel(n.text, n.span, False, supply(node.inner, n.text), beside=beside) for n in names)
            case Binary():
                beside = frozenset(n.text for n in node.matching or ())
                for name in node.matching or ():
                    left, right = supply(node.left, name.text), supply(node.right, name.text)
                    yield WrittenLabel(name.text, name.span, False, left, right, beside)
                    yield WrittenLabel(name.text, name.span, False, right, left, beside)
                one = node.left if node.group == "right" else node.right
                yield from (WrittenLabel(n.text, n.span, False, supply(one, n.text)) for n in node.extra)
            case Call(function="label_replace" | "label_join"):
                yield from _arguments(node)


def _arguments(node: Call) -> Iterator[WrittenLabel]:
    texts = [arg for arg in node.args if isinstance(arg, Literal) and arg.text is not None]
    sources = texts[2:3] if node.function == "label_replace" else texts[2:]
    if texts:
        yield WrittenLabel(texts[0].text or "", texts[0].span, True, Supply(made=True))
    yield from (WrittenLabel(arg.text or "", arg.span, True, supply(node.args[0], arg.text or "")) for arg in sources)
