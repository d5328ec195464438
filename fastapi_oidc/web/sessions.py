"""What an application does with sessions: of a request, of a user, and their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.flows.endings import revoke, sessions_of
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.exchange import Exchange
from fastapi_oidc.web.exchanges import exchange_of
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.public_session import (
    SessionManagementConfig,
    public_session,
    session_management,
)
from fastapi_oidc.web.refusal import SignInRequired
from fastapi_oidc.web.site import RequestData, Site


class Sessions(Generic[Identity, RequestData]):
    """Reads, renews and ends sessions. What takes a connection takes a request or a websocket."""

    site: Site[Identity, RequestData]

    async def get_session(self, connection: HTTPConnection) -> OIDCSession[Identity] | None:
        """The session of a request, refreshed if need be; None without one.

        Raises SessionError when a store cannot be asked.
        """
        return (await self.get_locals(connection)).session

    async def get_locals(self, connection: HTTPConnection) -> OIDCLocals[Identity, RequestData]:
        """Session, identity and request data of a request, and why it has no session any more.

        Raises SessionError when a store cannot be asked.
        """
        return await self._exchange(connection).locals()

    async def refresh(self, connection: HTTPConnection) -> OIDCSession[Identity]:
        """The session with new tokens, however long the old ones last.

        Raises SessionError: session.required without a session or when the provider ended it,
        session.refresh_postponed when the provider cannot be asked; ConfigurationError when it gave
        no refresh token. The session goes on then.
        """
        exchange = self._exchange(connection)
        with exchange.owning():
            try:
                locals = await exchange.refresh()
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
        return await self._exchange(connection).is_still_signed_in()

    def clear_session(self, connection: HTTPConnection) -> None:
        """The session is over with this answer; the provider is not asked."""
        self._exchange(connection).clear()

    async def user_info(self, session: OIDCSession[Identity]) -> Mapping[str, JSON] | None:
        """What UserInfo says of the session's user now, checked; None without that endpoint.

        Raises ProviderError, and ProtocolViolation for an answer about somebody else.
        """
        return await self.site.party.provider.userinfo(session.tokens.access_token, sub=session.sub)

    async def provider_metadata(self) -> ProviderMetadata:
        """The provider's metadata, from its discovery document; raises ProviderError."""
        return await self.site.party.provider.metadata()

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
        endings, SessionError when it is down.
        """
        await revoke(self.site.party, sub=sub, sid=sid, session_id=session_id)

    async def sessions_of(self, sub: str) -> Sequence[OIDCSession[Identity]]:
        """The living sessions of a user, the newest login first.

        Raises ConfigurationError (configuration.store_missing) when the session store cannot list
        them, SessionError when it is down.
        """
        return await sessions_of(self.site.party, sub)

    async def to_public_session(self, locals: OIDCLocals[Identity, RequestData]) -> object:
        """The token-free session of locals that are loaded; asks no store, refreshes nothing."""
        return await public_session(self.site, locals)

    async def get_public_session(self, connection: HTTPConnection) -> object:
        """The token-free session of a request whose locals may not be loaded yet."""
        return await public_session(self.site, await self.get_locals(connection))

    async def get_session_management_config(self) -> SessionManagementConfig:
        """How the browser watches the provider's session; "unsupported" while discovery is down."""
        return await session_management(self.site.party, self.site.origin)

    def csrf_token(self, session: OIDCSession[Identity]) -> str:
        """A token that forms and scripts of this session's pages send back; no two are alike."""
        return self.site.csrf.token(session)

    def check_csrf_token(self, session: OIDCSession[Identity], token: str | None) -> None:
        """Raises SessionError (session.csrf) unless `token` is one of this session's own."""
        try:
            self.site.csrf.require(session, token)
        except SessionError as error:
            error.instance = self.site.name
            raise

    def _exchange(self, connection: HTTPConnection) -> Exchange[Identity, RequestData]:
        return exchange_of(connection, self.site.name)
