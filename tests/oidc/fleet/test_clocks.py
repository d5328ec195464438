"""One worker's clock is two minutes ahead, another's two minutes behind."""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from fastapi_oidc import OIDCSettings
from fastapi_oidc.testing import LogoutDelivered, sign_in
from tests.oidc.fleet.fleet import LONG_AFTER, Fleet, running_fleet
from tests.oidc.fleet.test_disconnecting_clients import callback_of_login
from tests.oidc.fleet.worker_process import Worker

FAULT = 120
"""Seconds that a clock is wrong."""

HALF = FAULT // 2
"""Seconds for a busy machine, on either side of the moment that a test is about."""

ACCESS_TOKEN, MARGIN = 300, OIDCSettings.model_fields["refresh_margin"].default
SESSION = OIDCSettings.model_fields["session_lifetime"].default


@dataclass(slots=True)
class Clocks:
    """Three workers of one application, by their clocks."""

    fleet: Fleet
    ahead: Worker
    right: Worker
    behind: Worker


@pytest.fixture(scope="module")
def clocks_of_module() -> Iterator[Clocks]:
    with running_fleet() as fleet:
        yield Clocks(fleet, *fleet.workers({"ahead": FAULT}, {}, {"ahead": -FAULT}))


@pytest.fixture
def clocks(clocks_of_module: Clocks) -> Clocks:
    clocks_of_module.fleet.op.record.clear()
    return clocks_of_module


async def is_served(browser: httpx.AsyncClient, worker: Worker) -> bool:
    answer = await browser.get(worker.at("/me"))
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


async def is_taken(fleet: Fleet, browser: httpx.AsyncClient, worker: Worker) -> bool:
    """Whether the provider takes the access token that the worker hands out."""
    token = (await browser.get(worker.at("/access-token"))).json()
    async with fleet.browser() as application:
        answer = await application.get(
            f"{fleet.op.issuer}/userinfo", headers={"Authorization": f"Bearer {token}"}
        )
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


async def test_sessions_live_and_end_across_a_clock_that_is_ahead(clocks: Clocks) -> None:
    fleet, ahead, right = clocks.fleet, clocks.ahead, clocks.right
    for begins, ends in ((ahead, right), (right, ahead)):
        async with fleet.signed_in(begins) as browser:
            calls = fleet.token_calls()
            for generation in (0, 1, 2):
                for worker in (ahead, right) if generation % 2 else (right, ahead):
                    answer = await browser.get(worker.at("/me"))
                    assert answer.json() == {"sub": "alice", "generation": generation}
                fleet.pass_seconds(LONG_AFTER)
            assert fleet.token_calls() - calls == 2
            stolen = dict(browser.cookies)
            await browser.post(ends.at("/auth/logout"), data={"local": "1"})
            browser.cookies.update(stolen)
            for worker in (ahead, right):
                assert not await is_served(browser, worker)


async def test_a_session_is_over_early_where_the_clock_is_ahead_and_late_if_it_began_there(
    clocks: Clocks,
) -> None:
    fleet, ahead, right = clocks.fleet, clocks.ahead, clocks.right
    async with fleet.signed_in(right) as early, fleet.signed_in(ahead, "bob") as late:
        fleet.pass_seconds(SESSION - FAULT - HALF)
        for browser in (early, late):
            assert await is_served(browser, ahead)
        fleet.pass_seconds(FAULT)
        assert await is_served(early, right)
        assert not await is_served(early, ahead)
        assert not await is_served(early, right), "its cookie is cleared"
        fleet.pass_seconds(FAULT)
        assert not await is_served(late, ahead)


async def test_an_access_token_is_handed_out_for_so_long_after_its_end_as_clocks_differ(
    clocks: Clocks,
) -> None:
    """By the right worker, if the one ahead has refreshed it, and by the one behind."""
    fleet = clocks.fleet
    for refreshes, hands_out in ((clocks.ahead, clocks.right), (clocks.right, clocks.behind)):
        async with fleet.signed_in(refreshes) as browser:
            assert await is_taken(fleet, browser, hands_out)
            fleet.pass_seconds(ACCESS_TOKEN + (FAULT - MARGIN) // 2)
            assert not await is_taken(fleet, browser, hands_out)
            fleet.pass_seconds(FAULT - MARGIN)
            assert await is_taken(fleet, browser, clocks.right)
    assert fleet.token_calls() == 2


async def test_a_clock_that_is_behind_refuses_logins_and_ends_no_session(clocks: Clocks) -> None:
    """What the provider says is dated after its time; nobody is signed out for that."""
    fleet, right, behind = clocks.fleet, clocks.right, clocks.behind
    async with fleet.signed_in(right) as alice, fleet.browser() as bob:
        refused = await sign_in(bob, behind.at("/auth/login?return_to=/me"), user="bob")
        assert (refused.status_code, refused.json()["code"]) == (400, "id_token.issued_at")
        login = behind.at("/auth/login?return_to=/me&login_hint=bob")
        callback = (await callback_of_login(bob, login)).replace(behind.at("/"), right.at("/"))
        page = await bob.get(callback, follow_redirects=True)
        assert page.json() == {"sub": "bob", "generation": 0}
        assert await is_served(bob, behind)

        fleet.pass_seconds(LONG_AFTER + FAULT)
        answer = await alice.get(behind.at("/me"))
        assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
        for worker in (right, behind):
            answer = await alice.get(worker.at("/me"))
            assert answer.json() == {"sub": "alice", "generation": 1}
    assert fleet.token_calls() == 1


async def test_a_clock_that_is_behind_refuses_the_providers_logouts(clocks: Clocks) -> None:
    fleet, right, behind = clocks.fleet, clocks.right, clocks.behind
    for told, status in ((behind, 400), (right, 200)):
        async with fleet.signed_in(right) as browser:
            fleet.logs_out_through(told)
            await fleet.op.log_out("alice")
            assert fleet.op.record.of(LogoutDelivered)[-1].status == status
            for worker in (right, behind):
                assert await is_served(browser, worker) is (told is behind)
