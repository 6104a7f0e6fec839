"""From text to tree: a reader of PromQL that knows places and forgives what is newer than itself.

It takes any function, any modifier that looks like one, and MetricsQL's operators; it checks no types. Whether a
server would accept an expression is `promql_parser`'s word (see `accepts.py`), what it rests on is read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from functions.contract.rules import Matcher, Selector
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
    WrittenMatcher,
)
from functions.promql.tokens import Kind, PromqlError, Token, plain, tokens, unquote

#: Operator -> how tightly it binds. `default`, `if` and `ifnot` are MetricsQL's.
BINDING = {"default": 1, "or": 2, "and": 3, "unless": 3, "if": 3, "ifnot": 3}
BINDING |= dict.fromkeys(("==", "!=", ">", "<", ">=", "<="), 4)
BINDING |= {"+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "atan2": 6, "^": 8}
_UNARY = 7
COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
AGGREGATORS = frozenset(
    "sum avg count min max group stddev stdvar topk bottomk count_values quantile limitk limit_ratio"
    " any distinct median mode geomean sum2 share zscore mad iqr quantiles outliersk outliers_mad outliers_iqr"
    " topk_min topk_max topk_avg topk_median topk_last bottomk_min bottomk_max bottomk_avg bottomk_median bottomk_last".split()
)
_NUMBERS = frozenset({"inf", "nan"})
_FILLS = frozenset({"fill", "fill_left", "fill_right"})
_SUFFIXES = frozenset({"anchored", "smoothed", "keep_metric_names"})
_ANYTHING = ".*"
_DEEPEST = 120


def parse(text: str, holes: Sequence[Span] = ()) -> Node:
    """The tree of an expression; `holes` are where variables stood. Raises PromqlError."""
    return _Parser(text, holes).whole()


class _Parser:
    """Recursive descent with binding powers."""

    def __init__(self, text: str, holes: Sequence[Span]) -> None:
        self.text = text
        self.holes = holes
        self.tokens = tokens(text)
        self.at = 0
        self.depth = 0

    def whole(self) -> Node:
        node = self.expression(0)
        if self.here.kind is not Kind.END:
            raise self.unexpected()
        return node

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    @property
    def following(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def unexpected(self) -> PromqlError:
        token = self.here
        what = "end of the expression" if token.kind is Kind.END else repr(token.text)
        return PromqlError(f"unexpected {what} at character {token.start + 1}")

    def sign(self, text: str) -> bool:
        return self.here.kind is Kind.SIGN and self.here.text == text

    def word(self, *texts: str) -> bool:
        return self.here.kind is Kind.WORD and self.here.text.lower() in texts

    def take(self) -> Token:
        token = self.here
        self.at += 1
        return token

    def expect(self, text: str) -> Token:
        if not self.sign(text):
            raise self.unexpected()
        return self.take()

    def hole(self, span: Span) -> bool:
        return any(span.overlaps(hole) for hole in self.holes)

    # expressions

    def expression(self, least: int) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise PromqlError(f"nested deeper than {_DEEPEST} levels")
        left = self.operand()
        while (power := self.operator()) is not None and power >= least:
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
            elif token.kind is Kind.WORD or (token.text == "*" and self.tokens[self.at - 2].text == "("):
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
            if self.word("offset"):
                self.take()
                if self.here.text in ("+", "-"):
                    self.take()
                self.primary()
            elif self.sign("@"):
                self.take()
                if self.here.text in ("+", "-"):
                    self.take()
                self.primary()
            elif self.word(*_SUFFIXES):
                self.take()
            else:
                return node
            node = _spanned(node, Span(node.span.start, self.tokens[self.at - 1].end))

    # selectors

    def selector(self, name: Token | None) -> Node:
        start = name.start if name else self.here.start
        if not self.sign("{"):
            assert name is not None
            return self.select(Span(start, name.end), name, [], None)
        opened = self.take().start
        groups: list[list[WrittenMatcher]] = [[]]
        while not self.sign("}"):
            if self.word("or") and self.following.kind in (Kind.WORD, Kind.TEXT):
                self.take()
                groups.append([])
                continue
            if (matcher := self.matcher()) is not None:
                groups[-1].append(matcher)
            if not self.sign("}") and not self.word("or"):
                self.expect(",")
        end = self.take().end
        alternatives = [self.select(Span(start, end), name, group, Span(opened, end)) for group in groups]
        node: Node = alternatives[0]
        for other in alternatives[1:]:
            node = Binary(Span(start, end), "or", node, other)
        return node

    def matcher(self) -> WrittenMatcher | None:
        """One matcher; a text alone is the metric's name. None for a variable that stands for matchers."""
        token = self.take()
        label = Span(token.start, token.end)
        if token.kind not in (Kind.WORD, Kind.TEXT):
            self.at -= 1
            raise self.unexpected()
        written = unquote(token.text) if token.kind is Kind.TEXT else token.text
        if self.here.kind is not Kind.SIGN or self.here.text not in ("=", "!=", "=~", "!~"):
            if token.kind is Kind.TEXT:
                return WrittenMatcher(Matcher("__name__", "=", written), label, label, self.hole(label))
            if self.hole(label):
                return None
            raise self.unexpected()
        op, value = self.take().text, self.take()
        span = Span(value.start, value.end)
        opened = self.hole(span)
        if value.kind is not Kind.TEXT and not (opened and value.kind in (Kind.WORD, Kind.NUMBER)):
            self.at -= 1
            raise self.unexpected()
        if self.hole(label):
            return None
        matcher = self.opened(written, op, value) if opened else Matcher(written, op, unquote(value.text))
        return WrittenMatcher(matcher, label, span, opened)

    def opened(self, label: str, op: str, value: Token) -> Matcher:
        """A matcher with variables in its value, as the pattern that it can at most select by."""
        if op.startswith("!") or value.kind is not Kind.TEXT:
            return Matcher(label, "=~", _ANYTHING)
        return Matcher(label, "=~", self.pattern(Span(value.start + 1, value.end - 1), op == "=", value.text[0]))

    def pattern(self, span: Span, literal: bool, mark: str = '"') -> str:
        """The text of a span as a pattern, with anything where a variable stood."""
        parts, at = [], span.start
        for hole in (h for h in self.holes if h.overlaps(span)):
            parts.append(self.text[at : hole.start])
            at = hole.end
        parts.append(self.text[at : span.end])
        if not literal and any(p.rfind("[") > p.rfind("]") for p in parts[:-1]):
            return _ANYTHING  # a variable in a character class
        values = [unquote(f"{mark}{p}{mark}") for p in parts]
        return _ANYTHING.join(re.escape(v) if literal else v for v in values)

    def select(self, span: Span, name: Token | None, written: list[WrittenMatcher], braces: Span | None) -> Select:
        where = Span(name.start, name.end) if name else None
        own = next((m for m in written if m.matcher.label == "__name__" and m.matcher.op in ("=", "=~")), None)
        others = tuple(m.matcher for m in written)
        if name and where and not self.hole(where):
            return Select(span, Selector(name.text, others), tuple(written), where, False, braces)
        if name and where:
            pattern = self.pattern(where, literal=True)
            named = Matcher("__name__", "=~", pattern)
            wholly = not pattern.replace(_ANYTHING, "")
            return Select(span, Selector(None, (named, *others)), tuple(written), where, False, braces, False, wholly)
        if own and own.matcher.op == "=" and plain(own.matcher.value):
            rest = tuple(m for m in others if m is not own.matcher)
            return Select(span, Selector(own.matcher.value, rest), tuple(written), own.value, True, braces)
        wholly = own is not None and own.open and not own.matcher.value.replace(_ANYTHING, "")
        return Select(span, Selector(None, others), tuple(written), own.value if own else None, True, braces, False, wholly)


def _spanned(node: Node, span: Span, *, ranged: bool | None = None) -> Node:
    """The node with another span; alternatives of one selector all get it."""
    if isinstance(node, Binary) and node.left.span == node.right.span:
        return replace(node, span=span, left=_spanned(node.left, span, ranged=ranged), right=_spanned(node.right, span, ranged=ranged))
    if isinstance(node, Select) and ranged is not None:
        return replace(node, span=span, ranged=ranged)
    return replace(node, span=span)
