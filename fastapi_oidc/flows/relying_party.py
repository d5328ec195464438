"""The relying party: settings, the application's callbacks, provider and stores."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NoReturn, TypeAlias, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.events import Announcer, Event, EventName
from fastapi_oidc.flows.sessions import Sessions
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.provider import Provider
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.logout_cookie import LogoutCookie
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.transaction_cookies import TransactionCookies
from fastapi_oidc.settings import OIDCSettings

Changes: TypeAlias = tuple[CookieChange, ...]
Result = TypeVar("Result")
Reason: TypeAlias = Literal["login", "refresh"]

_FIXED = (
    "id",
    "issuer",
    "client_id",
    "sub",
    "sid",
    "former_sids",
    "nonce",
    "audiences",
    "azp",
    "auth_time",
    "acr",
    "authenticated_at",
    "prior_revocations",
    "created_at",
    "refreshed_at",
    "generation",
    "epoch",
    "absolute_end",
)


@dataclass(frozen=True, slots=True)
class IdentityContext:
    """The provider's validated data about the end user. These are copies.

    `access_token` is meant for its APIs and opaque to its client (RFC 6749 1.4): it was not
    validated here, and the provider may change its format at any time. Use it only if the provider
    puts the roles nowhere else.
    """

    id_token_claims: Mapping[str, JSON]
    user_info: Mapping[str, JSON] | None = None
    access_token: str | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> NoReturn:
        """Raise TypeError: the context is not the claims."""
        raise TypeError(f"resolve_identity gets a context: context.id_token_claims[{name!r}]")


@dataclass(frozen=True, slots=True)
class PersistContext(Generic[Identity]):
    """The session that is about to be stored, and the reason.

    The session that the callback returns may have another identity, other claims, other tokens of
    the same key, another `session_state` and an earlier end.
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
        return await called(self.resolve_identity, context)

    async def approved(
        self, session: OIDCSession[Identity], reason: Reason
    ) -> OIDCSession[Identity]:
        """The session to store: the one that the application returns, or else `session` itself.

        Raises ConfigurationError when it is not the same login.
        """
        if self.before_session_persist is None:
            return session
        replacement = await called(self.before_session_persist, PersistContext(session, reason))
        if replacement is None:
            return session
        _require_same_login(replacement, session)
        if reason == "login" or replacement.expires_at == session.expires_at:
            return replacement
        return replacement.model_copy(update={"absolute_end": session.last_end})


def _require_same_login(replacement: object, session: OIDCSession[Identity]) -> None:
    """Refuse changes that would break later checks of tokens, a later end, and another key."""
    if not isinstance(replacement, OIDCSession):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, "before_session_persist must return an OIDCSession or None"
        )
    changed = [name for name in _FIXED if getattr(replacement, name) != getattr(session, name)]
    if replacement.expires_at > session.expires_at:
        changed.append("expires_at")
    if replacement.tokens.dpop_key != session.tokens.dpop_key:
        changed.append("tokens.dpop_key")
    if changed:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, f"before_session_persist changed {', '.join(changed)}"
        )


@dataclass(frozen=True, slots=True)
class RelyingParty(Generic[Identity]):
    """One client registered at one OpenID Provider, put together by `OIDC`.

    `downstream_apis` are the APIs for which sessions get tokens.
    """

    settings: OIDCSettings
    provider: Provider
    sessions: Sessions[Identity]
    transactions: TransactionCookies
    logouts: LogoutCookie
    clock: Clock
    application: Application[Identity]
    announcer: Announcer
    downstream_apis: tuple[DownstreamAPI, ...] = ()

    def announce(
        self,
        name: EventName,
        *,
        sub: str | None = None,
        session_id: str | None = None,
        sid: str | None = None,
    ) -> None:
        """Announce an event with the current time."""
        self.announcer(Event(name, self.clock.now(), sub=sub, session_id=session_id, sid=sid))

    def is_ours(self, session: OIDCSession[Identity]) -> bool:
        """Whether the session is of this provider and client, as the settings may have changed."""
        settings = self.settings
        if session.client_id != settings.client_id or session.issuer == settings.issuer:
            return session.client_id == settings.client_id
        tenants = settings.tenants()
        return tenants is not None and tenants.has_issuer(session.issuer)

    def issuers(self, issuer: str | None = None) -> Sequence[str]:
        """The `iss` values of this provider's ID tokens, or the one that the caller means.

        Raises ConfigurationError (configuration.invalid) if only the caller can know it.
        """
        tenants = self.settings.tenants()
        if issuer is not None or tenants is None:
            return (issuer or self.settings.issuer,)
        if tenants.allowed is None:
            explanation = "with allowed_tenants='*', a user is named by sub and issuer: pass both"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        return [tenants.issuer_of(tenant) for tenant in sorted(tenants.allowed)]

    def has_expired(self, session: OIDCSession[Identity]) -> bool:
        """Whether the access token has expired."""
        expires_at = session.tokens.expires_at
        return expires_at is not None and self.clock.now() >= expires_at

    async def within_time_limit(self, callback: Awaitable[Result]) -> Result:
        """The result of a callback; raises TimeoutError after `callback_timeout` seconds.

        A callback that fails because a task that it awaits was cancelled counts as failed.
        """
        try:
            async with asyncio.timeout(self.settings.callback_timeout):
                return await callback
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("a callback of the application was cancelled from within") from None


@dataclass(frozen=True, slots=True)
class Redirection:
    """Redirect the browser to `location`.

    `provider_unreachable`: the user is signed out here, but the provider could not be reached.
    """

    location: str = field(repr=False)
    changes: Changes = field(default=(), repr=False)
    provider_unreachable: bool = False
