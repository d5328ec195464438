"""Each event says when it happened, to whom, and why."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from fastapi_oidc import Code, Event, IdentityContext, OIDCSession
from fastapi_oidc.testing import OAuthError, ServerError, sign_in
from tests.oidc.flows.test_refresh import LONG_AFTER
from tests.oidc.world import LOGIN_URL, World, make_world


def told(world: World, name: str) -> Event:
    """The last event of this name, which is of this moment."""
    event = [event for event in world.events if event.name == name][-1]
    assert event.at == world.time.now
    return event


class Watched:
    """A world, and the newest session that was loaded in it."""

    def __init__(self, **options: Any) -> None:
        self.sessions: list[OIDCSession[Any]] = []
        self.world = make_world(load_request_data=self._load, **options)

    def _load(self, context: Any) -> None:
        self.sessions.append(context.session)

    @property
    def session(self) -> OIDCSession[Any]:
        return self.sessions[-1]

    def is_named_by(self, event: Event) -> bool:
        return (event.sub, event.session_id) == (self.session.sub, self.session.id)


async def test_a_login() -> None:
    watched = Watched()
    await watched.world.signed_in()
    assert told(watched.world, "login.started").sub is None
    event = told(watched.world, "login.succeeded")
    assert watched.is_named_by(event)
    assert event.sid == watched.session.sid is not None


async def test_a_silent_check_names_the_user_that_it_asks_about() -> None:
    world = make_world()
    browser = await world.signed_in()
    headers = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "iframe"}
    await browser.get("/auth/login?silent=1", headers=headers, follow_redirects=False)
    assert told(world, "login.started").sub == "alice"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("/auth/callback?state=x&code=y", Code.AUTHORIZATION_TRANSACTION_MISSING),
        (LOGIN_URL, Code.TOKEN_INVALID_GRANT),
    ],
)
async def test_a_refused_login(url: str, code: Code) -> None:
    world = make_world()
    world.op.faults.put("token", OAuthError("invalid_grant"))
    await sign_in(world.browser(), url, user="alice")
    event = told(world, "login.refused")
    assert event.code is code
    assert event.explanation


async def test_a_login_that_the_application_failed() -> None:
    def resolve(context: IdentityContext) -> object:
        raise LookupError("alice's secret")

    world = make_world(resolve_identity=resolve)
    with pytest.raises(LookupError):
        await sign_in(world.browser(), LOGIN_URL, user="alice")
    event = told(world, "login.refused")
    assert (event.code, event.explanation) == (None, "the application raised LookupError")


async def test_a_refresh() -> None:
    watched = Watched()
    browser = await watched.world.signed_in()
    watched.world.time.advance(LONG_AFTER)
    await browser.get("/me")
    assert watched.is_named_by(told(watched.world, "session.refreshed"))


async def test_the_end_of_a_session_is_told_once() -> None:
    watched = Watched(back_channel_logout_store=None)
    browser, world = await watched.world.signed_in(), watched.world
    cookies = dict(browser.cookies)
    world.op.faults.put("token", OAuthError("invalid_grant", description="she left"))
    world.time.advance(LONG_AFTER)
    for _ in range(2):
        browser.cookies.update(cookies)
        assert (await browser.get("/me")).status_code == 401
    assert world.event_names().count("session.ended") == 1
    event = told(world, "session.ended")
    assert watched.is_named_by(event)
    assert event.code is Code.TOKEN_INVALID_GRANT
    assert "she left" in event.explanation


async def test_the_end_of_its_time() -> None:
    watched = Watched(settings={"session_lifetime": 600})
    browser = await watched.world.signed_in()
    watched.world.time.advance(600)
    await browser.get("/me")
    event = told(watched.world, "session.ended")
    assert watched.is_named_by(event)
    assert (event.code, event.explanation) == (Code.SESSION_EXPIRED, "")


async def test_user_info_that_failed_at_a_refresh() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.op.faults.put("userinfo", ServerError(), times=9)
    world.time.advance(LONG_AFTER)
    await browser.get("/me")
    assert told(world, "session.identity_kept").code is Code.PROVIDER_STATUS


async def test_an_identity_that_fits_no_cookie_at_a_refresh() -> None:
    roles: list[str] = []
    world = make_world(resolve_identity=lambda context: list(roles), identity_type=list[str])
    browser = await world.signed_in()
    roles.extend(secrets.token_hex(20) for _ in range(200))
    world.time.advance(LONG_AFTER)
    await browser.get("/me")
    assert told(world, "session.identity_kept").code is Code.SESSION_COOKIE_TOO_LARGE


async def test_a_sign_out_and_its_return() -> None:
    watched = Watched()
    browser = await watched.world.signed_in()
    begun = await browser.post("/auth/logout", follow_redirects=False)
    assert watched.is_named_by(told(watched.world, "logout.started"))
    back = await browser.get(begun.headers["location"], follow_redirects=False)
    await browser.get(back.headers["location"], follow_redirects=False)
    told(watched.world, "logout.returned")
    await browser.get("/auth/logged-out?state=another", follow_redirects=False)
    told(watched.world, "logout.return_refused")


async def test_a_sign_out_of_which_the_provider_was_not_told() -> None:
    watched = Watched()
    browser = await watched.world.signed_in()
    watched.world.op.faults.put("revocation", ServerError(), times=9)
    await browser.post("/auth/logout", follow_redirects=False)
    event = told(watched.world, "logout.revocation_failed")
    assert (event.session_id, event.code) == (watched.session.id, Code.PROVIDER_STATUS)


async def test_a_sign_out_at_the_provider() -> None:
    watched = Watched()
    await watched.world.signed_in()
    watched.world.time.advance(5)
    await watched.world.op.log_out("alice")
    event = told(watched.world, "back_channel_logout.accepted")
    assert (event.sub, event.sid) == ("alice", watched.session.sid)
