"""The holder of a session while a token is requested: a request, the store, or neither."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeAlias

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import current_by_id, still_current
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import Identity, OIDCSession

Change: TypeAlias = Callable[[StoredSession[Identity]], Awaitable[StoredSession[Identity]]]


class Holder(Protocol[Identity]):
    """Provides a session, and stores its changes."""

    async def current(self) -> StoredSession[Identity]:
        """The current state of the session; raises SessionError when it has ended."""
        ...

    async def changed(self, change: Change[Identity]) -> StoredSession[Identity]:
        """The result of `change` for the session. The browser gets a cookie that leads to it.

        Raises SessionError when the session has ended, or with session.response_started when no
        cookie can be sent. Also raises what `change` raises.
        """
        ...


class InStore(Generic[Identity]):
    """A session in the session store, found by its id. Its cookie does not change."""

    def __init__(self, party: RelyingParty[Identity], session_id: str) -> None:
        self._party, self._session_id = party, session_id
        self._known: StoredSession[Identity] | None = None

    async def current(self) -> StoredSession[Identity]:
        """See `Holder`."""
        if self._known is None:
            self._known = await current_by_id(self._party, self._session_id)
        else:
            self._known = await still_current(self._party, self._known)
        return self._party.sessions.newest(require_session(self._known))

    async def changed(self, change: Change[Identity]) -> StoredSession[Identity]:
        """See `Holder`."""
        return await change(await self.current())


class Detached(Generic[Identity]):
    """A session in a cookie, outside of its request: its tokens can be sent but not refreshed."""

    def __init__(self, party: RelyingParty[Identity], session: OIDCSession[Identity]) -> None:
        self._party, self._stored = party, StoredSession(session)

    async def current(self) -> StoredSession[Identity]:
        """See `Holder`."""
        stored = require_session(await still_current(self._party, self._stored))
        return self._party.sessions.newest(stored)

    async def changed(self, change: Change[Identity]) -> StoredSession[Identity]:
        """Raises SessionError (session.response_started)."""
        raise response_started()


def require_session(stored: StoredSession[Identity] | None) -> StoredSession[Identity]:
    """`stored`; raises SessionError (session.required) when it is None."""
    if stored is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session has ended, or there is none")
    return stored


def response_started() -> SessionError:
    """The error of a refresh whose cookie cannot be sent."""
    return SessionError(
        Code.SESSION_RESPONSE_STARTED,
        "the session is in a cookie, which only its request's response can replace, before "
        "it starts: get the token earlier, or use a session_store",
    )
