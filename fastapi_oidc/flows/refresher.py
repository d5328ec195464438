"""One refresh per session and generation, shared by every request that needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.flows.events import Announcer, Event, EventName, refused
from fastapi_oidc.flows.recent import Recent
from fastapi_oidc.provider.single_flight import SingleFlight
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.keeper import Keeper, Kept
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.session.stores import RefreshLock, unavailable_as

REMEMBERED = 60
"""Seconds for which requests that still carry the old cookie get the outcome of its refresh."""

FIRST_PAUSE, LONGEST_PAUSE = 5, 60
"""Seconds between two attempts while the provider cannot be asked; doubled each time."""

_FINAL = frozenset({Code.TOKEN_INVALID_GRANT, Code.TOKEN_INVALID_CLIENT})
_OUTAGES = frozenset(
    {
        Code.SESSION_STORE_UNAVAILABLE,
        Code.SESSION_REVOCATION_UNAVAILABLE,
        Code.SESSION_LOCK_UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Renewed(Generic[Identity]):
    """The session goes on as `kept`."""

    kept: Kept[Identity]


@dataclass(frozen=True, slots=True)
class Over:
    """The provider, a rule or the user ended the session."""

    code: Code


@dataclass(frozen=True, slots=True)
class Postponed:
    """Nothing was decided; `pause` seconds lie before the next attempt, at `retry_at`."""

    pause: int
    retry_at: int


Outcome: TypeAlias = Renewed[Identity] | Over | Postponed
Refresh: TypeAlias = Callable[[OIDCSession[Identity]], Awaitable[OIDCSession[Identity]]]


class SharedSuccessors(Generic[Identity]):
    """Hands a successor from the process that refreshed to the others, under a lock.

    Only sealed bytes pass through the lock: who can read it learns no token.
    """

    def __init__(self, lock: RefreshLock, codec: SessionCodec[Identity], sealer: Sealer) -> None:
        self._lock, self._codec, self._sealer = lock, codec, sealer

    async def once(
        self, name: str, renew: Callable[[], Awaitable[OIDCSession[Identity]]]
    ) -> OIDCSession[Identity]:
        """The successor that `renew` makes, here or in another process."""

        async def sealed() -> bytes:
            return self._sealer.seal(self._codec.encode(await renew()), name=name).encode()

        with unavailable_as(Code.SESSION_LOCK_UNAVAILABLE):
            successor = await self._lock.run_exclusive(name, sealed)
            return self._opened(successor.decode(), name)

    def _opened(self, successor: str, name: str) -> OIDCSession[Identity]:
        try:
            return self._codec.decode(self._sealer.open(successor, name=name))
        except SessionError as error:
            explanation = f"another process wrote what this one cannot read ({error.code})"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation) from None


class Refresher(Generic[Identity]):
    """Renews sessions; the outcome of each is remembered for `REMEMBERED` seconds."""

    def __init__(
        self,
        refresh: Refresh[Identity],
        keeper: Keeper[Identity],
        clock: Clock,
        announcer: Announcer,
        shared: SharedSuccessors[Identity] | None = None,
    ) -> None:
        self._refresh, self._keeper, self._shared = refresh, keeper, shared
        self._clock, self._announcer = clock, announcer
        self._flights: dict[str, SingleFlight[Outcome[Identity]]] = {}
        self._outcomes: Recent[Outcome[Identity]] = Recent(clock, REMEMBERED)
        self._successors: Recent[OIDCSession[Identity]] = Recent(clock, REMEMBERED)
        self._signed_out: Recent[bool] = Recent(clock, REMEMBERED)

    async def renew(self, kept: Kept[Identity]) -> Outcome[Identity]:
        """What becomes of `kept`; the provider is asked once, however many wait or disconnect.

        Raises SessionError when the session's store cannot keep the successor.
        """
        name = _name(kept.session)
        outcome = self._outcomes.get(name)
        if outcome is None or self._may_retry(outcome):
            flight = self._flights.setdefault(name, SingleFlight())
            outcome = await flight.run(lambda: self._attempt(name, kept))
        return Over(Code.SESSION_SIGNED_OUT) if self.has_ended(kept.session) else outcome

    def newest(self, kept: Kept[Identity]) -> Kept[Identity]:
        """What a refresh lately made of `kept`, else `kept` itself."""
        outcome = self._outcomes.get(_name(kept.session))
        return outcome.kept if isinstance(outcome, Renewed) else kept

    def end(self, session: OIDCSession[Identity]) -> None:
        """The user signed out: no refresh, under way or remembered, brings the session back."""
        self._signed_out.put(session.id, True)

    def has_ended(self, session: OIDCSession[Identity]) -> bool:
        """Whether the user signed out of it lately."""
        return self._signed_out.get(session.id) is not None

    def _may_retry(self, outcome: Outcome[Identity]) -> bool:
        return isinstance(outcome, Postponed) and self._clock.now() >= outcome.retry_at

    async def _attempt(self, name: str, kept: Kept[Identity]) -> Outcome[Identity]:
        try:
            outcome = await self._outcome(name, kept)
        finally:
            self._flights.pop(name, None)
        self._outcomes.put(name, outcome)
        return outcome

    async def _outcome(self, name: str, kept: Kept[Identity]) -> Outcome[Identity]:
        try:
            return Renewed(Kept(await self._successor(name, kept), kept.reference))
        except OIDCError as error:
            if _is_final(error):
                return Over(error.code)
            if isinstance(error, ProviderError) or error.code is Code.SESSION_LOCK_UNAVAILABLE:
                return self._postponed(name, kept.session, error)
            raise

    async def _successor(self, name: str, kept: Kept[Identity]) -> OIDCSession[Identity]:
        async def renew() -> OIDCSession[Identity]:
            return await self._saved_successor(name, kept)

        return await (renew() if self._shared is None else self._shared.once(name, renew))

    async def _saved_successor(self, name: str, kept: Kept[Identity]) -> OIDCSession[Identity]:
        """Refreshed and saved, unless another process has done it already."""
        current = await self._still_kept(kept)
        if current.session.generation > kept.session.generation:
            return current.session
        session = self._successors.get(name)
        if session is None:
            session = await self._refresh(kept.session)
            # The refresh token is used up: should keeping the session fail, that alone is repeated.
            self._successors.put(name, session)
        # Another process may have signed the user out meanwhile: its deletion must not be undone.
        await self._still_kept(kept)
        await self._keeper.save(Kept(session, kept.reference))
        self._announce_refreshed(session)
        return session

    async def _still_kept(self, kept: Kept[Identity]) -> Kept[Identity]:
        """What is kept now; raises SessionError (session.signed_out) when nothing is."""
        found = None if self.has_ended(kept.session) else await self._keeper.reread(kept)
        if found is None:
            raise SessionError(Code.SESSION_SIGNED_OUT, "the session is no longer kept")
        return found.kept

    def _announce_refreshed(self, session: OIDCSession[Identity]) -> None:
        now = self._clock.now()
        event = Event(EventName.SESSION_REFRESHED, now, sub=session.sub, session_id=session.id)
        self._announcer(event)

    def _postponed(self, name: str, session: OIDCSession[Identity], error: OIDCError) -> Postponed:
        before = self._outcomes.get(name)
        now = self._clock.now()
        pause = FIRST_PAUSE
        if isinstance(before, Postponed):
            pause = min(2 * before.pause, LONGEST_PAUSE)
        self._announcer(
            replace(
                refused(EventName.SESSION_REFRESH_POSTPONED, error, now),
                sub=session.sub,
                session_id=session.id,
            )
        )
        return Postponed(pause, now + pause)


def _is_final(error: OIDCError) -> bool:
    """Whether the provider, a rule or the application (by a SessionError) ended the session."""
    if isinstance(error, SessionError):
        return error.code not in _OUTAGES
    return isinstance(error, ProtocolViolation) or error.code in _FINAL


def _name(session: OIDCSession[Identity]) -> str:
    """Names one refresh of one session: the next one has another generation."""
    return f"{session.id}.{session.generation}"
