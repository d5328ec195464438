"""An outage between two steps of a refresh costs nobody a session, and no refresh token twice."""

from __future__ import annotations

import asyncio
import secrets
from itertools import pairwise
from typing import Any

import pytest

from fastapi_oidc import Clock, IdentityContext, MemoryRefreshLock, OIDCSession, PersistContext
from fastapi_oidc import StandardIdentity as User
from fastapi_oidc.testing import OAuthError, ServerError
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import Time, World, make_world

TWO_HOURS = 7200
AFTER_ONE_PAUSE = 10


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param)


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


async def test_another_process_goes_on_from_the_answer_of_one_that_died() -> None:
    time = Time()
    shared: dict[str, Any] = {"refresh_lock": MemoryRefreshLock(clock=Clock(read=time))}
    world = make_world(time=time, **shared)
    browser = await world.signed_in()
    cookies = dict(browser.cookies)
    world.time.advance(LONG_AFTER)
    world.op.rotate_keys()
    world.op.faults.put("jwks", ServerError(), times=9)
    assert (await browser.get("/me")).status_code == 503
    world.op.faults.clear()

    other = another_process(world, **shared).browser()
    other.cookies.update(cookies)
    assert await generation(other) == 1
    assert refreshes(world) == 1


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


class Hanging:
    """An application whose `resolve_identity` answers at the first login and never again."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, context: IdentityContext) -> User:
        self.calls += 1
        if self.calls > 1:
            await asyncio.Event().wait()
        return User(sub=str(context.id_token_claims["sub"]), name="as it was")


@pytest.mark.parametrize("locked", [False, True])
async def test_a_callback_that_hangs_keeps_the_identity_there_was(locked: bool) -> None:
    lock = MemoryRefreshLock() if locked else None
    settings = {"callback_timeout": 0.05}
    options: dict[str, Any] = {"identity_type": User, "refresh_lock": lock}
    world = make_world(settings=settings, resolve_identity=Hanging(), **options)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    answer = (await browser.get("/me")).json()
    assert (answer["generation"], answer["identity"]["name"]) == (1, "as it was")
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 2


async def test_what_is_stripped_stays_stripped_when_the_identity_cannot_be_resolved() -> None:
    kept: list[OIDCSession[User]] = []
    calls = 0

    def resolve(context: IdentityContext) -> User:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise RuntimeError("the directory is down")
        return User(sub="alice")

    def strip(context: PersistContext[User]) -> OIDCSession[User]:
        tokens = context.session.tokens.model_copy(update={"access_token": ""})
        kept.append(context.session.model_copy(update={"tokens": tokens}))
        return kept[-1]

    world = make_world(resolve_identity=resolve, before_session_persist=strip)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    assert [session.generation for session in kept] == [0, 1]
    assert calls == 2


async def test_what_was_stripped_stays_stripped_when_stripping_fails() -> None:
    sessions: list[OIDCSession[User]] = []

    def strip(context: PersistContext[User]) -> OIDCSession[User]:
        if context.reason == "refresh":
            raise RuntimeError("broken")
        tokens = context.session.tokens.model_copy(update={"access_token": ""})
        return context.session.model_copy(update={"tokens": tokens})

    world = make_world(
        before_session_persist=strip,
        load_request_data=lambda context: sessions.append(context.session),
    )
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    assert sessions[-1].tokens.access_token == ""
    assert sessions[-1].tokens.refresh_token


async def test_a_session_that_outgrows_its_cookie_keeps_its_old_identity() -> None:
    roles = ["a-role"]

    def resolve(context: IdentityContext) -> list[str]:
        return list(roles)

    world = make_world(resolve_identity=resolve)
    browser = await world.signed_in()
    roles.extend(secrets.token_hex(20) for _ in range(200))
    world.time.advance(LONG_AFTER)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["identity"]) == (200, ["a-role"])
    assert answer.json()["generation"] == 1
    assert "session.identity_kept" in world.event_names()


@pytest.mark.parametrize("store", [None, "memory"], ids=["cookie", "store"])
async def test_an_identity_of_another_type_is_not_taken_at_a_refresh(store: Any) -> None:
    identities: list[Any] = ["right"]

    def resolve(context: IdentityContext) -> str:
        identity: str = identities[-1]
        return identity

    world = make_world(resolve_identity=resolve, session_store=store)
    browser = await world.signed_in()
    identities.append(["wrong"])
    world.time.advance(LONG_AFTER)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["identity"]) == (200, "right")
    assert answer.json()["generation"] == 1


async def test_a_session_that_fits_no_cookie_ends_and_the_user_can_sign_in_again() -> None:
    world = make_world()
    browser = await world.signed_in()
    too_long = secrets.token_hex(5000)
    world.op.edits.put("token_response", lambda said: said | {"refresh_token": too_long})
    world.time.advance(LONG_AFTER)
    assert (await browser.get("/")).status_code == 200, "a page for everybody"
    answer = await browser.get("/me", headers={"accept": "application/json"})
    assert answer.status_code == 401
    assert "session.cookie_too_large" in [event.code for event in world.events]
    world.op.edits.clear()
    again = await browser.get("/auth/login?return_to=/me")
    assert again.status_code == 200


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
