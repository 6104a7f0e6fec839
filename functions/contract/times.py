"""Times as Kubernetes and our own kept states write them."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def text_time(text: Any) -> datetime | None:
    """An RFC 3339 time with its zone; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    return value if value.tzinfo else None
