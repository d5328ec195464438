"""The one record of endings that a keeper asks and writes, in whatever store there is for it."""

from __future__ import annotations

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.abilities import Closes, TellsReason, bypasses
from fastapi_oidc.session.endings import RevocationRecord
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.stores import RevocationStore, settled, unavailable_as


class EndingRecords:
    """Asks and writes the store of endings.

    A store with the two methods of 0.1.0 knows the records by `sid` and `sub` alone: it is never
    given one by session id, which it could take for a record of everybody.
    """

    def __init__(self, store: RevocationStore | None) -> None:
        self._store = store
        self._telling = store if isinstance(store, TellsReason) else None
        self._is_wrapped = bypasses(store, "ended_by", "is_revoked")
        self.are_kept = store is not None
        """Whether there is a store to ask."""

    @property
    def keeps_session_ids(self) -> bool:
        """Whether the end of a single session can be recorded."""
        return self._telling is not None

    async def reason(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Why `session` is over; None when no record covers it."""
        if self._store is None:
            return None
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            if self._telling is not None and not self._is_wrapped:
                return await settled(self._telling.ended_by(session))
            if not await settled(self._store.is_revoked(session)):
                return None
            if self._telling is None:
                return "ended_by_provider"
            return await settled(self._telling.ended_by(session)) or "ended_by_provider"

    async def keep(self, record: RevocationRecord) -> None:
        """Keeps `record`; raises ConfigurationError when no store can."""
        if self._store is None or (record.session_id is not None and self._telling is None):
            raise ConfigurationError(
                Code.CONFIGURATION_STORE_MISSING,
                'endings are kept in a session_store or back_channel_logout_store: "memory", one '
                "on Redis, or one of your own with the method ended_by",
            )
        with unavailable_as(Code.SESSION_REVOCATION_UNAVAILABLE):
            await settled(self._store.revoke(record))

    async def aclose(self) -> None:
        """Closes the store's own connections."""
        if isinstance(self._store, Closes):
            await self._store.aclose()
