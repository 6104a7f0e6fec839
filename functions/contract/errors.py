"""Two kinds of failure are told apart everywhere, once, where they are raised."""

from __future__ import annotations


class Again(Exception):
    """It may work later: a store or server that is away, a backlog that is full. Senders get 503 and come back.

    `after`: seconds to wait, where something said so.
    """

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Never(Exception):
    """It can't ever work: input that is not what it claims to be. Senders get 400, and a broker its dead letter."""
