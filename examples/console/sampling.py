"""One task that samples every machine every few seconds, even if no page is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from examples.console.history import EVERY_SECONDS

AT_ONCE: Final = 16
"""How many machines are sampled at the same time."""


async def ended(task: asyncio.Task[None] | None) -> None:
    """Cancels a task, and waits until it has ended."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


class Sampled(Protocol):
    """An object with figures."""

    name: str

    async def sample(self) -> None:
        """Read the figures as they are now."""
        ...


class Sampler:
    """Samples the result of `machines`; a silent or failing machine delays no other for long."""

    def __init__(
        self, machines: Callable[[], Iterable[Sampled]], every: float = EVERY_SECONDS
    ) -> None:
        self._machines = machines
        self._every = every
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="samples")

    async def stop(self) -> None:
        """End, also in the middle of a round."""
        await ended(self._task)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began, turns = loop.time(), asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._sample(one, turns) for one in list(self._machines())))
            await asyncio.sleep(max(began + self._every - loop.time(), 0.05))

    async def _sample(self, machine: Sampled, turns: asyncio.Semaphore) -> None:
        try:
            async with turns, asyncio.timeout(self._every):
                await machine.sample()
        except TimeoutError:
            pass  # a gap
        except Exception:
            logging.getLogger(__name__).exception("no figures of %s", machine.name)
