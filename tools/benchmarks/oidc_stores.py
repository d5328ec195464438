"""What it takes to find a session: in its cookie, in memory, on Redis; and how that grows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from redis.asyncio import Redis

from fastapi_oidc import OIDC, OIDCSession, StandardIdentity
from fastapi_oidc.session.keeper import Keeper
from fastapi_oidc.session.redis import RedisSessionStore
from tools.benchmarks.oidc_redis import PROGRAM, a_redis
from tools.benchmarks.oidc_sessions import an_instance
from tools.benchmarks.rounds import Batch, Cost, costs
from tools.benchmarks.targets import Target

COOKIE, MEMORY = "cookie", "memory store with endings"
REDIS, PLAIN = "Redis store with endings", "plain Redis GET of the row"
FIRST = ", each time another"
ROUNDS, READS = 101, 50
BROWSERS = ROUNDS * READS + 10
LIVE = (100, 1000, 10_000)
MOST_LIVE = 20_000

Session = OIDCSession[StandardIdentity]


class Visitors(NamedTuple):
    """What keeps the sessions of browsers, and the cookie of each, name and value."""

    keeper: Keeper[StandardIdentity]
    cookies: Sequence[tuple[str, bytes]]


def store_targets(session: Session) -> Iterator[Target]:
    """Measures one reading of each keeper, shows the figures and says what was aimed at.

    Judged is a browser that asks again; what each reading costs when no cookie comes twice is shown
    beside it.
    """
    with asyncio.Runner() as runner, ExitStack() as opened:
        cases = {
            **readings(COOKIE, runner, an_instance, session),
            **readings(MEMORY, runner, in_memory, session),
        }
        commands = None
        if PROGRAM is not None:
            url = opened.enter_context(a_redis())
            on_redis, commands = redis_cases(runner, url, session)
            cases |= on_redis
        figures = costs(cases, rounds=ROUNDS, calls=READS)
        print(f"\nReading a session, µs, medians of {ROUNDS} rounds of {READS}:")
        show(figures)
        if commands is None:
            print("  Redis not measured: there is no redis-server")
            return
        redis, plain = figures[REDIS], figures[PLAIN]
        yield Target("reading: Redis store / plain GET, wall", redis.wall_ratio(plain), 1.3)
        yield Target("Redis commands for a reading", runner.run(commands()), 1)


def in_memory() -> OIDC[StandardIdentity]:
    return an_instance(session_store="memory")


def show(figures: Mapping[str, Cost]) -> None:
    print(f"  {'':<44}{'wall':>8}{'CPU':>8}")
    for name, cost in figures.items():
        print(f"  {name:<44}{cost.median_wall:8.1f}{cost.median_cpu:8.1f}")


def readings(
    name: str,
    runner: asyncio.Runner,
    make: Callable[[], OIDC[StandardIdentity]],
    session: Session,
) -> dict[str, Batch]:
    """Of one browser that asks again, and of as many as there are readings."""
    return {
        name: reading(runner, signed_in(runner, make(), session)),
        name + FIRST: reading(runner, signed_in(runner, make(), session, BROWSERS)),
    }


def signed_in(runner: asyncio.Runner, oidc: Any, session: Session, browsers: int = 1) -> Visitors:
    """So many people are."""
    keeper: Keeper[StandardIdentity] = oidc.site.party.keeper
    return Visitors(keeper, runner.run(cookies_of(keeper, session, browsers)))


async def cookies_of(
    keeper: Keeper[StandardIdentity], session: Session, browsers: int
) -> list[tuple[str, bytes]]:
    cookies = []
    for number in range(browsers):
        update = {"id": f"session-{number}", "sub": f"user-{number}"}
        kept = keeper.placed(session.model_copy(update=update))
        await keeper.save(kept)
        (change,) = keeper.cookies(kept, session.created_at)
        cookies.append((change.name, (change.value or "").encode()))
    return cookies


def reading(runner: asyncio.Runner, visitors: Visitors) -> Batch:
    """The batch that reads, each time for the next browser, from a text that is new as such."""
    turns, keeper = cycle(visitors.cookies), visitors.keeper

    async def read() -> None:
        name, value = next(turns)
        if await keeper.read({name: value.decode()}) is None:
            raise RuntimeError("the session was not found")

    return batch_of(runner, read)


def redis_cases(
    runner: asyncio.Runner, url: str, session: Session
) -> tuple[dict[str, Batch], Callable[[], Coroutine[Any, Any, int]]]:
    """Readings on Redis, and how to learn how many commands one takes."""
    client = Redis.from_url(url)

    def on_redis() -> OIDC[StandardIdentity]:
        return an_instance(session_store=RedisSessionStore(client, StandardIdentity))

    cases = readings(REDIS, runner, on_redis, session)
    visitors = signed_in(runner, on_redis(), session)
    read, name = reading_once(visitors), runner.run(a_row(client))

    async def plain() -> None:
        if await client.get(name) is None:
            raise RuntimeError("the row was not found")

    async def commands() -> int:
        async def processed() -> int:
            return int((await client.info("stats"))["total_commands_processed"])

        before = await processed()
        await read()
        # INFO counts itself when it has answered: the first one is in the difference.
        return await processed() - before - 1

    return cases | {PLAIN: batch_of(runner, plain)}, commands


def reading_once(visitors: Visitors) -> Callable[[], Awaitable[object]]:
    (name, value), *_ = visitors.cookies
    return lambda: visitors.keeper.read({name: value.decode()})


async def a_row(client: Redis) -> bytes | str:
    name: bytes | str = await anext(client.scan_iter("*session:*"))
    return name


def batch_of(runner: asyncio.Runner, call: Callable[[], Awaitable[None]]) -> Batch:
    async def repeat(times: int) -> None:
        for _ in range(times):
            await call()

    return lambda times: runner.run(repeat(times))


def growth_targets(session: Session) -> Iterator[Target]:
    """Measures the memory store with more and more sessions in it."""
    with asyncio.Runner() as runner:
        cases = {}
        for live in LIVE:
            visitors = signed_in(runner, in_memory(), session)
            runner.run(filled(visitors.keeper, session, live))
            cases[f"with {live} live sessions"] = reading(runner, visitors)
        figures = costs(cases, rounds=ROUNDS, calls=READS)
        print("\nReading a session of the memory store, µs:")
        show(figures)
        fewest, *_, most = figures.values()
        yield Target(f"reading: {LIVE[-1]} / {LIVE[0]} live sessions", most.wall_ratio(fewest), 1.3)
        if Path("/proc/self/statm").exists():
            kilobytes = memory_of_a_session(runner, session)
            print(f"  memory of a session: {kilobytes:.1f} kB")


def memory_of_a_session(runner: asyncio.Runner, session: Session) -> float:
    keeper = signed_in(runner, in_memory(), session).keeper
    before = resident_bytes()
    runner.run(filled(keeper, session, MOST_LIVE))
    return (resident_bytes() - before) / MOST_LIVE / 1024


async def filled(keeper: Keeper[StandardIdentity], session: Session, count: int) -> None:
    """So many people are signed in."""
    for number in range(count):
        update = {"id": f"session-{number}", "sub": f"user-{number}"}
        await keeper.save(keeper.placed(session.model_copy(update=update)))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
