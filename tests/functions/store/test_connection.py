"""A cancellation is never lost between a caller and the server."""

from __future__ import annotations

import asyncio
import random

from functions.store import Store


async def test_whoever_is_cancelled_in_the_middle_of_a_command_ends(store: Store) -> None:
    async def ask_on_and_on() -> None:
        while True:
            await store.notes.beats()

    for _ in range(300):
        tasks = [asyncio.create_task(ask_on_and_on()) for _ in range(3)]
        await asyncio.sleep(random.uniform(0, 0.004))
        for task in tasks:
            task.cancel()
        _, running = await asyncio.wait(tasks, timeout=2)
        for task in running:
            task.cancel()
        assert not running, "it runs on as if nobody had said anything"
