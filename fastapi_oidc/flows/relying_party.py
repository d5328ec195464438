"""The relying party: settings, the application's callbacks, provider and stores."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, TypeAlias

from pydantic import ConfigDict

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.concurrency import PerLoop, SingleFlight, called
from fastapi_oidc.errors import Code, OIDCError, SessionError, misconfigured
from fastapi_oidc.events import Announcer, EventName
from fastapi_oidc.flows.sessions import ENDED_CODES, Live, Over, Sessions
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.downstream import DownstreamAPI, Target, selected
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.id_token import Expected
from fastapi_oidc.protocol.refusal import RefusedRequest, shown
from fastapi_oidc.provider.provider import Provider
from fastapi_oidc.session.cookies import CookieChange, Sealer, TransactionCookies
from fastapi_oidc.session.model import AnySession, Identity, OIDCSession, StandardIdentity
from fastapi_oidc.settings import OIDCSettings

FIRST_BACKOFF, LONGEST_BACKOFF = 5, 60
"""Seconds between two attempts while the provider is unavailable; doubled each time."""

RETRY_SECONDS: Final = 1
"""Seconds until a retry, if the refresh is still under way."""

MOST_POSTPONED: Final = 20_000
"""Maximum number of sessions whose pauses one process knows; beyond it, a pause is over."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """The refresh of `generation` had no result; the next attempt is due at `retry_at`.

    `pause` is the number of seconds before that attempt. `refusals` is how often in a row the
    provider refused this refresh token without saying that it is invalid. `is_announced`: an event
    was sent for the attempt that this request waited for.
    """

    generation: int
    pause: int
    retry_at: int
    because: str = ""
    refusals: int = 0
    is_announced: bool = False


Outcome: TypeAlias = Live | Over | Postponed


class Refreshes:
    """The refreshes of one process, by session id: those under way, and the pauses.

    The refresh tokens of those under way are used up, so a shutdown waits for the responses.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: TTLCache[str, Postponed] = TTLCache(clock, max_entries=MOST_POSTPONED)
        self.tasks: SingleFlight[str, Outcome] = SingleFlight()

    def pause_of(self, session: AnySession) -> Postponed | None:
        """The pause of this generation of the session; None if a refresh is due."""
        found = self._last(session)
        # A time that is further away than the pause is from before the clock was set back.
        is_due = found is None or not 0 < found.retry_at - self._clock.now() <= found.pause
        return None if is_due else found

    def refusals_of(self, session: AnySession) -> int:
        """How often in a row this generation's refresh token was refused without a clear reason."""
        last = self._last(session)
        return 0 if last is None else last.refusals

    def briefly(self, session: AnySession, because: str) -> Postponed:
        """A pause of one request, without an effect on others."""
        retry_at = self._clock.now() + RETRY_SECONDS
        return Postponed(session.generation, RETRY_SECONDS, retry_at, because)

    def postpone(self, session: AnySession, error: OIDCError, announcer: Announcer) -> Postponed:
        """Announce a refresh without a result, and pause before the next attempt."""
        now, before = self._clock.now(), self._last(session)
        pause = FIRST_BACKOFF if before is None else min(2 * before.pause, LONGEST_BACKOFF)
        if error.code is Code.SESSION_LOCK_UNAVAILABLE:  # its owner may be dead by then
            pause = FIRST_BACKOFF
        refusals = self.refusals_of(session) + 1 if isinstance(error, RefusedRequest) else 0
        postponed = Postponed(session.generation, pause, now + pause, error.message, refusals)
        self._pauses.set(session.id, postponed, expires_at=session.last_end)
        name = EventName.SESSION_REFRESH_POSTPONED
        announcer.announce(name, error, sub=session.sub, session_id=session.id)
        return replace(postponed, is_announced=True)

    def _last(self, session: AnySession) -> Postponed | None:
        found = self._pauses.get(session.id)
        return found if found is not None and found.generation == session.generation else None


Changes: TypeAlias = tuple[CookieChange, ...]
Reason: TypeAlias = Literal["login", "refresh"]

OPTIONS: Final = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)
"""Of classes that an application fills in: an unknown name or a wrong type is an error."""

CONCURRENT_REFRESHES: Final = 32
"""Maximum number of refreshes of a registration under way in one process; the others wait."""

_MAY_CHANGE: Final = {"identity", "claims", "tokens", "session_state", "expires_at"}
"""What `before_session_persist` may change; tokens only of the same key, the end to an earlier."""


@dataclass(frozen=True, slots=True)
class IdentityContext:
    """The provider's validated data about the end user. These are copies.

    `access_token` is meant for its APIs and opaque to its client (RFC 6749 1.4): it was not
    validated here, and the provider may change its format at any time. Use it only if the provider
    puts the roles nowhere else. `registration` is the `name` of the settings of the registration,
    None for an access token of another issuer.
    """

    id_token_claims: Mapping[str, JSON]
    user_info: Mapping[str, JSON] | None = None
    access_token: str | None = field(default=None, repr=False)
    registration: str | None = None


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


async def standard_identity(context: IdentityContext) -> StandardIdentity:
    """The profile claims of the ID token; claims of UserInfo take precedence."""
    claims = context.id_token_claims
    return StandardIdentity.from_claims(str(claims["sub"]), claims, context.user_info or {})


@dataclass(frozen=True, slots=True)
class Application:
    """The application's callbacks for login and refresh; each may be sync or async."""

    resolve_identity: ResolveIdentity[Any]
    before_session_persist: BeforeSessionPersist[Any] | None = field(default=None)

    async def identity_of(
        self,
        claims: Mapping[str, JSON],
        user_info: Mapping[str, JSON] | None,
        access_token: str,
        registration: str | None,
    ) -> Any:
        """The application's identity for validated provider data."""
        context = IdentityContext(
            copy.deepcopy(dict(claims)), copy.deepcopy(user_info), access_token, registration
        )
        identity = await called(self.resolve_identity, context)
        if identity is None:
            raise misconfigured(
                "resolve_identity returned None: return an identity, or raise SessionError"
            )
        return identity

    async def approve(self, session: AnySession, reason: Reason) -> AnySession:
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


def _require_same_login(replacement: object, session: AnySession) -> None:
    """Refuse changes of other members than _MAY_CHANGE, a later end, and another key."""
    if not isinstance(replacement, OIDCSession):
        raise misconfigured("before_session_persist must return an OIDCSession or None")
    fixed = [name for name in OIDCSession.model_fields if name not in _MAY_CHANGE]
    changed = [name for name in fixed if getattr(replacement, name) != getattr(session, name)]
    if replacement.expires_at > session.expires_at:
        changed.append("expires_at to a later time, which only session_lifetime can")
    if replacement.tokens.dpop_key != session.tokens.dpop_key:
        changed.append("tokens.dpop_key")
    if changed:
        raise misconfigured(f"before_session_persist changed {', '.join(changed)}")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RelyingParty:
    """One client registered at one OpenID Provider, put together by `OIDC`.

    `together` are the registrations that serve the same requests, this one among them: the session
    says which of them serves it. A provider that hangs fills only its own `refreshing`.
    `downstream_apis` are the APIs for which sessions get tokens. `logouts` seals the `state` of
    logouts.
    """

    settings: OIDCSettings
    issuer: TrustedIssuer
    provider: Provider
    sessions: Sessions
    refreshes: Refreshes
    transactions: TransactionCookies
    logouts: Sealer
    clock: Clock
    application: Application
    announcer: Announcer
    downstream_apis: tuple[DownstreamAPI, ...]
    together: list[RelyingParty]
    refreshing: PerLoop[asyncio.Semaphore] = field(
        default_factory=lambda: PerLoop(lambda: asyncio.Semaphore(CONCURRENT_REFRESHES))
    )

    @property
    def expected(self) -> Expected:
        """What every ID token and logout token of this registration must match."""
        settings = self.settings
        audiences = frozenset(settings.trusted_id_token_audiences)
        without_exp = settings.logout_token_without_exp
        return Expected(self.issuer, settings.client_id, audiences, without_exp)

    def announce_end(self, over: Over) -> None:
        """Announce the end of a session once, however many requests find it."""
        session, id = over.session, over.copy.id
        if over.is_refused or not self.sessions.endings.is_first_to_find(id):
            return
        party = None if session is None else self.serving(session)
        announcer = self.sessions.announcer if party is None else party.announcer
        announcer.announce(
            EventName.SESSION_ENDED,
            sub=None if session is None else session.sub,
            session_id=id,
            code=over.by.code if over.by else ENDED_CODES[over.reason],
            explanation=over.by.message if over.by else "",
        )

    def api(self, target: Target) -> DownstreamAPI | None:
        """The configured API for `target`; None for the session's own token.

        Raises ConfigurationError unless exactly one API matches.
        """
        return None if target.is_empty else selected(self.downstream_apis, target)

    def serving(self, session: AnySession) -> RelyingParty | None:
        """The registration of this session; None without one, as the settings may have changed."""
        for party in self.together:
            is_client = session.client_id == party.settings.client_id
            if is_client and party.issuer.has(session.issuer):
                return party
        return None

    def of(self, session: AnySession) -> RelyingParty:
        """Like `serving`; raises SessionError (session.required) without a registration."""
        party = self.serving(session)
        if party is None:
            explanation = "the session is of a client that is not registered here"
            raise SessionError(Code.SESSION_REQUIRED, explanation)
        return party

    def named(self, name: str) -> RelyingParty | None:
        """The registration whose settings have this `name`."""
        return next((party for party in self.together if party.settings.name == name), None)

    def at(self, issuer: str) -> RelyingParty | None:
        """The first registration whose provider issues with this `iss`; None without one."""
        return next((party for party in self.together if party.issuer.has(issuer)), None)

    @property
    def is_one_of_several(self) -> bool:
        """Whether other registrations serve the same requests."""
        return len(self.together) > 1

    def issuers(self, issuer: str | None = None) -> Sequence[tuple[RelyingParty, str]]:
        """The `iss` values of ID tokens that the caller may mean, each with its registration.

        Raises ConfigurationError (configuration.invalid) if only the caller can know the issuer.
        """
        if issuer is not None:
            named = [(party, issuer) for party in self.together if party.issuer.has(issuer)]
            if not named:
                raise misconfigured(f"no registration here has the issuer {shown(issuer)}")
            return named
        if self.is_one_of_several or not self.issuer.all:
            explanation = "with several issuers, a user is named by sub and issuer: pass both"
            raise misconfigured(explanation)
        return [(self, iss) for iss in self.issuer.all]

    def has_expired(self, session: AnySession) -> bool:
        """Whether the access token has expired."""
        expires_at = session.tokens.expires_at
        return expires_at is not None and self.clock.now() >= expires_at

    def end_of(self, session: AnySession) -> int:
        """The second at which the session ends if there are no further requests."""
        end = self.absolute_end_of(session)
        idle_timeout = self.settings.idle_timeout
        return end if idle_timeout is None else min(end, idle_end_of(session, idle_timeout))

    def absolute_end_of(self, session: AnySession) -> int:
        """The second at which the session ends, however much it is used.

        A shortened `session_lifetime` applies to existing sessions too.
        """
        return min(session.expires_at, session.created_at + self.settings.session_lifetime)


def idle_end_of(session: AnySession, idle_timeout: int) -> int:
    """The second at which the idle timeout ends the session."""
    return (session.last_seen_at or session.created_at) + idle_timeout


@dataclass(frozen=True, slots=True)
class Redirection:
    """Redirect the browser to `location`.

    `provider_unreachable`: the user is signed out here, but the provider could not be reached.
    """

    location: str = field(repr=False)
    changes: Changes = field(default=(), repr=False)
    provider_unreachable: bool = False
