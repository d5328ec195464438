"""Introspection responses about opaque tokens (RFC 7662)."""

from __future__ import annotations

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.access_token import (
    AccessClaims,
    ExpectedAccessToken,
    accepted,
    require_client,
    require_issued,
)
from fastapi_oidc.protocol.claims import require_issuer
from fastapi_oidc.protocol.json import Claims


def is_active(response: Claims) -> bool:
    """Whether the token is active: `active` must be `true` (RFC 7662 2.2)."""
    return response.get("active") is True


def accept_introspection(
    response: Claims, expected: ExpectedAccessToken, at: Instant
) -> AccessClaims:
    """The access token that the response describes, after the checks for JWTs.

    All members are optional in RFC 7662 2.2. Here `iss` and `iat` may be absent, because the
    provider itself responded; `aud`, `exp` and the client may not. Without `sub` there is no user:
    the client acts for itself, and is the subject (RFC 9068 2.2). Raises ProtocolViolation
    (access_token.*).
    """
    if not is_active(response):
        raise ProtocolViolation(Code.ACCESS_TOKEN_INACTIVE, "the provider says: not active")
    if response.get("iss") is not None:
        require_issuer(
            response, expected.issuer, Code.ACCESS_TOKEN_ISSUER, tenants=expected.tenants
        )
    require_issued(response, at, is_optional=True)
    if response.get("sub") is None:
        response = {**response, "sub": require_client(response, expected)}
    return accepted(response, expected, at)
