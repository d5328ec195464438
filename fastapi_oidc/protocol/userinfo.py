"""The UserInfo response (OpenID Connect Core 5.3)."""

from __future__ import annotations

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.claims import require_issuer
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


def accept_signed_userinfo(claims: Claims, *, sub: str, issuer: str, client_id: str) -> Claims:
    """As `accept_userinfo`, for the claims of a verified JWT, which names OP and client (5.3.2).

    Raises ProtocolViolation (userinfo.*).
    """
    require_issuer(claims, issuer, Code.USERINFO_ISSUER)
    aud = claims.get("aud")
    if client_id not in (aud if isinstance(aud, list) else [aud]):
        raise ProtocolViolation(Code.USERINFO_AUDIENCE, "aud has not this client")
    return accept_userinfo(dict(claims), sub=sub)
