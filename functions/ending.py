"""Ends tasks for certain.

One `cancel()` is a request that can get lost: on Python 3.11 `asyncio.wait_for`, which the Redis client uses for every
command, may return its result and pass over a cancellation that came in the same moment. The task then runs on, and who
waits for its end waits for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN = 1.0


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, again and again, until all have ended. How they ended is theirs to tell."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_AGAIN)
