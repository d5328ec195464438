"""What a session has of the tokens of each refresh; one that fails postpones, or ends it."""

import secrets
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.responses import Response

from fastapi_oidc import Code, OIDCSession
from fastapi_oidc.testing import AnswerLost, OAuthError, ServerError, TokenRevoked
from fastapi_oidc.testing.faults import Answer, Fault
from tests.oidc.flows.steps import AFTER_EXPIRY, SHORTLY_BEFORE_EXPIRY, Watched, copy_of, generation
from tests.oidc.interleaving import Raised
from tests.oidc.world import World, signed_in_world


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_refused_refresh_of_a_process_without_a_store_is_told(
    store: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    world, browser = await signed_in_world(back_channel_logout_store=store)
    world.op.faults.put("token", OAuthError("invalid_grant"))
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    await browser.get("/me")
    told = "If the application has several processes, another one may have used it"
    assert (told in caplog.text) == (store is None)


class NotText:
    """A response that no JSON can have."""

    async def happen(self, _: Answer) -> Response:
        return Response(b'{"\xff": 1}', media_type="application/json")


@pytest.mark.parametrize(
    "fault",
    [
        ServerError(),
        ServerError(429),
        Raised(httpx.ConnectError("refused")),
        Raised(httpx.ReadTimeout("silent")),
        AnswerLost(),
        OAuthError("temporarily_unavailable"),
        OAuthError("invalid_client"),
        OAuthError("unauthorized_client"),
        NotText(),
    ],
)
async def test_other_failures_keep_the_session(world: World, fault: Any) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", fault, times=2)
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    assert await generation(browser) == 0
    calls = world.op.record.calls["token"]
    assert await generation(browser) == 0
    assert world.op.record.calls["token"] == calls, "the provider is not asked during the pause"

    world.time.advance(25)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert int(answer.headers["retry-after"]) > 0
    assert "set-cookie" not in answer.headers
    assert (await browser.get("/")).json() == {"is_authenticated": False}, "a public page"

    world.time.advance(15)
    # A response that is lost uses the token up.
    assert await generation(browser) == (None if isinstance(fault, AnswerLost) else 1)


@pytest.mark.parametrize("pause", [60, 600])
@pytest.mark.parametrize("error", ["invalid_request", "", "unknown_error"])
async def test_token_that_is_refused_again_and_again_ends_the_session(
    world: World, error: str, pause: int
) -> None:
    """For no reason that RFC 6749 5.2 gives a grant; an outage in between counts anew."""
    browser = await world.signed_in()
    faults: list[Fault] = [OAuthError(error), ServerError(), *[OAuthError(error)] * 4]
    for fault in faults:
        world.op.faults.put("token", fault)
    world.time.advance(AFTER_EXPIRY)
    for _ in range(5):
        assert (await browser.get("/me")).status_code == 503
        world.time.advance(pause)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["ended"]) == (401, "ended_by_provider")
    assert await generation(copy_of(browser, world)) is None


async def test_refused_session_lives_while_its_access_token_is_valid() -> None:
    world, browser = await signed_in_world(settings={"refresh_margin": 150})
    world.op.faults.put("token", OAuthError("invalid_request"), times=9)
    world.time.advance(150)
    for _ in range(5):
        assert await generation(browser) == 0
        world.time.advance(20)
    assert world.op.record.calls["token"] > 4, "the login and four refusals"
    world.time.advance(100)
    assert (await browser.get("/me")).status_code == 401


async def test_pauses_double_up_to_a_minute() -> None:
    world, browser = await signed_in_world()
    world.time.advance(AFTER_EXPIRY)
    world.op.faults.put("token", ServerError(), times=99)
    attempts = []
    for _ in range(330):
        calls = world.op.record.calls["token"]
        await browser.get("/")
        if world.op.record.calls["token"] > calls:
            attempts.append(world.time.now)
        world.time.advance(1)
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses[:7] == [5, 10, 20, 40, 60, 60, 60]


async def test_pause_is_over_when_the_clock_was_set_back(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(7200)
    world.op.faults.put("token", ServerError())
    assert await generation(browser) is None
    world.time.advance(-3600)
    assert await generation(browser) == 1


async def test_tokens_that_fit_no_cookie_end_the_session() -> None:
    world, browser = await signed_in_world()
    too_long = secrets.token_hex(5000)
    world.op.edits.put("token_response", lambda said: said | {"refresh_token": too_long})
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["ended"]) == (401, "expired")


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
    more = MEMBERS | {"nonce": nonce, "note": secrets.token_hex(3000)}
    watched.world.op.edits.put("id_token", lambda said: said | more)
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
    world, browser = await signed_in_world(**signed if is_signed else {})
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
    assert len(world.op.record.of(TokenRevoked)) == 1, "nobody holds the new one"
