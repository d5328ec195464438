"""What the application's callbacks may do with a session, and what a failure of theirs costs."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from fastapi_oidc import (
    Code,
    IdentityContext,
    OIDCSession,
    PersistContext,
    ProviderError,
    SessionError,
    StandardIdentity,
)
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, callback_url, generation
from tests.oidc.interleaving import begun
from tests.oidc.world import LOGIN_URL, World, make_world, signed_in_world

Session = OIDCSession[Any]


async def with_failing(callback: str, error: BaseException) -> tuple[World, httpx.AsyncClient]:
    """A world whose callback raises `error` at each refresh, and a browser that signed in."""
    is_login = True

    def resolve_identity(_context: IdentityContext) -> StandardIdentity:
        if not is_login and callback == "resolve_identity":
            raise error
        return StandardIdentity(sub="alice", name="Alice")

    def before_session_persist(_context: PersistContext[StandardIdentity]) -> None:
        if not is_login and callback == "before_session_persist":
            raise error

    world, browser = await signed_in_world(
        resolve_identity=resolve_identity, before_session_persist=before_session_persist
    )
    is_login = False
    return world, browser


async def test_an_identity_that_was_not_returned_is_named() -> None:
    world = make_world(resolve_identity=lambda context: None, identity_type=StandardIdentity)
    async with world.browser() as browser:
        await sign_in(browser, "/auth/login", user="alice")
    assert "resolve_identity returned None" in world.events[-1].explanation


CALLBACKS = pytest.mark.parametrize("callback", ["resolve_identity", "before_session_persist"])


@CALLBACKS
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("the directory is down"),
        ProviderError(Code.PROVIDER_TIMEOUT, "another provider"),
        SessionError(Code.SESSION_STORE_UNAVAILABLE),
        asyncio.CancelledError("what the callback awaits"),
    ],
)
async def test_callback_that_fails_at_a_refresh_keeps_the_session(
    callback: str, error: BaseException
) -> None:
    world, browser = await with_failing(callback, error)
    for expected in (1, 2):
        world.time.advance(AFTER_EXPIRY)
        answer = (await browser.get("/me")).json()
        assert (answer["generation"], answer["identity"]["name"]) == (expected, "Alice")


@CALLBACKS
async def test_session_error_of_a_callback_ends_the_session(callback: str) -> None:
    world, browser = await with_failing(callback, SessionError(Code.SESSION_FORBIDDEN, "left"))
    world.time.advance(AFTER_EXPIRY)
    answer = await browser.get("/")
    assert (answer.status_code, answer.json()) == (200, {"is_authenticated": False})
    assert "session=; Max-Age=0" in answer.headers["set-cookie"]
    assert world.events[-1].code is Code.SESSION_FORBIDDEN
    assert await generation(browser) is None


@pytest.mark.parametrize("error", [LookupError("of the application"), asyncio.CancelledError()])
async def test_bug_of_a_callback_is_raised_for_the_log_of_the_server(error: BaseException) -> None:
    async def resolve_identity(_context: IdentityContext) -> str:
        raise error

    world = make_world(resolve_identity=resolve_identity)
    with pytest.raises((LookupError, RuntimeError), match="of the application"):
        await sign_in(world.browser(), LOGIN_URL, user="alice")
    assert world.event_names() == ["login.started", "login.refused"]


def replaced(**members: Any) -> Callable[[Session], object]:
    return lambda session: session.model_copy(update=members)


@pytest.mark.parametrize(
    ("replacement", "named"),
    [
        (replaced(id="another"), "id"),
        (replaced(sub="mallory"), "sub"),
        (replaced(authenticated_at=0), "authenticated_at"),
        (replaced(generation=7), "generation"),
        (replaced(expires_at=2_000_000_000), "to a later time, which only session_lifetime can"),
        (replaced(sub="bob", generation=1), "sub, generation"),
        (lambda session: session.identity, "must return an OIDCSession or None"),
    ],
)
async def test_replacement_is_a_session_of_the_same_login(
    replacement: Callable[[Session], object], named: str
) -> None:
    world = make_world(before_session_persist=lambda context: replacement(context.session))
    browser = world.browser()
    answer = await sign_in(browser, LOGIN_URL, user="alice")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
    assert await generation(browser) is None
    assert world.events[-1].explanation.endswith(f" {named}")


@pytest.mark.parametrize("reason", ["login", "refresh"])
async def test_callback_may_call_an_api_with_the_tokens_that_it_decides_about(
    mode: str, reason: str
) -> None:
    seen: list[str] = []

    def api(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"].removeprefix("Bearer "))
        return httpx.Response(200)

    async def before_session_persist(context: PersistContext[Any]) -> None:
        if context.reason == reason:
            auth = world.oidc.auth(context.session)
            async with httpx.AsyncClient(transport=httpx.MockTransport(api)) as client:
                async with asyncio.timeout(5):
                    await client.get("https://api.test/roles", auth=auth)
            assert seen[-1] == context.session.tokens.access_token

    store = "memory" if mode == "store" else None
    world = make_world(before_session_persist=before_session_persist, session_store=store)
    browser = await world.signed_in()
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    assert len(seen) == 1


@pytest.mark.parametrize("callback", ["resolve_identity", "before_session_persist"])
async def test_sync_callback_stops_no_other_request_and_has_a_time_limit(callback: str) -> None:
    reached, released = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        released.wait(20)

    def resolve(context: IdentityContext) -> StandardIdentity:
        if callback == "resolve_identity":
            wait()
        return StandardIdentity(sub="alice")

    def persist(_context: PersistContext[Any]) -> None:
        if callback == "before_session_persist":
            wait()

    world = make_world(
        settings={"callback_timeout": 0.5}, resolve_identity=resolve, before_session_persist=persist
    )
    browser = world.browser()
    login = begun(browser.get(await callback_url(browser)))
    await asyncio.to_thread(reached.wait, 20)
    assert (await world.browser().get("/")).status_code == 200, "while the callback waits"
    with pytest.raises(TimeoutError):
        await login
    released.set()
