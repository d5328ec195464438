"""A login ends the sessions that its browser has, and had."""

from __future__ import annotations

import httpx
import pytest

from fastapi_oidc.flows.outcomes import SignedIn
from fastapi_oidc.flows.resume import living
from tests.oidc.flows.test_callback import completed
from tests.oidc.flows.test_double_callbacks import callback_url
from tests.oidc.world import make_world


def sessions(browser: httpx.AsyncClient) -> dict[str, str]:
    cookies = dict(browser.cookies)
    return {name: value for name, value in cookies.items() if name.startswith("__Host-oidc")}


async def test_a_login_ends_the_session_that_this_browser_has_by_then() -> None:
    world = make_world()
    browser = world.browser()
    url = await callback_url(world, browser)
    other_tab = await world.signed_in("bob")
    browser.cookies.update(sessions(other_tab))
    assert isinstance(await completed(world, browser, url), SignedIn)
    assert await living(world.oidc.site.party, dict(other_tab.cookies)) is None


@pytest.mark.parametrize("is_another_one_there", [False, True])
async def test_a_login_ends_the_session_that_this_browser_had_when_it_began(
    is_another_one_there: bool,
) -> None:
    """A form post of another site brings the answer without the session's cookie."""
    world = make_world()
    party = world.oidc.site.party
    browser = await world.signed_in()
    before = sessions(browser)
    found = await party.keeper.read(before)
    assert found is not None
    url = await callback_url(world, browser)
    for name in before:
        browser.cookies.delete(name)
    if is_another_one_there:
        browser.cookies.update(sessions(await world.signed_in("bob")))
    assert isinstance(await completed(world, browser, url), SignedIn)
    assert party.register.ended(found.kept.session) == "signed_out"
