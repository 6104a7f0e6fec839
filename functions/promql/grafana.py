"""A dashboard's queries: variables, and the functions that only Grafana's own variables know.

A variable is replaced by a stand-in of the same length, and the place is remembered as a hole: so every place in the
tree is a place in the author's text, and a rewritten query keeps its variables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from functions.promql.nodes import Name, Span

_VARIABLE = re.compile(r"\$\{(?P<braced>[A-Za-z_]\w*)(?:[.:\[][^}]*)?\}|\$(?P<bare>[A-Za-z_]\w*)|\[\[(?P<old>[A-Za-z_]\w*)(?::\w+)?\]\]")
_PIECE = re.compile(
    rf"(?P<comment>\#[^\n]*)|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`)|(?P<variable>{_VARIABLE.pattern})"
    r"|(?P<open>\[)|(?P<close>\])|(?P<offset>\boffset\s+-?)",
    re.IGNORECASE | re.DOTALL,
)
_NUMBERS = frozenset({"__interval_ms", "__range_ms", "__range_s", "__rate_interval_ms", "__from", "__to"})
_DURATIONS = frozenset({"__interval", "__range", "__rate_interval", "__auto_interval"})
_FUNCTION = re.compile(r"\s*(label_values|label_names|query_result|metrics)\s*\(\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Query:
    """A query as text that can be parsed, of the same length as the author's.

    `text` is blank where a variable's query rests on no selector (`label_values(node)`, `label_names()`).
    """

    text: str
    holes: tuple[Span, ...] = ()
    variables: frozenset[str] = frozenset()
    #: label_values(…, label): the label whose values are asked for
    asked: Name | None = None
    #: metrics(pattern)
    pattern: str | None = None


def query(expr: str) -> Query:
    """Replace variables and unwrap Grafana's own functions."""
    text, holes, variables = _without_variables(expr)
    found = _FUNCTION.match(text)
    if found is None:
        return Query(text, holes, variables)
    end = len(text.rstrip())
    if text[end - 1 : end] != ")":
        return Query(text, holes, variables)
    function, start, stop = found[1].lower(), found.end(), end - 1
    inside = text[start:stop]
    if function == "query_result":
        return Query(_only(text, start, stop), holes, variables)
    if function == "metrics":
        return Query(" " * len(text), holes, variables, pattern=inside.strip())
    if function == "label_names":
        return Query(" " * len(text), holes, variables)
    comma = _last_comma(inside)
    label = inside[comma + 1 :]
    at = start + comma + 1 + len(label) - len(label.lstrip())
    name = label.strip().strip("\"'`")
    place = Span(at, at + len(label.strip()))
    known = bool(name) and not any(place.overlaps(hole) for hole in holes)
    blank = _only(text, start, start + comma) if comma >= 0 else " " * len(text)
    return Query(blank, holes, variables, Name(name, place) if known else None)


def names(text: str) -> tuple[str, ...]:
    """The variables in a text."""
    return tuple(_name(found) for found in _VARIABLE.finditer(text))


def _only(text: str, start: int, stop: int) -> str:
    return " " * start + text[start:stop] + " " * (len(text) - stop)


def _last_comma(text: str) -> int:
    """The comma before the last argument; -1 where there is one argument only."""
    depth, last = 0, -1
    for piece in re.finditer(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`|[(){}\[\],]", text):
        if piece[0] in "({[":
            depth += 1
        elif piece[0] in ")}]":
            depth -= 1
        elif piece[0] == "," and depth == 0:
            last = piece.start()
    return last


def _without_variables(expr: str) -> tuple[str, tuple[Span, ...], frozenset[str]]:
    out, holes, names, at = [], [], set(), 0
    in_range = False
    after_offset = -1
    for piece in _PIECE.finditer(expr):
        out.append(expr[at : piece.start()])
        at = piece.end()
        if piece["variable"]:
            names.add(_name(piece))
            holes.append(Span(piece.start(), piece.end()))
            timed = in_range or after_offset == piece.start()
            out.append(_stand_in(expr, piece, timed))
            continue
        if piece["text"]:

            def fill(found: re.Match[str], offset: int = piece.start()) -> str:
                names.add(_name(found))
                holes.append(Span(offset + found.start(), offset + found.end()))
                return "x" * len(found[0])

            out.append(_VARIABLE.sub(fill, piece[0]))
            continue
        in_range = bool(piece["open"]) or (in_range and not piece["close"])
        after_offset = piece.end() if piece["offset"] else -1
        out.append(piece[0])
    out.append(expr[at:])
    return "".join(out), tuple(holes), frozenset(names)


def _name(found: re.Match[str]) -> str:
    return found["braced"] or found["bare"] or found["old"]


def _stand_in(expr: str, found: re.Match[str], timed: bool) -> str:
    """Something of the same length that may stand there: a duration, a number or a name."""
    length, name = len(found[0]), _name(found)
    before, after = expr[found.start() - 1 : found.start()], expr[found.end() : found.end() + 1]
    if timed and after.isalpha():
        return "1".rjust(length, "0")
    if timed and before.isdigit():
        return "m".ljust(length)
    if timed or name in _DURATIONS:
        return "5m".ljust(length)
    if name in _NUMBERS:
        return "1".rjust(length, "0")
    return "v".ljust(length, "_")
