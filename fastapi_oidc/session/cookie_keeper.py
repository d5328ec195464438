"""The whole session is in the browser, sealed; its end can be recorded on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.ending_records import EndingRecords
from fastapi_oidc.session.endings import RevocationRecord, ending_of
from fastapi_oidc.session.keeper import Found, Kept, Told
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession, PreviousSession
from fastapi_oidc.session.session_cookie import SessionCookie, session_cookie_change
from fastapi_oidc.session.stores import RevocationStore


class CookieKeeper(Generic[Identity]):
    """A `Keeper` without rows: nothing is saved or removed here but endings."""

    keeps_use, lists_sessions = True, False

    def __init__(
        self,
        cookie: SessionCookie[Identity],
        names: CookieNames,
        *,
        clock: Clock,
        revocations: RevocationStore | None = None,
    ) -> None:
        self._cookie, self._names, self._clock = cookie, names, clock
        self._endings = EndingRecords(revocations)

    @property
    def keeps_endings(self) -> bool:
        """Whether there is a store that keeps them."""
        return self._endings.keeps_session_ids

    async def read(self, cookies: Mapping[str, str]) -> Found[Identity] | None:
        """The session sealed in the cookie."""
        kept = self._opened(cookies)
        return None if kept is None else await self.reread(kept)

    def told(
        self, cookies: Mapping[str, str], issuer: str, client_id: str
    ) -> Told[Identity] | None:
        """The session sealed in the cookie."""
        kept = self._opened(cookies)
        return None if kept is None else Told(self.previous(kept), kept)

    async def reread(self, kept: Kept[Identity]) -> Found[Identity]:
        """`kept`, which nobody else can change, and whether it has ended."""
        if not self._endings.are_kept:
            return Found(kept)
        return Found(kept, await self._endings.reason(kept.session))

    def placed(self, session: OIDCSession[Identity]) -> Kept[Identity]:
        """The session's place is its cookie."""
        return Kept(session)

    async def save(self, kept: Kept[Identity]) -> None:
        """Done by the cookie."""

    async def replace(self, kept: Kept[Identity]) -> bool:
        """Done by the cookie, unless the session's end is recorded."""
        found = await self.reread(kept)
        return found.ended is None

    async def touch(self, kept: Kept[Identity], at: int) -> Kept[Identity]:
        """The session as its next cookie has it."""
        return Kept(kept.session.model_copy(update={"last_seen_at": at}))

    async def end(self, kept: Kept[Identity], reason: EndReason) -> None:
        """Records the end; the cookie is cleared by the answer."""
        await self.end_previous(self.previous(kept), reason)

    def previous(self, kept: Kept[Identity]) -> PreviousSession:
        """The session's name and end."""
        return PreviousSession.of(kept.session)

    async def end_previous(self, previous: PreviousSession, reason: EndReason) -> None:
        """Records the end."""
        if self.keeps_endings:
            await self._endings.keep(ending_of(previous, reason, self._clock.now()))

    async def revoke(self, record: RevocationRecord) -> None:
        """Keeps the record."""
        await self._endings.keep(record)

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str
    ) -> Sequence[OIDCSession[Identity]]:
        """Nobody knows what browsers hold."""
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING, "sessions are listed by a session_store alone"
        )

    def cookies(self, kept: Kept[Identity], now: int) -> tuple[CookieChange, ...]:
        """The sealed session, until its absolute end."""
        value = self._cookie.seal(kept.session)
        max_age = max(0, kept.session.expires_at - now)
        return (session_cookie_change(self._names, value, max_age=max_age),)

    def clearing(self) -> tuple[CookieChange, ...]:
        """No session cookie."""
        return (session_cookie_change(self._names, None, max_age=0),)

    async def aclose(self) -> None:
        """Closes the store of endings."""
        await self._endings.aclose()

    def _opened(self, cookies: Mapping[str, str]) -> Kept[Identity] | None:
        value = cookies.get(self._names.session)
        if not value:
            return None
        try:
            return Kept(self._cookie.open(value))
        except SessionError:
            return None
