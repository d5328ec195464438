"""A task that swallows a cancellation is cancelled again."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi_oidc.once import cancelled

PATIENCE = 20


async def test_a_task_that_swallows_cancellations_ends_all_the_same() -> None:
    begun = asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await begun.wait()
    async with asyncio.timeout(PATIENCE):
        await cancelled(task, again=0.01)
    assert task.cancelled()


async def test_what_a_task_that_has_ended_came_to_stays() -> None:
    task = asyncio.create_task(asyncio.sleep(0, "done"))
    await asyncio.wait([task])
    await cancelled(task)
    assert task.result() == "done"
