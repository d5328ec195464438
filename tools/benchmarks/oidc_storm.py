"""A thousand sessions whose access tokens expire at once: `python -m tools.benchmarks.oidc_storm`.

Each is asked for ten times, by one or two processes, while the provider takes 10 ms, 200 ms or a
second for each token call and makes every refresh token good once. There must be one token call for
each session and not one answer other than 200; who is told to come later (503 with Retry-After)
asks again, as a browser would. Without arguments a few storms run (under two minutes), with --all
every one (about twelve). Exits with 1 when a storm was not as it must be.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final

from tools.benchmarks.oidc_redis import PROGRAM, a_redis
from tools.benchmarks.oidc_storm_provider import a_provider
from tools.benchmarks.oidc_storm_worker import GOOD, LATER, Answers, Passed, Plan, work
from tools.benchmarks.targets import Target, report

SESSIONS, REQUESTS = 1000, 10
SHUTDOWN = 5.0
LONGEST = 240.0
"""Seconds after which a storm counts as lost."""


@dataclass(frozen=True)
class Storm:
    """One combination; times in seconds."""

    mode: str
    processes: int
    delay: float
    provider_timeout: float
    sessions: int = SESSIONS

    def __str__(self) -> str:
        processes = f"{self.processes} process{'es'[: 2 * self.processes - 2]}"
        return f"{self.mode}, {processes}, {self.delay:g} s, timeout {self.provider_timeout:g} s"


MODES: Final = (
    ("cookie", 1),
    ("memory", 1),
    ("redis store", 1),
    ("redis lock", 2),
    ("redis store and lock", 2),
)
ALL = [Storm(*mode, *times) for times in product((0.01, 0.2, 1), (5, 10)) for mode in MODES]
USUAL = [
    Storm("cookie", 1, 0.01, 5),
    Storm("memory", 1, 0.2, 5),
    Storm("redis store", 1, 0.01, 5),
    Storm("redis lock", 2, 0.2, 5),
    Storm("redis store and lock", 2, 1, 5),
]


@dataclass(frozen=True)
class Weathered:
    """What came of a storm."""

    storm: Storm
    answers: Answers
    calls: int
    sessions: int
    most: int
    seconds: float
    held: float

    @property
    def later(self) -> int:
        """How many answers were a 503 with Retry-After first."""
        return sum(count for kind, count in self.answers.items() if kind.endswith(LATER))

    @property
    def wrong(self) -> int:
        """Token calls too many or too few, and answers that are not as they must be."""
        good = self.answers[GOOD] + self.answers[GOOD + LATER]
        others = sum(self.answers.values()) - good
        expired = self.storm.sessions
        lost = expired * REQUESTS - sum(self.answers.values())
        return abs(self.calls - expired) + abs(self.sessions - expired) + others + lost


def main() -> int:
    """Lets the storms pass and prints what came of them; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.oidc_storm")
    parser.add_argument("--all", action="store_true", help="every combination")
    return report(list(storm_targets(ALL if parser.parse_args().all else USUAL)))


def storm_targets(storms: Sequence[Storm] = USUAL) -> Iterator[Target]:
    """Lets the storms pass, shows what came of them and says what was aimed at."""
    print(f"\n{SESSIONS} sessions expire at once, {REQUESTS} requests each:")
    print(f"  {'':<50}{'seconds':>8}{'longest':>9}{'calls':>7}{'at once':>9}   answers")
    for storm in storms:
        if "redis" in storm.mode and PROGRAM is None:
            print(f"  {storm!s:<50} not measured: there is no redis-server")
            continue
        came = weathered(storm)
        answers = ", ".join(f"{count} x {kind}" for kind, count in came.answers.most_common())
        times = f"{came.seconds:8.1f}{came.held:9.1f}"
        print(f"  {storm!s:<50}{times}{came.calls:7}{came.most:9}   {answers}")
        yield Target(f"storm: wrong answers and token calls, {storm}", came.wrong, 0)


def weathered(storm: Storm) -> Weathered:
    with a_provider(storm.delay) as issuer, a_redis_for(storm) as redis:
        plan = Plan(
            storm.mode,
            issuer,
            redis,
            storm.sessions,
            REQUESTS // storm.processes,
            storm.provider_timeout,
        )
        with workers(plan, storm.processes) as connections:
            came = passed(connections)
        with urllib.request.urlopen(f"{issuer}/counts", timeout=10) as answer:
            counts = json.load(answer)
    return Weathered(
        storm,
        sum((each.answers for each in came), Counter()),
        counts["calls"],
        counts["sessions"],
        counts["most"],
        max((each.seconds for each in came), default=math.nan),
        max((each.held for each in came), default=math.nan),
    )


@contextmanager
def a_redis_for(storm: Storm) -> Iterator[str]:
    if "redis" not in storm.mode:
        yield ""
        return
    with a_redis() as url:
        yield url


@contextmanager
def workers(plan: Plan, count: int) -> Iterator[list[Connection]]:
    """Where the processes of the application listen; they end with the block."""
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    connections = []
    try:
        for _ in range(count):
            here, there = multiprocessing.Pipe()
            processes.append(context.Process(target=work, args=(there, plan)))
            processes[-1].start()
            there.close()
            connections.append(here)
        yield connections
    finally:
        for process in processes:
            process.join(SHUTDOWN)
            process.kill()
            process.join()


def passed(connections: Sequence[Connection]) -> list[Passed]:
    """Signs in by the first process, and asks by all; what each saw that ended in time."""
    for number, connection in enumerate(connections):
        connection.send("wait" if number else "sign in")
    cookies = connections[0].recv()
    for connection in connections:
        connection.send(cookies)
    came = []
    for connection in connections:
        if not connection.poll(LONGEST):
            break
        came.append(connection.recv())
    for connection in connections:
        connection.send("end")
    return came


if __name__ == "__main__":
    sys.exit(main())
