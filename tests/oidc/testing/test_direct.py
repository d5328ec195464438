"""Tokens and sessions for tests that skip the login."""

from typing import Any, TypeAlias

import pytest
from fastapi import Depends, FastAPI
from httpx import ASGITransport, AsyncClient

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    OIDCSession,
    StandardIdentity,
    require_auth,
    require_csrf,
)
from fastapi_oidc.testing import session_for, stored
from tests.oidc.grants.api import Api
from tests.oidc.resource_server.api_world import AUDIENCE, make_api_world
from tests.oidc.world import BASE_URL, make_world

ALICE = StandardIdentity(sub="alice", name="Alice")


@pytest.mark.parametrize("options", [{}, {"introspect": True}], ids=["jwt", "introspected"])
async def test_a_users_access_token_in_one_line(options: dict[str, Any]) -> None:
    world = make_api_world(**options)
    token = world.world.op.access_token("alice", audience=AUDIENCE, scope="machines:read")
    answer = await world.get(token)
    assert answer.json() == {"sub": "alice", "client_id": "test-client", "scope": ["machines:read"]}
    refused = await world.get(world.world.op.access_token("alice", audience="https://other.test"))
    assert refused.json()["code"] == Code.ACCESS_TOKEN_AUDIENCE


async def test_the_token_of_a_registered_client_has_its_format() -> None:
    world = make_api_world(token_format="opaque", introspect="opaque")
    token = world.world.op.access_token(
        "alice", audience=AUDIENCE, scope=["machines:read"], client_id="program"
    )
    assert "." not in token
    assert (await world.get(token)).json()["client_id"] == "program"


async def test_a_job_finds_a_stored_session_and_refreshes_it() -> None:
    world = make_world(session_store="memory")
    tokens = world.op.tokens("alice", client_id="app", scope="openid offline_access")
    session = await stored(world.oidc, session_for(ALICE, tokens=tokens))
    grant, api = await world.oidc.grant(session.id), Api(world)
    assert [found.id for found in await world.oidc.sessions_of("alice")] == [session.id]
    assert await api.status(world.oidc.auth(grant)) == 200
    world.time.advance(3600)
    assert await api.status(world.oidc.auth(grant)) == 200
    assert len(set(api.tokens)) == 2


async def test_a_session_is_stored_only_where_a_job_finds_it() -> None:
    with pytest.raises(ConfigurationError, match="store a session for a test"):
        await stored(make_world().oidc, session_for(ALICE))


@pytest.mark.parametrize(
    ("user", "client", "explanation"),
    [
        ("eve", "app", "no user 'eve'; its users are alice"),
        ("alice", "eve", "no client 'eve'; its clients are app"),
    ],
)
def test_unknown_names_are_told_the_known_ones(user: str, client: str, explanation: str) -> None:
    op = make_world().op
    with pytest.raises(ValueError, match=explanation):
        op.tokens(user, client_id=client)
    with pytest.raises(ValueError, match=explanation):
        op.access_token(user, audience=AUDIENCE, client_id=client)


Session: TypeAlias = OIDCSession[StandardIdentity]


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    is_alice = oidc.require(lambda user: user.name == "Alice")

    def guarded(path: str, guard: Any) -> None:
        async def endpoint(session: Session = Depends(guard)) -> str:
            return session.sub

        app.post(path)(endpoint)

    guarded("/oidc/auth", oidc.require_auth)
    guarded("/oidc/csrf", oidc.require_csrf)
    guarded("/oidc/alice", is_alice)
    guarded("/module/auth", require_auth)
    guarded("/module/csrf", require_csrf)


async def post(app: FastAPI, path: str, **headers: str) -> tuple[int, Any]:
    async with AsyncClient(transport=ASGITransport(app), base_url=BASE_URL) as client:
        answer = await client.post(path, headers=headers)
        return answer.status_code, answer.json()


async def test_an_override_of_the_modules_guard_reaches_what_is_built_on_it() -> None:
    world = make_world(mount=mount)
    session = session_for(ALICE)
    world.app.dependency_overrides[require_auth] = lambda: session
    token = {"x-csrf-token": world.oidc.csrf_token(session)}
    assert await post(world.app, "/module/auth") == (200, "alice")
    assert await post(world.app, "/module/csrf", **token) == (200, "alice")
    assert (await post(world.app, "/oidc/auth"))[0] == 401


async def test_what_a_guard_checks_is_checked_of_the_given_session_too() -> None:
    world = make_world(mount=mount)
    bob = session_for(StandardIdentity(sub="bob", name="Bob"), sub="bob")
    world.app.dependency_overrides[world.oidc.require_auth] = lambda: bob
    status, refused = await post(world.app, "/oidc/alice")
    assert (status, refused["code"]) == (403, "session.forbidden")
    status, refused = await post(world.app, "/oidc/csrf")
    assert (status, refused["code"]) == (403, "session.csrf")
    other = {"x-csrf-token": world.oidc.csrf_token(session_for(ALICE))}
    assert (await post(world.app, "/oidc/csrf", **other))[0] == 403


@pytest.mark.parametrize(
    ("identity", "sub"),
    [(StandardIdentity(sub="zoe"), "zoe"), ({"sub": "zoe"}, "zoe"), ("zoe", "alice")],
)
def test_a_session_has_the_sub_of_its_identity(identity: object, sub: str) -> None:
    session = session_for(identity, sid="s1")
    assert (session.sub, session.identity, session.sid) == (sub, identity, "s1")
    assert session.expires_at == session.created_at + 8 * 3600


async def test_a_csrf_token_is_valid_for_each_session_of_a_user() -> None:
    """An override that calls `session_for` makes a session for each request."""
    world = make_world(mount=mount)
    world.app.dependency_overrides[world.oidc.require_auth] = lambda: session_for(ALICE)
    token = {"x-csrf-token": world.oidc.csrf_token(session_for(ALICE))}
    assert await post(world.app, "/oidc/csrf", **token) == (200, "alice")
    assert (await post(world.app, "/module/auth"))[0] == 401
