"""Accepted access tokens and callers, as endpoints get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from fastapi_oidc.protocol.access_token import AccessClaims
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.origin import REFUSED_SIGNATURE, NeverFromARequest


@dataclass(frozen=True, slots=True)
class AccessToken(NeverFromARequest):
    """An access token that was accepted. Only `ResourceServer` makes instances.

    `sub` is the user or, when a client acts for itself, usually the client. `expires_at` is in
    seconds since the epoch. `claims` are the claims of the JWT or the provider's introspection
    response, and `value` is the token itself, for a token exchange.
    """

    iss: str
    sub: str
    aud: tuple[str, ...]
    client_id: str
    scope: tuple[str, ...]
    roles: tuple[str, ...]
    expires_at: int
    claims: Mapping[str, JSON] = field(repr=False)
    value: str = field(repr=False)

    @property
    def auth_time(self) -> int | None:
        """The second in which the user authenticated (RFC 9068 2.2.1), None if it is not named."""
        value = self.claims.get("auth_time")
        return value if type(value) is int else None

    @property
    def acr(self) -> str | None:
        """The class of the user's authentication (RFC 9068 2.2.1), None if it is not named."""
        value = self.claims.get("acr")
        return value if isinstance(value, str) else None

    @classmethod
    def of(cls, claims: AccessClaims, value: str) -> AccessToken:
        """The token `value` with its accepted `claims`."""
        return cls(
            iss=claims.iss,
            sub=claims.sub,
            aud=claims.aud,
            client_id=claims.client_id,
            scope=claims.scope,
            roles=claims.roles,
            expires_at=claims.exp,
            claims=claims.claims,
            value=value,
        )


@dataclass(frozen=True)
class Caller(NeverFromARequest, Generic[Identity]):
    """The caller of an endpoint: exactly one of `session` and `access_token` is set."""

    identity: Identity
    session: OIDCSession[Identity] | None = None
    access_token: AccessToken | None = None

    def __class_getitem__(cls, types: object) -> object:
        """`Caller[User]`, which FastAPI must refuse as a dependency too."""
        alias = super().__class_getitem__(types)  # type: ignore[misc]
        alias.__signature__ = REFUSED_SIGNATURE
        return alias


AccessToken.__signature__ = REFUSED_SIGNATURE  # type: ignore[attr-defined]
Caller.__signature__ = REFUSED_SIGNATURE  # type: ignore[attr-defined]
