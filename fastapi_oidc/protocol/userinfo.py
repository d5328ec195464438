"""The UserInfo response (OpenID Connect Core 5.3)."""

from __future__ import annotations

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.claims import optional_numeric_date, require_issuer
from fastapi_oidc.protocol.error_text import shown
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.protocol.tenants import Tenants


def accept_userinfo(document: object, *, sub: str) -> Claims:
    """The claims of a UserInfo response about exactly `sub` (Core 5.3.2, 5.3.4).

    Raises ProtocolViolation: userinfo.malformed or userinfo.subject.
    """
    if not isinstance(document, dict):
        raise ProtocolViolation(Code.USERINFO_MALFORMED, "the response is not a JSON object")
    found = document.get("sub")
    if found != sub:
        raise ProtocolViolation(
            Code.USERINFO_SUBJECT, f"sub is {shown(found)}, that of the ID token {shown(sub)}"
        )
    return document


def accept_signed_userinfo(
    claims: Claims,
    *,
    sub: str,
    issuer: str,
    client_id: str,
    at: Instant,
    tenants: Tenants | None = None,
) -> Claims:
    """Like `accept_userinfo`, for the claims of a verified JWT.

    `iss` and `aud` are optional (5.3.2), but must name the OP and this client if present. Raises
    ProtocolViolation (userinfo.*).
    """
    if claims.get("iss") is not None:
        require_issuer(claims, issuer, Code.USERINFO_ISSUER, tenants=tenants)
    aud = claims.get("aud")
    if aud is not None and client_id not in (aud if isinstance(aud, list) else [aud]):
        raise ProtocolViolation(
            Code.USERINFO_AUDIENCE, f"aud is {shown(aud)}, the client {shown(client_id)}"
        )
    require_in_time(claims, at)
    return accept_userinfo(dict(claims), sub=sub)


def require_in_time(claims: Claims, at: Instant) -> None:
    """Check `exp` and `nbf`, if present (RFC 7519 4.1.4, 4.1.5)."""
    exp = optional_numeric_date(claims, "exp", Code.USERINFO_EXPIRED)
    nbf = optional_numeric_date(claims, "nbf", Code.USERINFO_EXPIRED)
    if exp is not None and at.is_past(exp):
        raise ProtocolViolation(Code.USERINFO_EXPIRED, f"exp was {at.distance(exp)}")
    if nbf is not None and at.is_ahead(nbf):
        raise ProtocolViolation(Code.USERINFO_EXPIRED, f"nbf is {at.distance(nbf)}")
