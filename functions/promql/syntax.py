"""From text to tree: a reader of PromQL that knows places and forgives what is newer than itself.

It takes any function, any modifier that looks like one, and MetricsQL's operators; it checks no types. Whether a
server would accept an expression is `promql_parser`'s word (see `accepts.py`), what it rests on is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from functions.promql.nodes import (
    Aggregate,
    Binary,
    Call,
    Literal,
    Name,
    Node,
    Paren,
    Select,
    Span,
    Subquery,
    Unary,
)
from functions.promql.selecting import SelectorReader
from functions.promql.tokens import Kind, PromqlError, unquote

#: Operator -> how tightly it binds. `default`, `if` and `ifnot` are MetricsQL's.
BINDING = {"default": 1, "or": 2, "and": 3, "unless": 3, "if": 3, "ifnot": 3}
BINDING |= dict.fromkeys(("==", "!=", ">", "<", ">=", "<="), 4)
BINDING |= {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "atan2": 6, "^": 8}
_UNARY = 7
AGGREGATORS = frozenset({"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "count_values", "quantile"})
AGGREGATORS |= {"topk", "bottomk", "limitk", "limit_ratio", "any", "distinct", "median", "mode", "quantiles", "share", "outliersk"}
_NUMBERS = frozenset({"inf", "nan"})
_FILLS = frozenset({"fill", "fill_left", "fill_right"})
_SUFFIXES = frozenset({"anchored", "smoothed", "keep_metric_names"})
_DEEPEST = 120
_MOST_OPERATIONS = 250


def parse(text: str, holes: Sequence[Span] = ()) -> Node:
    """The tree of an expression; `holes` are where variables stood. Raises PromqlError."""
    return _Parser(text, holes).whole()


@lru_cache(maxsize=8192)
def parsed(text: str, holes: tuple[Span, ...] = ()) -> Node:
    """The same, each text once: what is read is often rewritten."""
    return parse(text, holes)


class _Parser(SelectorReader):
    """Recursive descent with binding powers."""

    def whole(self) -> Node:
        node = self.expression(0)
        if self.here.kind is not Kind.END:
            raise self.unexpected()
        return node

    def expression(self, least: int) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise PromqlError(f"nested deeper than {_DEEPEST} levels")
        left = self.operand()
        while (power := self.operator()) is not None and power >= least:
            self.operations += 1
            if self.operations > _MOST_OPERATIONS:  # each is a level of the tree, which is walked by recursion
                raise PromqlError(f"more than {_MOST_OPERATIONS} operations")
            left = self.binary(left, power)
        self.depth -= 1
        return left

    def operator(self) -> int | None:
        if self.here.kind not in (Kind.SIGN, Kind.WORD):
            return None
        return BINDING.get(self.here.text.lower())

    def binary(self, left: Node, power: int) -> Node:
        operator = self.take().text.lower()
        if self.word("bool"):
            self.take()
        matching: tuple[Name, ...] | None = None
        ignoring, group, filled = False, "", False
        extra: tuple[Name, ...] = ()
        while self.here.kind is Kind.WORD:
            following_opens = self.following.kind is Kind.SIGN and self.following.text == "("
            if self.word("on", "ignoring") and following_opens:
                ignoring = self.take().text.lower() == "ignoring"
                matching = self.names()
            elif self.word("group_left", "group_right"):
                group = self.take().text.lower().removeprefix("group_")
                extra = self.names() if self.sign("(") else ()
                if self.word("prefix"):
                    self.take()
                    self.take()
            elif self.word(*_FILLS) and following_opens:
                self.take()
                self.operand()
                filled = True
            else:
                break
        right = self.expression(power if operator == "^" else power + 1)
        return Binary(Span(left.span.start, right.span.end), operator, left, right, matching, ignoring, group, extra, filled)

    def operand(self) -> Node:
        token = self.here
        if token.kind is Kind.SIGN and token.text in "+-":
            self.take()
            inner = self.expression(_UNARY)
            return Unary(Span(token.start, inner.span.end), inner)
        return self.modified(self.primary())

    def primary(self) -> Node:
        token = self.here
        span = Span(token.start, token.end)
        if token.kind is Kind.NUMBER:
            self.take()
            return Literal(span)
        if token.kind is Kind.TEXT:
            self.take()
            return Literal(span, unquote(token.text))
        if self.sign("("):
            return self.paren()
        if self.sign("{"):
            return self.selector(None)
        if token.kind is not Kind.WORD:
            raise self.unexpected()
        following = self.following
        if following.kind is Kind.SIGN and following.text == "(":
            return self.call()
        if following.kind is Kind.WORD and following.text.lower() in ("by", "without"):
            return self.call()
        self.take()
        if token.text.lower() in _NUMBERS and not self.sign("{"):
            return Literal(span)
        return self.selector(token)

    def paren(self) -> Node:
        start = self.expect("(").start
        inner = self.expression(0)
        while self.sign(","):  # MetricsQL: (a, b) is the union of both
            self.take()
            other = self.expression(0)
            inner = Binary(Span(inner.span.start, other.span.end), "or", inner, other)
        return Paren(Span(start, self.expect(")").end), inner)

    def call(self) -> Node:
        name = self.take()
        clause = self.clause()
        self.expect("(")
        args: list[Node] = []
        while not self.sign(")"):
            args.append(self.expression(0))
            if not self.sign(")"):
                self.expect(",")
        end = self.expect(")").end
        if clause is None and self.word("by", "without"):
            clause = self.clause()
            end = self.tokens[self.at - 1].end
        if clause is None and name.text.lower() not in AGGREGATORS:
            return Call(Span(name.start, end), name.text.lower(), tuple(args))
        if self.word("limit") and self.following.kind is Kind.NUMBER:
            self.take()
            end = self.take().end
        labels, without = clause or ((), False)
        return Aggregate(Span(name.start, end), name.text.lower(), tuple(args), labels, without)

    def clause(self) -> tuple[tuple[Name, ...], bool] | None:
        if not self.word("by", "without"):
            return None
        without = self.take().text.lower() == "without"
        return self.names(), without

    def names(self) -> tuple[Name, ...]:
        """A list of labels in parentheses. A label that is a variable is left out: which one it is isn't known."""
        self.expect("(")
        found: list[Name] = []
        while not self.sign(")"):
            token = self.take()
            span = Span(token.start, token.end)
            if token.kind is Kind.TEXT:
                label = unquote(token.text)
            elif token.kind is Kind.WORD:
                label = token.text
            else:
                self.at -= 1
                raise self.unexpected()
            if not self.hole(span):
                found.append(Name(label, span))
            if not self.sign(")"):
                self.expect(",")
        self.take()
        return tuple(found)

    def modified(self, node: Node) -> Node:
        """What may follow an operand: a range, offset, @, and the words that some servers add."""
        while True:
            end = self.here.end
            if self.here.kind is Kind.RANGE:
                self.take()
                span = Span(node.span.start, end)
                if isinstance(node, Select) and not node.ranged and ":" not in self.tokens[self.at - 1].text:
                    node = _spanned(node, span, ranged=True)
                else:
                    node = Subquery(span, node)
                continue
            if self.word("offset") or self.sign("@"):
                self.take()
                if self.here.text in ("+", "-"):
                    self.take()
                self.primary()
            elif self.word(*_SUFFIXES):
                self.take()
            else:
                return node
            node = _spanned(node, Span(node.span.start, self.tokens[self.at - 1].end))


def _spanned(node: Node, span: Span, *, ranged: bool | None = None) -> Node:
    """The node with another span; alternatives of one selector all get it."""
    if isinstance(node, Binary) and node.left.span == node.right.span:
        return replace(node, span=span, left=_spanned(node.left, span, ranged=ranged), right=_spanned(node.right, span, ranged=ranged))
    if isinstance(node, Select) and ranged is not None:
        return replace(node, span=span, ranged=ranged)
    return replace(node, span=span)
