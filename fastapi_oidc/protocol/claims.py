"""Claims of tokens and UserInfo, each read as a type, and their issuer (Core 2, 5.3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Self

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, ProtocolViolation, misconfigured
from fastapi_oidc.protocol.encoding import Claims
from fastapi_oidc.protocol.refusal import shown

ANY_TENANT: Final = "*"
"""Allows every tenant."""
PLACEHOLDER: Final = "{tenantid}"

_SHARED: Final = re.compile(r"/(?:common|organizations)(?=/|$)")
_TENANT: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

MAX_NUMERIC_DATE = 253_402_300_799
"""The last second of the year 9999."""

MAX_SUBJECT_LENGTH = 255

MAX_NUMBER = 2**64 - 1
"""The largest number that is accepted as a name."""


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """The issuer in the settings, and whose messages are accepted.

    With `tenants`, or ANY_TENANT alone, it is shared, and its messages are those of the tenants.
    """

    url: str
    tenants: frozenset[str] = frozenset()

    @classmethod
    def of(cls, url: str, tenants: Collection[str]) -> Self:
        """The issuer, shared by `tenants` (lower-case GUIDs, or `*` alone) if there are any.

        Raises ConfigurationError (configuration.invalid).
        """
        if tenants and len(_SHARED.findall(url)) != 1:
            raise misconfigured("allowed_tenants is for an issuer with /common or /organizations")
        wrong = [name for name in tenants if not _TENANT.fullmatch(name)]
        if wrong and tuple(tenants) != (ANY_TENANT,):
            raise misconfigured(
                f"{shown(wrong[0])} in allowed_tenants is not a tenant id in lower case"
            )
        return cls(url, frozenset(tenants))

    @property
    def in_metadata(self) -> str:
        """The issuer that its metadata must have: a template, if it is shared."""
        return self._of_tenant(PLACEHOLDER) if self.tenants else self.url

    @property
    def all(self) -> Sequence[str]:
        """The values of `iss` in its tokens; none if every tenant is allowed."""
        if not self.tenants:
            return [self.url]
        return [self._of_tenant(each) for each in sorted(self.tenants - {ANY_TENANT})]

    def has(self, iss: object) -> bool:
        """Whether `iss` is that of its tokens."""
        if not isinstance(iss, str) or not self.tenants:
            return iss == self.url
        before, _, after = self.in_metadata.partition(PLACEHOLDER)
        tenant = iss.removeprefix(before).removesuffix(after)
        is_allowed = not self.tenants.isdisjoint((tenant, ANY_TENANT))
        is_tenant = _TENANT.fullmatch(tenant) is not None
        return is_allowed and is_tenant and iss == self._of_tenant(tenant)

    def require(self, claims: Claims, code: Code) -> str:
        """Require exactly this issuer in `iss`, without normalization, and return it.

        Of a shared one, require the issuer of an allowed tenant, and this tenant in `tid` (OpenID
        Connect Core 3.1.3.7 rule 2, 16.15).
        """
        iss, expected, tenant = claims.get("iss"), self.url, ""
        if self.tenants:
            tenant = f", tid is {shown(claims.get('tid'))} (see allowed_tenants)"
            expected = self._of_tenant(str(claims.get("tid")))
        if iss != expected or not self.has(iss):
            explanation = f"iss is {shown(iss)}{tenant}, the configured issuer {shown(self.url)}"
            raise ProtocolViolation(code, explanation)
        return expected

    def _of_tenant(self, tenant: str) -> str:
        """The `iss` of the tenant's tokens."""
        return _SHARED.sub(lambda _: f"/{tenant}", self.url)


def require_string(claims: Claims, name: str, code: Code) -> str:
    """The claim as a non-empty text."""
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise ProtocolViolation(code, f"{name} is not a text")
    return value


def optional_string(claims: Claims, name: str, code: Code) -> str | None:
    """Like `require_string`; None when the claim is absent or null."""
    return None if claims.get(name) is None else require_string(claims, name, code)


def optional_name(claims: Claims, name: str, code: Code) -> str | None:
    """Like `optional_string`; a whole number, as some providers send it, becomes its digits."""
    value = claims.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER:
        return str(value)
    return optional_string(claims, name, code)


def require_numeric_date(claims: Claims, name: str, code: Code) -> int:
    """The claim in whole seconds since the epoch (RFC 7519 2); texts and booleans are refused."""
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ProtocolViolation(code, f"{name} is not a number")
    if not 0 <= value <= MAX_NUMERIC_DATE:
        raise ProtocolViolation(code, f"{name} is out of range")
    return int(value)


def optional_numeric_date(claims: Claims, name: str, code: Code) -> int | None:
    """Like `require_numeric_date`; None when the claim is absent or null."""
    return None if claims.get(name) is None else require_numeric_date(claims, name, code)


def require_subject(claims: Claims, code: Code) -> str:
    """Require 1 to 255 ASCII characters in `sub` (Core 2)."""
    sub = require_string(claims, "sub", code)
    if len(sub) > MAX_SUBJECT_LENGTH or not sub.isascii():
        raise ProtocolViolation(code, "sub is not at most 255 ASCII characters")
    return sub


def require_audience(
    claims: Claims, own: str, code: Code, *, trusted: frozenset[str] | None
) -> tuple[str, ...]:
    """Require `own` in `aud`: the client (Core 3.1.3.7 rule 3) or this API (RFC 9068 4).

    Other audiences must be `trusted`, unless that is None.
    """
    audience = audience_of(claims, code)
    if own not in audience:
        raise ProtocolViolation(code, f"aud is {shown(audience)}, without {shown(own)}")
    others: set[str] = set() if trusted is None else {*audience} - {own} - trusted
    if others:
        explanation = f"aud has {shown(sorted(others))}, which trusted_id_token_audiences has not"
        raise ProtocolViolation(code, explanation)
    return audience


def audience_of(claims: Claims, code: Code) -> tuple[str, ...]:
    """`aud`: one text or a list of texts (RFC 7519 4.1.3)."""
    value = claims.get("aud")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list):
        raise ProtocolViolation(code, "aud is neither a text nor a list of texts")
    audience = tuple(name for name in names if isinstance(name, str))
    if len(audience) != len(names):
        raise ProtocolViolation(code, "aud has members that are not texts")
    return audience


def require_not_expired(claims: Claims, at: Instant, malformed: Code, expired: Code) -> int:
    """Require an `exp` that is a number and has not passed (RFC 7519 4.1.4, Core 3.1.3.7 rule 9).

    The codes are for an `exp` that is missing or no number, and for one that has passed.
    """
    exp = require_numeric_date(claims, "exp", malformed)
    if at.is_past(exp):
        raise ProtocolViolation(expired, f"exp was {at.distance(exp)}", exp=exp)
    return exp


def require_issued(claims: Claims, at: Instant, code: Code) -> int:
    """Require an `iat` that is not in the future, and no such `nbf` (Core 2; RFC 9068 2.2)."""
    iat = require_numeric_date(claims, "iat", code)
    refuse_early(claims, at, code, "iat", "nbf")
    return iat


def refuse_early(claims: Claims, at: Instant, code: Code, *names: str) -> None:
    """Refuse a time in the future, such as `nbf`, in claims that may be absent (RFC 7519 4.1.5)."""
    for name in names:
        moment = optional_numeric_date(claims, name, code) or 0
        if at.is_ahead(moment):
            explanation = f"{name} is {at.distance(moment)}"
            early = ProtocolViolation(code, explanation, **{name: moment})
            early.is_early = True
            raise early


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
    claims: Claims, *, sub: str, issuer: TrustedIssuer, client_id: str, at: Instant
) -> Claims:
    """Like `accept_userinfo`, for the claims of a verified JWT.

    `iss` and `aud` are optional (5.3.2), but must name the OP and this client if present. Raises
    ProtocolViolation (userinfo.*).
    """
    if claims.get("iss") is not None:
        issuer.require(claims, Code.USERINFO_ISSUER)
    if claims.get("aud") is not None:
        require_audience(claims, client_id, Code.USERINFO_AUDIENCE, trusted=None)
    if claims.get("exp") is not None:
        require_not_expired(claims, at, Code.USERINFO_EXPIRED, Code.USERINFO_EXPIRED)
    refuse_early(claims, at, Code.USERINFO_EXPIRED, "nbf")
    return accept_userinfo(dict(claims), sub=sub)
