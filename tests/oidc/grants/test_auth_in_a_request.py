"""`oidc.auth(session)` within the request of the session, in cookies and in a store."""

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, Code, ConfigurationError, OIDCSession, PersistContext, SessionError
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, generation
from tests.oidc.grants.api import Api, issued, session_id, without_refresh_token
from tests.oidc.grants.conftest import Session, calling_world
from tests.oidc.interleaving import Held, another_process, same_browser
from tests.oidc.world import Time, World, make_world

NEARLY_EXPIRED = 250
"""Seconds after which a token of 300 is not valid for the next minute, and is not refreshed yet."""


async def test_a_token_is_refreshed_for_the_time_that_is_needed(world: World, api: Api) -> None:
    browser = await world.signed_in()
    world.time.advance(NEARLY_EXPIRED)
    assert (await browser.get("/call?min_validity=10")).json() == [200]
    assert issued(world) == 0
    assert (await browser.get("/call?times=3")).json() == [200, 200, 200]
    assert issued(world) == 1
    assert len(set(api.tokens)) == 2


async def test_the_response_has_the_cookie_of_the_refresh(world: World, store: Any) -> None:
    browser = await world.signed_in()
    world.time.advance(NEARLY_EXPIRED)
    response = await browser.get("/call")
    assert ("set-cookie" in response.headers) == (store is None)
    browser = same_browser(browser, another_process(world, session_store=store))
    assert await generation(browser) == 1
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 2
    assert issued(world) == 2


async def test_after_the_response_only_a_store_takes_a_refresh(
    world: World, api: Api, mode: str
) -> None:
    browser = await world.signed_in()
    await browser.get("/later")
    assert world.app.state.later == [200]
    world.time.advance(NEARLY_EXPIRED)
    await browser.get("/later?min_validity=10")
    await browser.get("/later")
    if mode == "store":
        assert world.app.state.later == [200, 200, 200]
        assert issued(world) == 1
        return
    *_, error = world.app.state.later
    assert isinstance(error, SessionError)
    assert (error.code, error.instance) == (Code.SESSION_RESPONSE_STARTED, "oidc")
    assert "session_store" in error.explanation
    assert issued(world) == 0, "nothing was lost"
    assert (await browser.get("/call")).json() == [200]


async def test_a_caller_that_is_cancelled_leaves_the_refresh_and_its_cookie(
    world: World, api: Api, mode: str
) -> None:
    browser, held = await world.signed_in(), Held()

    @world.app.get("/cancelled")
    async def cancelled(session: Session) -> None:
        task = asyncio.create_task(api.status(world.oidc.auth(session)))
        await held.gate.until_reached()
        task.cancel()
        await asyncio.wait([task])
        held.gate.opened.set()

    world.time.advance(NEARLY_EXPIRED)
    world.op.faults.put("token", held)
    response = await browser.get("/cancelled")
    assert ("set-cookie" in response.headers) == (mode == "cookie")
    assert await generation(browser) == 1


async def test_a_request_that_clears_its_session_gets_no_token(world: World, api: Api) -> None:
    browser, errors = await world.signed_in(), []

    @world.app.get("/cleared")
    async def cleared(session: Session, request: Request) -> None:
        world.oidc.clear_session(request)
        try:
            await api.status(world.oidc.auth(session))
        except SessionError as error:
            errors.append(error.code)

    await browser.get("/cleared")
    assert errors == [Code.SESSION_REQUIRED]
    assert not api.tokens


async def test_a_session_without_refresh_token_uses_its_token_to_the_end() -> None:
    world = calling_world()
    world.op.edits.put("token_response", without_refresh_token)
    browser = await world.signed_in()
    world.time.advance(NEARLY_EXPIRED)
    assert (await browser.get("/call")).json() == [200]


async def test_a_request_that_signs_in_calls_with_the_session_that_it_began(
    store: Any, time: Time
) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/auth/callback")
        async def callback(request: Request) -> list[int]:
            session = (await oidc.handle_callback(request)).session
            api: Api = app.state.api
            api.refused.add(session.tokens.access_token)
            return [await api.status(oidc.auth(session)), session.generation]

        app.router.routes.insert(0, app.router.routes.pop())

    world = make_world(mount=mount, session_store=store, time=time)
    world.app.state.api = Api(world)
    browser = world.browser()
    assert (await sign_in(browser, "/auth/login", user="alice")).json() == [200, 0]
    browser = same_browser(browser, another_process(world, session_store=store))
    assert await generation(browser) == 1
    assert issued(world) == 1


async def test_a_session_that_is_stored_without_its_token_says_so() -> None:
    def without(context: PersistContext[Any]) -> OIDCSession[Any]:
        tokens = context.session.tokens.model_copy(update={"access_token": ""})
        return context.session.model_copy(update={"tokens": tokens})

    world = calling_world(before_session_persist=without, session_store="memory")
    await world.signed_in()
    grant = await world.oidc.grant(session_id(world))
    with pytest.raises(ConfigurationError, match="before_session_persist removes"):
        await grant.access_token()
    assert issued(world) == 0
