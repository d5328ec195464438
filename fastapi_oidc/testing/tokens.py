"""Makes tokens and token responses."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TypeAlias

from pydantic import JsonValue

from fastapi_oidc.protocol.id_token import access_token_hash
from fastapi_oidc.testing.grants import Access, AccessToken, Credential, Grant
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.state import ProviderState

Members: TypeAlias = Mapping[str, JsonValue]

LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


def token_response(
    op: ProviderState, grant: Grant, access: Access, *, nonce: str | None
) -> dict[str, JsonValue]:
    """A successful token response with new tokens (Core 3.1.3.3)."""
    value = _issued_access_token(op, grant, access)
    members = _members(op, access, value)
    if "openid" in grant.scope:
        members["id_token"] = id_token(op, grant, access.scope, access_token=value, nonce=nonce)
    if grant.client.issue_refresh_tokens:
        # A confidential client's refresh token is bound to its authentication instead (RFC 9449 5).
        is_public = grant.client.authentication_method == "none"
        thumbprint = access.thumbprint if is_public else None
        ends = op.clock.now() + op.lifetimes.refresh_token
        refresh_token = Credential(grant, ends, thumbprint=thumbprint)
        members["refresh_token"] = op.credentials.issue_refresh_token(refresh_token)
    return op.edits.edited("token_response", members)


def access_token_response(op: ProviderState, grant: Grant, access: Access) -> dict[str, JsonValue]:
    """A successful token response with an access token alone (RFC 6749 5.1)."""
    members = _members(op, access, _issued_access_token(op, grant, access))
    return op.edits.edited("token_response", members)


def _members(op: ProviderState, access: Access, value: str) -> dict[str, JsonValue]:
    return {
        "access_token": value,
        "token_type": access.token_type,
        "expires_in": op.lifetimes.access_token,
        "scope": " ".join(access.scope),
    }


def _issued_access_token(op: ProviderState, grant: Grant, access: Access) -> str:
    expires_at = op.clock.now() + op.lifetimes.access_token
    claims = _access_claims(op, grant, access, expires_at)
    token = AccessToken(
        grant, expires_at, thumbprint=access.thumbprint, access=access, claims=claims
    )
    value = _access_token_value(op, access.client, claims)
    op.credentials.remember_access_token(value, token)
    return value


def _access_claims(
    op: ProviderState, grant: Grant, access: Access, expires_at: int
) -> dict[str, JsonValue]:
    """The claims of RFC 9068 2.2, which introspection returns too (RFC 7662 2.2)."""
    claims: dict[str, JsonValue] = op.issuer_claims(grant.user) | {
        "sub": grant.user.sub,
        "aud": access.audience,
        "client_id": access.client.client_id,
        "iat": op.clock.now(),
        "exp": expires_at,
        "jti": secrets.token_urlsafe(12),
        "scope": " ".join(access.scope),
    }
    if grant.is_of_a_user:
        claims |= authentication_claims(grant)
    if "roles" in grant.user.claims:
        claims["roles"] = grant.user.claims["roles"]
    if access.thumbprint is not None:
        claims["cnf"] = {"jkt": access.thumbprint}
    if access.actor is not None:
        claims["act"] = {"sub": access.actor}
    return claims


def _access_token_value(op: ProviderState, client: DevClient, claims: Members) -> str:
    typ, algorithm = client.access_token_typ, client.access_token_signing_alg
    if typ is None:
        return secrets.token_urlsafe(32)
    written = _as_keycloak(claims) if typ == "JWT" else dict(claims)
    header: dict[str, JsonValue] = op.keys.header(algorithm) | {"typ": typ}
    return _signed(
        op,
        client,
        op.edits.edited("access_token_header", header),
        op.edits.edited("access_token", written),
        algorithm,
    )


def _as_keycloak(claims: Members) -> dict[str, JsonValue]:
    """The claims with Keycloak's names."""
    renamed = {"client_id": "azp"}
    named = {renamed.get(name, name): claim for name, claim in claims.items() if name != "roles"}
    roles = {"realm_access": {"roles": claims["roles"]}} if "roles" in claims else {}
    return {**named, **roles, "typ": "Bearer"}


def authentication_claims(grant: Grant) -> dict[str, JsonValue]:
    """The claims about the user's authentication (Core 2; RFC 9068 2.2.1)."""
    acr = {} if grant.acr is None else {"acr": grant.acr}
    return {"auth_time": grant.auth_time, **acr}


def id_token(
    op: ProviderState,
    grant: Grant,
    scope: tuple[str, ...],
    *,
    access_token: str,
    nonce: str | None,
) -> str:
    """A signed ID token (Core 2)."""
    algorithm, now = grant.client.id_token_signed_response_alg, op.clock.now()
    claims: dict[str, JsonValue] = (
        grant.user.claims_for(scope)
        | op.issuer_claims(grant.user)
        | authentication_claims(grant)
        | {
            "sub": grant.user.sub,
            "aud": grant.client.client_id,
            "exp": now + op.lifetimes.id_token,
            "iat": now,
            "sid": grant.sid,
            "at_hash": access_token_hash(access_token, algorithm),
        }
    )
    if nonce is not None:
        claims["nonce"] = nonce
    header = op.edits.edited("id_token_header", op.keys.header(algorithm))
    op.credentials.remember_session(grant)
    return _signed(op, grant.client, header, op.edits.edited("id_token", claims), algorithm)


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
