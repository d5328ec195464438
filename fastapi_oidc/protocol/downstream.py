"""Other APIs, and the tokens for them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn, TypeAlias, get_args

from pydantic import TypeAdapter

from fastapi_oidc.errors import Code, ProviderError, misconfigured
from fastapi_oidc.protocol.encoding import encode_base64url, read_stored
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.protocol.urls import written

GrantKind: TypeAlias = Literal["refresh_token", "token_exchange", "on_behalf_of"]
"""How a session gets a token for another API: by its refresh token with the API's `resource` (RFC
8707 2.2), by token exchange (RFC 8693), or on behalf of its user (Microsoft Entra).
"""

ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105
"""RFC 8693 3."""

JWT_TYPE: Final = "urn:ietf:params:oauth:token-type:jwt"
"""RFC 8693 3."""

_KEY_LENGTH: Final = 16
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-\"$-~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The audience, resource and scope of a token. A `scope` may be a text of words with spaces.

    Raises ConfigurationError unless `resource` is an absolute URI without fragment (RFC 8707 2).
    """

    audience: str | None = None
    resource: str | None = None
    scope: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        """Parse `scope` and check `resource`."""
        words = self.scope.split(" ") if isinstance(self.scope, str) else self.scope
        object.__setattr__(self, "scope", tuple(filter(None, words)))
        if self.resource is not None and not _ABSOLUTE.fullmatch(self.resource):
            raise misconfigured("resource must be an absolute URI without fragment (RFC 8707 2)")

    @property
    def is_empty(self) -> bool:
        """Whether no value is set."""
        return self.audience is None and self.resource is None and not self.scope

    def parameters(self) -> dict[str, str]:
        """The target as parameters of a token request."""
        return written({name: getattr(self, name) for name in ("audience", "resource", "scope")})

    def matches(self, other: Target) -> bool:
        """Whether `other` has all values of this target."""
        return (
            self.audience in (None, other.audience)
            and self.resource in (None, other.resource)
            and (not self.scope or set(self.scope) == set(other.scope))
        )

    def key(self, *context: str) -> str:
        """The name of the target in this `context`, for records that processes share."""
        members = [*context, self.audience, self.resource, sorted(self.scope)]
        digest = hashlib.sha256(json.dumps(members).encode()).digest()
        return encode_base64url(digest)[:_KEY_LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamAPI(Target):
    """An API for which sessions get separate access tokens by `grant`.

    At least one of `audience`, `resource` and `scope` identifies the API. The provider's
    documentation says which of them it supports. Raises ConfigurationError.
    """

    grant: GrantKind

    def __post_init__(self) -> None:
        """Refuse an unknown grant, and an API without a target."""
        # `super()` without arguments does not work in a dataclass with slots.
        Target.__post_init__(self)
        if self.grant not in (known := get_args(GrantKind)) or self.is_empty:
            grants = ", ".join(known)
            raise misconfigured(
                f"a DownstreamAPI has an audience, a resource or a scope, and a grant of {grants}"
            )

    def has(self, url: str) -> bool:
        """Whether `url` is that of the `resource`, or below it."""
        path = f"{url.partition('?')[0]}/"
        return self.resource is not None and path.startswith(self.resource.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class ActorToken:
    """A token that says who acts for the user (RFC 8693 2.1), and its type."""

    value: str = field(repr=False)
    type: str = JWT_TYPE


def selected(apis: Collection[DownstreamAPI], target: Target) -> DownstreamAPI:
    """The only one of `apis` with all values of `target`; raises ConfigurationError otherwise."""
    found = [api for api in apis if target.matches(api)]
    if len(found) != 1:
        wanted = ", ".join(f"{name}={value}" for name, value in target.parameters().items())
        many = f"{len(found)} of downstream_apis have" if found else "none of downstream_apis has"
        known = ", ".join(str(api.parameters()) for api in apis) or "none"
        raise misconfigured(f"{many} {wanted}; known are {known}")
    return found[0]


def exchange_grant(
    api: DownstreamAPI, access_token: str, actor: ActorToken | None = None
) -> dict[str, str]:
    """The form that exchanges an access token for one of `api` (RFC 8693 2.1).

    On behalf of its user it is Microsoft Entra's form of RFC 7523 2.1: the token is the assertion.
    """
    if api.grant == "on_behalf_of":
        return {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": access_token,
            "requested_token_use": "on_behalf_of",
            **api.parameters(),
        }
    acting = {} if actor is None else {"actor_token": actor.value, "actor_token_type": actor.type}
    return acting | {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": access_token,
        "subject_token_type": ACCESS_TOKEN_TYPE,
        "requested_token_type": ACCESS_TOKEN_TYPE,
        **api.parameters(),
    }


def client_credentials_grant(target: Target) -> dict[str, str]:
    """The form that gets a token for the application itself (RFC 6749 4.4.2)."""
    return {"grant_type": "client_credentials", **target.parameters()}


def require_access_token(response: TokenResponse) -> None:
    """Require an access token as the issued token (RFC 8693 2.2.1); ProviderError (token.type)."""
    if response.issued_token_type not in (None, ACCESS_TOKEN_TYPE):
        raise ProviderError(Code.TOKEN_TYPE, "the provider issued another type of token")


MIN_VALIDITY: Final = 60
"""Seconds for which a token for an API must still be valid, by default."""


class NotText:
    """What has a token, and is no token: `f"Bearer {session.tokens}"` would send something else."""

    __slots__ = ()

    def __str__(self) -> NoReturn:
        """Raises TypeError, also for an f-string."""
        raise TypeError(
            f"{type(self).__name__} is not the text of a token: give the client "
            "auth=oidc.auth(session), which sends the token"
        )


@dataclass(frozen=True, slots=True)
class IssuedToken(NotText):
    """An access token for an API (RFC 6749 5.1).

    `issued_at` and `expires_at` are in seconds since the epoch. If `expires_at` is None, the token
    is valid until an API refuses it. A token of the type "DPoP" must be sent with a proof by
    `dpop_key` (RFC 9449), as `oidc.auth` does.
    """

    value: str = field(repr=False)
    expires_at: int | None
    scope: tuple[str, ...]
    token_type: str
    issued_at: int
    dpop_key: str | None = field(default=None, repr=False)

    def encode(self) -> bytes:
        """The token with its value, to be sealed."""
        return _ISSUED.dump_json(self)

    @staticmethod
    def decode(encoded: bytes) -> IssuedToken:
        """Read the result of `encode`; raises SessionError (session.store_unavailable)."""
        return read_stored(_ISSUED, encoded)


_ISSUED: Final = TypeAdapter(IssuedToken)


@dataclass(frozen=True, slots=True)
class Needed:
    """A caller's need: a token that is valid for `seconds` more and is not `refused`.

    It is for `url`, if that is known.
    """

    seconds: int = MIN_VALIDITY
    refused: str = field(default="", repr=False)
    url: str = field(default="", repr=False)

    def is_met_by(self, token: IssuedToken, now: int) -> bool:
        """Whether `token` need not be replaced.

        A token with a shorter lifetime than `seconds` is used for half of its lifetime, so that it
        is not replaced at every call.
        """
        seconds = self.seconds
        if token.expires_at is not None:
            lifetime = token.expires_at - token.issued_at
            seconds = seconds if seconds < lifetime else max(0, lifetime // 2)
        return self.is_served_by(token, now + seconds)

    def is_served_by(self, token: IssuedToken, now: int) -> bool:
        """Whether `token` can be sent while no better one is available."""
        has_expired = token.expires_at is not None and token.expires_at <= now
        return token.value != self.refused and not has_expired
