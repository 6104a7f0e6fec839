"""A task that passes over a cancellation is ended all the same."""

from __future__ import annotations

import asyncio

from functions.ending import end


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    lost = 1

    async def deaf() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not lost:
                    raise
                lost -= 1

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    async with asyncio.timeout(15):
        await end([task])
    assert task.cancelled()


async def test_what_has_ended_is_left_alone() -> None:
    async def fails() -> None:
        raise ValueError

    task = asyncio.create_task(fails())
    await asyncio.wait([task])
    await end([task])
    assert isinstance(task.exception(), ValueError)


async def test_whoever_ends_tasks_and_is_cancelled_meanwhile_ends_them_first() -> None:
    released = asyncio.Event()

    async def slow_to_leave() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await released.wait()
            raise

    task = asyncio.create_task(slow_to_leave())
    await asyncio.sleep(0)
    ending = asyncio.create_task(end([task]))
    await asyncio.sleep(0.01)
    ending.cancel()
    await asyncio.wait([ending, task], timeout=15)
    assert ending.cancelled()
    assert task.cancelled()
