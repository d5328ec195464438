"""Tokens and sessions for tests that skip the login."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError, StandardIdentity
from fastapi_oidc.testing import session_for, stored
from tests.oidc.grants.api import Api
from tests.oidc.resource_server.api_world import AUDIENCE, make_api_world
from tests.oidc.world import make_world

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
def test_unknown_names_are_answered_with_the_known_ones(
    user: str, client: str, explanation: str
) -> None:
    op = make_world().op
    with pytest.raises(ValueError, match=explanation):
        op.tokens(user, client_id=client)
    with pytest.raises(ValueError, match=explanation):
        op.access_token(user, audience=AUDIENCE, client_id=client)
