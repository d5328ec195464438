"""A worker that is killed in the middle of a refresh: which sessions that costs, and which not."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.oidc.fleet.fleet import BEFORE_THE_END, LONG_AFTER, MODES, Fleet
from tests.oidc.fleet.test_disconnecting_clients import Held, Unread, until_reached
from tests.oidc.fleet.worker_process import Worker

PROVIDER_TIMEOUT = 4


@pytest.mark.parametrize("mode", MODES)
async def test_another_worker_goes_on_from_the_answer_that_a_killed_one_kept(
    fleet: Fleet, mode: str
) -> None:
    fleet.mode = mode
    killed, other = fleet.workers({"holds": True}, {})
    async with fleet.signed_in(killed) as browser:
        fleet.pass_seconds(LONG_AFTER)
        lost = asyncio.create_task(browser.get(killed.at("/me")))
        await killed.until_held()
        killed.kill()
        with pytest.raises(httpx.TransportError):
            await lost

        for _ in range(2):
            answer = await browser.get(other.at("/me"))
            assert (answer.status_code, answer.json()) == (200, {"sub": "alice", "generation": 1})
    assert fleet.token_calls() == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_worker_killed_while_the_provider_has_its_request_costs_the_session_it_answers(
    fleet: Fleet, mode: str, is_answered: bool
) -> None:
    """The provider has used up alice's refresh token, and its answer has reached nobody, or a
    worker that keeps it no more. What it was asked for bob it does not do. Carol asks later."""
    fleet.mode, fleet.settings["provider_timeout"] = mode, PROVIDER_TIMEOUT
    killed, other = fleet.workers({}, {})
    async with (
        fleet.signed_in(killed) as alice,
        fleet.signed_in(killed, "bob") as bob,
        fleet.signed_in(killed, "carol") as carol,
    ):
        fleet.pass_seconds(BEFORE_THE_END)
        used, unread = Held(), Unread()
        lost = [
            await presented(fleet, browser, killed, held)
            for browser, held in ((alice, used), (bob, unread))
        ]
        if is_answered:
            killed.stop()
            used.opened.set()
        killed.kill()
        for request in lost:
            with pytest.raises(httpx.TransportError):
                await request

        pages = [browser.get(other.at("/me")) for browser in (alice, bob)]
        assert [page.json()["generation"] for page in await asyncio.gather(*pages)] == [0, 0]
        fleet.pass_seconds(LONG_AFTER - BEFORE_THE_END)
        assert (await carol.get(other.at("/me"))).json()["generation"] == 1
        assert (await alice.get(other.at("/me"))).status_code == 401, "after the end of the lease"
        assert (await bob.get(other.at("/me"))).json()["generation"] == 1
        used.opened.set()
        unread.opened.set()
    assert fleet.token_calls() == 3


async def presented(
    fleet: Fleet, browser: httpx.AsyncClient, worker: Worker, held: Held
) -> asyncio.Task[httpx.Response]:
    """A request for which the provider has the refresh token, and holds its answer."""
    fleet.op.faults.put("token", held)
    request = asyncio.create_task(browser.get(worker.at("/me")))
    await until_reached(held)
    return request
