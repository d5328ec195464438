"""A token response is stored until its session is; its refresh token is not sent again."""

import httpx

from fastapi_oidc.flows.outcomes import LONGEST_BACKOFF
from fastapi_oidc.flows.token_sessions import UNVERIFIED_SECONDS
from fastapi_oidc.testing import ServerError
from tests.oidc.flows.steps import AFTER_EXPIRY, RETRY, copy_of, generation, refreshes
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World, make_world

BEHIND = 120


async def test_the_last_known_keys_serve_for_a_day_and_without_any_nothing_is_presented() -> None:
    world = make_world(settings={"session_lifetime": 4 * 24 * 3600})
    browser = await world.signed_in()
    world.op.faults.put("jwks", ServerError(), times=99)
    world.time.advance(2 * 3600)
    assert await generation(browser) == 1
    world.time.advance(23 * 3600)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert refreshes(world) == 1
    world.op.faults.clear()
    world.time.advance(RETRY)
    assert await generation(browser) == 2


async def whose_response_waits_for_keys(world: World) -> httpx.AsyncClient:
    """A browser whose new ID token is signed with a key that cannot be had."""
    browser = await world.signed_in()
    world.time.advance(AFTER_EXPIRY)
    world.op.rotate_keys()
    world.op.faults.put("jwks", ServerError(), times=9)
    assert (await browser.get("/me")).status_code == 503
    world.op.faults.clear()
    return browser


async def test_response_waits_for_a_key_that_is_published_later(world: World) -> None:
    """OpenID Connect Core 10.1.1."""
    browser = await whose_response_waits_for_keys(world)
    world.time.advance(RETRY)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_response_waits_until_a_slow_clock_has_come_to_its_time(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(AFTER_EXPIRY)
    world.op.edits.put("id_token", lambda said: said | {"iat": world.time.now + BEHIND})
    for seconds in (RETRY, BEHIND):
        answer = await browser.get("/me")
        assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
        world.time.advance(seconds)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_another_process_continues_a_waiting_response(processes: tuple[World, World]) -> None:
    here, there = processes
    browser = await whose_response_waits_for_keys(here)
    assert await generation(copy_of(browser, there)) == 1
    assert refreshes(here) == 1


async def test_response_that_no_key_verifies_is_given_up_after_an_hour(world: World) -> None:
    browser, held = await world.signed_in(), Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    request = begun(browser.get("/me"))
    await held.gate.until_reached()
    world.op.rotate_keys()
    await world.signed_in("bob")
    held.gate.opened.set()
    assert (await request).status_code == 503
    calls = world.op.record.calls["token"]
    for _ in range(UNVERIFIED_SECONDS // LONGEST_BACKOFF - 1):
        world.time.advance(LONGEST_BACKOFF)
        assert (await browser.get("/me")).status_code == 503
    world.time.advance(LONGEST_BACKOFF)
    assert (await browser.get("/me")).status_code == 401
    assert world.op.record.calls["token"] == calls
