"""What a request gets of its session, and what its cookie is to follow from."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from fastapi_oidc import Code, OIDCSession, PersistContext, SessionError
from fastapi_oidc.flows.outcomes import Resumed
from fastapi_oidc.flows.resume import refresh_now, resume
from fastapi_oidc.flows.standing import Goes, Over
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.testing import OAuthError, ServerError
from fastapi_oidc.testing.faults import Answer
from tests.oidc.interleaving import another_process
from tests.oidc.world import World, make_world

SHORTLY_BEFORE_THE_END = 280
AT_THE_END = 300


async def resumed(world: World, browser: httpx.AsyncClient) -> Resumed[Any]:
    site = world.oidc.site
    return await resume(site.party, site.refresher, dict(browser.cookies), active=True)


async def had(world: World, browser: httpx.AsyncClient) -> Kept[Any]:
    """The session that the browser's cookies lead to."""
    found = await world.oidc.site.party.keeper.read(dict(browser.cookies))
    assert found is not None
    return found.kept


async def test_nothing_without_a_session(world: World) -> None:
    assert await resumed(world, world.browser()) == Resumed(None)


async def test_a_living_session_and_no_new_cookie(world: World) -> None:
    browser = await world.signed_in()
    assert await resumed(world, browser) == Resumed((await had(world, browser)).session)


@pytest.mark.parametrize("changed", ["client_id", "issuer"])
async def test_nothing_of_another_client_or_provider_whose_cookie_opens(changed: str) -> None:
    world = make_world()
    browser = await world.signed_in()
    settings = world.oidc.settings.model_copy(
        update={changed: "https://another.test", "client_secret": None}
    )
    other = another_process(world, settings=settings)
    assert await resumed(other, browser) == Resumed(None)


async def test_the_successor_and_its_cookie(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(SHORTLY_BEFORE_THE_END)
    before = await had(world, browser)
    result = await resumed(world, browser)
    newest = world.oidc.site.party.register.newest(before)
    assert newest.session.generation == 1
    assert result == Resumed(newest.session, Goes(newest))


async def test_the_end_of_its_time() -> None:
    world = make_world()
    browser = await world.signed_in()
    kept = await had(world, browser)
    world.time.advance(kept.session.expires_at - world.time.now)
    assert await resumed(world, browser) == Resumed(None, Over(kept, "expired"), "expired")


async def test_a_sign_out_leaves_the_cookie_to_whoever_signed_out(world: World) -> None:
    browser = await world.signed_in()
    kept = await had(world, browser)
    party = world.oidc.site.party
    party.register.end(kept.session.id, "signed_out", ends=kept.session.expires_at)
    assert await resumed(world, browser) == Resumed(None, ended="signed_out")


async def test_a_revocation(world: World) -> None:
    browser = await world.signed_in()
    kept = await had(world, browser)
    await world.oidc.revoke(sub="alice")
    assert await resumed(world, browser) == Resumed(None, Over(kept, "revoked"), "revoked")
    assert world.events[-1].code is Code.SESSION_REVOKED


async def test_a_sign_out_at_the_provider(world: World) -> None:
    browser = await world.signed_in()
    kept = await had(world, browser)
    world.time.advance(5)
    await world.op.log_out("alice")
    over = Over(kept, "ended_by_provider")
    assert await resumed(world, browser) == Resumed(None, over, "ended_by_provider")
    assert world.events[-1].code is Code.SESSION_REVOKED


@pytest.mark.parametrize("when_asked", [False, True], ids=["as it expires", "when asked"])
async def test_a_refusal_of_the_provider(world: World, when_asked: bool) -> None:
    browser = await world.signed_in()
    kept = await had(world, browser)
    world.op.faults.put("token", OAuthError("invalid_grant"))
    site = world.oidc.site
    if when_asked:
        result = await refresh_now(site.party, site.refresher, dict(browser.cookies))
    else:
        world.time.advance(SHORTLY_BEFORE_THE_END)
        result = await resumed(world, browser)
    over = Over(kept, "ended_by_provider")
    assert result == Resumed(None, over, "ended_by_provider")


async def test_a_refusal_of_the_application() -> None:
    def persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            raise SessionError(Code.SESSION_FORBIDDEN)

    world = make_world(before_session_persist=persist)
    browser = await world.signed_in()
    kept = await had(world, browser)
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert await resumed(world, browser) == Resumed(None, Over(kept, "revoked"), "revoked")


async def test_a_session_that_fits_no_cookie_has_expired() -> None:
    world = make_world()
    browser = await world.signed_in()
    kept = await had(world, browser)
    too_long = secrets.token_hex(5000)
    world.op.edits.put("token_response", lambda said: said | {"refresh_token": too_long})
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert await resumed(world, browser) == Resumed(None, Over(kept, "expired"), "expired")


async def test_while_the_provider_is_down_the_session_to_the_access_tokens_end(
    world: World,
) -> None:
    browser = await world.signed_in()
    kept = await had(world, browser)
    world.op.faults.put("token", ServerError(), times=9)
    world.time.advance(AT_THE_END - 1)
    assert await resumed(world, browser) == Resumed(kept.session)


async def test_and_then_when_to_come_again(world: World) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", ServerError(), times=9)
    world.time.advance(AT_THE_END)
    told = []
    for _ in range(2):
        session, standing, ended, error = await resumed(world, browser)
        assert (session, standing, ended) == (None, None, None)
        assert error is not None
        assert error.code is Code.SESSION_REFRESH_POSTPONED
        assert error.account.startswith("the access token has expired and cannot be refreshed")
        told.append((error.details["retry_after"], error.is_announced))
        world.time.advance(4)
    assert told == [(5, True), (1, False)], "the second request waited for no attempt"


async def test_what_the_application_left_without_a_refresh_token_is_not_renewed_again() -> None:
    def persist(context: PersistContext[Any]) -> OIDCSession[Any] | None:
        if context.reason == "login":
            return None
        given_up = {"refresh_token": None, "expires_at": context.session.refreshed_at}
        tokens = context.session.tokens.model_copy(update=given_up)
        return context.session.model_copy(update={"tokens": tokens})

    world = make_world(before_session_persist=persist)
    browser = await world.signed_in()
    world.time.advance(SHORTLY_BEFORE_THE_END)
    session = (await resumed(world, browser)).session
    assert session is not None
    assert session.generation == 1


@dataclass(frozen=True)
class Meanwhile:
    """The provider answers when something else has happened."""

    happens: Callable[[], None]

    async def happen(self, answer: Answer) -> Response:
        self.happens()
        return await answer()


@pytest.mark.parametrize("reason", ["ended_by_provider", "revoked"])
async def test_a_session_that_ended_while_it_was_refreshed_is_over_for_that_reason(
    reason: EndReason,
) -> None:
    world = make_world()
    browser = await world.signed_in()
    kept = await had(world, browser)
    register, session = world.oidc.site.party.register, kept.session
    over = Meanwhile(lambda: register.end(session.id, reason, ends=session.expires_at))
    world.op.faults.put("token", over)
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert await resumed(world, browser) == Resumed(None, Over(kept, reason), reason)


async def test_each_end_is_told_once() -> None:
    world = make_world()
    browsers = [await world.signed_in(user) for user in ("alice", "bob")]
    world.time.advance((await had(world, browsers[0])).session.expires_at - world.time.now)
    for browser in [*browsers, *browsers]:
        assert (await resumed(world, browser)).ended == "expired"
    ends = [event for event in world.events if event.name == "session.ended"]
    assert [(event.sub, event.at, event.explanation) for event in ends] == [
        ("alice", world.time.now, ""),
        ("bob", world.time.now, ""),
    ]
