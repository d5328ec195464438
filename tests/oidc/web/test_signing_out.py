"""A sign-out ends the session that its CSRF token names, and always returns to the application."""

import httpx
import pytest

from fastapi_oidc.testing import sign_in
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.world import LOGIN_URL, World, make_world, signed_in_world


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param, settings={"idle_timeout": 600})


async def hints_of_a_sign_out(browser: httpx.AsyncClient) -> list[str]:
    """The hint of each visit to the provider, once the browser is back in the application."""
    last = await browser.post("/auth/logout")
    assert str(last.url) == "https://app.test/"
    assert last.json() == {"is_authenticated": False}
    visits = [each.url for each in last.history if each.url.path == "/end-session"]
    return [url.params.get("id_token_hint", "") for url in visits]


async def test_a_sign_out_with_a_copied_cookie_returns_to_the_application(world: World) -> None:
    """Some providers do not redirect back for the ID token of a session that has ended."""
    browser, tab = await world.signed_in(), world.browser()
    tab.cookies.update(dict(browser.cookies))
    [hint] = await hints_of_a_sign_out(browser)
    assert hint
    assert await hints_of_a_sign_out(tab) == []


async def test_a_sign_out_after_the_idle_timeout_visits_the_provider(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(601)
    [hint] = await hints_of_a_sign_out(browser)
    assert hint


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
    world, outage = fallible_world("store")
    browser = await world.signed_in()
    named = await token(browser)
    outage.is_down = True
    assert (await signed_out(browser, named)).status_code == 302


async def test_a_sign_out_whose_body_is_json_is_told_with_its_path_and_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, browser = await signed_in_world()
    headers = {"accept": "text/html"}
    answer = await browser.post("/auth/logout", json={"local": 1}, headers=headers)
    assert answer.status_code == 400
    assert "The logout request was refused" in answer.text
    assert "the body of POST '/auth/logout' is not a URL-encoded form" in caplog.text
    assert "new URLSearchParams({local: 1})" in caplog.text
