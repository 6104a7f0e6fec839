"""Decoding of a long answer: the same objects that a JSON decoder makes, in a fraction of the memory.

The rows of an instant query repeat the same label values again and again (a device in each of its metrics), and a
decoder makes a text of its own of each. Here the rows are decoded a slice at a time, and equal texts become one.
"""

from __future__ import annotations

from typing import Any

import orjson

#: Shorter answers are decoded at once.
LONG = 1 << 20
_SLICE = 1 << 19
_LIST = b'"result":['
#: Between two rows. It can't be inside a text: quotes are escaped there.
_BETWEEN = b',{"metric":{'


def decoded(body: bytes | bytearray) -> Any:
    """The decoded answer. Raises orjson.JSONDecodeError."""
    start = body.find(_LIST, 0, 4096) + len(_LIST)
    last = body.rfind(_BETWEEN)
    if len(body) < LONG or start < len(_LIST) or last < start:
        return orjson.loads(body)
    texts: dict[str, str] = {}
    rows: list[Any] = []
    envelope = orjson.loads(body[:start] + body[last + 1 :])  # with the last row alone
    while start < last:
        cut = body.find(_BETWEEN, min(start + _SLICE, last), last)
        cut = last if cut < 0 else cut
        rows += _shared(orjson.loads(b"[" + body[start:cut] + b"]"), texts)
        start = cut + 1
    envelope["data"]["result"] = rows + _shared(envelope["data"]["result"], texts)
    return envelope


def _shared(rows: list[Any], texts: dict[str, str]) -> list[Any]:
    """The rows, with one object for equal label values."""
    for row in rows:
        labels = row["metric"]
        for name, text in labels.items():
            labels[name] = texts.setdefault(text, text)
    return rows
