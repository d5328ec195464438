"""A thousand sessions whose access tokens expire at once, in each way to keep sessions.

Exact means one token call for each session, and the page of the right person with its new access
token for each request. A 503 with Retry-After is repeated when it says.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import multiprocessing
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple

from fastapi import FastAPI

from tools.benchmarks.applications import TOKEN, ask, our_application, signed_in
from tools.benchmarks.figures import Figure
from tools.benchmarks.provider import Lives, served_provider
from tools.benchmarks.redis_server import redis_server

SESSIONS, REQUESTS = 1000, 10
DELAY: Final = 0.05
"""Seconds that the provider takes for a token call."""
LIVES: Final = Lives(first=1)
DUE_AFTER: Final = 2.0
LONGEST: Final = 240.0
"""Seconds after which a storm counts as lost."""
SHUTDOWN: Final = 5.0


def memory(_: str) -> dict[str, Any]:
    """One process keeps the sessions."""
    return {"session_store": "memory"}


def rows(redis: str) -> dict[str, Any]:
    """Cookies, whose rows are on Redis."""
    return {"back_channel_logout_store": redis}


def store(redis: str) -> dict[str, Any]:
    """Redis keeps the sessions."""
    return {"session_store": redis}


class Mode(NamedTuple):
    """The options of `OIDC` for the URL of a Redis, and the number of processes."""

    options: Callable[[str], dict[str, Any]]
    processes: int


MODES: Final[Mapping[str, Mode]] = {
    "cookie, one process": Mode(lambda _: {}, 1),
    "memory store, one process": Mode(memory, 1),
    "Redis store, one process": Mode(store, 1),
    "cookie with rows on Redis, two processes": Mode(rows, 2),
    "Redis store, two processes": Mode(store, 2),
}


class Plan(NamedTuple):
    """What the processes of one storm have in common."""

    mode: str
    issuer: str
    redis: str
    sessions: int = SESSIONS
    requests: int = REQUESTS


class Seen(NamedTuple):
    """What the requests of one process came to: right responses, 503 on the way, seconds."""

    right: int
    later: int
    seconds: float


def figures() -> Iterator[Figure]:
    """Seconds until every request of a storm has its response, and what was wrong."""
    for mode in MODES:
        seconds, later, wrong = storm(mode)
        yield Figure(f"{mode}: time", seconds, "s")
        yield Figure(f"{mode}: requests with a 503 on the way", later, "")
        yield Figure(f"{mode}: wrong responses and token calls", wrong, "", 0)


def storm(mode: str, *, sessions: int = SESSIONS, delay: float = DELAY) -> tuple[float, int, int]:
    """Seconds, requests with a 503 on the way, and wrong responses and token calls."""
    with served_provider(LIVES, delay) as issuer, redis_server() as redis:
        plan = Plan(mode, issuer, redis, sessions)
        with workers(plan) as connections:
            seen = passed(connections)
        with urllib.request.urlopen(f"{issuer}/presented", timeout=10) as response:
            calls, tokens = json.load(response)
    wrong = sessions * REQUESTS - sum(each.right for each in seen)
    wrong += abs(calls - sessions) + abs(tokens - sessions)
    seconds = max((each.seconds for each in seen), default=math.nan)
    return seconds, sum(each.later for each in seen), wrong


@contextmanager
def workers(plan: Plan) -> Iterator[list[Connection]]:
    """Where the processes of the application listen; they end with the block."""
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    with ExitStack() as stack:
        connections = []
        for _ in range(MODES[plan.mode].processes):
            here, there = multiprocessing.Pipe()
            connections.append(stack.enter_context(here))
            processes.append(context.Process(target=work, args=(there, plan)))
            processes[-1].start()
            there.close()
            stack.callback(ended, processes[-1])
        yield connections


def ended(process: BaseProcess) -> None:
    """Waits a while for it to end, and ends it."""
    process.join(SHUTDOWN)
    process.kill()
    process.join()


def passed(connections: Sequence[Connection]) -> list[Seen]:
    """Signs in by the first process, and asks by all; what each saw that ended in time."""
    for number, connection in enumerate(connections):
        connection.send(number == 0)
    cookies = connections[0].recv()
    for connection in connections:
        connection.send(cookies)
    seen = [each.recv() for each in connections if each.poll(LONGEST)]
    for connection in connections:
        connection.send("end")
    return seen


def work(connection: Connection, plan: Plan) -> None:
    """One process: may sign in, asks for each session, and ends when its parent says so."""
    logging.disable()  # a refusal is counted
    mode = MODES[plan.mode]
    with asyncio.Runner() as runner:
        app, oidc = our_application(plan.issuer, **mode.options(plan.redis))
        if connection.recv():
            cookies = runner.run(signed_in(app, plan.sessions))
            runner.run(asyncio.sleep(DUE_AFTER))
            connection.send(cookies)
        share = plan.requests // mode.processes
        connection.send(runner.run(asked_by_all(app, connection.recv(), share)))
        # The loop runs on, so that what is under way for the other process is done.
        runner.run(asyncio.to_thread(connection.recv))
        runner.run(oidc.aclose())


async def asked_by_all(app: FastAPI, cookies: Sequence[str], requests: int) -> Seen:
    """So many requests of each browser, all at the same time."""
    began = time.perf_counter()
    asked = [
        page(app, cookie, number) for _ in range(requests) for number, cookie in enumerate(cookies)
    ]
    right, later = zip(*await asyncio.gather(*asked), strict=True)
    return Seen(sum(right), sum(later), time.perf_counter() - began)


async def page(app: FastAPI, cookie: str, number: int) -> tuple[bool, bool]:
    """Whether the page is right, and whether there was a 503 before it."""
    later = False
    while True:
        status, response = await ask(app, TOKEN, cookie)
        if status != 503:
            return status == 200 and is_right(json.loads(response["body"]), number), later
        later = True
        await asyncio.sleep(int(dict(response["headers"])[b"retry-after"]))


def is_right(body: Mapping[str, str], number: int) -> bool:
    """Whether it is of this user, with the token of one refresh."""
    sub = f"user-{number:06}"
    return body["sub"] == sub and body["access_token"].endswith(f"{sub}.1")
