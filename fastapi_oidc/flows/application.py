"""What the application plugs into the flows: its identity, and a last look at each session."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.stores import settled

Reason: TypeAlias = Literal["login", "refresh"]

_FIXED = (
    "id",
    "issuer",
    "client_id",
    "sub",
    "sid",
    "nonce",
    "audiences",
    "azp",
    "auth_time",
    "authenticated_at",
    "created_at",
    "refreshed_at",
    "generation",
)


@dataclass(frozen=True, slots=True)
class IdentityContext:
    """What the provider said of the end user, validated; copies that change nothing.

    `access_token` is for the APIs that it was made for and opaque to its client (RFC 6749 1.4):
    nothing in it was validated here, and the provider may change its form at any time. It is for
    providers that put roles nowhere else.
    """

    id_token_claims: Mapping[str, JSON]
    user_info: Mapping[str, JSON] | None = None
    access_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PersistContext(Generic[Identity]):
    """The session that is about to be kept, and why.

    A replacement may have another identity, claims, tokens, `session_state` and an earlier end.
    """

    session: OIDCSession[Identity]
    reason: Reason


ResolveIdentity: TypeAlias = Callable[[IdentityContext], Identity | Awaitable[Identity]]
BeforeSessionPersist: TypeAlias = Callable[
    [PersistContext[Identity]],
    OIDCSession[Identity] | Awaitable[OIDCSession[Identity] | None] | None,
]


@dataclass(frozen=True, slots=True)
class Application(Generic[Identity]):
    """The application's callbacks for login and refresh; each may be sync or async."""

    resolve_identity: ResolveIdentity[Identity]
    before_session_persist: BeforeSessionPersist[Identity] | None = field(default=None)

    async def identity_of(
        self,
        claims: Mapping[str, JSON],
        user_info: Mapping[str, JSON] | None,
        access_token: str,
    ) -> Identity:
        """The application's identity for validated provider data."""
        context = IdentityContext(
            copy.deepcopy(dict(claims)), copy.deepcopy(user_info), access_token
        )
        return await settled(self.resolve_identity(context))

    async def approved(
        self, session: OIDCSession[Identity], reason: Reason
    ) -> OIDCSession[Identity]:
        """The session to keep: the one the application returns, or else `session` itself.

        Raises ConfigurationError when that is not the same login.
        """
        if self.before_session_persist is None:
            return session
        replacement = await settled(self.before_session_persist(PersistContext(session, reason)))
        if replacement is None:
            return session
        _require_same_login(replacement, session)
        return replacement


def _require_same_login(replacement: object, session: OIDCSession[Identity]) -> None:
    """Refuse a session that the checks of later answers and logouts would be wrong about."""
    if not isinstance(replacement, OIDCSession):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, "before_session_persist returned something else"
        )
    changed = [name for name in _FIXED if getattr(replacement, name) != getattr(session, name)]
    if replacement.expires_at > session.expires_at:
        changed.append("expires_at")
    if changed:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, f"before_session_persist changed {', '.join(changed)}"
        )
