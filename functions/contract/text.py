"""How a report says things, the same everywhere."""

from __future__ import annotations


def count_of(count: int, noun: str) -> str:
    """ "1 node", "2 nodes"."""
    return f"{count} {noun}{'s' * (count != 1)}"
