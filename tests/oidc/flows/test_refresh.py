"""A session is refreshed once for all requests, shortly before its token expires.

A token response is stored until its session is; its refresh token is not sent again.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from fastapi_oidc import OIDC, SessionError
from fastapi_oidc.concurrency import TimeLimit
from fastapi_oidc.flows import refresh, relying_party
from fastapi_oidc.flows.relying_party import LONGEST_BACKOFF
from fastapi_oidc.flows.token_sessions import UNVERIFIED_SECONDS
from fastapi_oidc.testing import Lifetimes, OAuthError, ServerError
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    RETRY,
    copy_of,
    generation,
    refreshes,
    shared_stores,
)
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import Time, World, make_world, signed_in_world

EIGHT_HOURS = 8 * 3600
"""The usual `session_lifetime`."""


@pytest.mark.parametrize(
    ("lifetime", "margin", "steps"),
    [
        (300, 30, [(269, 0), (1, 1)]),
        (300, 0, [(299, 0), (1, 1)]),
        # The first half of a token's life is used, also that of a token of a refresh.
        (20, 30, [(9, 0), (1, 1), (9, 1), (1, 2)]),
        (300, 30, [(EIGHT_HOURS - 1, 1), (1, None)]),
    ],
)
async def test_access_token_is_refreshed_from_the_margin_on(
    lifetime: int, margin: int, steps: list[tuple[int, int | None]]
) -> None:
    lifetimes = Lifetimes(access_token=lifetime)
    options = {"settings": {"refresh_margin": margin}, "lifetimes": lifetimes}
    world, browser = await signed_in_world(**options)
    for seconds, expected in steps:
        world.time.advance(seconds)
        assert await generation(browser) == expected


@pytest.mark.parametrize(("lifetime", "ends"), [(EIGHT_HOURS + 1, EIGHT_HOURS), (600, 600)])
async def test_shorter_lifetime_applies_to_earlier_sessions(lifetime: int, ends: int) -> None:
    world = make_world()
    settings = world.oidc.settings.model_copy(update={"session_lifetime": lifetime})
    browser = copy_of(await world.signed_in(), another_process(world, settings=settings))
    world.time.advance(ends - 1)
    assert await generation(browser) == 1
    world.time.advance(1)
    assert await generation(browser) is None


async def test_refresh_on_demand_needs_a_refresh_token() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/refresh")
        async def refresh_now(request: Request) -> None:
            await oidc.refresh(request)

    _, browser = await signed_in_world(client={"issue_refresh_tokens": False}, mount=mount)
    answer = await browser.get("/refresh")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
    assert await generation(browser) == 0


async def test_limited_number_of_refreshes_runs_at_a_time(world: World) -> None:
    limit, sessions = 32, 35
    browsers = [await world.signed_in() for _ in range(sessions)]
    held = Held()
    world.op.faults.put("token", held, times=sessions)
    world.time.advance(AFTER_EXPIRY)
    requests = [begun(browser.get("/me")) for browser in browsers]
    await held.gate.until_reached()
    for _ in range(500):
        await asyncio.sleep(0)
    assert world.op.record.calls["token"] - sessions == limit
    held.gate.opened.set()
    answers = await asyncio.gather(*requests)
    assert {answer.json()["generation"] for answer in answers} == {1}
    assert refreshes(world) == sessions


async def test_request_waits_for_its_refresh_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until it has started, and then until the provider has answered."""
    monkeypatch.setattr(relying_party, "CONCURRENT_REFRESHES", 1)
    world = make_world()
    first, second = await world.signed_in(), await world.signed_in("bob")
    held = Held()
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    with monkeypatch.context() as patch:
        patch.setattr(refresh, "TimeLimit", lambda seconds: TimeLimit(0.1))
        answers = await asyncio.gather(*(each.get("/me") for each in (first, second)))
    assert [answer.status_code for answer in answers] == [503, 503]
    await held.gate.until_reached()
    held.gate.opened.set()
    world.time.advance(2)
    assert [await generation(browser) for browser in (first, second)] == [1, 1]
    assert refreshes(world) == 2


async def test_refresh_on_demand_after_the_response_has_started_uses_no_token(mode: str) -> None:
    """A cookie cannot be sent any more; a store needs none."""

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/stream")
        async def stream(request: Request) -> StreamingResponse:
            async def parts() -> AsyncIterator[str]:
                yield "began "
                try:
                    yield str((await oidc.refresh(request)).generation)
                except SessionError as error:
                    yield error.code

            await oidc.require_auth(request)
            return StreamingResponse(parts())

    store = "memory" if mode == "store" else None
    world, browser = await signed_in_world(session_store=store, mount=mount)
    said = (await browser.get("/stream")).text
    assert said == ("began session.response_started" if mode == "cookie" else "began 1")
    assert refreshes(world) == (mode == "store")
    assert await generation(browser) == refreshes(world)


BEHIND = 120


async def test_the_last_known_keys_serve_for_a_day_and_without_any_nothing_is_presented() -> None:
    world, browser = await signed_in_world(settings={"session_lifetime": 4 * 24 * 3600})
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


@pytest.mark.parametrize("seconds", [RETRY, 0], ids=["here", "in another process"])
async def test_response_waits_for_a_key_that_is_published_later(
    processes: tuple[World, World], seconds: int
) -> None:
    """OpenID Connect Core 10.1.1."""
    here, there = processes
    browser = await whose_response_waits_for_keys(here)
    here.time.advance(seconds)
    assert await generation(copy_of(browser, here if seconds else there)) == 1
    assert refreshes(here) == 1


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


def presented(world: World) -> int:
    """How many refresh tokens were presented; one code was exchanged."""
    return world.op.record.calls["token"] - 1


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("seconds", [0, 61, 11 * 60])
async def test_old_cookie_gets_the_newest_session_and_presents_no_used_token(
    processes: tuple[World, World], seconds: int, is_elsewhere: bool
) -> None:
    """Its browser lost the response of the refresh."""
    here, there = processes
    browser = await here.signed_in()
    lost = copy_of(browser, there if is_elsewhere else here)
    here.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    here.time.advance(seconds)
    newest = await generation(lost)
    assert newest == (1 if seconds < 300 else 2), "the token of the first refresh has expired"
    assert await generation(browser) == newest
    assert refreshes(here) == presented(here) == newest


async def test_invalid_grant_ends_the_session_everywhere_with_one_token_call(mode: str) -> None:
    time = Time()
    shared = shared_stores(mode, time)
    here = make_world(time=time, **shared)
    worlds = [here, *(another_process(here, **shared) for _ in range(3))]
    browser = await here.signed_in()
    here.op.faults.put("token", OAuthError("invalid_grant"), times=9)
    here.time.advance(AFTER_EXPIRY)
    tabs = [copy_of(browser, world) for world in worlds]
    assert (await browser.get("/me")).json()["ended"] == "ended_by_provider"
    assert here.events[-1].code == "token.invalid_grant"
    assert await asyncio.gather(*map(generation, tabs)) == [None] * 4
    assert presented(here) == 1
    here.op.faults.clear()
    assert [await generation(copy_of(browser, world)) for world in worlds] == [None] * 4
    assert presented(here) == 1


async def test_old_cookie_does_not_end_a_session_whose_row_was_lost() -> None:
    """Redis restarted empty: its new row knows the generation of the session alone."""
    time = Time()
    before = make_world(time=time)
    browser = await before.signed_in()
    old = copy_of(browser, before)
    time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    after = another_process(before, **shared_stores("cookie", time))
    newest = copy_of(browser, after)
    time.advance(AFTER_EXPIRY)
    before.op.faults.put("token", ServerError(), times=9)
    assert await generation(newest) is None
    assert (await copy_of(old, after).get("/me")).status_code == 503
    before.op.faults.clear()
    time.advance(RETRY)
    assert await generation(newest) == 2
    assert await generation(copy_of(old, after)) == 2
