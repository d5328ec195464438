"""Making the tokens a client receives."""

from __future__ import annotations

import secrets

from pydantic import JsonValue

from fastapi_oidc.protocol.id_token import access_token_hash
from fastapi_oidc.testing.grants import Grant
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.state import ProviderState

LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


def token_response(
    op: ProviderState, grant: Grant, scope: tuple[str, ...], *, nonce: str | None
) -> dict[str, JsonValue]:
    """A successful token response with new tokens (Core 3.1.3.3)."""
    lifetimes = op.lifetimes
    access_token = op.credentials.issue_access_token(grant, lifetimes.access_token)
    members: dict[str, JsonValue] = {
        "access_token": access_token,
        "token_type": "Bearer",
        "expires_in": lifetimes.access_token,
        "scope": " ".join(scope),
        "id_token": id_token(op, grant, scope, access_token=access_token, nonce=nonce),
    }
    if grant.client.issue_refresh_tokens:
        refresh_token = op.credentials.issue_refresh_token(grant, lifetimes.refresh_token)
        members["refresh_token"] = refresh_token
    return op.edits.edited("token_response", members)


def id_token(
    op: ProviderState,
    grant: Grant,
    scope: tuple[str, ...],
    *,
    access_token: str,
    nonce: str | None,
) -> str:
    """A signed ID token (Core 2); its hash is kept because it may come back as a hint."""
    algorithm, now = grant.client.id_token_signed_response_alg, op.clock.now()
    claims: dict[str, JsonValue] = (
        grant.user.claims_for(scope)
        | op.issuer_claims(grant.user)
        | {
            "sub": grant.user.sub,
            "aud": grant.client.client_id,
            "exp": now + op.lifetimes.id_token,
            "iat": now,
            "auth_time": grant.auth_time,
            "sid": grant.sid,
            "at_hash": access_token_hash(access_token, algorithm),
        }
    )
    if nonce is not None:
        claims["nonce"] = nonce
    header = op.edits.edited("id_token_header", op.keys.header(algorithm))
    token = _signed(op, grant.client, header, op.edits.edited("id_token", claims), algorithm)
    op.credentials.remember_id_token(token, grant)
    return token


def signed_userinfo(op: ProviderState, client: DevClient, claims: dict[str, JsonValue]) -> str:
    """UserInfo as a JWT with `iss` and `aud` (Core 5.3.2)."""
    algorithm = client.userinfo_signed_response_alg or "RS256"
    addressed = {"iss": op.issuer, "aud": client.client_id} | claims
    return _signed(op, client, op.keys.header(algorithm), addressed, algorithm)


def logout_token(op: ProviderState, client: DevClient, *, user: DevUser, sid: str) -> str:
    """A signed logout token (Back-Channel Logout 1.0, 2.4)."""
    algorithm, now = client.id_token_signed_response_alg, op.clock.now()
    claims: dict[str, JsonValue] = op.issuer_claims(user) | {
        "aud": client.client_id,
        "iat": now,
        "exp": now + op.lifetimes.logout_token,
        "jti": secrets.token_urlsafe(12),
        "sub": user.sub,
        "sid": sid,
        "events": {LOGOUT_EVENT: {}},
    }
    header = op.keys.header(algorithm) | {"typ": "logout+jwt"}
    return _signed(
        op,
        client,
        op.edits.edited("logout_token_header", header),
        op.edits.edited("logout_token", claims),
        algorithm,
    )


def _signed(
    op: ProviderState,
    client: DevClient,
    header: dict[str, JsonValue],
    claims: dict[str, JsonValue],
    algorithm: str,
) -> str:
    return op.keys.signed(header, claims, algorithm=algorithm, secret=client.client_secret)
