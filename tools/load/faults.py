"""The plan of faults: what happens to the fleet, and what that may cost those who use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from examples.fleet.fleet import Fleet
from fastapi_oidc.testing import ServerError
from tools.load.rules import NO_ANSWER, Cause

Happen: TypeAlias = Callable[[Fleet, Random], Awaitable[None]]

REFUSED_TOKEN_CALLS: Final = 20
SHORT, LONG, LONGEST = 2.0, 5.0, 15.0
"""Seconds that something is away; the longest is more than a worker waits for Redis here."""

TAKEN_OVER: Final = 30.0
"""Seconds within which another worker continues the refresh of one that was killed: its lease ends
after 12 to 16, and a refresh that has waited for it is tried again 5 later."""
POSTPONED: Final = 30.0
"""Seconds within which a refresh that could not be made is tried again: after failures of 5, 10
and at most 20 seconds between them."""
RECONNECTED: Final = 10.0
"""Seconds in which nginx and clients notice that something is there again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, over when `happen` is."""

    happen: Happen
    cause: Cause


async def _for_a_while(end: Callable[[], None], seconds: float, begin: Callable[[], None]) -> None:
    """Something is away, or stands still, for so many seconds."""
    await asyncio.to_thread(end)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(begin)


async def _kill_a_worker(fleet: Fleet, chance: Random) -> None:
    worker = chance.choice(fleet.workers)
    await _for_a_while(worker.kill, SHORT, worker.start)


async def _pause_a_worker(fleet: Fleet, chance: Random) -> None:
    worker = chance.choice(fleet.workers)
    await _for_a_while(worker.pause, LONG, worker.resume)


async def _restart_a_worker(fleet: Fleet, chance: Random) -> None:
    await asyncio.to_thread(chance.choice(fleet.workers).restart)


async def _restart_a_machine(fleet: Fleet, chance: Random) -> None:
    number = chance.randrange(len(fleet.machines)) + 1
    await asyncio.to_thread(fleet.parts[f"machine {number}"].actions["restart"])


async def _kill_a_monitor(fleet: Fleet, chance: Random) -> None:
    """While people wait for it: it is mute before."""
    monitor = chance.choice(fleet.monitors)
    monitor.pause()
    await asyncio.sleep(SHORT)
    await _for_a_while(monitor.kill, SHORT, monitor.start)


async def _kill_redis(fleet: Fleet, _: Random) -> None:
    await _for_a_while(fleet.redis.kill, 0, fleet.redis.start)


async def _stop_redis(fleet: Fleet, _: Random) -> None:
    await _for_a_while(fleet.redis.stop, LONG, fleet.redis.start)


async def _mute_redis(fleet: Fleet, _: Random) -> None:
    await _for_a_while(fleet.redis.pause, LONGEST, fleet.redis.resume)


async def _stop_the_provider(fleet: Fleet, _: Random) -> None:
    await _for_a_while(fleet.provider.stop, LONG, fleet.provider.start)


async def _refuse_token_calls(fleet: Fleet, _: Random) -> None:
    fleet.op.faults.put("token", ServerError(), times=REFUSED_TOKEN_CALLS)
    await asyncio.sleep(LONG)
    fleet.op.faults.clear()


async def _reload_nginx(fleet: Fleet, _: Random) -> None:
    fleet.proxy.reload()


def _costs(
    name: str,
    *statuses: int,
    aftermath: float,
    loses_answers: bool = False,
    loses_endings: bool = False,
) -> Cause:
    return Cause(name, frozenset(statuses), aftermath, loses_answers, loses_endings)


# 502 is nginx's, when a worker went away with a request that cannot be repeated, or when none is
# there; 503 is the library's, with Retry-After. No answer: the connection broke off.
FAULTS: Final = (
    Fault(
        _kill_a_worker,
        _costs("a worker killed", NO_ANSWER, 502, 503, aftermath=TAKEN_OVER, loses_answers=True),
    ),
    Fault(_kill_redis, _costs("Redis killed", 503, aftermath=POSTPONED, loses_endings=True)),
    Fault(
        _stop_the_provider,
        _costs("the provider away", NO_ANSWER, 502, 503, aftermath=POSTPONED, loses_answers=True),
    ),
    Fault(_restart_a_machine, _costs("a machine restarted", 502, 503, aftermath=RECONNECTED)),
    Fault(_stop_redis, _costs("Redis stopped", 503, aftermath=POSTPONED, loses_endings=True)),
    Fault(_reload_nginx, _costs("nginx reloaded", NO_ANSWER, aftermath=RECONNECTED)),
    Fault(
        _refuse_token_calls,
        _costs("the provider answers 500", 502, 503, aftermath=POSTPONED),
    ),
    Fault(_mute_redis, _costs("Redis mute", 503, aftermath=POSTPONED, loses_endings=True)),
    Fault(_restart_a_worker, _costs("a worker restarted", 502, 503, aftermath=RECONNECTED)),
    Fault(_pause_a_worker, _costs("a worker paused", 503, aftermath=RECONNECTED)),
    Fault(_kill_a_monitor, _costs("a monitor mute, then killed", aftermath=RECONNECTED)),
)
