"""A session is refreshed once for all requests of a process, shortly before its token expires."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from fastapi_oidc import OIDC, SessionError
from fastapi_oidc.concurrency import TimeLimit
from fastapi_oidc.flows import refresh, relying_party
from fastapi_oidc.testing import Lifetimes
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    SHORTLY_BEFORE_EXPIRY,
    copy_of,
    generation,
    refreshes,
    until,
)
from tests.oidc.interleaving import PATIENCE, Held, another_process, begun
from tests.oidc.world import World, make_world

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
    settings = {"refresh_margin": margin}
    world = make_world(settings=settings, lifetimes=Lifetimes(access_token=lifetime))
    browser = await world.signed_in()
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


async def test_token_without_expires_in_lives_for_the_default_lifetime() -> None:
    world = make_world(settings={"default_access_token_lifetime": 600})
    world.op.edits.put("token_response", lambda said: said | {"expires_in": None})
    browser = await world.signed_in()
    world.time.advance(500)
    assert await generation(browser) == 0
    world.time.advance(100)
    assert await generation(browser) == 1


async def test_refresh_on_demand_needs_a_refresh_token() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/refresh")
        async def refresh_now(request: Request) -> None:
            await oidc.refresh(request)

    world = make_world(client={"issue_refresh_tokens": False}, mount=mount)
    browser = await world.signed_in()
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


async def test_refreshes_of_a_session_in_two_event_loops_do_not_disturb_each_other() -> None:
    world = make_world(session_store="memory")
    browser, held = await world.signed_in(), Held(first=True)
    other = copy_of(browser, world)
    world.op.faults.put("token", held)
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    first = begun(browser.get("/me"))
    await held.gate.until_reached()

    async def refreshed_there() -> int | None:
        async with asyncio.timeout(PATIENCE):
            return await generation(other)

    second = asyncio.create_task(asyncio.to_thread(asyncio.run, refreshed_there()))
    begun_by = world.oidc.registrations.engine.refreshes.tasks._by
    await until(lambda: len(begun_by) > 1)
    held.gate.opened.set()
    assert ((await first).json()["generation"], await second) == (1, 1)
    assert refreshes(world) == 1


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
    world = make_world(session_store=store, mount=mount)
    browser = await world.signed_in()
    said = (await browser.get("/stream")).text
    assert said == ("began session.response_started" if mode == "cookie" else "began 1")
    assert refreshes(world) == (mode == "store")
    assert await generation(browser) == refreshes(world)
