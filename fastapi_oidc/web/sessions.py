"""What an application does with sessions: of a request, of a user, and their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.flows.revocation import revoke, sessions_of
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.public_session import (
    SessionManagementConfig,
    public_session,
    session_management,
)
from fastapi_oidc.web.refusal import SignInRequired
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import context_of
from fastapi_oidc.web.runtime import RequestData, Runtime


class Sessions(Generic[Identity, RequestData]):
    """Reads, renews and ends sessions. What takes a connection takes a request or a websocket."""

    runtime: Runtime[Identity, RequestData]

    async def get_session(self, connection: HTTPConnection) -> OIDCSession[Identity] | None:
        """The session of a request, refreshed if need be; None without one.

        Raises SessionError when a store cannot be asked.
        """
        return (await self.get_locals(connection)).session

    async def get_locals(self, connection: HTTPConnection) -> OIDCLocals[Identity, RequestData]:
        """Session, identity and request data of a request, and why it has no session any more.

        Raises SessionError when a store cannot be asked.
        """
        return await self._context(connection).locals()

    async def refresh(self, connection: HTTPConnection) -> OIDCSession[Identity]:
        """The session with new tokens, however long the old ones last.

        Raises SessionError: session.required without a session or when the provider ended it,
        session.refresh_postponed when the provider cannot be asked; ConfigurationError when it gave
        no refresh token. The session goes on then.
        """
        context = self._context(connection)
        with context.owning():
            try:
                locals = await context.refresh()
            except SessionError as error:
                if error.code is not Code.SESSION_REQUIRED:
                    raise
                locals = OIDCLocals()
            if locals.session is None:
                raise SignInRequired(Code.SESSION_REQUIRED, "no session", ended=locals.ended)
            return locals.session

    async def is_still_signed_in(self, connection: HTTPConnection) -> bool:
        """Whether the session that the request came with goes on: for long-lived connections.

        A websocket or an event stream asks from time to time; nothing is refreshed, and asking is
        no activity. Raises SessionError when a store cannot be asked.
        """
        return await self._context(connection).is_still_signed_in()

    def clear_session(self, connection: HTTPConnection) -> None:
        """End the session with this response; the provider is not asked."""
        self._context(connection).clear()

    async def user_info(self, session: OIDCSession[Identity]) -> Mapping[str, JSON] | None:
        """What UserInfo says of the session's user now, checked; None without that endpoint.

        Raises ProviderError, and ProtocolViolation for UserInfo of another user.
        """
        return await self.runtime.party.provider.userinfo(
            session.tokens.access_token, sub=session.sub
        )

    async def provider_metadata(self) -> ProviderMetadata:
        """The provider's metadata, from its discovery document; raises ProviderError."""
        return await self.runtime.party.provider.metadata()

    async def revoke(
        self,
        *,
        sub: str | None = None,
        sid: str | None = None,
        session_id: str | None = None,
    ) -> None:
        """Sign out everywhere: a user (`sub`), a session at the provider (`sid`), or one session.

        From now on these sessions are over; a later login is not affected. Raises ValueError unless
        exactly one is given, ConfigurationError (configuration.store_missing) when no store keeps
        revocations, SessionError when it is down.
        """
        await revoke(self.runtime.party, sub=sub, sid=sid, session_id=session_id)

    async def sessions_of(self, sub: str) -> Sequence[OIDCSession[Identity]]:
        """The living sessions of a user, the newest login first.

        Raises ConfigurationError (configuration.store_missing) when the session store cannot list
        them, SessionError when it is down.
        """
        return await sessions_of(self.runtime.party, sub)

    async def to_public_session(self, locals: OIDCLocals[Identity, RequestData]) -> object:
        """The token-free session of locals that are loaded; asks no store, refreshes nothing."""
        return await public_session(self.runtime, locals)

    async def get_public_session(self, connection: HTTPConnection) -> object:
        """The token-free session of a request whose locals may not be loaded yet."""
        return await public_session(self.runtime, await self.get_locals(connection))

    async def get_session_management_config(self) -> SessionManagementConfig:
        """How the browser watches the provider's session; "unsupported" while discovery is down."""
        return await session_management(self.runtime.party, self.runtime.origin)

    def csrf_token(self, session: OIDCSession[Identity]) -> str:
        """A token that forms and scripts of this session's pages send back; no two are alike."""
        return self.runtime.csrf.token(session)

    def check_csrf_token(self, session: OIDCSession[Identity], token: str | None) -> None:
        """Raises SessionError (session.csrf) unless `token` is one of this session's own."""
        try:
            self.runtime.csrf.require(session, token)
        except SessionError as error:
            error.instance = self.runtime.name
            raise

    def _context(self, connection: HTTPConnection) -> RequestContext[Identity, RequestData]:
        return context_of(connection, self.runtime.name)
