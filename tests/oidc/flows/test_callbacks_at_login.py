"""What the application's callbacks may do with a login, and what they may not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import HTTPException
from pydantic import BaseModel
from typing_extensions import TypedDict

from fastapi_oidc import IdentityContext, OIDCSession, PersistContext
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.world import LOGIN_URL, make_world

Session = OIDCSession[Any]


async def test_an_http_error_of_a_callback_is_the_answer() -> None:
    def before_session_persist(_context: PersistContext[Any]) -> None:
        raise HTTPException(403, "not on the list")

    world = make_world(before_session_persist=before_session_persist)
    async with world.browser() as browser:
        answer = await sign_in(browser, LOGIN_URL, user="alice")
        assert (answer.status_code, answer.json()) == (403, {"detail": "not on the list"})
        assert not [name for name in browser.cookies if "oidc" in name]
    assert world.event_names() == ["login.started", "login.refused"]
    assert world.events[-1].explanation == "the application raised HTTPException"


async def test_a_bug_in_a_callback_is_raised_for_the_servers_log() -> None:
    async def resolve_identity(_context: IdentityContext) -> str:
        raise LookupError("a bug of the application")

    world = make_world(resolve_identity=resolve_identity)
    async with world.browser() as browser:
        with pytest.raises(LookupError, match="a bug of the application"):
            await sign_in(browser, LOGIN_URL, user="alice")
    assert world.event_names() == ["login.started", "login.refused"]


async def test_a_callback_that_was_cancelled_from_within_failed_like_any_other() -> None:
    calls = 0

    async def before_session_persist(_context: PersistContext[Any]) -> None:
        nonlocal calls
        calls += 1
        if calls != 2:
            raise asyncio.CancelledError

    world = make_world(before_session_persist=before_session_persist)
    async with world.browser() as browser:
        with pytest.raises(RuntimeError, match="cancelled from within"):
            await sign_in(browser, LOGIN_URL, user="alice")
        await sign_in(browser, LOGIN_URL, user="alice")
        world.time.advance(LONG_AFTER)
        assert await generation(browser) == 1
    assert calls == 3


def replaced(**members: Any) -> Callable[[Session], object]:
    return lambda session: session.model_copy(update=members)


@pytest.mark.parametrize(
    ("replacement", "named"),
    [
        (replaced(sub="mallory"), "sub"),
        (replaced(issuer="https://evil.test"), "issuer"),
        (replaced(client_id="another"), "client_id"),
        (replaced(sid="another"), "sid"),
        (replaced(id="another"), "id"),
        (replaced(authenticated_at=0), "authenticated_at"),
        (replaced(generation=7), "generation"),
        (replaced(expires_at=2_000_000_000), "expires_at"),
        (lambda session: session.identity, "something else"),
    ],
)
async def test_a_replacement_must_be_the_same_login(
    replacement: Callable[[Session], object], named: str
) -> None:
    world = make_world(before_session_persist=lambda context: replacement(context.session))
    async with world.browser() as browser:
        answer = await sign_in(browser, LOGIN_URL, user="alice")
        assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
        assert (await browser.get("/")).json() == {"is_authenticated": False}
    assert world.events[-1].explanation.endswith(f" {named}")


async def test_a_wrong_replacement_at_a_refresh_is_not_taken_and_costs_no_session() -> None:
    def before_session_persist(context: PersistContext[Any]) -> Session | None:
        return None if context.reason == "login" else replaced(sub="mallory")(context.session)  # type: ignore[return-value]  # the mistake

    world = make_world(before_session_persist=before_session_persist)
    browser = await world.signed_in()
    for expected in (1, 2):
        world.time.advance(400)
        answer = (await browser.get("/me")).json()
        assert (answer["sub"], answer["generation"]) == ("alice", expected)


async def test_a_session_may_be_made_shorter() -> None:
    def before_session_persist(context: PersistContext[Any]) -> Session:
        ends = context.session.created_at + 600
        return context.session.model_copy(update={"expires_at": ends})

    world = make_world(before_session_persist=before_session_persist)
    browser = await world.signed_in()
    world.time.advance(599)
    assert (await browser.get("/me")).status_code == 200
    world.time.advance(1)
    assert (await browser.get("/me")).status_code == 401


@dataclass
class Plain:
    sub: str
    roles: list[str]


class Typed(TypedDict):
    sub: str
    roles: list[str]


class Model(BaseModel):
    sub: str
    roles: list[str]


@pytest.mark.parametrize("store", [None, "memory"])
@pytest.mark.parametrize("kind", [Plain, Typed, Model, dict])
async def test_an_identity_of_any_type_comes_back_as_it_was(kind: Any, store: Any) -> None:
    def resolve_identity(context: IdentityContext) -> Any:
        return kind(sub=context.id_token_claims["sub"], roles=["admin"])

    resolve_identity.__annotations__["return"] = kind
    kept: list[object] = []

    def load_request_data(context: Any) -> None:
        kept.append(context.session.identity)

    world = make_world(
        resolve_identity=resolve_identity,
        load_request_data=load_request_data,
        session_store=store,
    )
    browser = await world.signed_in()
    shown = (await browser.get("/auth/session")).json()["identity"]
    assert shown == {"sub": "alice", "roles": ["admin"]}
    assert kept[-1] == kind(sub="alice", roles=["admin"])


async def test_the_access_token_is_at_hand_for_roles_at_login_and_refresh_and_in_no_repr() -> None:
    seen: list[IdentityContext] = []

    def resolve(context: IdentityContext) -> dict[str, object]:
        seen.append(context)
        return {}

    world = make_world(resolve_identity=resolve)
    async with world.browser() as browser:
        await sign_in(browser, LOGIN_URL, user="alice")
        world.time.now += 290
        await browser.get("/")
    tokens = [context.access_token for context in seen]
    assert len(set(tokens)) == 2
    for context in seen:
        assert context.access_token
        assert context.access_token not in repr(context)


async def test_what_the_user_info_says_is_at_hand_at_login() -> None:
    seen: list[IdentityContext] = []

    def resolve(context: IdentityContext) -> dict[str, object]:
        seen.append(context)
        return {}

    world = make_world(resolve_identity=resolve)
    world.op.edits.put("userinfo", lambda said: said | {"team": "blue"})
    await world.signed_in()
    claims = seen[0].user_info
    assert claims is not None
    assert claims["team"] == "blue"
