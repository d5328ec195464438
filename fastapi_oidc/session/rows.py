"""The rows of a session store: what it can do, and what is done in its place where it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Generic

from fastapi_oidc.errors import Code, ConfigurationError, OIDCError
from fastapi_oidc.session.abilities import (
    Closes,
    KeepsEndings,
    ListsSessions,
    RemembersUse,
    Replaces,
    bypasses,
)
from fastapi_oidc.session.ending_records import EndingRecords
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.reference import SessionReference
from fastapi_oidc.session.stores import (
    RevocationStore,
    SessionStore,
    settled,
    unavailable,
    unavailable_as,
)

_AT_A_TIME: Final = 32
"""Sessions whose ends are asked for together."""


class Rows(Generic[Identity]):
    """A session store with the endings of its sessions.

    Endings are kept in `revocations`, or without it in the session store itself if that is able to.
    """

    def __init__(
        self, store: SessionStore[Identity], revocations: RevocationStore | None = None
    ) -> None:
        self._store = store
        self._replacing = store if isinstance(store, Replaces) else None
        if bypasses(store, "replace", "set"):
            self._replacing = None
        self._remembering = store if isinstance(store, RemembersUse) else None
        self._listing = store if isinstance(store, ListsSessions) else None
        own = store if isinstance(store, KeepsEndings) else None
        self.endings = EndingRecords(own if revocations is None else revocations)
        is_one = own is not None and (revocations is None or own.keeps_endings_of(revocations))
        is_wrapped = bypasses(store, "get_with_endings", "get", "is_revoked", "ended_by")
        self._with_endings = own if is_one and not is_wrapped else None

    @property
    def keeps_use(self) -> bool:
        """Whether the store remembers when a session was last used."""
        return self._remembering is not None

    @property
    def lists_sessions(self) -> bool:
        """Whether the store knows the sessions of a user."""
        return self._listing is not None

    async def find(
        self, reference: SessionReference
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """The session behind `reference` and why it is over, in one step where that is possible."""
        id = reference.store_id
        try:
            if self._with_endings is not None:
                found = self._with_endings.get_with_endings(id, reference.digests)
                return found if isinstance(found, tuple) else await found
            session = await settled(self._store.get(id))
        except OIDCError as error:
            if error.code is Code.SESSION_MALFORMED:  # from before the identity's type changed
                return None, None
            raise
        except Exception as error:
            raise unavailable(Code.SESSION_STORE_UNAVAILABLE, error) from error
        return session, None if session is None else await self.endings.reason(session)

    async def set(self, id: str, session: OIDCSession[Identity]) -> None:
        """Sets the row."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await settled(self._store.set(id, session))

    async def replace(self, id: str, session: OIDCSession[Identity]) -> bool:
        """Sets the row if there is one: in one step, or in two that may meet a deletion."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            if self._replacing is not None:
                return await settled(self._replacing.replace(id, session))
            if await settled(self._store.get(id)) is None:
                return False
            await settled(self._store.set(id, session))
        return True

    async def delete(self, id: str) -> None:
        """Deletes the row."""
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await settled(self._store.delete(id))

    async def touch(self, id: str, at: int) -> None:
        """Keeps when the session was last seen."""
        if self._remembering is None:
            raise _unable("touch")
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            await settled(self._remembering.touch(id, at))

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str
    ) -> Sequence[OIDCSession[Identity]]:
        """The user's sessions of which no record says that they are over."""
        if self._listing is None:
            raise _unable("sessions_of")
        with unavailable_as(Code.SESSION_STORE_UNAVAILABLE):
            sessions = await settled(self._listing.sessions_of(issuer, client_id, sub))
        living: list[OIDCSession[Identity]] = []
        for first in range(0, len(sessions), _AT_A_TIME):
            some = sessions[first : first + _AT_A_TIME]
            reasons = await asyncio.gather(*map(self.endings.reason, some))
            living += [each for each, reason in zip(some, reasons, strict=True) if reason is None]
        return living

    async def aclose(self) -> None:
        """Closes the connections that the stores made for themselves."""
        try:
            if isinstance(self._store, Closes):
                await self._store.aclose()
        finally:
            await self.endings.aclose()


def _unable(method: str) -> ConfigurationError:
    return ConfigurationError(
        Code.CONFIGURATION_STORE_MISSING, f"this session_store has no method {method}"
    )
