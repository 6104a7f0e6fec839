"""What a Prometheus would say to an expression. The only module that imports `promql_parser`.

It follows Prometheus 2.45 and some newer functions; what it refuses may still be right for a newer server or for
VictoriaMetrics. Its word is therefore a doubt, and only for text that nothing here can read is it the end.
"""

from __future__ import annotations

import re
from functools import lru_cache

import promql_parser

_ZERO = re.compile(r"0+|(?:0+(?:ms|[smhdwy]))+", re.ASCII)
_DURATION = re.compile(r"[0-9]{1,12}|(?:[0-9]{1,12}(?:ms|[smhdwy]))+", re.ASCII)
#: The parser is native code: on these it aborts instead of answering. A range or offset that is no finite time …
_NO_TIME = re.compile(
    r"(?:\[|:|\boffset\b)\s*[-+]?\s*(?:(?:inf|nan)\b|0x[0-9a-f_]{15,}|[0-9_.]*[0-9]{16,}|[0-9_.]+e\+?[0-9]{2,})", re.IGNORECASE | re.ASCII
)
#: … and more operators and brackets than its stack holds (8000 were too many in an 8 MB stack).
_STEPS = re.compile(r"[-+*/%^(\[{]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
MOST_STEPS = 2000


@lru_cache(maxsize=8192)
def objection(expr: str) -> str:
    """Why the parser refuses an expression, in one line; "" where it accepts it, or can't be asked for its length."""
    if _NO_TIME.search(expr):
        return "a range or an offset that is no finite time"
    if sum(1 for _ in _STEPS.finditer(expr)) > MOST_STEPS:
        return ""
    try:
        promql_parser.parse(expr)
    except (ValueError, OverflowError) as error:
        return " ".join(str(error).split())
    return ""


def duration(text: str) -> float | None:
    """A Prometheus duration ("5m", "1h30m", "0s") in seconds; None where it is none."""
    if _ZERO.fullmatch(text):  # fine in a rule, and no range of a selector
        return 0.0
    if not _DURATION.fullmatch(text):
        return None
    try:
        return float(promql_parser.parse_duration(text).total_seconds())
    except (ValueError, OverflowError):
        return None
