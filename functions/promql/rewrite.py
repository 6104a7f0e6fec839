"""What an expression should say instead: new names, labels and spellings of values, and the old scale.

The author's text is edited where it must change and nowhere else, so that he finds his own expression again, variables
and line breaks included. Thresholds stay: a changed unit is undone beside the metric, so that texts which print the
value stay right too. Where one change has no successor there is no suggestion, rather than half of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from functions.contract.rules import Matcher
from functions.promql import grafana
from functions.promql.accepts import objection
from functions.promql.changes import Changes, LabelChange, alternatives, means
from functions.promql.edits import Edits
from functions.promql.labels import Supply
from functions.promql.nodes import Aggregate, Call, Node, Paren, Select, Span
from functions.promql.places import host_of, with_ancestors, written_labels
from functions.promql.read import demands
from functions.promql.syntax import parse, parsed
from functions.promql.tokens import PromqlError, plain, quote

#: Range functions whose result does not depend on the unit, and those that square it.
_UNITLESS = frozenset({"count_over_time", "changes", "resets", "present_over_time", "absent_over_time"})
_SQUARED = frozenset({"stdvar_over_time"})
#: What asks only whether a series is there, or when.
_EXISTENCE = frozenset({"absent", "count", "group", "timestamp"})


def rewrite(expr: str, changes: Changes) -> str | None:
    """The expression of a rule after the changes; None where nothing in it changes or no successor is known."""
    return _once(expr, changes, False)


def rewrite_grafana(expr: str, changes: Changes) -> str | None:
    """The same for a dashboard's query or a variable's (`label_values(…)`)."""
    return _once(expr, changes, True)


def _once(expr: str, changes: Changes, dashboard: bool) -> str | None:
    key = (expr, dashboard)
    if key not in changes.rewritten:
        changes.rewritten[key] = _rewritten(expr, changes, grafana.query if dashboard else grafana.Query)
    return changes.rewritten[key]


def _rewritten(expr: str, changes: Changes, reading: Callable[[str], grafana.Query]) -> str | None:
    query = reading(expr)
    if not query.text.strip():
        return None
    try:
        tree = parsed(query.text, query.holes)
        edits = _Rewriter(expr, tree, changes).edited()
        if query.asked and isinstance(tree, Select) and (change := changes.label_of(tree.selector, query.asked.text)):
            edits.replace(query.asked.span, _successor(change))
        result = edits.apply()
        if result == expr:
            return None
        checked = reading(result)
        parse(checked.text, checked.holes)
    except (PromqlError, _NoSuccessor):
        return None
    if not query.holes and not query.asked and objection(result) and not objection(expr):
        return None
    return result


class _NoSuccessor(Exception):
    """Something the expression needs is gone and nothing takes its place."""


def _successor(change: LabelChange) -> str:
    if change.to is None:
        raise _NoSuccessor
    return change.to


def _label_text(label: str) -> str:
    return label if plain(label) and ":" not in label else quote(label)


class _Rewriter:
    """One tree, one set of changes, one set of edits."""

    def __init__(self, text: str, tree: Node, changes: Changes) -> None:
        self.text = text
        self.tree = tree
        self.changes = changes
        self.edits = Edits(text)
        self.selects = [(node, above) for node, above in with_ancestors(tree) if isinstance(node, Select) and not node.open]

    def edited(self) -> Edits:
        for node, above in self.selects:
            self.rename(node, above)
            self.matchers(node)
        for change in self.changes.labels:
            if change.lost:
                self.relabel(change)
        return self.edits

    # names and units

    def rename(self, node: Select, above: tuple[Node, ...]) -> None:
        if node.selector.name is None:
            self.rename_pattern(node)
            return
        change = next(iter(self.changes.metrics_of(node.selector)), None)
        if change is None:
            if node.selector.name in self.changes.unexplained:
                raise _NoSuccessor
            return
        if change.to is None:
            raise _NoSuccessor
        if change.lost:
            self.rename_to(node, change.to)
        if change.factor and change.factor != 1:
            self.rescale(node, above, change.factor)

    def rename_to(self, node: Select, to: str) -> None:
        """Write the new name, and the matchers of the selector that it may be."""
        target = parse(to)
        if not isinstance(target, Select) or node.name is None:
            raise _NoSuccessor
        said = [m.value for m in target.selector.matchers if m.label == "__name__" and m.op == "="]
        name = target.selector.name or next(iter(said), "")
        own = {m.label for m in node.selector.matchers}
        added = [str(m) for m in target.selector.matchers if m.label not in own and m.label != "__name__"]
        mark = self.text[node.name.start]
        if node.quoted:
            self.edits.replace(node.name, quote(name, mark if mark in "\"'`" else '"'))
        elif plain(name):
            self.edits.replace(node.name, name)
        else:  # only braces can hold such a name
            self.edits.replace(node.name, "")
            added.insert(0, quote(name))
        if added and node.braces is None:
            self.edits.insert(node.name.end, "{" + ",".join(added) + "}")
        elif added and node.braces is not None:
            inside = self.text[node.braces.start + 1 : node.braces.end - 1].strip()
            self.edits.insert(node.braces.start + 1, ",".join(added) + ("," if inside else ""))

    def rename_pattern(self, node: Select) -> None:
        """A pattern over __name__ also takes the new names of those it took."""
        for written in node.matchers:
            matcher = written.matcher
            if matcher.label != "__name__" or written.open or matcher.op not in ("=", "=~"):
                continue
            lost = [m for m in self.changes.metrics_of(node.selector) if m.lost]
            lost = [m for m in lost if not (m.to and plain(m.to) and means(node.selector, m.to))]
            if any(not m.to or not plain(m.to) or (m.factor or 1) != 1 for m in lost):
                raise _NoSuccessor
            if lost:
                new = {m.name: m.to or "" for m in lost}
                listed = alternatives(matcher)
                parts = [new.get(part, part) for part in listed] if listed else [matcher.value, *new.values()]
                self.edits.replace(written.value, quote("|".join(dict.fromkeys(parts)), self.text[written.value.start]))

    def rescale(self, node: Select, above: tuple[Node, ...], factor: float) -> None:
        host, parent = host_of(node, above)
        if host is None:
            return
        asking = host if node.ranged else parent
        asks = asking.function if isinstance(asking, Call) else asking.operator if isinstance(asking, Aggregate) else ""
        if asks in _EXISTENCE or asks in _UNITLESS:
            return
        undone = _undone(factor * factor if asks in _SQUARED else factor)
        bare = parent is None or isinstance(parent, Paren | Call | Aggregate)
        self.edits.wrap(host.span, "" if bare else "(", f" {undone}" if bare else f" {undone})")

    # labels

    def matchers(self, node: Select) -> None:
        for written in node.matchers:
            change = self.changes.label_of(node.selector, written.matcher.label)
            if change is not None and change.to is not None:
                self.edits.replace(written.label, _label_text(change.to))
            elif change is not None and (demands(written.matcher) or written.open):
                raise _NoSuccessor
            if not written.open and (values := self.changes.respelled(node.selector, written.matcher.label)):
                self.respell(written.matcher, written.value, values)

    def respell(self, matcher: Matcher, place: Span, values: Mapping[str, str]) -> None:
        """Write values as they are written now; in a pattern only where it is a plain list of them."""
        pattern = matcher.op in ("=~", "!~")
        listed = alternatives(matcher) if pattern else (matcher.value,)
        if any(value in values for value in listed):
            new = [values.get(value, value) for value in listed]
            parts = [re.escape(n) if pattern and n != old else n for n, old in zip(new, listed, strict=True)]
            self.edits.replace(place, quote("|".join(parts), self.text[place.start]))

    def relabel(self, change: LabelChange) -> None:
        """Write the new label everywhere, or give the series their old one where others really have it."""
        # a list that names the new label as well is written for both spellings
        uses = [use for use in written_labels(self.tree) if use.label == change.label and change.to not in use.beside]
        if not any(self.reaches(use.supply, change) for use in uses):
            return
        successor = _successor(change)
        mixed = any(
            self.reaches(use.supply, change) and (self.foreign(use.supply, change) or self.foreign(use.across, change)) for use in uses
        )
        if mixed:
            self.give_back(change, successor)
            return
        for use in uses:
            if not self.foreign(use.supply, change):
                new = quote(successor, self.text[use.span.start]) if use.text else _label_text(successor)
                self.edits.replace(use.span, new)

    def reaches(self, given: Supply, change: LabelChange) -> bool:
        return any(label == change.label and self.changes.concerns(change, selector) for selector, label in given.sources)

    def foreign(self, given: Supply, change: LabelChange) -> bool:
        return any(label == change.label and not self.changes.concerns(change, selector) for selector, label in given.sources)

    def give_back(self, change: LabelChange, successor: str) -> None:
        for node, above in self.selects:
            host = host_of(node, above)[0]
            if host is not None and self.changes.concerns(change, node.selector):
                self.edits.wrap(host.span, "label_replace(", f', {quote(change.label)}, "$1", {quote(successor)}, "(.+)")')


def _undone(factor: float) -> str:
    if factor >= 1:
        return f"/ {_number(factor)}"
    inverse = 1 / factor
    return f"* {_number(round(inverse))}" if abs(inverse - round(inverse)) < 1e-6 * inverse else f"/ {_number(factor)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else f"{value:.12g}"
