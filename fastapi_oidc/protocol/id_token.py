"""ID tokens whose signature is verified (OpenID Connect Core 3.1.3.7, 12.2), and sign-outs.

Sign-outs to the OP and from it: RP-Initiated, Back-Channel and Front-Channel Logout 1.0.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol import claims as rules
from fastapi_oidc.protocol.authorization import Parameters
from fastapi_oidc.protocol.encoding import Claims, encode_base64url, is_same
from fastapi_oidc.protocol.jose.keys import ALGORITHMS
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.protocol.urls import with_query, written


@dataclass(frozen=True, slots=True)
class Expected:
    """The values that an ID token or a logout token of a client must match.

    `trusted_audiences` are additional audiences. A logout token may lack `exp` if
    `logout_without_exp`. The others are of an ID token: `algorithm` is the algorithm of its
    verified signature. `nonce` is that of a login, None for a refresh. `max_age` is in seconds,
    None if the request had none. `acr_values` are the accepted classes.
    """

    issuer: rules.TrustedIssuer
    client_id: str
    trusted_audiences: frozenset[str] = frozenset()
    logout_without_exp: bool = False
    algorithm: str = ""
    access_token: str = field(default="", repr=False)
    nonce: str | None = None
    max_age: int | None = None
    acr_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Authentication:
    """What the ID tokens of a login and of its refreshes say alike (Core 12.2)."""

    iss: str
    sub: str
    aud: tuple[str, ...]
    azp: str | None
    auth_time: int | None
    nonce: str | None


@dataclass(frozen=True, slots=True)
class IdToken(Authentication):
    """An ID token that passed every rule; times in seconds since the epoch."""

    exp: int
    iat: int
    sid: str | None
    acr: str | None
    claims: Claims = field(repr=False)


def accept_id_token(claims: Claims, expected: Expected, at: Instant) -> IdToken:
    """The ID token of a login, after all checks of Core 3.1.3.7 in order.

    Raises ProtocolViolation (id_token.*).
    """
    id_token = _read(claims, expected, at, received=at)
    require_nonce(id_token.nonce, expected.nonce)
    require_access_token_hash(claims, expected)
    require_recent_authentication(id_token.auth_time, expected.max_age, at)
    require_authentication_context(id_token.acr, expected.acr_values)
    return id_token


def accept_refreshed_id_token(
    claims: Claims,
    original: Authentication,
    expected: Expected,
    at: Instant,
    *,
    received: Instant | None = None,
) -> IdToken:
    """The ID token of a refresh: valid itself, and of the same authentication (Core 12.2).

    `expected.nonce` and `expected.max_age` are for logins and not checked. `received` is the
    arrival of the response, if that was before `at`: the token must have been valid then, however
    long it took to get the key. Raises ProtocolViolation (id_token.*).
    """
    id_token = _read(claims, expected, at, received=received or at)
    require_access_token_hash(claims, expected)
    require_same_authentication(id_token, original)
    return id_token


def _read(claims: Claims, expected: Expected, at: Instant, *, received: Instant) -> IdToken:
    """The checks for both logins and refreshes."""
    require_no_events(claims)
    iss = expected.issuer.require(claims, Code.ID_TOKEN_ISSUER)
    sub = rules.require_subject(claims, Code.ID_TOKEN_SUBJECT)
    aud = rules.require_audience(
        claims, expected.client_id, Code.ID_TOKEN_AUDIENCE, trusted=expected.trusted_audiences
    )
    return IdToken(
        iss=iss,
        sub=sub,
        aud=aud,
        azp=require_authorized_party(claims, expected.client_id),
        exp=rules.require_not_expired(
            claims, received, Code.ID_TOKEN_EXPIRY, Code.ID_TOKEN_EXPIRED
        ),
        iat=rules.require_issued(claims, at, Code.ID_TOKEN_ISSUED_AT),
        nonce=rules.optional_string(claims, "nonce", Code.ID_TOKEN_NONCE),
        auth_time=rules.optional_numeric_date(claims, "auth_time", Code.ID_TOKEN_AUTH_TIME),
        sid=rules.optional_name(claims, "sid", Code.ID_TOKEN_SESSION_ID),
        acr=rules.optional_name(claims, "acr", Code.ID_TOKEN_AUTHENTICATION_CONTEXT),
        claims=claims,
    )


def require_no_events(claims: Claims) -> None:
    """Refuse a logout token as an ID token (Back-Channel Logout 2.4; RFC 8725 3.12)."""
    if "events" in claims:
        raise ProtocolViolation(Code.ID_TOKEN_EVENTS, "a security event token is not an ID token")


def require_authorized_party(claims: Claims, client_id: str) -> str | None:
    """Refuse a token issued to another client (Core 3.1.3.7 rules 4 and 5)."""
    # Some providers send azp with a single audience. That is allowed, so azp is only compared.
    azp = rules.optional_string(claims, "azp", Code.ID_TOKEN_AUTHORIZED_PARTY)
    if azp not in (None, client_id):
        raise ProtocolViolation(
            Code.ID_TOKEN_AUTHORIZED_PARTY, f"azp is {shown(azp)}, the client {shown(client_id)}"
        )
    return azp


def require_nonce(nonce: str | None, sent: str | None) -> None:
    """Require the nonce that was sent with the login (rule 11)."""
    if nonce is None or sent is None or not is_same(nonce, sent):
        raise ProtocolViolation(Code.ID_TOKEN_NONCE, "nonce is not the one that was sent")


def require_access_token_hash(claims: Claims, expected: Expected) -> None:
    """Require the hash of the access token in `at_hash`, if present (Core 3.1.3.8)."""
    code = Code.ID_TOKEN_ACCESS_TOKEN_HASH
    at_hash = rules.optional_string(claims, "at_hash", code)
    own = access_token_hash(expected.access_token, expected.algorithm) if at_hash else ""
    if not is_same(at_hash or "", own):
        raise ProtocolViolation(code, "at_hash of another access token")


def require_recent_authentication(auth_time: int | None, max_age: int | None, at: Instant) -> None:
    """With `max_age`, require an `auth_time` that is recent enough (rule 13, Core 3.1.2.1)."""
    if max_age is None:
        return
    if auth_time is None:
        raise ProtocolViolation(Code.ID_TOKEN_AUTH_TIME, "max_age was sent, auth_time is missing")
    if not is_recent(auth_time, max_age, at):
        explanation = f"auth_time was {at.distance(auth_time)}; max_age is {max_age}"
        raise ProtocolViolation(Code.ID_TOKEN_AUTH_TIME, explanation, auth_time=auth_time)


def is_recent(auth_time: int | None, max_age: int, at: Instant) -> bool:
    """Whether the end user authenticated in the last `max_age` seconds (Core 3.1.2.1)."""
    if auth_time is None:
        return False
    return not (at.is_past(auth_time + max_age) or at.is_ahead(auth_time))


def require_authentication_context(acr: str | None, acr_values: tuple[str, ...]) -> None:
    """Require one of the requested values in `acr` (rule 12, RFC 9470 5)."""
    if acr_values and acr not in acr_values:
        explanation = f"acr is {shown(acr)}; the login asked for {shown(' '.join(acr_values))}"
        raise ProtocolViolation(Code.ID_TOKEN_AUTHENTICATION_CONTEXT, explanation)


def require_same_authentication(id_token: IdToken, original: Authentication) -> None:
    """Require the same iss, sub, aud, azp, auth_time, and nonce if there is one (Core 12.2)."""
    if id_token.iss != original.iss:
        raise ProtocolViolation(Code.ID_TOKEN_ISSUER, "iss changed with the refresh")
    if id_token.sub != original.sub:
        raise ProtocolViolation(Code.ID_TOKEN_SUBJECT, "sub changed with the refresh")
    if set(id_token.aud) != set(original.aud):
        raise ProtocolViolation(Code.ID_TOKEN_AUDIENCE, "aud changed with the refresh")
    if id_token.azp != original.azp:
        raise ProtocolViolation(Code.ID_TOKEN_AUTHORIZED_PARTY, "azp changed with the refresh")
    if id_token.nonce not in (None, original.nonce):
        raise ProtocolViolation(Code.ID_TOKEN_NONCE, "nonce changed with the refresh")
    # Providers may leave auth_time out of either token.
    if None not in (id_token.auth_time, original.auth_time) and (
        id_token.auth_time != original.auth_time
    ):
        raise ProtocolViolation(Code.ID_TOKEN_AUTH_TIME, "auth_time changed with the refresh")


def access_token_hash(access_token: str, algorithm: str) -> str:
    """The `at_hash` of `access_token` in an ID token signed with `algorithm`.

    Raises ProtocolViolation (id_token.access_token_hash) for an unknown algorithm, because the hash
    cannot be checked.
    """
    row = ALGORITHMS.get(algorithm)
    if row is None:
        raise ProtocolViolation(Code.ID_TOKEN_ACCESS_TOKEN_HASH, "no hash for this algorithm")
    digest = hashlib.new(row.hash_name, access_token.encode()).digest()
    return encode_base64url(digest[: len(digest) // 2])


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
class LogoutToken:
    """What a logout token says that passed all checks. `sub`, `sid` or both are set."""

    iss: str
    iat: int
    sub: str | None
    sid: str | None


def logout_token_parameter(form: Parameters) -> str:
    """The only `logout_token` of the form; other parameters are ignored (2.5).

    Raises ProtocolViolation (logout_token.request).
    """
    return _single(form, "logout_token", Code.LOGOUT_TOKEN_REQUEST)


def accept_logout_token(
    header_typ: str | None, claims: Claims, expected: Expected, at: Instant
) -> LogoutToken:
    """The logout token, after the checks of 2.6 in order. Its signature must be verified before.

    Raises ProtocolViolation: jws.type or logout_token.*.
    """
    require_logout_type(header_typ)
    iat = rules.require_issued(claims, at, Code.LOGOUT_TOKEN_ISSUED_AT)
    iss = expected.issuer.require(claims, Code.LOGOUT_TOKEN_ISSUER)
    trusted = expected.trusted_audiences
    rules.require_audience(claims, expected.client_id, Code.LOGOUT_TOKEN_AUDIENCE, trusted=trusted)
    require_lifetime(claims, iat, expected, at)
    sub, code = None, Code.LOGOUT_TOKEN_SUBJECT
    if claims.get("sub") is not None:
        sub = rules.require_subject(claims, code)
    sid = rules.optional_name(claims, "sid", code)
    rules.require_string(claims, "jti", Code.LOGOUT_TOKEN_ID)
    if sub is None and sid is None:
        raise ProtocolViolation(code, "neither sub nor sid")
    require_logout_event(claims)
    require_no_nonce(claims)
    return LogoutToken(iss, iat, sub, sid)


def require_logout_type(header_typ: str | None) -> None:
    """Require `typ` to be absent, JWT or logout+jwt (2.4; RFC 8725 3.11)."""
    if header_typ is not None and header_typ.lower().removeprefix("application/") not in _TYPES:
        raise ProtocolViolation(Code.JWS_TYPE, f"typ is {shown(header_typ)}")


def require_lifetime(claims: Claims, iat: int, expected: Expected, at: Instant) -> None:
    """Require an `exp` that has not passed (2.4).

    Drafts of the specification had no `exp`. If a token without `exp` is accepted, `iat` limits its
    lifetime; its `jti` is still required.
    """
    if claims.get("exp") is not None:
        rules.require_not_expired(claims, at, Code.LOGOUT_TOKEN_EXPIRY, Code.LOGOUT_TOKEN_EXPIRED)
    elif not expected.logout_without_exp:
        explanation, setting = "exp is missing", "logout_token_without_exp"
        raise ProtocolViolation(Code.LOGOUT_TOKEN_EXPIRY, explanation, setting=setting)
    elif at.is_past(exp := iat + LONGEST_LIFETIME):
        explanation = f"there is no exp, and iat + {LONGEST_LIFETIME} s was {at.distance(exp)}"
        raise ProtocolViolation(Code.LOGOUT_TOKEN_EXPIRED, explanation)


def require_logout_event(claims: Claims) -> None:
    """Require the logout event, an object, in `events` (2.4)."""
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise ProtocolViolation(Code.LOGOUT_TOKEN_EVENTS, "events has no logout event")


def require_no_nonce(claims: Claims) -> None:
    """Refuse a token with a nonce, which would be an ID token (2.4)."""
    if "nonce" in claims:
        raise ProtocolViolation(Code.LOGOUT_TOKEN_NONCE, "a logout token must not have a nonce")


MAX_SID_LENGTH: Final = 255
"""Anybody may send a `sid`, and the keys of sessions are cached by it."""


def front_channel_session(parameters: Parameters, issuer: rules.TrustedIssuer) -> tuple[str, str]:
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
