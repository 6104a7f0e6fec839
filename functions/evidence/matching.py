"""Label matchers and comparisons with Prometheus' meaning, for the evaluation over a bundle.

Prometheus compiles matchers with RE2, anchored at both ends, `.` matching newlines since version 3. Python's engine agrees on what
rules and dashboards use, apart from a few spellings that are translated here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from functions.contract.rules import Matcher

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_POSIX_CLASS = re.compile(r"\[:(" + "|".join(_POSIX) + r"):\]")
_SPECIAL = re.compile(r"[\\.+*?()\[\]{}^$]")
_LEADING_FLAGS = re.compile(r"\(\?([ims]+)\)")


def matches(matcher: Matcher, value: str) -> bool:
    """Whether a label value ("" where the label is absent) satisfies a matcher, as Prometheus has it.

    A pattern that can't be compiled here matches nothing but itself; `readable` tells such patterns apart.
    """
    if matcher.op in ("=", "!="):
        return (value == matcher.value) == (matcher.op == "=")
    return _test(matcher.value)(value) == (matcher.op == "=~")


def readable(matcher: Matcher) -> bool:
    """Whether the evaluator can tell what a matcher matches; a pattern that it can't compile should not be judged."""
    if matcher.op in ("=", "!="):
        return True
    try:
        _compile(matcher.value)
    except re.error:
        return False
    return True


def compare(op: str, left: float, right: float) -> bool:
    """A PromQL comparison."""
    return {"==": left == right, "!=": left != right, ">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[op]


@lru_cache(maxsize=4096)
def _test(value: str) -> Callable[[str], bool]:
    parts = value.split("|")
    if not any(_SPECIAL.search(part) for part in parts):
        return frozenset(parts).__contains__
    try:
        pattern = _compile(value)
    except re.error:
        return value.__eq__
    return lambda text: pattern.fullmatch(text) is not None


def _compile(value: str) -> re.Pattern[str]:
    text = _POSIX_CLASS.sub(lambda found: _POSIX[found[1]], value).replace(r"\z", r"\Z")
    flags = {"s"}
    while found := _LEADING_FLAGS.match(text):
        flags.update(found[1])
        text = text[found.end() :]
    return re.compile(f"(?{''.join(sorted(flags))}:{text})", re.ASCII)
