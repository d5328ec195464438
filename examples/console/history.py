"""Figures of the last minutes, and the work that reads them again and again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

EVERY_SECONDS: Final = 2.0
"""Seconds between two samples if no page reads more often."""
SHORTEST_PAUSE: Final = 1.0
"""The minimum of seconds between two samples, however many users look."""
GAP_SECONDS: Final = 3 * EVERY_SECONDS
"""Samples that are further apart have a gap between them."""
WINDOW_SECONDS: Final = 180
"""How long samples are stored."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one moment; `at` counts seconds."""

    at: float
    values: Mapping[str, float]


class Point(NamedTuple):
    """A figure, and its age in seconds."""

    ago: float
    value: float


class History:
    """The latest samples of one machine, at most a few hundred."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=round(WINDOW_SECONDS / SHORTEST_PAUSE) + 1)

    @property
    def newest(self) -> Sample | None:
        """The last sample."""
        return self._samples[-1] if self._samples else None

    @property
    def is_fresh(self) -> bool:
        """Whether something was read just now."""
        return self._age() < SHORTEST_PAUSE and bool(self._samples[-1].values)

    @property
    def is_current(self) -> bool:
        """Whether the last sample is recent, without a gap after it."""
        return self._age() <= GAP_SECONDS

    def _age(self) -> float:
        return self._clock() - self._samples[-1].at if self._samples else float("inf")

    def add(self, values: Mapping[str, float]) -> None:
        """Store the figures of now; none are a gap."""
        if values or (self._samples and self._samples[-1].values):
            self._samples.append(Sample(self._clock(), values))

    def latest(self, key: str) -> float | None:
        """The figure as it is now; None when it is not known."""
        return self._samples[-1].values.get(key) if self.is_current else None

    def stretches(self, key: str) -> Sequence[Sequence[Point]]:
        """The known values of a figure, oldest first, in stretches without gaps."""
        now, before = self._clock(), None
        found: list[list[Point]] = []
        for sample in self._samples:
            value, ago = sample.values.get(key), now - sample.at
            if value is None or ago > WINDOW_SECONDS:
                before = None
                continue
            if before is None or sample.at - before > GAP_SECONDS:
                found.append([])
            found[-1].append(Point(ago, value))
            before = sample.at
        return found


AT_ONCE: Final = 16
"""How many machines are sampled at the same time."""


async def ended(*tasks: asyncio.Task[None] | None) -> None:
    """Cancels tasks, and waits until they have ended."""
    for task in filter(None, tasks):
        task.cancel()
        await asyncio.wait([task])


async def repeated(act: Callable[[], Awaitable[object]], every: float) -> None:
    """Does something every few seconds; a failure is logged."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            await act()
        except Exception:
            logging.getLogger(__name__).exception("%s is repeated", act)
        await asyncio.sleep(max(began + every - loop.time(), 0.05))


class Sampled(Protocol):
    """An object with figures."""

    name: str

    async def sample(self) -> None:
        """Read the figures as they are now."""
        ...


async def sample_all(machines: Iterable[Sampled], within: float = EVERY_SECONDS) -> None:
    """Sample each; a silent or failing one delays no other for long."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def sample(machine: Sampled) -> None:
        try:
            async with turns, asyncio.timeout(within):
                await machine.sample()
        except TimeoutError:
            pass  # a gap
        except Exception:
            logging.getLogger(__name__).exception("no figures of %s", machine.name)

    await asyncio.gather(*map(sample, machines))
