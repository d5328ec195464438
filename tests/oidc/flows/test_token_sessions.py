"""What a session has of the tokens of its login, and of those of each refresh."""

import secrets
from typing import Any
from uuid import uuid4

import httpx
import pytest

from fastapi_oidc import Code, OIDCSession
from fastapi_oidc.testing import ServerError
from tests.oidc.flows.steps import AFTER_EXPIRY, Watched, generation
from tests.oidc.world import World, make_world

TENANT, ANOTHER = str(uuid4()), str(uuid4())
AUDIENCE: dict[str, Any] = {"aud": ["app", "api"], "azp": "app", "auth_time": 1_799_999_000}
MEMBERS = AUDIENCE | {"sid": "op-1"}


def watched_world(**options: Any) -> Watched:
    watched = Watched(settings={"trusted_id_token_audiences": ["api"]}, **options)
    watched.world.op.edits.put("id_token", lambda said: said | MEMBERS)
    return watched


async def refreshed(watched: Watched, browser: httpx.AsyncClient) -> OIDCSession[Any]:
    watched.world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) is not None
    return watched.sessions[-1]


async def test_login_takes_what_the_id_token_and_the_tokens_say() -> None:
    watched = watched_world()
    await watched.world.signed_in()
    session, now = watched.sessions[-1], int(watched.world.time.now)
    assert (session.issuer, session.client_id, session.sub) == ("https://op.test", "app", "alice")
    assert (session.sid, session.auth_time, session.azp) == ("op-1", 1_799_999_000, "app")
    assert session.audiences == ("app", "api")
    assert session.claims["sid"] == "op-1"
    assert (session.created_at, session.authenticated_at) == (now, now)
    assert session.expires_at == now + 8 * 3600
    assert (session.generation, session.refreshed_at) == (0, None)
    assert session.tokens.expires_at == now + 300
    assert session.tokens.scope == ("openid", "profile", "email", "offline_access")
    assert session.session_state is not None


async def test_refresh_takes_tokens_and_claims_and_keeps_the_rest() -> None:
    watched = watched_world()
    browser = await watched.world.signed_in()
    before = watched.sessions[-1]
    nonce = before.nonce
    watched.world.op.edits.put(
        "id_token", lambda said: said | MEMBERS | {"sid": "op-2", "nonce": nonce, "team": "blue"}
    )
    watched.world.op.edits.put(
        "token_response", lambda said: said | {"scope": "openid", "session_state": "new"}
    )
    after = await refreshed(watched, browser)
    assert (after.generation, after.refreshed_at) == (1, int(watched.world.time.now))
    assert (after.sid, after.claims["team"], after.session_state) == ("op-2", "blue", "new")
    assert after.former_sids == (before.sid,)
    assert after.tokens.scope == ("openid",)
    assert after.tokens.access_token != before.tokens.access_token
    changed = {"tokens", "claims", "session_state", "generation", "refreshed_at"}
    same = OIDCSession.model_fields.keys() - changed - {"sid", "former_sids"}
    assert all(getattr(after, name) == getattr(before, name) for name in same)


async def test_what_a_token_response_leaves_out_stays_as_it_was() -> None:
    """RFC 6749 5.1 and 6."""
    watched = watched_world()
    browser = await watched.world.signed_in()
    before = watched.sessions[-1]
    left_out = ("id_token", "refresh_token", "scope", "session_state", "expires_in")
    watched.world.op.edits.put(
        "token_response",
        lambda said: {name: value for name, value in said.items() if name not in left_out},
    )
    after = await refreshed(watched, browser)
    for name in ("id_token", "refresh_token", "scope"):
        assert getattr(after.tokens, name) == getattr(before.tokens, name)
    assert (after.claims, after.session_state) == (before.claims, before.session_state)
    assert after.tokens.expires_at == int(watched.world.time.now) + 3600


async def test_session_that_has_outgrown_its_cookie_takes_the_new_tokens_alone() -> None:
    """Without those that `before_session_persist` leaves out."""

    def without_access_token(context: Any) -> Any:
        tokens = context.session.tokens.model_copy(update={"access_token": ""})
        return context.session.model_copy(update={"tokens": tokens})

    watched = watched_world(before_session_persist=without_access_token)
    browser = await watched.world.signed_in()
    before = watched.sessions[-1]
    nonce = before.nonce
    long = secrets.token_hex(3000)
    watched.world.op.edits.put(
        "id_token", lambda said: said | MEMBERS | {"nonce": nonce, "note": long}
    )
    after = await refreshed(watched, browser)
    assert (after.generation, after.claims, after.identity) == (1, before.claims, before.identity)
    assert after.tokens.id_token == before.tokens.id_token
    assert after.tokens.refresh_token != before.tokens.refresh_token
    assert after.tokens.access_token == ""
    not_updated = [
        event for event in watched.world.events if event.name == "session.identity_not_updated"
    ]
    assert not_updated[-1].code is Code.SESSION_COOKIE_TOO_LARGE


@pytest.mark.parametrize("is_signed", [False, True], ids=["fails", "signed, has expired"])
async def test_userinfo_that_cannot_be_used_keeps_the_session(is_signed: bool) -> None:
    """The `exp` of a signed one says nothing of the session (OpenID Connect Core 5.3.2)."""
    signed: dict[str, Any] = {
        "client": {"userinfo_signed_response_alg": "RS256"},
        "settings": {"userinfo_signing_algorithms": ["RS256"]},
    }
    world = make_world(**signed if is_signed else {})
    browser = await world.signed_in()
    if is_signed:
        world.op.edits.put("userinfo", lambda said: said | {"exp": 1})
    else:
        world.op.faults.put("userinfo", ServerError(), times=3)
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    assert "session.identity_not_updated" in world.event_names()


async def test_userinfo_of_another_user_ends_the_session(world: World) -> None:
    browser = await world.signed_in()
    world.op.edits.put("userinfo", lambda said: said | {"sub": "bob"})
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) is None
    assert world.events[-1].code is Code.USERINFO_SUBJECT
