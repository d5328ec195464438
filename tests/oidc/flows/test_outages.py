"""An outage between two steps of a refresh costs nobody a session, and no refresh token twice."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from fastapi_oidc.testing import OAuthError, ServerError
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World, make_world

TWO_HOURS = 7200
AFTER_ONE_PAUSE = 10
BEHIND = 120


async def test_keys_that_cannot_be_had_are_the_last_known_ones(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(TWO_HOURS)
    world.op.faults.put("jwks", ServerError(), times=9)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_without_any_keys_the_refresh_token_is_not_presented() -> None:
    world = make_world(settings={"session_lifetime": 4 * 24 * 3600})
    browser = await world.signed_in()
    world.time.advance(25 * 3600)
    world.op.faults.put("jwks", ServerError(), times=99)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert refreshes(world) == 0
    world.op.faults.clear()
    world.time.advance(AFTER_ONE_PAUSE)
    assert await generation(browser) == 1


async def test_a_key_that_is_published_later_ends_no_session(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.rotate_keys()
    world.op.faults.put("jwks", ServerError(), times=9)
    answer = await browser.get("/me")
    assert answer.status_code == 503
    world.op.faults.clear()
    world.time.advance(AFTER_ONE_PAUSE)
    assert await generation(browser) == 1
    assert refreshes(world) == 1, "the answer was kept"


async def test_an_id_token_of_a_time_to_come_ends_no_session(world: World) -> None:
    """This clock is behind the provider's; the same answer is taken when that time has come."""
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.edits.put("id_token", lambda said: said | {"iat": world.time.now + BEHIND})
    for seconds in (AFTER_ONE_PAUSE, BEHIND):
        answer = await browser.get("/me")
        assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
        world.time.advance(seconds)
    assert await generation(browser) == 1
    assert refreshes(world) == 1, "the answer was kept"


async def test_an_id_token_without_its_time_ends_the_session(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.edits.put("id_token", lambda said: said | {"iat": "now"})
    assert (await browser.get("/me")).status_code == 401


async def test_a_request_that_stops_waiting_does_not_stop_the_refresh(world: World) -> None:
    browser = await world.signed_in()
    held = Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    impatient = begun(browser.get("/me"))
    await held.gate.until_reached()
    impatient.cancel()
    await asyncio.wait([impatient])
    held.gate.opened.set()
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_pauses_grow_to_a_minute_and_stay_there() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.faults.put("token", ServerError(), times=99)
    attempts = []
    for _ in range(400):
        calls = world.op.record.calls["token"]
        await browser.get("/me")
        if world.op.record.calls["token"] > calls:
            attempts.append(world.time.now)
        world.time.advance(1)
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses[:7] == [5, 10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client", "server_error"])
async def test_a_client_that_is_refused_signs_nobody_out(world: World, error: str) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.faults.put("token", OAuthError(error))
    assert (await browser.get("/me")).status_code == 503
    world.time.advance(AFTER_ONE_PAUSE)
    assert await generation(browser) == 1


async def test_public_pages_stay_open_while_a_session_cannot_be_renewed(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    world.op.faults.put("token", ServerError(), times=9)
    assert (await browser.get("/")).json() == {"is_authenticated": False}


async def test_without_expires_in_a_session_is_refreshed_after_the_default_lifetime() -> None:
    world = make_world(settings={"default_access_token_lifetime": 600})
    world.op.edits.put("token_response", lambda said: said | {"expires_in": None})
    browser = await world.signed_in()
    world.op.edits.clear()
    world.time.advance(500)
    assert await generation(browser) == 0
    world.time.advance(100)
    assert await generation(browser) == 1


async def test_an_access_token_that_is_over_at_birth_is_not_refreshed_by_every_request() -> None:
    world = make_world()
    world.op.edits.put("token_response", lambda said: said | {"expires_in": 0})
    browser = await world.signed_in()
    for _ in range(3):
        assert await generation(browser) == 0
