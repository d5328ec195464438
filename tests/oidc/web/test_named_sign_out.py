"""A sign-out that names its session by a CSRF token ends that session and no other."""

from __future__ import annotations

import httpx
import pytest

from fastapi_oidc.testing import sign_in
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.world import LOGIN_URL, Time, World, make_world


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param)


async def token(browser: httpx.AsyncClient) -> str:
    """A CSRF token of the session that is here."""
    return str((await browser.get("/auth/session")).json()["csrf_token"])


async def signed_out(browser: httpx.AsyncClient, named: str) -> httpx.Response:
    return await browser.post(
        "/auth/logout", data={"local": "1"}, headers={"X-CSRF-Token": named}, follow_redirects=False
    )


async def is_signed_in(browser: httpx.AsyncClient) -> bool:
    return bool((await browser.get("/auth/session")).json()["is_authenticated"])


async def test_the_session_of_the_token_ends(world: World) -> None:
    browser = await world.signed_in()
    assert (await signed_out(browser, await token(browser))).status_code == 302
    assert not await is_signed_in(browser)


async def test_a_session_that_has_taken_its_place_stays(world: World) -> None:
    browser = await world.signed_in()
    former = await token(browser)
    await sign_in(browser, LOGIN_URL, user="alice")
    answer = await signed_out(browser, former)
    assert (answer.status_code, answer.json()["code"]) == (403, "session.csrf")
    assert "set-cookie" not in answer.headers
    assert await is_signed_in(browser)


async def test_a_store_that_is_down_keeps_nobody_signed_in() -> None:
    time = Time()
    store, options = fallible("store", time)
    world = make_world(time=time, **options)
    browser = await world.signed_in()
    named = await token(browser)
    store.is_down = True
    assert (await signed_out(browser, named)).status_code == 302
