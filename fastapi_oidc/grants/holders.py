"""The holder of a session while a token is requested: its request, or nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import unless_ended
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.session.session_cookie import Copy

Change: TypeAlias = Callable[[Live], Awaitable[Live]]


class Holder(Protocol):
    """Provides a session, and delivers its changes. `party` serves it."""

    @property
    def party(self) -> RelyingParty:
        """One of the registrations that serve the session."""
        ...

    async def current(self) -> Live:
        """The current state of the session; raises SessionError when it has ended."""
        ...

    async def change(self, change: Change) -> Live:
        """The result of `change` for the session. The browser gets a cookie that leads to it.

        Raises SessionError when the session has ended, or with session.response_started when no
        cookie can be sent. Also raises what `change` raises.
        """
        ...


class Detached:
    """A session outside of its request. It can be changed where the store has it."""

    def __init__(self, party: RelyingParty, copy: Copy) -> None:
        self.party, self._copy = party, copy

    async def current(self) -> Live:
        """See `Holder`."""
        return require_session(
            unless_ended(self.party, await self.party.sessions.judge(self._copy))
        )

    async def change(self, change: Change) -> Live:
        """See `Holder`."""
        if not self.party.sessions.in_store:
            raise response_started()
        return await change(await self.current())


def require_session(live: Live | None) -> Live:
    """`live`; raises SessionError (session.required) when it is None."""
    if live is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session has ended, or there is none")
    return live


def response_started() -> SessionError:
    """The error of a refresh whose cookie cannot be sent."""
    return SessionError(
        Code.SESSION_RESPONSE_STARTED,
        "the session is in a cookie, which only its request's response can replace, before "
        "it starts: get the token earlier, or use a session_store",
    )
