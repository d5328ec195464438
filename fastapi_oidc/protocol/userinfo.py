"""The UserInfo response (OpenID Connect Core 5.3)."""

from __future__ import annotations

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.claims import optional_numeric_date, require_issuer
from fastapi_oidc.protocol.json import Claims


def accept_userinfo(document: object, *, sub: str) -> Claims:
    """The claims of a UserInfo response about exactly `sub` (Core 5.3.2, 5.3.4).

    Raises ProtocolViolation: userinfo.malformed or userinfo.subject.
    """
    if not isinstance(document, dict):
        raise ProtocolViolation(Code.USERINFO_MALFORMED, "the response is not a JSON object")
    if document.get("sub") != sub:
        raise ProtocolViolation(Code.USERINFO_SUBJECT, "sub is not that of the ID token")
    return document


def accept_signed_userinfo(
    claims: Claims, *, sub: str, issuer: str, client_id: str, at: Instant
) -> Claims:
    """As `accept_userinfo`, for the claims of a verified JWT.

    It should name OP and client (5.3.2), and names no others. Raises ProtocolViolation
    (userinfo.*).
    """
    if claims.get("iss") is not None:
        require_issuer(claims, issuer, Code.USERINFO_ISSUER)
    aud = claims.get("aud")
    if aud is not None and client_id not in (aud if isinstance(aud, list) else [aud]):
        raise ProtocolViolation(Code.USERINFO_AUDIENCE, "aud has not this client")
    require_in_time(claims, at)
    return accept_userinfo(dict(claims), sub=sub)


def require_in_time(claims: Claims, at: Instant) -> None:
    """`exp` and `nbf`, where they are present, hold (RFC 7519 4.1.4, 4.1.5)."""
    exp = optional_numeric_date(claims, "exp", Code.USERINFO_EXPIRED)
    nbf = optional_numeric_date(claims, "nbf", Code.USERINFO_EXPIRED)
    if exp is not None and at.is_past(exp):
        raise ProtocolViolation(Code.USERINFO_EXPIRED, "exp is past", exp=exp, now=at.now)
    if nbf is not None and at.is_ahead(nbf):
        raise ProtocolViolation(Code.USERINFO_EXPIRED, "nbf is ahead", nbf=nbf, now=at.now)
