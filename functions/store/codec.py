"""How values are kept: JSON, compressed where it is long. What can't be read back is StoreCorrupt, with its place."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from functions.store.errors import StoreCorrupt

_LONG = 2048
_PACKED = b"z"


def pack(value: Any) -> bytes:
    """A value as bytes. A report of a thousand findings shrinks to about a tenth."""
    text = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    return text if len(text) < _LONG else _PACKED + zlib.compress(text, 3)


def unpack(data: bytes, place: str) -> Any:
    """The inverse of `pack`."""
    try:
        return orjson.loads(zlib.decompress(data[1:]) if data[:1] == _PACKED else data)
    except (zlib.error, orjson.JSONDecodeError) as error:
        raise StoreCorrupt(f"{place} can't be read: {error}") from None


def unpack_object(data: bytes, place: str) -> dict[str, Any]:
    """The same, for what must be a JSON object."""
    value = unpack(data, place)
    if not isinstance(value, dict):
        raise StoreCorrupt(f"{place} can't be read: not an object")
    return value


def ms(at: datetime) -> int:
    """Milliseconds since 1970."""
    return round(at.timestamp() * 1000)


def at(milliseconds: float | str | bytes) -> datetime:
    """The inverse of `ms`."""
    return datetime.fromtimestamp(float(milliseconds) / 1000, UTC)


def fields(reply: Any) -> dict[str, bytes]:
    """A hash from a flat list or a mapping, as the client or a script hands it over."""
    pairs = reply.items() if isinstance(reply, Mapping) else zip(reply[::2], reply[1::2], strict=True)
    return {name.decode(): bytes(value) for name, value in pairs}
