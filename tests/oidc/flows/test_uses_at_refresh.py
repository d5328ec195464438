"""A request whose session is to be refreshed uses it, whatever comes of the refresh."""

from __future__ import annotations

import pytest

from fastapi_oidc.flows.resume import refresh_now, resume
from fastapi_oidc.flows.standing import Goes
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.testing import ServerError
from tests.oidc.flows.test_resumed import AT_THE_END, SHORTLY_BEFORE_THE_END, had, resumed
from tests.oidc.world import World, make_world

IDLE = 1000


@pytest.fixture
def idling() -> World:
    """Sessions in cookies, which are over when nobody uses them."""
    return make_world(settings={"idle_timeout": IDLE})


@pytest.mark.parametrize("active", [True, False])
async def test_a_refresh_is_a_use_when_its_request_is_one(idling: World, active: bool) -> None:
    browser = await idling.signed_in()
    signed_in_at = idling.time.now
    idling.time.advance(SHORTLY_BEFORE_THE_END)
    site = idling.oidc.site
    result = await resume(site.party, site.refresher, dict(browser.cookies), active=active)
    assert result.session is not None
    assert result.session.generation == 1
    last_seen_at = result.session.last_seen_at or signed_in_at
    assert last_seen_at == (idling.time.now if active else signed_in_at)


async def test_a_refresh_that_is_asked_for_is_a_use(idling: World) -> None:
    browser = await idling.signed_in()
    idling.time.advance(SHORTLY_BEFORE_THE_END)
    site = idling.oidc.site
    result = await refresh_now(site.party, site.refresher, dict(browser.cookies))
    assert result.session is not None
    assert result.session.last_seen_at == idling.time.now


@pytest.mark.parametrize("after", [SHORTLY_BEFORE_THE_END, AT_THE_END])
async def test_a_use_is_kept_while_the_provider_is_down(idling: World, after: int) -> None:
    browser = await idling.signed_in()
    kept = await had(idling, browser)
    idling.op.faults.put("token", ServerError(), times=9)
    idling.time.advance(after)
    result = await resumed(idling, browser)
    changes = {"last_seen_at": idling.time.now}
    seen = Kept(kept.session.model_copy(update=changes), None)
    assert result.standing == Goes(seen)
    assert result.session == (seen.session if after < AT_THE_END else None)
