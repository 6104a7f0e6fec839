"""Changing a text at places without touching the rest of it."""

from __future__ import annotations

from functions.promql.nodes import Span


class Edits:
    """Replacements and wrappings, applied at once. The same edit twice is one edit."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._replaced: dict[Span, str] = {}
        self._wraps: dict[tuple[Span, str, str], None] = {}

    def replace(self, span: Span, text: str) -> None:
        self._replaced[span] = text

    def insert(self, at: int, text: str) -> None:
        self._replaced[Span(at, at)] = text

    def wrap(self, span: Span, before: str, after: str) -> None:
        """Put texts around a span; of two wrappings of one span the later is the outer."""
        self._wraps[span, before, after] = None

    def apply(self) -> str:
        events: list[tuple[tuple[int, ...], Span, str]] = []
        for number, (span, before, after) in enumerate(self._wraps):
            length = span.end - span.start
            # what is inserted or ends at a place comes before what begins there; inner ends first, outer begins first
            events.append(((span.end, 1, length, number), Span(span.end, span.end), after))
            events.append(((span.start, 2, -length, -number), Span(span.start, span.start), before))
        for span, text in self._replaced.items():
            events.append(((span.start, 0 if span.start == span.end else 3, span.start - span.end, 0), span, text))
        out, at = [], 0
        for _, span, text in sorted(events, key=lambda event: event[0]):
            if span.start >= at:  # what lies within a replaced text went with it
                out += [self._text[at : span.start], text]
                at = span.end
        return "".join((*out, self._text[at:]))
