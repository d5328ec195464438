"""Two uvicorn workers and fifty browsers: `python -m tools.benchmarks.oidc_served`.

Requests in a second, and the milliseconds within which half and 99 of 100 of them are answered; of
a bare endpoint, of ours with each way to keep sessions, and of the peers. The browsers are one
process of this machine, which shares its cores with the workers (and with Redis).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from redis import Redis

from fastapi_oidc.session.opener import LIMIT
from tools.benchmarks.load_client import Load, get, load
from tools.benchmarks.machine import processor_seconds, show_machine
from tools.benchmarks.oidc_redis import PROGRAM, a_redis
from tools.benchmarks.oidc_served_worker import (
    AUTH0,
    BARE,
    COOKIE,
    FIRST,
    MEMORY,
    ON_REDIS,
    PEER,
    REDIS,
    REVOCATION,
    USERS,
    Plan,
    work,
)
from tools.benchmarks.oidc_sessions import a_session_of_2_kb
from tools.benchmarks.oidc_visits import many
from tools.benchmarks.targets import Target, report

WORKERS: Final = 2
CONNECTIONS: Final = 50
BROWSERS: Final = 5 * LIMIT
"""Of first requests: more than a worker remembers, if it accepts a fifth of the connections."""
ROUNDS: Final = 11
SECONDS: Final = 0.6

Figures = Mapping[str, Sequence[Load]]
Cookies = Mapping[str, tuple[str, ...]]


def main() -> int:
    """Measures and prints it; the exit status."""
    show_machine()
    return report(list(served_targets()))


def served_targets() -> Iterator[Target]:
    """Measures the load, shows the figures and says what was aimed at."""
    figures = served(rounds=ROUNDS, seconds=SECONDS)
    print(f"\n{CONNECTIONS} connections on {WORKERS} uvicorn workers, medians of {ROUNDS} rounds:")
    print(f"  {'':<44}{'a second':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs':>9}{'Redis µs':>10}")
    for name, loads in figures.items():
        usual = median(loads)
        times = f"{usual.p50:9.1f}{usual.p99:9.1f}{usual.cpu:9.0f}{usual.redis:10.0f}"
        print(f"  {name:<44}{usual.rate:10.0f}{times}")
    yield from compared(figures)


def compared(figures: Figures) -> Iterator[Target]:
    """What was aimed at, each time as a ratio within the rounds."""
    pairs = [
        (FIRST, PEER, 1.0),
        (COOKIE, PEER, 1.0),
        (MEMORY, COOKIE, 1.0),
        (REDIS, USERS, 1.0),
        (REVOCATION, REDIS, 1.1),
    ]
    for ours, theirs, at_most in pairs:
        if ours in figures and theirs in figures:
            both = list(zip(figures[ours], figures[theirs], strict=True))
            slower = statistics.median(peer.rate / own.rate for own, peer in both)
            yield Target(
                f"{CONNECTIONS} connections, time of a request: {ours} / {theirs}", slower, at_most
            )
            dearer = statistics.median(own.cpu / peer.cpu for own, peer in both)
            yield Target(
                f"{CONNECTIONS} connections, CPU of a request: {ours} / {theirs}", dearer, at_most
            )
            later = statistics.median(own.p99 / peer.p99 for own, peer in both)
            yield Target(f"{CONNECTIONS} connections, p99: {ours} / {theirs}", later, 1.5 * at_most)


def median(loads: Sequence[Load]) -> Load:
    """Of each figure its median over the rounds."""
    return Load(*(statistics.median(figures) for figures in zip(*loads, strict=True)))


def served(*, rounds: int, seconds: float) -> dict[str, list[Load]]:
    """The load that each application bears, in turns of so many seconds."""
    with ExitStack() as stack:
        redis = "" if PROGRAM is None else stack.enter_context(a_redis())
        names = [BARE, PEER, AUTH0, COOKIE, FIRST, MEMORY, *(ON_REDIS if redis else ())]
        listeners = {name: stack.enter_context(a_listener()) for name in names}
        plan = Plan(redis, many(BROWSERS, a_session_of_2_kb()), CONNECTIONS, listeners)
        cookies, processors = stack.enter_context(workers(plan))
        requests = {name: [get("/me", each) for each in _enough(cookies[name])] for name in names}
        ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
        turn = Turns(ports, requests, processors, stack.enter_context(processor_of(redis)))
        return asyncio.run(turn.taken(rounds, seconds))


def _enough(cookies: tuple[str, ...]) -> tuple[str, ...]:
    """One for each connection at least."""
    return cookies if len(cookies) >= CONNECTIONS else cookies * CONNECTIONS


@dataclass(frozen=True)
class Turns:
    """The port and the requests of each application, and what all servers and Redis have used."""

    ports: Mapping[str, int]
    requests: Mapping[str, Sequence[bytes]]
    processors: Callable[[], float]
    redis: Callable[[], float]

    async def taken(self, rounds: int, seconds: float) -> dict[str, list[Load]]:
        """In every round each has a turn, and another one begins; the first round is not kept."""
        loads: dict[str, list[Load]] = {name: [] for name in self.ports}
        names = list(self.ports)
        for number in range(rounds + 1):
            print(f"  served: round {number} of {rounds}", file=sys.stderr)
            start = number % len(names)
            for name in (*names[start:], *names[:start]):
                borne = await self._turn(name, seconds if number else seconds / 4)
                loads[name] += [borne] if number else []
        return loads

    async def _turn(self, name: str, seconds: float) -> Load:
        used, redis = self.processors(), self.redis()
        borne = await load(self.ports[name], self.requests[name], seconds, connections=CONNECTIONS)
        used, redis = self.processors() - used, self.redis() - redis
        return borne._replace(cpu=used / borne.answers * 1e6, redis=redis / borne.answers * 1e6)


@contextmanager
def processor_of(redis: str) -> Iterator[Callable[[], float]]:
    """What Redis says that it has used of the processor, seconds; 0 without Redis."""
    if not redis:
        yield lambda: 0
        return
    with Redis.from_url(redis) as client:

        def used() -> float:
            told = client.info("cpu")
            return float(told["used_cpu_user"] + told["used_cpu_sys"])

        yield used


@contextmanager
def a_listener() -> Iterator[socket.socket]:
    """A port of this machine that both workers accept connections of."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        # Inherited by what it accepts, as asyncio sets it for sockets that it makes itself: else
        # the body of each answer waits 40 ms for the acknowledgement of the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


@contextmanager
def workers(plan: Plan) -> Iterator[tuple[Cookies, Callable[[], float]]]:
    """Serves for as long as the block runs.

    The cookies of the browsers that are signed in, and the processor time that was used so far.
    """
    context = multiprocessing.get_context("spawn")
    pipes: list[tuple[Connection, Connection]] = [multiprocessing.Pipe() for _ in range(WORKERS)]
    processes = [context.Process(target=work, args=(there, plan)) for _, there in pipes]
    try:
        for process, (_, there) in zip(processes, pipes, strict=True):
            process.start()
            there.close()  # or nobody would learn that the worker has ended
        cookies: list[Cookies] = [here.recv() for here, _ in pipes]
        yield cookies[0], lambda: sum(processor_seconds(process.pid or 0) for process in processes)
    finally:
        for process, (here, _) in zip(processes, pipes, strict=True):
            process.kill()
            process.join()
            here.close()


if __name__ == "__main__":
    sys.exit(main())
