"""A worker that is killed with a request in its hands, as people see it through nginx."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from examples.fleet.fleet import Fleet, socket_in
from examples.fleet.program import Program
from examples.fleet.status import SESSION_PATH
from fastapi_oidc.testing import sign_in
from tests.fleet.small import PATIENCE
from tests.fleet.test_fleet import LOGIN

Ask: TypeAlias = Callable[[], Coroutine[Any, Any, httpx.Response]]


def connections_of(worker: Program) -> int:
    """How many there are to its socket, those that it has not taken yet included."""
    address = str(socket_in(worker))
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(address) for line in lines)


async def until_nginx_has_sent_it(fleet: Fleet) -> None:
    """nginx is one process: what it began before it answers this by itself, it has done."""
    async with httpx.AsyncClient(timeout=PATIENCE) as stranger:
        answer = await stranger.get(fleet.url.replace("https://", "http://"))
    assert (answer.status_code, "X-Worker" in answer.headers) == (400, False)


async def answers_around_a_kill(fleet: Fleet, ask: Ask) -> list[httpx.Response]:
    """Of requests one after the other; a worker is killed when it has the last of them."""
    [killed, _], requests = fleet.workers, list[asyncio.Task[httpx.Response]]()
    killed.pause()
    idle = connections_of(killed)
    async with asyncio.timeout(PATIENCE):
        while connections_of(killed) == idle:
            if not requests or requests[-1].done():
                requests.append(asyncio.create_task(ask()))
            await asyncio.sleep(0.01)
    await until_nginx_has_sent_it(fleet)
    killed.kill()
    return [await request for request in requests]


async def test_a_request_to_look_is_answered_by_the_next_worker(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    await sign_in(browser, LOGIN, user="alice")
    answers = await answers_around_a_kill(fleet, lambda: browser.get(SESSION_PATH))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["X-Worker"] for answer in answers} == {"2"}
    assert {answer.json()["sub"] for answer in answers} == {"alice"}


async def test_a_form_is_not_sent_twice_and_its_session_lives(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    """What such a request does may be done already: nginx answers 502 in the worker's place."""
    await sign_in(browser, LOGIN, user="alice")
    answers = await answers_around_a_kill(fleet, lambda: browser.post(SESSION_PATH))
    *others, last = [answer.status_code for answer in answers]
    assert (set(others) <= {405}, last) == (True, 502)
    assert (await browser.get(SESSION_PATH)).json()["sub"] == "alice"
