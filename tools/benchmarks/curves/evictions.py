"""What one login pays when the memory store is full of sessions that have just ended."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from typing import Final

from fastapi_oidc import StandardIdentity
from fastapi_oidc.clock import Clock
from fastapi_oidc.session.memory import MemorySessionStore
from tools.benchmarks.curves.growth import tell
from tools.benchmarks.curves.pictures import Lines, Point
from tools.benchmarks.oidc_visits import Session, a_session_of
from tools.benchmarks.targets import Target

LIMITS: Final = (1000, 10_000, 100_000, 1_000_000)
LOGINS: Final = 500
SIZE: Final = 500
WORST, MEDIAN = "ours, the slowest login", "ours, the median login"
COLLECTED = "ours, the slowest of the next, with Python's garbage collector"
SWEEP = "one sweep over a dictionary, for comparison"
Store = MemorySessionStore[StandardIdentity]


class AdjustedClock:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.ahead = 0

    def read(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.ahead


def login_at_the_limit(limits: tuple[int, ...] = LIMITS, *, logins: int = LOGINS) -> Lines:
    """Measures each login, by the processor: a login that was interrupted is not slow."""
    session = a_session_of(SIZE)
    drawn: dict[str, list[Point]] = {COLLECTED: [], WORST: [], MEDIAN: [], SWEEP: []}
    for limit in limits:
        tell(f"filling a store with {limit:,} sessions")
        for line, microseconds in asyncio.run(_at(limit, session, logins)).items():
            drawn[line].append((limit, microseconds))
    (few, least), *_, (most, worst) = drawn[WORST]
    return Lines(
        title="A login into a memory store that is full of ended sessions",
        x="sessions that the store holds at the most",
        y="µs of the processor for a login's row",
        x_scale="log",
        y_scale="log",
        lines=drawn,
        note=f"{logins:,} logins one after the other when all sessions have ended at once, without "
        "Python's garbage collector; it belongs to Python, and looks at whatever is alive.",
        targets=[Target(f"the slowest login, {most:,} / {few:,} sessions, CPU", worst / least, 3)],
    )


async def _at(limit: int, session: Session, logins: int) -> dict[str, float]:
    clock = AdjustedClock()
    store: Store = MemorySessionStore(
        clock=Clock(read=clock.read), max_sessions=limit, identity_type=StandardIdentity
    )
    for number in range(limit):
        await store.set(f"old-{number}", _of(session, number))
    lasts = session.expires_at - session.created_at
    clock.ahead = lasts + 1
    fresh = session.model_copy(update={"expires_at": session.expires_at + lasts})
    gc.disable()
    try:
        taken = await _logins(store, fresh, range(logins))
    finally:
        gc.enable()
    return {
        COLLECTED: max(await _logins(store, fresh, range(logins, 2 * logins))),
        WORST: max(taken),
        MEDIAN: statistics.median(taken),
        SWEEP: _sweep(limit),
    }


async def _logins(store: Store, session: Session, numbers: range) -> list[float]:
    """Microseconds of each."""
    taken = []
    for number in numbers:
        fresh = _of(session, number)
        began = time.thread_time()
        await store.set(f"new-{number}", fresh)
        taken.append((time.thread_time() - began) * 1e6)
    return taken


def _of(session: Session, number: int) -> Session:
    return session.model_copy(update={"sub": f"user-{number}"})


def _sweep(rows: int) -> float:
    """Microseconds to look at every row, and to forget it, as stores do that keep no order."""
    kept = {f"old-{number}": number for number in range(rows)}
    began = time.thread_time()
    for name in [name for name, ends in kept.items() if ends < rows]:
        del kept[name]
    return (time.thread_time() - began) * 1e6
