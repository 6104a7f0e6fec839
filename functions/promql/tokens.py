"""The words of PromQL, each with its place in the text.

Tolerant: what no server would accept still comes out as tokens, since a query that can't be parsed still names metrics.
Holes (the places where a dashboard's variables stood, see `grafana.py`) keep their length, so that places in the token
stream are places in the author's own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    WORD = "word"
    NUMBER = "number"
    TEXT = "text"
    SIGN = "sign"
    #: everything between square brackets, brackets included
    RANGE = "range"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    start: int
    end: int


class PromqlError(ValueError):
    """Text that can't be read as PromQL. One line."""


_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`)
    |(?P<number>(?:0[xX][\da-fA-F_]+|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)[A-Za-z\d.]*)
    |(?P<word>[A-Za-z_:][\w:]*)
    |(?P<range>\[[^\[\]"'`]*\])
    |(?P<sign>==|!=|>=|<=|=~|!~|[-+*/%^=<>(){},@:])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_PLAIN_NAME = re.compile(r"[A-Za-z_:][\w:]*", re.ASCII)


def tokens(text: str) -> list[Token]:
    """All tokens and one END. Raises PromqlError at the first character that begins none."""
    return [*_tokens(text), Token(Kind.END, "", len(text), len(text))]


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise PromqlError(f"unexpected {text[at : at + 12]!r} at character {at + 1}")
        kind = found.lastgroup or ""
        if kind != "skip":
            yield Token(Kind(kind), found[0], found.start(), found.end())
        at = found.end()


def unquote(text: str) -> str:
    """The value of a quoted text."""
    if text[:1] == "`":
        return text[1:-1]
    return _ESCAPE.sub(_unescape, text[1:-1])


def _unescape(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if found[group]:
            code = int(found[group], base)
            return chr(code) if code <= 0x10FFFF else found[0]
    return _PLAIN_ESCAPES.get(found[5], found[5])


def quote(value: str, mark: str = '"') -> str:
    """A value as a quoted text, in the author's kind of quotes where that is possible."""
    if mark == "`" and "`" not in value:
        return f"`{value}`"
    mark = '"' if mark == "`" else mark
    escaped = value.replace("\\", "\\\\").replace(mark, "\\" + mark)
    return mark + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + mark


def plain(name: str) -> bool:
    """Whether a name can be written without quotes."""
    return _PLAIN_NAME.fullmatch(name) is not None
