"""A worker that is killed in the middle of a refresh: which sessions that costs, and which not."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import httpx
import pytest

from fastapi_oidc import OIDCSettings
from fastapi_oidc.testing import sign_in
from tests.oidc.fleet.fleet import LONG_AFTER, MODES, Fleet, running_fleet
from tests.oidc.fleet.test_disconnecting_clients import Held, Unread, until_reached
from tests.oidc.fleet.worker_process import Worker
from tests.oidc.flows.steps import callback_url

BEFORE_THE_END, MARGIN = 200, 140
"""Seconds after a sign-in when an access token (300 s) is to be refreshed, and for how long it is
valid then: a busy machine needs some of them."""


async def test_workers_killed_in_a_refresh_cost_the_session_of_a_lost_answer(fleet: Fleet) -> None:
    """The provider has used up alice's refresh token, and its answer has reached a worker that
    keeps it no more; that for dave is kept. What it was asked for bob it does not do. Carol asks
    later."""
    fleet.settings["refresh_margin"] = MARGIN
    killed, keeping, other = fleet.workers({}, {"holds": True}, {})
    async with (
        fleet.signed_in(killed) as alice,
        fleet.signed_in(killed, "bob") as bob,
        fleet.signed_in(killed, "carol") as carol,
        fleet.signed_in(keeping, "dave") as dave,
    ):
        fleet.pass_seconds(BEFORE_THE_END)
        used, unread = Held(), Unread()
        lost = [
            await presented(fleet, browser, killed, held)
            for browser, held in ((alice, used), (bob, unread))
        ]
        lost.append(asyncio.create_task(dave.get(keeping.at("/me"))))
        await keeping.until_held()
        killed.stop()
        used.opened.set()
        for worker in (killed, keeping):
            worker.kill()
        for request in lost:
            with pytest.raises(httpx.TransportError):
                await request

        pages = [browser.get(other.at("/me")) for browser in (alice, bob)]
        assert [page.json()["generation"] for page in await asyncio.gather(*pages)] == [0, 0]
        fleet.pass_seconds(LONG_AFTER - BEFORE_THE_END)
        assert (await carol.get(other.at("/me"))).json()["generation"] == 1
        assert (await alice.get(other.at("/me"))).status_code == 401, "after the end of the lease"
        for browser in (bob, dave):
            assert (await browser.get(other.at("/me"))).json()["generation"] == 1
        unread.opened.set()
    assert fleet.token_calls() == 4


async def presented(
    fleet: Fleet, browser: httpx.AsyncClient, worker: Worker, held: Held
) -> asyncio.Task[httpx.Response]:
    """A request for which the provider has the refresh token, and holds its answer."""
    fleet.op.faults.put("token", held)
    request = asyncio.create_task(browser.get(worker.at("/me")))
    await until_reached(held)
    return request


SESSION = OIDCSettings.model_fields["session_lifetime"].default


async def callback_of_login(browser: httpx.AsyncClient, worker: Worker, user: str) -> str:
    """Where the provider sends the browser, which has not gone there."""
    login = worker.at(f"/auth/login?return_to=/me&login_hint={user}")
    return await callback_url(browser, login, callback=worker.at("/auth/callback"))


async def test_nobody_is_signed_out_while_a_new_cookie_secret_is_rolled_out(fleet: Fleet) -> None:
    old, new = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    [serving] = fleet.workers({"cookie_secret": old})
    async with fleet.signed_in(serving) as browser:
        serving = await rolled_out(fleet, [old, new], serving, browser)
        serving = await rolled_out(fleet, [new, old], serving, browser)
    fleet.pass_seconds(SESSION)
    async with fleet.signed_in(serving) as browser:
        await rolled_out(fleet, [new], serving, browser)
    assert fleet.token_calls() == 6


async def rolled_out(
    fleet: Fleet, cookie_secrets: list[str], before: Worker, browser: httpx.AsyncClient
) -> Worker:
    """A worker is started, serves beside the one in whose place it comes, and goes on alone."""
    [after] = fleet.workers({"cookie_secret": cookie_secrets})
    known = (await browser.get(before.at("/me"))).json()["generation"]
    for one, other in ((after, before), (before, after)):
        known += 1
        fleet.pass_seconds(LONG_AFTER)
        for worker in (one, other):
            answer = await browser.get(worker.at("/me"))
            assert answer.json() == {"sub": "alice", "generation": known}
        async with at_the_provider(fleet, one) as come_back:
            await come_back(other)
    async with at_the_provider(fleet, before) as come_back:
        await asyncio.to_thread(before.terminate)
        await come_back(after)
    assert (await browser.get(after.at("/me"))).json()["generation"] == known
    return after


@asynccontextmanager
async def at_the_provider(
    fleet: Fleet, begins: Worker
) -> AsyncIterator[Callable[[Worker], Awaitable[None]]]:
    """Bob's login has begun at one worker; what is given signs him in at another."""
    async with fleet.browser() as browser:
        callback = await callback_of_login(browser, begins, "bob")

        async def come_back(worker: Worker) -> None:
            there = callback.replace(begins.at("/"), worker.at("/"))
            page = await browser.get(there, follow_redirects=True)
            assert page.json() == {"sub": "bob", "generation": 0}

        yield come_back


Versions: TypeAlias = tuple[Fleet, Worker, Worker]


@pytest.fixture(scope="module", params=MODES)
def versions_of_module(request: pytest.FixtureRequest) -> Iterator[Versions]:
    """The first worker is of this version, the second of the next."""
    with running_fleet() as fleet:
        fleet.mode = request.param
        old, new = fleet.workers({}, {"next_version": True})
        yield fleet, old, new


@pytest.fixture
def versions(versions_of_module: Versions) -> Versions:
    """Nothing is recorded of other tests."""
    versions_of_module[0].op.record.clear()
    return versions_of_module


async def test_a_session_of_the_next_version_waits_for_a_worker_that_can_read_it(
    versions: Versions,
) -> None:
    fleet, old, new = versions
    # A cookie that cannot be read is none; a row that cannot be read is not known to be absent.
    refused, page_status = (401, 302) if fleet.mode == "cookie" else (503, 503)
    async with fleet.signed_in(old) as browser:
        for generation in (0, 1):
            answer = await browser.get(new.at("/me"))
            assert answer.json() == {"sub": "alice", "generation": generation}
            fleet.pass_seconds(LONG_AFTER if generation == 0 else 0)
        answer = await browser.get(old.at("/me"))
        assert (answer.status_code, "set-cookie" in answer.headers) == (refused, False)
        page = await browser.get(old.at("/me"), headers={"Sec-Fetch-Mode": "navigate"})
        assert (page.status_code, "set-cookie" in page.headers) == (page_status, False)
        answer = await browser.get(new.at("/me"))
        assert answer.json() == {"sub": "alice", "generation": 1}
    assert fleet.token_calls() == 1


async def test_who_signs_in_at_a_worker_of_either_version_is_signed_in_at_both(
    versions: Versions,
) -> None:
    """Whoever meets the old worker with a session of the next version, and is sent to the login."""
    fleet, old, new = versions
    async with fleet.signed_in(new) as browser:
        page = await sign_in(browser, old.at("/auth/login?return_to=/me"), user="alice")
        for worker in (old, new):
            assert (await browser.get(worker.at("/me"))).json() == page.json()


async def test_a_login_of_the_next_version_is_completed_by_who_can_read_it(
    versions: Versions,
) -> None:
    fleet, old, new = versions
    async with fleet.browser() as browser:
        callback = await callback_of_login(browser, new, "alice")
        at_old = await browser.get(callback.replace(new.at("/"), old.at("/")))
        assert (at_old.status_code, "set-cookie" in at_old.headers) == (400, False)
        page = await browser.get(callback, follow_redirects=True)
        assert page.json() == {"sub": "alice", "generation": 0}
        assert (await browser.get(new.at("/me"))).status_code == 200
    assert fleet.token_calls("authorization_code") == 1
