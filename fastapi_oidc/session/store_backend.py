"""Sessions in a store; the cookie is a sealed reference."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.session.backend import (
    CookieHint,
    Lookup,
    SessionBackend,
    StoredSession,
    session_cookie,
)
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession, PreviousSession
from fastapi_oidc.session.outage import unavailable, unavailable_as
from fastapi_oidc.session.reference import ReferenceCookie, SessionReference
from fastapi_oidc.session.revocations import RevocationStore, are_current, digests_of
from fastapi_oidc.session.stores import SessionStore

LISTED_TOGETHER: Final = 32
"""Number of listed sessions whose revocation records are read at the same time."""


class StoreBackend(SessionBackend[Identity]):
    """A row in the store for each session.

    `revocations` replaces the session store's own revocation records.
    """

    finds_by_id = True

    def __init__(
        self,
        store: SessionStore[Identity],
        cookie: ReferenceCookie,
        names: CookieNames,
        codec: SessionCodec[Identity],
        *,
        clock: Clock,
        revocations: RevocationStore | None = None,
    ) -> None:
        super().__init__(names, clock, revocations or store.revocations, cookie.open)
        self._store, self._cookie, self._codec = store, cookie, codec
        self._has_own_revocations = revocations is None
        self.records_last_use = store.records_last_use
        if store.is_in_memory:
            self.in_memory = ("session_store",)

    async def lookup(self, cookies: Mapping[str, str]) -> Lookup[Identity] | None:
        """The session in the row of the cookie's reference."""
        reference = self._opened(cookies)
        return None if reference is None else await self._found(reference)

    def hint(
        self, cookies: Mapping[str, str], issuer: str, client_id: str
    ) -> CookieHint[Identity] | None:
        """The session's names and end from the reference."""
        reference = self._opened(cookies)
        if reference is None:
            return None
        previous = PreviousSession(
            id=reference.session_id,
            issuer=issuer,
            client_id=client_id,
            expires_at=reference.expires_at,
            reference=reference.store_id,
        )
        return CookieHint(previous)

    async def lookup_by_id(self, session_id: str) -> Lookup[Identity] | None:
        """The session with this id, found without a cookie."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            found = await self._store.find_by_session_id(session_id)
        if found is None:
            return None
        store_id, session = found
        ended = await self.ended_by(session)
        if not self._store.returns_copies:
            session = self._codec.copied(session)
        reference = SessionReference(store_id, digests=digests_of(session), session_id=session_id)
        return Lookup(StoredSession(session, reference), ended)

    async def reread(self, stored: StoredSession[Identity]) -> Lookup[Identity] | None:
        """The session that is in the store now."""
        return await self._found(_reference(stored))

    def place(self, session: OIDCSession[Identity]) -> StoredSession[Identity]:
        """A new random reference."""
        return StoredSession(session, SessionReference.new())

    async def save(self, stored: StoredSession[Identity]) -> None:
        """Set the session's row."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._store.set(_reference(stored).store_id, stored.session)

    async def replace(self, stored: StoredSession[Identity]) -> bool:
        """Replace the session's row."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            return await self._store.replace(_reference(stored).store_id, stored.session)

    async def touch(self, stored: StoredSession[Identity], at: int) -> None:
        """Set the row's `last_seen_at`."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await self._store.touch(_reference(stored).store_id, at)

    def previous(self, stored: StoredSession[Identity]) -> PreviousSession:
        """The session's names and end, and the reference to its row."""
        return PreviousSession.of(stored.session, _reference(stored).store_id)

    async def end(self, previous: PreviousSession, reason: EndReason) -> None:
        """Record the end and delete the row. Each step runs even if the other one fails."""
        try:
            await super().end(previous, reason)
        finally:
            if previous.reference is not None:
                with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
                    await self._store.delete(previous.reference)

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str
    ) -> Sequence[OIDCSession[Identity]]:
        """The user's sessions in the store that no revocation record ends."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            sessions = await self._store.sessions_of(issuer, client_id, sub)
        active: list[OIDCSession[Identity]] = []
        for first in range(0, len(sessions), LISTED_TOGETHER):
            some = sessions[first : first + LISTED_TOGETHER]
            reasons = await asyncio.gather(*map(self.ended_by, some))
            active += [each for each, reason in zip(some, reasons, strict=True) if reason is None]
        return active

    def cookies(self, stored: StoredSession[Identity], now: int) -> tuple[CookieChange, ...]:
        """The sealed reference, until the session's absolute end; no cookie without the secret."""
        session, secret = stored.session, _reference(stored).secret
        if secret is None:
            return ()
        reference = SessionReference.of(secret, digests_of(session), session.id, session.expires_at)
        max_age = max(0, session.expires_at - now)
        return (session_cookie(self._names, self._cookie.seal(reference), max_age=max_age),)

    def is_cookie_current(self, stored: StoredSession[Identity]) -> bool:
        """Whether the reference names all of the session's revocation records."""
        return are_current(_reference(stored).digests, stored.session)

    async def aclose(self) -> None:
        """Close the stores."""
        try:
            await self._store.aclose()
        finally:
            await super().aclose()

    async def _found(self, reference: SessionReference) -> Lookup[Identity] | None:
        ended: EndReason | None = None
        try:
            if self._has_own_revocations:
                session, ended = await self._store.find(reference.store_id, reference.digests)
            else:
                session = await self._store.get(reference.store_id)
        except OIDCError as error:
            if error.code is Code.SESSION_MALFORMED:  # written before the identity's type changed
                return None
            raise
        except Exception as error:
            raise unavailable(Code.SESSION_STORE_UNAVAILABLE, error) from error
        if session is None:
            return None
        if not self._has_own_revocations:
            ended = await self.ended_by(session)
        if not self._store.returns_copies:
            session = self._codec.copied(session)
        return Lookup(StoredSession(session, reference), ended)

    def _opened(self, cookies: Mapping[str, str]) -> SessionReference | None:
        value = cookies.get(self._names.session)
        if not value:
            return None
        try:
            return self._cookie.open(value)
        except SessionError:
            return None


def _reference(stored: StoredSession[Identity]) -> SessionReference:
    if stored.reference is None:
        raise ValueError("this session is not in a store")
    return stored.reference
