"""Ends tasks for certain.

One `cancel()` is a request that can get lost: on Python 3.11 `asyncio.wait_for`, which libraries use, may return its
result and pass over a cancellation that came in the same moment. The task then runs on, and who waits for its end waits
for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

#: Long enough for a task to give back what it holds before it is asked again.
_AGAIN = 3.0


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, again and again, until all have ended, also where this is cancelled itself. How they ended is theirs to tell."""
    pending = {task for task in tasks if not task.done()}
    interrupted: asyncio.CancelledError | None = None
    while pending:
        for task in pending:
            task.cancel()
        try:
            await asyncio.wait(pending, timeout=_AGAIN)
        except asyncio.CancelledError as error:
            interrupted = error
        pending = {task for task in pending if not task.done()}
    if interrupted:
        raise interrupted
