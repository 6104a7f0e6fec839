"""The one error of the command line. A module of its own, so that `python -m triggers.cli` and its commands share it."""

from __future__ import annotations


class UsageError(Exception):
    """The call or its input is unusable; the message is one line for a person."""
