"""Access tokens of sessions: in a request, after it, and in several processes."""

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    IssuedToken,
    OIDCSession,
    PersistContext,
    SessionError,
)
from fastapi_oidc.session import rows
from fastapi_oidc.session.rows import LEASE_SECONDS
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, copy_of, generation, others_have_run, two_processes
from tests.oidc.grants.api import Api, issued, session_id, without_refresh_token
from tests.oidc.grants.conftest import Session, calling_world
from tests.oidc.grants.test_downstream_apis import CALENDAR, GRANT_TYPES, described
from tests.oidc.interleaving import Held, another_process, begun, same_browser
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


@pytest.fixture
def processes() -> tuple[World, World]:
    return two_processes("store", **described("token_exchange"))


async def test_fifty_tasks_in_two_processes_make_one_token_call(
    processes: tuple[World, World],
) -> None:
    here, there = processes
    browser = await here.signed_in()
    id = session_id(here)
    grants = [await world.oidc.grant(id) for world in (here, there) for _ in range(25)]
    for number in range(1, 4):
        here.time.advance(NEARLY_EXPIRED)
        tokens = await asyncio.gather(*(grant.access_token() for grant in grants))
        assert len({token.value for token in tokens}) == 1
        assert issued(here) == number
    grants = [await here.oidc.grant(id, resource=CALENDAR) for _ in range(25)]
    grants += [await there.oidc.grant(id, resource=CALENDAR) for _ in range(25)]
    tokens = await asyncio.gather(*(grant.access_token() for grant in grants))
    assert len({token.value for token in tokens}) == 1
    assert issued(here, GRANT_TYPES["token_exchange"]) == 1
    assert await generation(browser) == 3
    assert await generation(copy_of(browser, there)) == 3


async def test_a_token_for_an_api_is_sealed(processes: tuple[World, World]) -> None:
    here, _ = processes
    await here.signed_in()
    grant = await here.oidc.grant(session_id(here), resource=CALENDAR)
    token = await grant.access_token()
    values = here.oidc.registrations.engine.store._values  # type: ignore[attr-defined]
    [key] = [each for each in values._entries if each.startswith("oidc:token:")]
    assert token.value not in repr(values.get(key))
    assert values._entries[key][0] > here.time() + 8 * 3600


async def test_a_grant_ends_with_its_session(processes: tuple[World, World]) -> None:
    here, there = processes
    await here.signed_in()
    grants = [await world.oidc.grant(session_id(here)) for world in (here, there)]
    await here.oidc.revoke(session_id=session_id(here))
    for grant in grants:
        with pytest.raises(SessionError) as caught:
            await grant.access_token()
        assert caught.value.code is Code.SESSION_REQUIRED
    with pytest.raises(SessionError):
        await there.oidc.grant(session_id(here))
    with pytest.raises(SessionError, match="this is no session's id"):
        await there.oidc.grant("alice")
    with pytest.raises(SessionError, match="there is none"):
        await there.oidc.grant("x" * len(session_id(here)))


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/refreshed")
    async def refreshed(request: Request) -> str:
        return (await oidc.refresh(request)).tokens.access_token

    @app.get("/token")
    async def token(session: Session) -> str:
        return session.tokens.access_token


async def token_for(world: World, resource: str) -> IssuedToken:
    grant = await world.oidc.grant(session_id(world), resource=resource)
    return await grant.access_token()


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_forced_refresh_waits_for_an_apis_token_and_refreshes_then(
    is_elsewhere: bool,
) -> None:
    here, there = two_processes("store", **described("refresh_token", mount=mount))
    browser = copy_of(await here.signed_in(), there if is_elsewhere else here)
    before = (await browser.get("/token")).json()
    held = Held(first=True)
    here.op.faults.put("token", held)
    calendar = asyncio.create_task(token_for(here, CALENDAR))
    await held.gate.until_reached()
    refreshed = begun(browser.get("/refreshed"))
    await others_have_run()
    held.gate.opened.set()
    await calendar
    assert (await refreshed).json() != before
    assert issued(here) == 2, "one for the API, one for the session"


async def test_a_token_that_comes_after_another_attempts_is_revoked_and_not_used(
    processes: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-out revokes the tokens that are stored; this one would outlive it."""
    here, there = processes
    await here.signed_in()
    id, held = session_id(here), Held()
    grants = [await world.oidc.grant(id, resource=CALENDAR) for world in (here, there)]
    here.op.faults.put("token", held)
    late = asyncio.create_task(grants[0].access_token())
    await held.gate.until_reached()
    monkeypatch.setattr(rows, "WATCH_SECONDS", 0.0)
    here.time.advance(LEASE_SECONDS + 1)  # paused for so long that its row is taken
    stored = await grants[1].access_token()
    held.gate.opened.set()
    assert (await late).value == stored.value
    assert len(here.op.record.of(TokenRevoked)) == 1
    assert (await grants[0].access_token()).value == stored.value
