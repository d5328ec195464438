"""Where sessions are between requests: the interface that the flows use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, SessionError
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession, PreviousSession
from fastapi_oidc.session.outage import unavailable, unavailable_as
from fastapi_oidc.session.reference import SessionReference
from fastapi_oidc.session.revocations import RevocationRecord, RevocationStore, end_record


class StoredSession(NamedTuple, Generic[Identity]):
    """A session and, if it is in a store, the reference in its cookie."""

    session: OIDCSession[Identity]
    reference: SessionReference | None = None


class Lookup(NamedTuple, Generic[Identity]):
    """A session that was found. `ended` is the reason of a revocation record that ends it."""

    stored: StoredSession[Identity]
    ended: EndReason | None = None


class CookieHint(NamedTuple, Generic[Identity]):
    """The data in a session cookie, enough to end the session without the store.

    `stored` is the session itself, if the cookie contains it.
    """

    previous: PreviousSession
    stored: StoredSession[Identity] | None = None


class SessionBackend(ABC, Generic[Identity]):
    """Stores sessions between requests, in cookies (`CookieBackend`) or a store (`StoreBackend`).

    The async methods raise SessionError (session.store_unavailable, session.revocation_unavailable)
    when a store is unavailable.
    """

    records_last_use: bool
    in_memory: tuple[str, ...] = ()
    """The names of the options whose stores are in this process's memory."""
    finds_by_id: bool = False
    """Whether `lookup_by_id` may work; a store may still lack the method."""

    def __init__(
        self,
        names: CookieNames,
        clock: Clock,
        revocations: RevocationStore | None,
        open: Callable[[str], object],
    ) -> None:
        self._names, self._clock, self._revocations = names, clock, revocations
        self._open = open

    @property
    def records_revocations(self) -> bool:
        """Whether ending a session invalidates every copy of its cookie."""
        return self._revocations is not None

    @abstractmethod
    async def lookup(self, cookies: Mapping[str, str]) -> Lookup[Identity] | None:
        """The session of these cookies; None without a cookie or if it is unreadable or unknown."""

    @abstractmethod
    def hint(
        self, cookies: Mapping[str, str], issuer: str, client_id: str
    ) -> CookieHint[Identity] | None:
        """The data in these cookies, without the store. `issuer` and `client_id` fill its gaps."""

    def fault(self, cookies: Mapping[str, str]) -> Code | None:
        """Why the session cookie cannot be read; None if it can, or without one."""
        value = cookies.get(self._names.session)
        try:
            if value:
                self._open(value)
        except SessionError as error:
            return error.code
        return None

    @abstractmethod
    async def lookup_by_id(self, session_id: str) -> Lookup[Identity] | None:
        """The session with this id, even if it has ended; None for an unknown id.

        Raises ConfigurationError (configuration.store_missing) when no store can find it.
        """

    @abstractmethod
    async def reread(self, stored: StoredSession[Identity]) -> Lookup[Identity] | None:
        """The current state of `stored`, which may have been refreshed or ended."""

    @abstractmethod
    def place(self, session: OIDCSession[Identity]) -> StoredSession[Identity]:
        """A new, unguessable place for the session of a new login."""

    @abstractmethod
    async def save(self, stored: StoredSession[Identity]) -> None:
        """Store the session of a new login."""

    @abstractmethod
    async def replace(self, stored: StoredSession[Identity]) -> bool:
        """Store the session in place of an earlier generation; False if there is none."""

    @abstractmethod
    async def touch(self, stored: StoredSession[Identity], at: int) -> None:
        """Record that the session was seen `at`, in seconds since the epoch."""

    @abstractmethod
    def previous(self, stored: StoredSession[Identity]) -> PreviousSession:
        """The data with which `stored` can be ended later."""

    async def end(self, previous: PreviousSession, reason: EndReason) -> None:
        """Record the end of the session, if possible, and remove its row."""
        if self._revocations is not None:
            await self.revoke(end_record(previous, reason, self._clock.now()))

    async def revoke(self, record: RevocationRecord) -> None:
        """Store `record`: later lookups of the sessions that it ends return its reason.

        Raises ConfigurationError (configuration.store_missing) without a store of revocation
        records.
        """
        if self._revocations is None:
            raise ConfigurationError(
                Code.CONFIGURATION_STORE_MISSING,
                "revocations need a session_store of this library or a back_channel_logout_store: "
                '"memory", a RedisRevocationStore, or a RevocationStore of your own',
            )
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            await self._revocations.revoke(record)

    async def stamps(self, session: OIDCSession[Identity]) -> tuple[str, ...]:
        """The stamps of the revocations before the login of `session`."""
        if self._revocations is None:
            return ()
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            return await self._revocations.stamps(session)

    @abstractmethod
    async def sessions_of(
        self, issuer: str, client_id: str, sub: str
    ) -> Sequence[OIDCSession[Identity]]:
        """The sessions of a user that have not ended.

        Raises ConfigurationError (configuration.store_missing) when the store cannot list them.
        """

    @abstractmethod
    def cookies(self, stored: StoredSession[Identity], now: int) -> tuple[CookieChange, ...]:
        """The cookies that lead to `stored`, if its secret is known; raises CookieTooLarge."""

    @abstractmethod
    def is_cookie_current(self, stored: StoredSession[Identity]) -> bool:
        """Whether the cookie of an earlier state of the session also leads to `stored`."""

    def clearing(self) -> tuple[CookieChange, ...]:
        """The changes that delete the session cookie."""
        return (session_cookie(self._names, None, max_age=0),)

    async def aclose(self) -> None:
        """Close the stores' own connections."""
        if self._revocations is not None:
            await self._revocations.aclose()

    async def ended_by(self, session: OIDCSession[Identity]) -> EndReason | None:
        """The reason of a record that ends `session`, None without one."""
        if self._revocations is None:
            return None
        try:
            return await self._revocations.ended_by(session)
        except OIDCError:
            raise
        except Exception as error:
            raise unavailable(Code.SESSION_REVOCATION_UNAVAILABLE, error) from error


def session_cookie(names: CookieNames, value: str | None, *, max_age: int) -> CookieChange:
    """Set the session cookie for `max_age` seconds, or delete it if `value` is None."""
    return CookieChange(name=names.session, value=value, max_age=max_age, secure=names.secure)
