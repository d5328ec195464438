"""Where a session is kept between requests: in its cookie, or in a store behind a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.reference import ReferenceCookie, SessionReference
from fastapi_oidc.session.session_cookie import SessionCookie, session_cookie_change
from fastapi_oidc.session.stores import SessionStore, settled, unavailable_as


@dataclass(frozen=True, slots=True)
class Kept(Generic[Identity]):
    """A session and, when it lives in a store, the reference that its cookie carries."""

    session: OIDCSession[Identity]
    reference: SessionReference | None = field(default=None, repr=False)


class Keeper(Protocol[Identity]):
    """Keeps sessions between requests; `CookieKeeper` and `StoreKeeper` are the two ways."""

    async def read(self, cookies: Mapping[str, str]) -> Kept[Identity] | None:
        """The session these cookies lead to; None for none, an unreadable or an unknown one."""

    async def reread(self, kept: Kept[Identity]) -> Kept[Identity] | None:
        """What is kept now in place of `kept`: another request may have refreshed or ended it."""

    def placed(self, session: OIDCSession[Identity]) -> Kept[Identity]:
        """A place that nobody knows yet, for the session of a new login."""

    async def save(self, kept: Kept[Identity]) -> None:
        """Keeps the session from now on; raises SessionError when its store cannot."""

    async def remove(self, kept: Kept[Identity]) -> None:
        """Keeps it no longer; raises SessionError when its store cannot."""

    def cookies(self, kept: Kept[Identity], now: int) -> tuple[CookieChange, ...]:
        """The cookies that lead to `kept`; raises CookieTooLarge."""

    def clearing(self) -> tuple[CookieChange, ...]:
        """The cookies to change so that none leads to a session."""


class CookieKeeper(Generic[Identity]):
    """The whole session is in the browser, sealed; there is nothing to save or remove here."""

    def __init__(self, cookie: SessionCookie[Identity], names: CookieNames) -> None:
        self._cookie, self._names = cookie, names

    async def read(self, cookies: Mapping[str, str]) -> Kept[Identity] | None:
        """The session sealed in the cookie."""
        value = cookies.get(self._names.session)
        if not value:
            return None
        try:
            return Kept(self._cookie.open(value))
        except SessionError:
            return None

    async def reread(self, kept: Kept[Identity]) -> Kept[Identity] | None:
        """`kept`: nobody else can change what one browser holds."""
        return kept

    def placed(self, session: OIDCSession[Identity]) -> Kept[Identity]:
        """The session's place is its cookie."""
        return Kept(session)

    async def save(self, kept: Kept[Identity]) -> None:
        """Done by the cookie."""

    async def remove(self, kept: Kept[Identity]) -> None:
        """Done by clearing the cookie."""

    def cookies(self, kept: Kept[Identity], now: int) -> tuple[CookieChange, ...]:
        """The sealed session, until its absolute end."""
        value = self._cookie.seal(kept.session)
        max_age = max(0, kept.session.expires_at - now)
        return (session_cookie_change(self._names, value, max_age=max_age),)

    def clearing(self) -> tuple[CookieChange, ...]:
        """No session cookie."""
        return (session_cookie_change(self._names, None, max_age=0),)


class StoreKeeper(Generic[Identity]):
    """The session is in the application's store; the browser has a sealed reference to it."""

    def __init__(
        self, store: SessionStore[Identity], cookie: ReferenceCookie, names: CookieNames
    ) -> None:
        self._store, self._cookie, self._names = store, cookie, names

    async def read(self, cookies: Mapping[str, str]) -> Kept[Identity] | None:
        """The session that the store has under the cookie's reference."""
        value = cookies.get(self._names.session)
        if not value:
            return None
        try:
            reference = self._cookie.open(value)
        except SessionError:
            return None
        return await self._found(reference)

    async def reread(self, kept: Kept[Identity]) -> Kept[Identity] | None:
        """What the store has now."""
        return await self._found(_reference(kept))

    def placed(self, session: OIDCSession[Identity]) -> Kept[Identity]:
        """A new random reference."""
        return Kept(session, SessionReference.new())

    async def save(self, kept: Kept[Identity]) -> None:
        """Sets the session's row."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await settled(self._store.set(_reference(kept).store_id, kept.session))

    async def remove(self, kept: Kept[Identity]) -> None:
        """Deletes the session's row."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await settled(self._store.delete(_reference(kept).store_id))

    def cookies(self, kept: Kept[Identity], now: int) -> tuple[CookieChange, ...]:
        """The sealed reference, until the session's absolute end."""
        value = self._cookie.seal(_reference(kept))
        max_age = max(0, kept.session.expires_at - now)
        return (session_cookie_change(self._names, value, max_age=max_age),)

    def clearing(self) -> tuple[CookieChange, ...]:
        """No reference."""
        return (session_cookie_change(self._names, None, max_age=0),)

    async def _found(self, reference: SessionReference) -> Kept[Identity] | None:
        try:
            with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
                session = await settled(self._store.get(reference.store_id))
        except SessionError as error:
            if error.code is Code.SESSION_MALFORMED:  # from before the identity's type changed
                return None
            raise
        return None if session is None else Kept(session, reference)


def _reference(kept: Kept[Identity]) -> SessionReference:
    if kept.reference is None:
        raise ValueError("this session is not kept in a store")
    return kept.reference
