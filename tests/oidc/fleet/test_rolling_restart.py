"""A new cookie secret, brought in by the three deployments of docs/deployment.md."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx

from fastapi_oidc import OIDCSettings
from tests.oidc.fleet.fleet import LONG_AFTER, Fleet
from tests.oidc.fleet.test_disconnecting_clients import callback_of_login
from tests.oidc.fleet.worker_process import Worker

SESSION = OIDCSettings.model_fields["session_lifetime"].default
LOGIN = "/auth/login?return_to=/me&login_hint=bob"


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
        callback = await callback_of_login(browser, begins.at(LOGIN))

        async def come_back(worker: Worker) -> None:
            there = callback.replace(begins.at("/"), worker.at("/"))
            page = await browser.get(there, follow_redirects=True)
            assert page.json() == {"sub": "bob", "generation": 0}

        yield come_back
