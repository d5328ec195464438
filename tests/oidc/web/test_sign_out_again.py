"""A sign-out without a session, or with one that has ended, ends on a page of the application."""

from __future__ import annotations

import httpx
import pytest

from tests.oidc.world import World, make_world


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


async def test_a_sign_out_with_a_copy_of_the_cookie_returns_to_the_application(
    world: World,
) -> None:
    """Some providers do not redirect back for the ID token of a session that has ended."""
    browser, tab = await world.signed_in(), world.browser()
    tab.cookies.update(dict(browser.cookies))
    [hint] = await hints_of_a_sign_out(browser)
    assert hint
    assert await hints_of_a_sign_out(tab) == []


async def test_a_sign_out_after_the_idle_timeout_visits_the_provider_with_its_hint(
    world: World,
) -> None:
    browser = await world.signed_in()
    world.time.advance(601)
    [hint] = await hints_of_a_sign_out(browser)
    assert hint
