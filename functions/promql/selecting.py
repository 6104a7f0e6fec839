"""The braces of a selector, and the cursor over the tokens that reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from functions.contract.rules import Matcher, Selector
from functions.promql.nodes import Binary, Node, Select, Span, WrittenMatcher
from functions.promql.tokens import Kind, PromqlError, Token, plain, tokens, unquote

_ANYTHING = ".*"


class SelectorReader:
    """A place in the tokens of one text. `holes` are where a dashboard's variables stood."""

    def __init__(self, text: str, holes: Sequence[Span]) -> None:
        self.text = text
        self.holes = holes
        self.tokens = tokens(text)
        self.at = 0
        self.depth = 0
        self.operations = 0

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
