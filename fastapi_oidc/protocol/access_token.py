"""Access tokens of callers (RFC 9068, RFC 7662), and the challenges to them (RFC 6750, 9470)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, cast
from urllib.request import parse_http_list

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation, misconfigured
from fastapi_oidc.protocol import claims as rules
from fastapi_oidc.protocol.encoding import JSON, Claims
from fastapi_oidc.protocol.id_token import is_recent
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.protocol.urls import is_word, written


def challenge(scheme: str, members: Mapping[str, str]) -> str:
    """A challenge of `WWW-Authenticate` with quoted members (RFC 9110 11.6.1)."""
    return f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in members.items())


@dataclass(frozen=True, slots=True)
class StepUp:
    """A requirement of a guard for the authentication of a session.

    `max_age` is in seconds, None for any age. `acr_values` are the accepted classes, empty for any.
    """

    max_age: int | None = None
    acr_values: tuple[str, ...] = ()

    def is_met(self, auth_time: int | None, acr: str | None, at: Instant) -> bool:
        """Whether an authentication at `auth_time` with the class `acr` is sufficient now."""
        if self.max_age is not None and not is_recent(auth_time, self.max_age, at):
            return False
        return not self.acr_values or acr in self.acr_values

    def covers(self, other: StepUp) -> bool:
        """Whether an authentication that meets this requirement meets `other` too."""
        age = inf if self.max_age is None else self.max_age
        is_younger = other.max_age is None or age <= other.max_age
        is_as_strong = bool(self.acr_values) and {*self.acr_values} <= {*other.acr_values}
        return is_younger and (not other.acr_values or is_as_strong)

    def parameters(self) -> dict[str, str]:
        """The requirement as parameters of an authorization request or a challenge."""
        return written({"max_age": self.max_age, "acr_values": self.acr_values})

    def challenge(self) -> str:
        """The value of `WWW-Authenticate` (RFC 9470 3)."""
        members = {"error": "insufficient_user_authentication", **self.parameters()}
        return challenge("Bearer", members)


def together(requirements: Iterable[StepUp]) -> StepUp | None:
    """The requirement that is met if all of them are, None if nothing can meet all of them."""
    ages: list[int] = []
    values: tuple[str, ...] = ()
    for each in requirements:
        if each.max_age is not None:
            ages.append(each.max_age)
        if values and each.acr_values:
            values = tuple(value for value in values if value in each.acr_values)
            if not values:
                return None
        values = values or each.acr_values
    return StepUp(min(ages, default=None), values)


def recent(seconds: int) -> StepUp:
    """Require an authentication in the last `seconds`; raises ConfigurationError."""
    if type(seconds) is not int or seconds < 0:
        raise misconfigured("oidc.require_recent takes seconds: a whole number, 0 or more")
    return StepUp(max_age=seconds)


def of_class(values: tuple[str, ...]) -> StepUp:
    """Require an authentication with one of the classes `values`; raises ConfigurationError."""
    if not values or not all(map(is_word, values)):
        raise misconfigured(
            "oidc.require_acr takes texts without spaces and quotes; several values are several "
            "arguments"
        )
    return StepUp(acr_values=values)


_SCHEME: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s+(?![\s=])|$)")
_ERROR: Final = re.compile(r'error\s*=\s*(?:"([^"]*)"|([^\s"]+))\s*', re.IGNORECASE)
_SCHEMES: Final = ("bearer", "dpop")


def refuses(challenges: Iterable[str], error: str) -> bool:
    """Whether a WWW-Authenticate header has this `error` in a challenge of the scheme Bearer
    (RFC 6750 3.1: "invalid_token") or DPoP (RFC 9449 7.1 and 9: "use_dpop_nonce" too)."""
    scheme = ""
    # Each is a scheme, a parameter, or a scheme with its first parameter.
    for text in parse_http_list(",".join(challenges)):
        if (begins := _SCHEME.match(text)) is not None:
            scheme, text = begins[1].lower(), text[begins.end() :]
        found = _ERROR.fullmatch(text)
        if scheme in _SCHEMES and found and error in found.groups():
            return True
    return False


_CLIENT_CLAIMS: Final = ("client_id", "azp")

_OF_OTHER_TOKENS: Final = frozenset({"nonce", "at_hash", "c_hash", "events"})
"""Claims of ID tokens (Core 2, 3.3.2.11) and security event tokens (RFC 8417 2.2)."""

_METHODS: Final = frozenset({"jkt", "x5t#S256"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAccessToken:
    """The values that an access token must match, and the names of its claims.

    `client_claim` is the name of the claim with the client, None for `client_id` or else `azp`.
    `roles_claim` is a path: the name of a claim, and the names of nested members.
    """

    issuer: rules.TrustedIssuer
    audience: str
    accepts_plain_jwt: bool = False
    client_claim: str | None = None
    scope_claim: str = "scope"
    roles_claim: tuple[str, ...] = ("roles",)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The key or certificate that the sender of a token must possess (RFC 7800 3).

    These are thumbprints of a key (`jkt`, RFC 9449 6) and of a certificate (`x5t#S256`, RFC 8705
    3).
    """

    jkt: str | None = None
    x5t_s256: str | None = None


@dataclass(frozen=True, slots=True)
class AccessClaims:
    """The claims of an access token that passed every rule; times in seconds since the epoch.

    It is not checked yet whether the sender has the key or certificate in `confirmation`.
    """

    iss: str
    sub: str
    aud: tuple[str, ...]
    client_id: str
    scope: tuple[str, ...]
    roles: tuple[str, ...]
    expires_at: int
    claims: Claims = field(repr=False)
    confirmation: Confirmation = field(default=Confirmation(), repr=False, kw_only=True)


def accept_access_token(
    header_typ: str | None, claims: Claims, expected: ExpectedAccessToken, at: Instant
) -> AccessClaims:
    """The access token after the checks of RFC 9068 4. Its signature must be verified before.

    Raises ProtocolViolation: jws.type or access_token.*.
    """
    # RFC 9068 2.1, 4; RFC 8725 3.11.
    if (header_typ or "").lower().removeprefix("application/") != "at+jwt":
        require_plain_type(header_typ, expected)
        require_no_other_token(claims, expected)
    rules.require_issued(claims, at, Code.ACCESS_TOKEN_ISSUED_AT)
    iss = expected.issuer.require(claims, Code.ACCESS_TOKEN_ISSUER)
    return accepted(iss, claims, expected, at)


def accepted(iss: str, claims: Claims, expected: ExpectedAccessToken, at: Instant) -> AccessClaims:
    """The checks for both JWTs and introspection responses."""
    return AccessClaims(
        iss=iss,
        sub=rules.require_subject(claims, Code.ACCESS_TOKEN_SUBJECT),
        aud=rules.require_audience(
            claims, expected.audience, Code.ACCESS_TOKEN_AUDIENCE, trusted=None
        ),
        client_id=require_client(claims, expected),
        scope=scope_of(claims, expected.scope_claim),
        roles=roles_of(claims, expected.roles_claim),
        expires_at=rules.require_not_expired(
            claims, at, Code.ACCESS_TOKEN_EXPIRY, Code.ACCESS_TOKEN_EXPIRED
        ),
        confirmation=confirmation_of(claims),
        claims=claims,
    )


def require_plain_type(header_typ: str | None, expected: ExpectedAccessToken) -> None:
    """Require `typ` to be absent or JWT, if that is accepted; other tokens have other types."""
    if not expected.accepts_plain_jwt or (header_typ or "JWT").upper() != "JWT":
        raise ProtocolViolation(
            Code.JWS_TYPE,
            f"typ is {shown(header_typ)}, not at+jwt. An ID token is for its client: send the "
            "access token",
            setting="accept_plain_jwt",
        )


def require_no_other_token(claims: Claims, expected: ExpectedAccessToken) -> None:
    """Refuse ID tokens and logout tokens among plain JWTs (RFC 9068 5, RFC 8725 3.12).

    The `aud` of an ID token contains the client to which it was issued, and its `azp` is that
    client (Core 2). So a plain JWT must name its client, and the client must not be in `aud`.
    """
    if found := _OF_OTHER_TOKENS & claims.keys():
        kind = "a security event token" if "events" in found else "an ID token"
        explanation = f"with {shown(sorted(found))} it is {kind}: send the access token"
        raise ProtocolViolation(Code.ACCESS_TOKEN_KIND, explanation)
    aud = rules.audience_of(claims, Code.ACCESS_TOKEN_AUDIENCE)
    names = {*_CLIENT_CLAIMS, expected.client_claim or "azp"}
    if any(claims.get(name) in aud for name in names):
        raise ProtocolViolation(
            Code.ACCESS_TOKEN_KIND, "aud has the client, as an ID token's has; see accept_plain_jwt"
        )


def require_client(claims: Claims, expected: ExpectedAccessToken) -> str:
    """The client to which the token was issued (RFC 9068 2.2)."""
    names = _CLIENT_CLAIMS if expected.client_claim is None else (expected.client_claim,)
    for name in names:
        client = rules.optional_string(claims, name, Code.ACCESS_TOKEN_CLIENT)
        if client is not None:
            return client
    raise ProtocolViolation(
        Code.ACCESS_TOKEN_CLIENT, f"none of {shown(list(names))}", setting="client_claim"
    )


def scope_of(claims: Claims, name: str) -> tuple[str, ...]:
    """The scope: words in one text with spaces (RFC 6749 3.3) or, from some providers, a list."""
    value = claims.get(name)
    return tuple(filter(None, value.split(" "))) if isinstance(value, str) else _texts(value, name)


def roles_of(claims: Claims, path: tuple[str, ...]) -> tuple[str, ...]:
    """The roles at the end of `path` (RFC 9068 2.2.3.1): a list of texts, or one text."""
    value: JSON = dict(claims)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return (value,) if isinstance(value, str) else _texts(value, path[-1])


def confirmation_of(claims: Claims) -> Confirmation:
    """The token's binding. One with an unknown method, or without a value, is refused (RFC 7800
    3.1): it would not be bound.
    """
    cnf = claims.get("cnf")
    if cnf is None:
        return Confirmation()
    if not isinstance(cnf, dict) or not cnf.keys() <= _METHODS or not any(cnf.values()):
        raise ProtocolViolation(Code.ACCESS_TOKEN_BINDING, "cnf has a method that is unknown here")
    return Confirmation(
        rules.optional_string(cnf, "jkt", Code.ACCESS_TOKEN_BINDING),
        rules.optional_string(cnf, "x5t#S256", Code.ACCESS_TOKEN_BINDING),
    )


def _texts(value: JSON, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ProtocolViolation(Code.ACCESS_TOKEN_SCOPE_MALFORMED, f"{name} is not a list of texts")
    return tuple(cast("list[str]", value))


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
    iss = expected.issuer.url
    if response.get("iss") is not None:
        iss = expected.issuer.require(response, Code.ACCESS_TOKEN_ISSUER)
    rules.refuse_early(response, at, Code.ACCESS_TOKEN_ISSUED_AT, "iat", "nbf")
    if response.get("sub") is None:
        response = {**response, "sub": require_client(response, expected)}
    return accepted(iss, response, expected, at)
