"""Sign-outs to the OP and from it (RP-Initiated, Back-Channel and Front-Channel Logout 1.0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.authorization import Parameters
from fastapi_oidc.protocol.claims import (
    TrustedIssuer,
    optional_name,
    require_audience,
    require_issued,
    require_not_expired,
    require_string,
    require_subject,
)
from fastapi_oidc.protocol.encoding import Claims
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.protocol.urls import with_query, written


def end_session_url(endpoint: str, **parameters: str | None) -> str:
    """The URL to which the browser is redirected, with the parameters of RP-Initiated Logout 2.

    `endpoint` may already have a query (2.1).
    """
    return with_query(endpoint, written(parameters))


LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"

LONGEST_LIFETIME: Final = 120
"""Seconds from `iat` for which a token without `exp` is accepted (2.4: at most two minutes)."""

# Most providers do not set the type that 2.4 recommends. Other types are other kinds of JWT.
_TYPES = frozenset({"jwt", "logout+jwt"})


@dataclass(frozen=True, slots=True)
class ExpectedLogout:
    """The values that a logout token must match."""

    issuer: TrustedIssuer
    client_id: str
    trusted_audiences: frozenset[str] = frozenset()
    accepts_without_exp: bool = False


@dataclass(frozen=True, slots=True)
class LogoutToken:
    """A logout token that passed all checks. `sub`, `sid` or both are set.

    Without an `exp` claim it expires two minutes after `iat`.
    """

    iss: str
    aud: tuple[str, ...]
    iat: int
    exp: int
    jti: str
    sub: str | None
    sid: str | None


def logout_token_parameter(form: Parameters) -> str:
    """The only `logout_token` of the form; other parameters are ignored (2.5).

    Raises ProtocolViolation (logout_token.request).
    """
    return _single(form, "logout_token", Code.LOGOUT_TOKEN_REQUEST)


def accept_logout_token(
    header_typ: str | None, claims: Claims, expected: ExpectedLogout, at: Instant
) -> LogoutToken:
    """The logout token, after the checks of 2.6 in order. Its signature must be verified before.

    Raises ProtocolViolation: jws.type or logout_token.*.
    """
    require_logout_type(header_typ)
    iat = require_issued(claims, at, Code.LOGOUT_TOKEN_ISSUED_AT)
    token = LogoutToken(
        iss=expected.issuer.require(claims, Code.LOGOUT_TOKEN_ISSUER),
        aud=require_audience(
            claims,
            expected.client_id,
            Code.LOGOUT_TOKEN_AUDIENCE,
            trusted=expected.trusted_audiences,
        ),
        iat=iat,
        exp=require_lifetime(claims, iat, expected, at),
        sub=_optional_subject(claims),
        sid=optional_name(claims, "sid", Code.LOGOUT_TOKEN_SUBJECT),
        jti=require_string(claims, "jti", Code.LOGOUT_TOKEN_ID),
    )
    if token.sub is None and token.sid is None:
        raise ProtocolViolation(Code.LOGOUT_TOKEN_SUBJECT, "neither sub nor sid")
    require_logout_event(claims)
    require_no_nonce(claims)
    return token


def _optional_subject(claims: Claims) -> str | None:
    if claims.get("sub") is None:
        return None
    return require_subject(claims, Code.LOGOUT_TOKEN_SUBJECT)


def require_logout_type(header_typ: str | None) -> None:
    """Require `typ` to be absent, JWT or logout+jwt (2.4; RFC 8725 3.11)."""
    if header_typ is not None and header_typ.lower().removeprefix("application/") not in _TYPES:
        raise ProtocolViolation(Code.JWS_TYPE, f"typ is {shown(header_typ)}")


def require_lifetime(claims: Claims, iat: int, expected: ExpectedLogout, at: Instant) -> int:
    """Require an `exp` that has not passed (2.4).

    Drafts of the specification had no `exp`. If a token without `exp` is accepted, `iat` limits its
    lifetime; its `jti` is still required.
    """
    if claims.get("exp") is not None:
        return require_not_expired(claims, at, Code.LOGOUT_TOKEN_EXPIRY, Code.LOGOUT_TOKEN_EXPIRED)
    if not expected.accepts_without_exp:
        explanation, setting = "exp is missing", "logout_token_without_exp"
        raise ProtocolViolation(Code.LOGOUT_TOKEN_EXPIRY, explanation, setting=setting)
    exp = iat + LONGEST_LIFETIME
    if at.is_past(exp):
        explanation = f"there is no exp, and iat + {LONGEST_LIFETIME} s was {at.distance(exp)}"
        raise ProtocolViolation(Code.LOGOUT_TOKEN_EXPIRED, explanation)
    return exp


def require_logout_event(claims: Claims) -> None:
    """Require the logout event, an object, in `events` (2.4)."""
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise ProtocolViolation(Code.LOGOUT_TOKEN_EVENTS, "events has no logout event")


def require_no_nonce(claims: Claims) -> None:
    """Refuse a token with a nonce, which would be an ID token (2.4)."""
    if "nonce" in claims:
        raise ProtocolViolation(Code.LOGOUT_TOKEN_NONCE, "a logout token must not have a nonce")


MAX_SID_LENGTH = 255


def front_channel_session(parameters: Parameters, issuer: TrustedIssuer) -> tuple[str, str]:
    """The `iss` and `sid` whose sessions are to end; both are required (2).

    Raises ProtocolViolation (logout_request.malformed, logout_request.issuer).
    """
    iss, sid = (_single(parameters, name, Code.LOGOUT_REQUEST_MALFORMED) for name in ("iss", "sid"))
    if not issuer.has(iss):
        explanation = f"iss is {shown(iss)}, the configured issuer {shown(issuer.url)}"
        raise ProtocolViolation(Code.LOGOUT_REQUEST_ISSUER, explanation)
    if len(sid) > MAX_SID_LENGTH:
        raise ProtocolViolation(Code.LOGOUT_REQUEST_MALFORMED, "sid is too long")
    return iss, sid


def _single(parameters: Parameters, name: str, code: Code) -> str:
    values = parameters.get(name, ())
    if len(values) != 1 or not values[0]:
        raise ProtocolViolation(code, f"{name} is missing or repeated")
    return values[0]
