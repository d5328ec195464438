"""What a session keeps at a refresh when its identity cannot be made anew, or does not fit."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest

from fastapi_oidc import IdentityContext, MemoryRefreshLock, OIDCSession, PersistContext
from fastapi_oidc import StandardIdentity as User
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.world import make_world

TWO_HOURS = 7200


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


def stripped_at_login(context: PersistContext[User]) -> OIDCSession[User]:
    if context.reason == "refresh":
        raise RuntimeError("broken")
    tokens = context.session.tokens.model_copy(update={"access_token": ""})
    return context.session.model_copy(update={"tokens": tokens})


async def test_what_was_stripped_stays_stripped_when_stripping_fails() -> None:
    sessions: list[OIDCSession[User]] = []

    world = make_world(
        before_session_persist=stripped_at_login,
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


async def test_and_its_old_claims_and_id_token_with_the_new_tokens() -> None:
    seen: list[OIDCSession[User]] = []
    world = make_world(load_request_data=lambda context: seen.append(context.session))
    browser = await world.signed_in()
    grown: dict[str, Any] = {"groups": [secrets.token_hex(20) for _ in range(200)]}
    world.op.edits.put("id_token", lambda said: said | grown)
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    before, after = seen
    assert (after.claims, after.tokens.id_token) == (before.claims, before.tokens.id_token)
    assert after.tokens.access_token != before.tokens.access_token
    assert after.tokens.refresh_token != before.tokens.refresh_token


async def test_what_was_stripped_stays_stripped_when_the_session_outgrows_its_cookie() -> None:
    seen: list[OIDCSession[User]] = []

    world = make_world(
        before_session_persist=stripped_at_login,
        load_request_data=lambda context: seen.append(context.session),
    )
    browser = await world.signed_in()
    grown: dict[str, Any] = {"groups": [secrets.token_hex(20) for _ in range(200)]}
    world.op.edits.put("id_token", lambda said: said | grown)
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    assert seen[-1].tokens.access_token == ""


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
