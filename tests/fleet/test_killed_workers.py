"""A worker that is killed with requests in its hands, as people see it through nginx."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

import httpx

from examples.fleet.fleet import Fleet
from examples.fleet.status import SESSION_PATH
from fastapi_oidc.testing import sign_in
from tests.fleet.small import PATIENCE
from tests.fleet.test_fleet import LOGIN

HEALTH: Final = "/fleet/health"

Ask: TypeAlias = Callable[[], Coroutine[Any, Any, httpx.Response]]


async def until_both_take_part(browser: httpx.AsyncClient) -> None:
    """nginx gives the next two requests to different workers; one that failed it left out."""
    async with asyncio.timeout(PATIENCE):
        while len({(await browser.get(HEALTH)).headers["X-Worker"] for _ in range(2)}) < 2:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.1)


async def answers_of_two_workers(
    fleet: Fleet, browser: httpx.AsyncClient, ask: Ask
) -> list[httpx.Response]:
    """Of two requests, each at another worker: one of them is killed with the request."""
    [killed, _] = fleet.workers
    await until_both_take_part(browser)
    killed.pause()
    requests = [asyncio.create_task(ask()) for _ in fleet.workers]
    answered, held = await asyncio.wait(
        requests, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
    )
    assert (len(answered), len(held)) == (1, 1)
    killed.kill()
    return [await request for request in (*answered, *held)]


async def test_a_request_to_look_is_answered_by_the_next_worker(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    await sign_in(browser, LOGIN, user="alice")
    answers = await answers_of_two_workers(fleet, browser, lambda: browser.get(SESSION_PATH))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert {answer.headers["X-Worker"] for answer in answers} == {"2"}
    assert {answer.json()["sub"] for answer in answers} == {"alice"}


async def test_a_form_is_not_sent_twice_and_its_session_lives(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    """What such a request does may be done already: nginx answers 502 in the worker's place."""
    await sign_in(browser, LOGIN, user="alice")
    answers = await answers_of_two_workers(fleet, browser, lambda: browser.post(SESSION_PATH))
    assert [answer.status_code for answer in answers] == [405, 502]
    assert (await browser.get(SESSION_PATH)).json()["sub"] == "alice"
