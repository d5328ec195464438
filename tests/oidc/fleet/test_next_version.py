"""A rolling restart with the next version of what is sealed: a worker that meets what it cannot
read leaves it alone, and the worker that can read it goes on from there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastapi_oidc.testing import sign_in
from tests.oidc.fleet.conftest import Pair
from tests.oidc.fleet.fleet import LONG_AFTER, MODES, running_fleet
from tests.oidc.fleet.test_disconnecting_clients import callback_of_login


@pytest.fixture(scope="module", params=MODES)
def pair_of_module(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The first worker is of this version, the second of the next."""
    with running_fleet() as fleet:
        fleet.mode = request.param
        yield Pair(fleet, *fleet.workers({}, {"next_version": True}))


async def test_a_session_of_the_next_version_waits_for_a_worker_that_can_read_it(
    pair: Pair,
) -> None:
    fleet, old, new = pair.fleet, pair.first, pair.second
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


async def test_who_signs_in_at_a_worker_of_either_version_is_signed_in_at_both(pair: Pair) -> None:
    """Whoever meets the old worker with a session of the next version, and is sent to the login."""
    fleet, old, new = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(new) as browser:
        page = await sign_in(browser, old.at("/auth/login?return_to=/me"), user="alice")
        for worker in (old, new):
            assert (await browser.get(worker.at("/me"))).json() == page.json()


async def test_a_login_of_the_next_version_is_completed_by_a_worker_that_can_read_it(
    pair: Pair,
) -> None:
    fleet, old, new = pair.fleet, pair.first, pair.second
    login = "/auth/login?return_to=/me&login_hint=alice"
    async with fleet.browser() as browser:
        callback = await callback_of_login(browser, new.at(login))
        at_old = await browser.get(callback.replace(new.at("/"), old.at("/")))
        assert (at_old.status_code, "set-cookie" in at_old.headers) == (400, False)
        page = await browser.get(callback, follow_redirects=True)
        assert page.json() == {"sub": "alice", "generation": 0}
        assert (await browser.get(new.at("/me"))).status_code == 200
    assert fleet.token_calls("authorization_code") == 1
