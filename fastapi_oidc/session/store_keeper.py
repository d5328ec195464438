"""The session is in the application's store; the browser has a sealed reference to it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Generic

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.endings import RevocationRecord, digests_of, ending_of
from fastapi_oidc.session.keeper import Found, Kept, Told
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession, PreviousSession
from fastapi_oidc.session.reference import ReferenceCookie, SessionReference
from fastapi_oidc.session.rows import Rows
from fastapi_oidc.session.session_cookie import session_cookie_change
from fastapi_oidc.session.stores import RevocationStore, SessionStore


class StoreKeeper(Generic[Identity]):
    """A `Keeper` with a row for each session."""

    def __init__(
        self,
        store: SessionStore[Identity],
        cookie: ReferenceCookie,
        names: CookieNames,
        *,
        clock: Clock,
        revocations: RevocationStore | None = None,
    ) -> None:
        self._rows = Rows(store, revocations)
        self._cookie, self._names, self._clock = cookie, names, clock

    @property
    def keeps_endings(self) -> bool:
        """Whether a store keeps them by session id."""
        return self._rows.endings.keeps_session_ids

    @property
    def keeps_use(self) -> bool:
        """Whether the store has `touch`."""
        return self._rows.keeps_use

    @property
    def lists_sessions(self) -> bool:
        """Whether the store has `sessions_of`."""
        return self._rows.lists_sessions

    async def read(self, cookies: Mapping[str, str]) -> Found[Identity] | None:
        """The session that the store has under the cookie's reference."""
        reference = self._opened(cookies)
        if reference is None:
            return None
        return _found(reference, *await self._rows.find(reference))

    def told(
        self, cookies: Mapping[str, str], issuer: str, client_id: str
    ) -> Told[Identity] | None:
        """What the reference names."""
        reference = self._opened(cookies)
        if reference is None or not reference.session_id:
            return None
        previous = PreviousSession(
            id=reference.session_id,
            issuer=issuer,
            client_id=client_id,
            expires_at=reference.expires_at,
            reference=_text_of(reference),
        )
        return Told(previous)

    async def reread(self, kept: Kept[Identity]) -> Found[Identity] | None:
        """What the store has now."""
        reference = _reference(kept)
        return _found(reference, *await self._rows.find(reference))

    def placed(self, session: OIDCSession[Identity]) -> Kept[Identity]:
        """A new random reference."""
        return Kept(session, SessionReference.new())

    async def save(self, kept: Kept[Identity]) -> None:
        """Sets the session's row."""
        await self._rows.set(_reference(kept).store_id, kept.session)

    async def replace(self, kept: Kept[Identity]) -> bool:
        """Replaces the session's row."""
        return await self._rows.replace(_reference(kept).store_id, kept.session)

    async def touch(self, kept: Kept[Identity], at: int) -> Kept[Identity]:
        """Keeps the moment beside the row."""
        await self._rows.touch(_reference(kept).store_id, at)
        return Kept(kept.session.model_copy(update={"last_seen_at": at}), kept.reference)

    async def end(self, kept: Kept[Identity], reason: EndReason) -> None:
        """Records the end and deletes the row."""
        await self.end_previous(self.previous(kept), reason)

    def previous(self, kept: Kept[Identity]) -> PreviousSession:
        """The session's name and end, and the reference to its row."""
        return PreviousSession.of(kept.session, _text_of(_reference(kept)))

    async def end_previous(self, previous: PreviousSession, reason: EndReason) -> None:
        """Records the end and deletes the row."""
        try:
            if self.keeps_endings:
                record = ending_of(previous, reason, self._clock.now())
                await self._rows.endings.keep(record)
        finally:
            if previous.reference is not None:
                secret = base64.urlsafe_b64decode(previous.reference)
                await self._rows.delete(SessionReference(secret).store_id)

    async def revoke(self, record: RevocationRecord) -> None:
        """Keeps the record; the rows that it covers stay until they are asked for or expire."""
        await self._rows.endings.keep(record)

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str
    ) -> Sequence[OIDCSession[Identity]]:
        """What the store has of this user."""
        return await self._rows.sessions_of(issuer, client_id, sub)

    def cookies(self, kept: Kept[Identity], now: int) -> tuple[CookieChange, ...]:
        """The sealed reference, until the session's absolute end."""
        session, secret = kept.session, _reference(kept).secret
        reference = SessionReference(secret, digests_of(session), session.id, session.expires_at)
        value = self._cookie.seal(reference)
        max_age = max(0, session.expires_at - now)
        return (session_cookie_change(self._names, value, max_age=max_age),)

    def clearing(self) -> tuple[CookieChange, ...]:
        """No reference."""
        return (session_cookie_change(self._names, None, max_age=0),)

    async def aclose(self) -> None:
        """Closes the stores."""
        await self._rows.aclose()

    def _opened(self, cookies: Mapping[str, str]) -> SessionReference | None:
        value = cookies.get(self._names.session)
        if not value:
            return None
        try:
            return self._cookie.open(value)
        except SessionError:
            return None


def _found(
    reference: SessionReference, session: OIDCSession[Identity] | None, ended: EndReason | None
) -> Found[Identity] | None:
    return None if session is None else Found(Kept(session, reference), ended)


def _reference(kept: Kept[Identity]) -> SessionReference:
    if kept.reference is None:
        raise ValueError("this session is not kept in a store")
    return kept.reference


def _text_of(reference: SessionReference) -> str:
    return base64.urlsafe_b64encode(reference.secret).decode()
