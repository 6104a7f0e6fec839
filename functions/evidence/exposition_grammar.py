"""The grammar of one exposition entry as a real Prometheus server reads it: what it takes, and what it rejects.

A server that can't read one line drops the whole body, so the exact rules matter. They were measured on servers of
version 2.42 and 3.x by scraping bodies with one fault each (`tests/functions/evidence/test_exposition.py` repeats
it). Where the two versions differ the newer one counts: quoted UTF-8 names are accepted. Bodies that end in `# EOF`
are read as OpenMetrics, since a server would have negotiated that; only what is common there is allowed in addition
(exemplars, timestamps in seconds, further types), the finer order rules of OpenMetrics are not checked.

No tolerance here: `exposition.py` reads what can be read of a rejected line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TYPES = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
OPENMETRICS_TYPES = TYPES | {"unknown", "gaugehistogram", "info", "stateset"}

_SPACE = re.compile(r"[ \t]*+")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*+")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*+")
# A quoted value may hold line breaks: the server's lexer runs on until the closing quote.
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_VALUE = re.compile(r"[^{ \t\n\0]++")
_TIMESTAMP = re.compile(r"[0-9]++")
_SECONDS = re.compile(r"-?[0-9]++(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]++)?")
_EXEMPLAR = re.compile(r"[ \t]*+#[ \t]*+\{[^\n]*")
NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|[+-]?(?i:inf(?:inity)?)|(?i:nan)")
_ESCAPE = re.compile(r'\\(["\\n])')


class Rejected(ValueError):
    """A real server rejects the body for this; the text says why, in one clause. `number` counts lines from 0."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One series line as the server reads it. `end` is the position of its line break."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    value: float
    #: as printed, "" where there is none
    timestamp: str
    end: int


def unescape(value: str) -> str:
    r"""A label value without its escapes: only \\, \" and \n are escapes, any other backslash stays."""
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], value)


def escape(value: str) -> str:
    """The inverse of `unescape`."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number(text: str) -> float:
    """A sample value. Raises Rejected for what the server does not take, a number out of range included."""
    if not NUMBER.fullmatch(text):
        raise Rejected(f"the value {_shown(text)} is no number")
    value = float(text)
    if value in (float("inf"), float("-inf")) and text[-1].isdigit():
        raise Rejected(f"the value {_shown(text)} is out of range")
    return value


def valid_utf8(text: str) -> bool:
    """Whether the bytes it was decoded from (with surrogateescape) were UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def series(text: str, start: int, openmetrics: bool = False) -> Entry:
    """Read the series line that starts at `start`. Raises Rejected."""
    at = _skip(text, start)
    name = ""
    pairs: list[tuple[str | None, str]] = []
    if match := _NAME.match(text, at):
        name, at = match[0], _skip(text, match.end())
    elif not text.startswith("{", at):
        raise Rejected(f"a line can't start with {_shown(text[at : at + 1])}")
    if text.startswith("{", at):
        pairs, at = _labels(text, at + 1)
    names = [value for label, value in pairs if label is None]
    if len(names) + bool(name) > 1:
        raise Rejected("the metric has two names")
    if not name and not (names and names[0]):
        raise Rejected("the metric has no name")
    labels = tuple((label, value) for label, value in pairs if label is not None)
    _check_names(["__name__", *(label for label, _ in labels)])
    at = _skip(text, at)
    found = _VALUE.match(text, at)
    if not found:
        raise Rejected("there is no value")
    value = number(found[0])
    timestamp, at = _after_value(text, found.end(), openmetrics)
    return Entry(name or names[0], labels, value, timestamp, at)


def _check_names(names: list[str]) -> None:
    if "" in names:
        raise Rejected("a label has no name")
    if len(set(names)) != len(names):
        raise Rejected(f"the label {next(name for name in names if names.count(name) > 1)} stands twice")


def _after_value(text: str, at: int, openmetrics: bool) -> tuple[str, int]:
    at, timestamp = _skip(text, at), ""
    if match := (_SECONDS if openmetrics else _TIMESTAMP).match(text, at):
        timestamp, at = match[0], _skip(text, match.end())
        if not openmetrics and int(timestamp[:20]) > 2**63 - 1:
            raise Rejected("the timestamp is out of range")
    if openmetrics and (exemplar := _EXEMPLAR.match(text, at)):
        at = exemplar.end()
    if at < len(text) and text[at] != "\n":
        rest = text[at : _line_end(text, at)]
        raise Rejected(f"text after the value: {_shown(rest)}")
    return timestamp, at


def _labels(text: str, at: int) -> tuple[list[tuple[str | None, str]], int]:
    """The pairs up to the closing brace; the label None is a metric name in quotes."""
    pairs: list[tuple[str | None, str]] = []
    while True:
        at = _skip(text, at)
        if text.startswith("}", at):
            return pairs, at + 1
        quoted = _QUOTED.match(text, at)
        label = quoted or _LABEL.match(text, at)
        if not label:
            raise Rejected(f"a label name or a closing brace is expected at {_shown(text[at : min(at + 12, _line_end(text, at))])}")
        name = unescape(quoted[1]) if quoted else label[0]
        at = _skip(text, label.end())
        if text.startswith("=", at):
            at = _skip(text, at + 1)
            value = _QUOTED.match(text, at)
            if not value:
                raise Rejected(f"the value of the label {_shown(name)} is not in (closed) quotes")
            if not valid_utf8(value[1]):
                raise Rejected(f"the value of the label {_shown(name)} is not UTF-8")
            pairs.append((name, unescape(value[1])))
            at = value.end()
        elif quoted:
            pairs.append((None, name))
        else:
            raise Rejected(f"after the label {_shown(name)} an equals sign is expected (an unescaped quote before it?)")
        at = _skip(text, at)
        if text.startswith(",", at):
            at += 1  # a missing comma is tolerated by the server, two are not


def metadata(line: str, openmetrics: bool = False) -> tuple[str, str, str] | None:
    """(HELP, TYPE or UNIT; family; text) of a comment line, None for any other comment. Raises Rejected."""
    match = _META.match(line)
    if not match:
        return None
    word, at = match[1], match.end()
    if found := _NAME.match(line, at):
        name = found[0]
    elif found := _QUOTED.match(line, at):
        name = unescape(found[1])
    else:
        if word == "UNIT":
            return None
        raise Rejected(f"after {word} a metric name is expected")
    text = line[found.end() + 1 :]
    if word == "TYPE" and text not in (OPENMETRICS_TYPES if openmetrics else TYPES):
        raise Rejected(f"{_shown(text)} is no metric type")
    if word == "HELP" and not valid_utf8(text):
        raise Rejected("the HELP text is not UTF-8")
    return word, name, text


_META = re.compile(r"[ \t]*+#[ \t]++(HELP|TYPE|UNIT)[ \t]++")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _shown(text: str) -> str:
    """A piece of a body in a message: printable, short."""
    short = text if len(text) <= 40 else text[:40] + "…"
    return f'"{short}"' if short.isprintable() else ascii(printable(short))


def printable(text: str) -> str:
    """Without lone surrogates (bytes that were no UTF-8), which no report could encode."""
    return text if valid_utf8(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
