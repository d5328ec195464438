"""Tokens of a session for other APIs: by exchange, on behalf of the user, and by refresh token."""

import asyncio
import json
from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError, DownstreamAPI, Grant, OIDCError, SessionError
from fastapi_oidc.grants import exchanges
from fastapi_oidc.protocol.downstream import GrantKind, Target
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.testing import DevResource, OAuthError, ServerError, TokenRevoked
from fastapi_oidc.testing.token_endpoint import EXCHANGE, ON_BEHALF_OF
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    RETRY,
    callback_url,
    copy_of,
    generation,
    others_have_run,
    two_processes,
)
from tests.oidc.flows.test_lost_moments import world_of
from tests.oidc.flows.test_refresh import whose_response_waits_for_keys
from tests.oidc.grants.api import Api, issued, session_id
from tests.oidc.grants.conftest import Session, calling
from tests.oidc.interleaving import Gate, Held, another_process, begun, held_outage, same_browser
from tests.oidc.world import World, make_world

CALENDAR, MAIL = "https://calendar.test", "https://mail.test"
FIRST_TOKEN_ENDS = 290
"""Seconds after which the first token for an API is not valid for another minute."""

GRANT_TYPES = {"token_exchange": EXCHANGE, "on_behalf_of": ON_BEHALF_OF}
GRANT_TYPES["refresh_token"] = "refresh_token"


def apis(kind: GrantKind) -> list[DownstreamAPI]:
    return [
        DownstreamAPI(grant=kind, resource=CALENDAR, scope="events:read"),
        DownstreamAPI(grant=kind, resource=MAIL, scope=["mail:read", "mail:send"]),
    ]


_MAIL = DevResource(MAIL, scope=["mail:read", "mail:send"])
RESOURCES = {"resources": [DevResource(CALENDAR, scope=["events:read"]), _MAIL]}
SETTINGS = {"scope": ["openid", "offline_access", "events:read", "mail:read", "mail:send"]}


def described(kind: GrantKind, **options: Any) -> dict[str, Any]:
    """Options of a world whose sessions get tokens for two APIs."""
    return {"downstream_apis": apis(kind), "provider": RESOURCES, "settings": SETTINGS, **options}


@pytest.fixture(params=list(GRANT_TYPES))
def kind(request: pytest.FixtureRequest) -> GrantKind:
    kind: GrantKind = request.param
    return kind


@pytest.fixture
def world(kind: GrantKind) -> World:
    return make_world(**described(kind, session_store="memory", mount=calling))


async def grant_in(world: World, resource: str = CALENDAR) -> Grant:
    return await world.oidc.grant(session_id(world), resource=resource)


def audience(world: World, token: str) -> str:
    """Which API the provider issued the token for."""
    found = world.op._state.credentials.access_token(token)
    assert found is not None
    return found.access.audience


def revoked(world: World) -> int:
    return len(world.op.record.of(TokenRevoked))


async def test_a_token_for_an_api_is_obtained_once(world: World, kind: GrantKind) -> None:
    await world.signed_in()
    calendar, mail = await grant_in(world), await grant_in(world, MAIL)
    tokens = await asyncio.gather(*(calendar.access_token() for _ in range(10)))
    assert len(set(tokens)) == 1
    assert issued(world, GRANT_TYPES[kind]) == 1
    token = await mail.access_token()
    assert issued(world, GRANT_TYPES[kind]) == 2
    assert (audience(world, tokens[0].value), tokens[0].scope) == (CALENDAR, ("events:read",))
    assert (audience(world, token.value), token.scope) == (MAIL, ("mail:read", "mail:send"))
    assert token.expires_at == world.time.now + 300
    assert await calendar.access_token() == tokens[0]


async def test_auth_selects_one_api(world: World) -> None:
    await world.signed_in()
    session_of_user, api = (await world.oidc.sessions_of("alice"))[0], Api(world)
    assert await api.status(world.oidc.auth(session_of_user, scope="events:read")) == 200
    assert audience(world, api.tokens[0]) == CALENDAR
    with pytest.raises(ConfigurationError, match="none of downstream_apis has resource=x:y"):
        world.oidc.auth(session_of_user, resource="x:y")
    with pytest.raises(ConfigurationError, match="for one API"):
        world.oidc.auth(await grant_in(world), resource=MAIL)


@pytest.mark.parametrize(
    ("url", "is_told"), [("/events?day=1", True), ("https://calendar.test.example/", False)]
)
async def test_the_own_token_of_a_session_at_another_api_is_told(
    world: World, caplog: pytest.LogCaptureFixture, url: str, is_told: bool
) -> None:
    await world.signed_in()
    grant = await world.oidc.grant(session_id(world))
    async with Api(world).client(world.oidc.auth(grant)) as client:
        await client.get(url)
    assert (f"oidc.auth(session, resource={CALENDAR!r})" in caplog.text) == is_told


def test_other_values_are_no_downstream_apis() -> None:
    with pytest.raises(TypeError, match="each of downstream_apis must be DownstreamAPI, not str"):
        make_world(downstream_apis=["https://calendar.test"])


async def test_in_a_request_the_cookie_follows_the_refresh_token() -> None:
    world = make_world(**described("refresh_token"))
    world.app.state.api = Api(world)
    id_tokens: list[str] = []

    def note(said: dict[str, Any]) -> dict[str, Any]:
        id_tokens.append(said["id_token"])
        return said

    world.op.edits.put("token_response", note)

    @world.app.get("/calendar")
    async def calendar(session: Session) -> int:
        api: Api = world.app.state.api
        return await api.status(world.oidc.auth(session, resource=CALENDAR))

    @world.app.get("/hint")
    async def hint(session: Session) -> str:
        return session.tokens.id_token

    browser = await world.signed_in()
    response = await browser.get("/calendar")
    assert response.json() == 200
    assert "set-cookie" in response.headers
    assert (await browser.get("/hint")).json() == id_tokens[-1] != id_tokens[0]
    browser = same_browser(browser, another_process(world))
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 2, "the refresh token is the newest"


async def test_a_refusal_for_an_api_ends_no_session(world: World, kind: GrantKind) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", OAuthError("invalid_grant"))
    with pytest.raises(OIDCError) as caught:
        await (await grant_in(world)).access_token()
    assert caught.value.code is Code.TOKEN_INVALID_GRANT
    assert await generation(browser) == 0
    assert (await (await grant_in(world)).access_token()).value
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) is not None


async def test_a_valid_token_serves_while_the_provider_is_down(world: World) -> None:
    await world.signed_in()
    grant = await grant_in(world)
    token = await grant.access_token()
    world.time.advance(FIRST_TOKEN_ENDS)
    world.op.faults.put("token", ServerError(), times=99)
    assert await grant.access_token() == token
    world.time.advance(AFTER_EXPIRY)
    with pytest.raises(OIDCError):
        await grant.access_token()


@pytest.mark.parametrize("form", [None, LOCAL])
async def test_a_sign_out_revokes_the_tokens_for_apis(
    world: World, form: dict[str, str] | None
) -> None:
    browser = await world.signed_in()
    grants = [await grant_in(world), await grant_in(world, MAIL)]
    tokens = [await grant.access_token() for grant in grants]
    await browser.post("/auth/logout", data=form or {}, headers={"origin": "https://app.test"})
    api = Api(world)
    assert revoked(world) == 3
    assert not any(api.is_accepted(token.value) for token in tokens)
    for grant in grants:
        with pytest.raises(SessionError) as caught:
            await grant.access_token()
        assert caught.value.code is Code.SESSION_REQUIRED


async def test_a_sign_out_while_the_token_is_stored_revokes_it(kind: GrantKind) -> None:
    """The sign-out finds no token yet, and the token comes from a session that was alive."""

    world, store = world_of("store", **described(kind))
    store.kind, store.nth, store.gate = "token", 2, Gate()
    browser, grant = await world.signed_in(), await grant_in(world)
    asked = asyncio.create_task(grant.access_token())
    await store.gate.until_reached()
    await browser.post("/auth/logout", data=LOCAL, headers={"origin": "https://app.test"})
    before = revoked(world)
    store.gate.opened.set()
    with pytest.raises(SessionError):
        await asked
    assert revoked(world) > before


async def test_a_sign_out_elsewhere_before_the_token_is_stored_revokes_it(kind: GrantKind) -> None:
    """The session looks alive when the token comes, and its record has ended when it is stored."""
    here, there = two_processes("cookie", **described(kind, mount=calling))

    @here.app.get("/calendar")
    async def calendar(current: Session) -> int:
        try:
            return await Api(here).status(here.oidc.auth(current, resource=CALENDAR))
        except SessionError as error:
            return error.status

    browser, held = await here.signed_in(), Held(first=True)
    elsewhere = copy_of(browser, there)
    here.op.faults.put("token", held)
    asked = begun(browser.get("/calendar"))
    await held.gate.until_reached()
    await elsewhere.post("/auth/logout", data=LOCAL, headers={"origin": "https://app.test"})
    held.gate.opened.set()
    assert (await asked).json() == 401
    hints = [event.token_type_hint for event in here.op.record.of(TokenRevoked)]
    assert hints.count("access_token") == 1, "that of the API"


async def test_a_request_from_before_a_step_up_ends_no_shared_exchange(mode: str) -> None:
    """Its copy of the cookie is refused, and the session continues."""

    store = "memory" if mode == "store" else None
    world = make_world(**described("token_exchange", session_store=store))
    api = Api(world)

    @world.app.get("/calendar")
    async def calendar(session: Session) -> int:
        return await api.status(world.oidc.auth(session, resource=CALENDAR))

    browser, held = await world.signed_in(), Held(first=True)
    copy = copy_of(browser, world)
    url = await callback_url(browser, "/auth/login?max_age=60&return_to=/me")
    world.op.faults.put("token", held)
    earlier = begun(copy.get("/calendar"))
    await held.gate.until_reached()
    assert (await browser.get(url)).status_code == 200
    later = begun(browser.get("/calendar"))
    await others_have_run()
    held.gate.opened.set()
    await earlier
    assert (await later).json() == (await browser.get("/calendar")).json() == 200
    assert revoked(world) == 0


async def test_a_response_that_waits_for_its_keys_loses_no_token_to_an_api() -> None:
    world = make_world(**described("refresh_token", session_store="memory"))
    browser, grant = await whose_response_waits_for_keys(world), await grant_in(world)
    world.op.faults.put("jwks", ServerError(), times=9)
    with pytest.raises(SessionError, match="cannot be refreshed right now"):
        await grant.access_token()
    world.op.faults.clear()
    world.time.advance(RETRY)
    assert (await generation(browser), revoked(world)) == (1, 0)


async def test_a_refresh_that_fails_after_the_end_of_its_session_gives_no_token(mode: str) -> None:
    """The session's own token could still be sent."""
    here, there = two_processes(mode)
    browser, outage, api = await here.signed_in(), held_outage(), Api(here)

    @here.app.get("/call")
    async def call(session: Session) -> int:
        return await api.status(here.oidc.auth(session, min_validity=100))

    here.time.advance(FIRST_TOKEN_ENDS - 60)
    here.op.faults.put("token", outage)
    asking = begun(copy_of(browser, here).get("/call"))
    await outage.gate.until_reached()
    await copy_of(browser, there).post("/auth/logout", data=LOCAL)
    outage.gate.opened.set()
    assert (await asking).status_code == 401
    assert not api.tokens


def test_what_a_response_leaves_out_is_assumed() -> None:
    party, target = make_world().oidc.runtime.party, Target(scope="x")
    least = {"access_token": "a", "token_type": "Bearer"}
    for more, lifetime, scope in (({}, 3600, ("x",)), ({"expires_in": 5, "scope": "y"}, 5, ("y",))):
        token = exchanges.issued(
            party, target, TokenResponse.read(json.dumps({**least, **more}).encode()), 1000, None
        )
        assert (token.expires_at, token.scope) == (1000 + lifetime, scope)
