"""The load from its beginning to its end: people, faults, counts and what is printed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import cycle
from random import Random
from typing import Final

import httpx

from examples.fleet.fleet import Fleet, Shape
from examples.fleet.provider import Trusting
from fastapi_oidc.testing import DevUser
from tools.load.browser import Browser
from tools.load.faults import FAULTS, Fault
from tools.load.figures import Memory
from tools.load.rules import NO_ANSWER, Causes, Rule, Verdict
from tools.load.site import LogoutTokens, Site, TokenCalls

ACCESS_TOKEN, REFRESH_MARGIN = 6, 3
"""Seconds that access tokens live, and how long before their end they are refreshed."""
PATIENCE: Final = 90.0
"""Seconds that a browser waits for an answer; longer than anything in the fleet does."""
IDLE: Final = httpx.Limits(keepalive_expiry=2)
"""Connections are let go before the servers close them, the first of them after five seconds: a
browser asks again when both happen at once, and httpx does not."""
REDIS_TIMEOUT, PROVIDER_TIMEOUT = 10.0, 30.0
"""Seconds that a worker waits for the others: a busy machine is no fault of the plan."""
COUNTED_EACH: Final = 0.25
"""Seconds from one look at the provider and the workers to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long people come, how many, and a fault each so many seconds (None: no faults)."""

    seconds: float
    browsers: int = 16
    fault_each: float | None = None
    faults: Sequence[Fault] = FAULTS
    shortest_visit: float = 4
    longest_visit: float = 14
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """What came of a load that ran for `seconds`."""

    site: Site
    memory: Memory
    faults: list[str] = field(default_factory=list)
    seconds: float = 0


def people(count: int) -> Sequence[DevUser]:
    """Each is called so that a page which names one of them can be told from another's."""
    return [DevUser(f"person-{n:03}", f"Person {n:03}") for n in range(1, count + 1)]


def shape_for(plan: Plan) -> Shape:
    """A fleet on free ports, whose access tokens are short."""
    return Shape(
        port=0,
        provider_port=0,
        users=people(plan.browsers),
        access_token=ACCESS_TOKEN,
        refresh_margin=REFRESH_MARGIN,
        redis_timeout=REDIS_TIMEOUT,
        provider_timeout=PROVIDER_TIMEOUT,
    )


def site_of(fleet: Fleet) -> Site:
    """The fleet as browsers see it, with every rule in force."""
    verdict, causes = Verdict(), Causes()
    due_after = fleet.shape.access_token - fleet.shape.refresh_margin
    logouts = LogoutTokens(Trusting(fleet.trust))
    fleet.op.back_channel_transport = logouts
    return Site(
        url=fleet.url,
        client=lambda: httpx.AsyncClient(
            verify=fleet.trust, timeout=PATIENCE, limits=IDLE, trust_env=False
        ),
        op=fleet.op,
        tokens=TokenCalls(fleet.op, due_after, verdict, causes),
        logouts=logouts,
        verdict=verdict,
        causes=causes,
    )


async def loaded(fleet: Fleet, plan: Plan, tell: Callable[[str], None]) -> Outcome:
    """Puts the load on the fleet and returns when everybody has left; faults are told as they come.

    Nobody leaves in the middle of a visit, so it takes as much longer as the longest of them.
    """
    site, chance, is_over = site_of(fleet), Random(plan.seed), asyncio.Event()
    outcome, began = Outcome(site, Memory()), time.monotonic()
    async with asyncio.TaskGroup() as watching:
        counting = watching.create_task(_counted(fleet, outcome))
        async with asyncio.TaskGroup() as acting:
            for browser in _browsers(site, plan, chance):
                acting.create_task(browser.run(is_over))
            acting.create_task(_faults(fleet, plan, outcome, is_over, tell))
            await asyncio.sleep(plan.seconds)
            is_over.set()
        counting.cancel()
    outcome.seconds = time.monotonic() - began
    site.tokens.read()
    outcome.memory.judge(site.verdict)
    return outcome


def _browsers(site: Site, plan: Plan, chance: Random) -> list[Browser]:
    return [
        Browser(site, user, Random(chance.random()), plan.shortest_visit, plan.longest_visit)
        for user in people(plan.browsers)
    ]


async def _faults(
    fleet: Fleet,
    plan: Plan,
    outcome: Outcome,
    is_over: asyncio.Event,
    tell: Callable[[str], None],
) -> None:
    """One fault after the other, in the order of the plan; the last one is mended, too."""
    if plan.fault_each is None:
        return
    chance = Random(plan.seed)
    for place, fault in enumerate(cycle(plan.faults)):
        with suppress(TimeoutError):
            async with asyncio.timeout(plan.fault_each if place else plan.fault_each / 2):
                await is_over.wait()
            return
        tell(f"{datetime.now():%H:%M:%S}  {fault.cause.name}")
        outcome.faults.append(fault.cause.name)
        with outcome.site.causes.under(fault.cause):
            await fault.happen(fleet, chance)


async def _counted(fleet: Fleet, outcome: Outcome) -> None:
    while True:
        outcome.memory.sample(_pids(fleet), time.monotonic())
        outcome.site.tokens.read()
        await asyncio.sleep(COUNTED_EACH)


def _pids(fleet: Fleet) -> Mapping[str, int | None]:
    return {worker.name: worker.pid for worker in fleet.workers}


def lines(outcome: Outcome) -> Iterator[str]:
    """Figures first, then what went wrong on purpose, then the rules."""
    site = outcome.site
    yield from site.latencies.rows(outcome.seconds)
    total = site.latencies.count
    yield f"{total} answers in {outcome.seconds:.1f} s: {total / outcome.seconds:.1f} a second"
    yield f"{site.tokens.total} refreshes\n"
    yield from outcome.memory.rows()
    if outcome.faults:
        yield "\nFaults, and the failures that they explain:"
        yield from _explained(outcome)
        yield f"  {site.lost} sessions and logins ended since an answer of the provider was lost"
    yield "\nRules:"
    for rule in Rule:
        count = site.verdict.breaches[rule]
        yield f"  {'holds' if not count else f'BROKEN {count} times':<18}{rule}"
    yield from (f"    {example}" for example in site.verdict.examples)


def _explained(outcome: Outcome) -> Iterator[str]:
    for name, times in Counter(outcome.faults).items():
        explained = outcome.site.causes.explained.items()
        costs = [
            f"{count} x {_status(status)}" for (cause, status), count in explained if cause == name
        ]
        yield f"  {times} x {name}: {', '.join(costs) or 'nothing'}"


def _status(status: int) -> str:
    return "no answer" if status == NO_ANSWER else str(status)
