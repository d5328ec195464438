"""Tokens and sessions for tests that skip the login."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeVar

from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession, Tokens
from fastapi_oidc.testing.grants import Access, Grant
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.tokens import access_token_response, token_response

Identity = TypeVar("Identity")

TEST_CLIENT = DevClient(client_id="test-client", access_token_format="jwt")  # noqa: S106


def access_token_of(
    op: ProviderState, user: str, audience: str, scope: str | Sequence[str], client_id: str | None
) -> str:
    """An access token of `user` for `audience`; raises ValueError for unknown names."""
    client = TEST_CLIENT if client_id is None else _client(op, client_id)
    grant = _grant(op, user, client, scope)
    members = access_token_response(op, grant, Access(client, grant.scope, audience))
    return str(members["access_token"])


def tokens_of(op: ProviderState, user: str, client_id: str, scope: str | Sequence[str]) -> Tokens:
    """The tokens of a login of `user`; raises ValueError for unknown names."""
    client = _client(op, client_id)
    grant = _grant(op, user, client, scope)
    access = Access(client, grant.scope, client.audience or op.issuer)
    members: dict[str, Any] = token_response(op, grant, access, nonce=None)
    return Tokens(
        id_token=members["id_token"],
        access_token=members["access_token"],
        refresh_token=members.get("refresh_token"),
        expires_at=op.clock.now() + members["expires_in"],
        scope=grant.scope,
    )


async def stored(
    oidc: OIDC[Identity, Any], session: OIDCSession[Identity]
) -> OIDCSession[Identity]:
    """Write `session` to the session store of `oidc`, as a login does, and return it.

    `oidc.grant(session.id)` and `oidc.sessions_of(session.sub)` find it. Raises ConfigurationError
    without a session store.
    """
    sessions = oidc.runtime.party.sessions
    sessions.require_rows("store a session for a test")
    await sessions.begin(sessions.prepare(session))
    return session


def _grant(op: ProviderState, user: str, client: DevClient, scope: str | Sequence[str]) -> Grant:
    words = tuple(scope.split() if isinstance(scope, str) else scope)
    now, sid = op.clock.now(), secrets.token_urlsafe(12)
    return Grant(client, _user(op, user), words, nonce=None, auth_time=now, sid=sid)


def _user(op: ProviderState, sub: str) -> DevUser:
    if sub not in op.users:
        raise ValueError(f"the provider has no user {sub!r}; its users are {', '.join(op.users)}")
    return op.users[sub]


def _client(op: ProviderState, client_id: str) -> DevClient:
    if client_id not in op.clients:
        known = ", ".join(op.clients)
        raise ValueError(f"the provider has no client {client_id!r}; its clients are {known}")
    return op.clients[client_id]
