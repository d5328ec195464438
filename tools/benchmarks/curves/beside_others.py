"""Requests of a few browsers over how many rows of others lie beside theirs, in every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, TypeAlias

from tools.benchmarks.curves.bulk import url_of_database
from tools.benchmarks.curves.growth import Place, grown, lines, measured, tell
from tools.benchmarks.curves.pictures import Lines
from tools.benchmarks.oidc_peers import Visited, bare, starlette_sessions
from tools.benchmarks.oidc_redis import PROGRAM, a_redis
from tools.benchmarks.oidc_sessions import an_app, bare_endpoint
from tools.benchmarks.oidc_visits import CODEC, Sessions, a_session_of, asking, many, ours
from tools.benchmarks.targets import Target

AMOUNTS: Final = (100, 1000, 10_000, 100_000, 1_000_000)
BROWSERS: Final = 100
SIZE: Final = 500
GROWS_AT_MOST: Final = 1.5

Visits: TypeAlias = dict[str, Visited]
InMemory: TypeAlias = Callable[[Sessions, int], Awaitable[Visits]]
OnRedis: TypeAlias = Callable[[str, Sessions, int], Awaitable[Visits]]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What there is more and more `of`: `note` says more, `without` names our line without any.

    What keeps so many is said by the functions: an application, and its browsers, for each line.
    """

    title: str
    of: str
    note: str
    without: str
    judged: Sequence[str]
    in_memory: InMemory
    on_redis: OnRedis


def request_beside_others(rows: Rows, amounts: Sequence[int], *, rounds: int, calls: int) -> Lines:
    """Measures a request at each amount, in turns."""
    with asyncio.Runner() as runner, ExitStack() as stack:
        url = stack.enter_context(a_redis()) if PROGRAM else ""
        visits = runner.run(_visits(rows, url, amounts))
        cases = {place: asking(runner, visited) for place, visited in visits.items()}
        tell("measuring")
        figures = measured(cases, rounds=rounds, calls=calls)
    few, most = amounts[0], amounts[-1]
    return Lines(
        title=rows.title,
        x=rows.of,
        y="µs for a request, in the process",
        x_scale="log",
        lines=lines(figures, amounts),
        note=f"Quickest of {rounds} rounds of {calls}, in turns, by {BROWSERS} browsers; "
        f"sessions of {SIZE} bytes. {rows.note}",
        targets=[
            Target(f"{most:,} / {few:,} {rows.of}, {line}", grown(figures, line), GROWS_AT_MOST)
            for line in rows.judged
            if (line, few) in figures
        ],
    )


async def _visits(rows: Rows, url: str, amounts: Sequence[int]) -> dict[Place, Visited]:
    browsers, few = many(BROWSERS, a_session_of(SIZE)), amounts[0]
    visits: dict[Place, Visited] = {
        (rows.without, few): await ours(browsers),
        ("SessionMiddleware", few): starlette_sessions(CODEC.encode(browsers[0].session)),
        ("bare endpoint", few): bare(an_app(bare_endpoint)),
    }
    for number, amount in enumerate(amounts):
        tell(f"{amount:,} {rows.of}")
        drawn = await rows.in_memory(browsers, amount)
        if url:
            drawn |= await rows.on_redis(url_of_database(url, number), browsers, amount)
        visits |= {(line, amount): visited for line, visited in drawn.items()}
    return visits
