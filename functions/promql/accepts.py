"""What a Prometheus would say to an expression. The only module that imports `promql_parser`.

It follows Prometheus 2.45 and some newer functions; what it refuses may still be right for a newer server or for
VictoriaMetrics. Its word is therefore a doubt, and only for text that nothing here can read is it the end.
"""

from __future__ import annotations

import re
from functools import lru_cache

import promql_parser

_ZERO = re.compile(r"0+|(?:0+(?:ms|[smhdwy]))+", re.ASCII)


@lru_cache(maxsize=8192)
def objection(expr: str) -> str:
    """Why the parser refuses an expression, in one line; "" where it accepts it."""
    try:
        promql_parser.parse(expr)
    except ValueError as error:
        return " ".join(str(error).split())
    return ""


def duration(text: str) -> float | None:
    """A Prometheus duration ("5m", "1h30m", "0s") in seconds; None where it is none."""
    if _ZERO.fullmatch(text):  # fine in a rule, and no range of a selector
        return 0.0
    try:
        return float(promql_parser.parse_duration(text).total_seconds())
    except (ValueError, OverflowError):
        return None
