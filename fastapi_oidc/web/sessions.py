"""The session methods of `OIDC`: the sessions of a request and of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any

from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty, idle_end_of
from fastapi_oidc.flows.revocation import revoke, sessions_of
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.session.model import Identity, OIDCSession, PublicSession
from fastapi_oidc.web.guards import usable_session
from fastapi_oidc.web.misuse import awaited, require_kind
from fastapi_oidc.web.pages import NO_STORE
from fastapi_oidc.web.refusals import SignInRequired
from fastapi_oidc.web.routes import Owning, Role
from fastapi_oidc.web.runtime import OIDCLocals, PublicSessionContext, RequestData, Runtime
from fastapi_oidc.web.serving import EndpointFunction, Serving

POLL_INTERVAL = 5
"""Seconds between two checks by the provider's `check_session_iframe`."""


class SessionManagementConfig(BaseModel):
    """How `<oidc-context>` watches the session at the provider (Session Management 1.0 3.1).

    `supported` is false when the provider has no `check_session_iframe` or is unavailable.
    """

    supported: bool
    client_id: str | None = None
    check_session_iframe: str | None = None
    poll_interval: int = POLL_INTERVAL
    redirect_origin: str | None = None


async def public_session(runtime: Runtime, locals: OIDCLocals[Identity, RequestData]) -> object:
    """The result of `create_public_session`, or else the token-free view of the session."""
    base: PublicSession[Identity] = PublicSession.of(locals.session)
    create = runtime.engine.create_public_session
    if create is None or locals.session is None:
        return base
    return await called(create, PublicSessionContext(base, locals.data))


async def session_document(
    runtime: Runtime, locals: OIDCLocals[Identity, RequestData]
) -> dict[str, Any]:
    """The public session as JSON for the browser component."""
    session = locals.session
    if session is None:
        ended = {} if locals.ended is None else {"ended": locals.ended}
        return {"is_authenticated": False, **ended}
    content = jsonable_encoder(await public_session(runtime, locals))
    members = content if isinstance(content, dict) else {"public": content}
    timeout = runtime.party.of(session).settings.idle_timeout
    idle = {} if timeout is None else {"idle_expires_at": idle_end_of(session, timeout)}
    return members | {
        **idle,
        "is_authenticated": True,
        "expires_at": session.expires_at,
        "session_state": session.session_state,
        "csrf_token": runtime.csrf.token(session),
    }


async def session_management(party: RelyingParty, origin: str | None) -> SessionManagementConfig:
    """The configuration; unsupported while the provider's metadata is unavailable."""
    iframe = None
    with suppress(OIDCError):
        iframe = (await party.provider.metadata()).check_session_iframe
    if iframe is None:
        return SessionManagementConfig(supported=False)
    return SessionManagementConfig(
        supported=True,
        client_id=party.settings.client_id,
        check_session_iframe=iframe,
        redirect_origin=origin,
    )


class Sessions(Serving[Identity, RequestData]):
    """Reads, refreshes and ends sessions. A `connection` is a request or a websocket."""

    @awaited
    async def get_session(self, connection: HTTPConnection) -> OIDCSession[Identity] | None:
        """The session of a request, refreshed if necessary; None without one.

        Raises SessionError when a store is unavailable.
        """
        return (await self.get_locals(connection)).session

    @awaited
    async def get_locals(self, connection: HTTPConnection) -> OIDCLocals[Identity, RequestData]:
        """The session, identity and data of a request, and why its session has ended, if it has.

        Raises SessionError when a store is unavailable.
        """
        return await self._context(connection).locals()

    @awaited
    async def refresh(self, connection: HTTPConnection) -> OIDCSession[Identity]:
        """The session with new tokens, however long the old ones are still valid.

        Raises SessionError: session.required without a session or when the provider ended it,
        session.refresh_postponed while the provider is unavailable. Raises ConfigurationError when
        the provider issued no refresh token. In the last two cases the session continues.
        """
        try:
            locals = await self._context(connection).refresh()
        except SessionError as error:
            if error.code is not Code.SESSION_REQUIRED:
                raise
            locals = OIDCLocals()
        if locals.session is None:
            raise SignInRequired(Code.SESSION_REQUIRED, "no session", ended=locals.ended)
        return locals.session

    @awaited
    async def is_still_signed_in(self, connection: HTTPConnection) -> bool:
        """Whether the session of a long-lived connection is still valid.

        Call this from time to time in a websocket or an event stream. It refreshes nothing and does
        not count for the idle timeout. Raises SessionError when a store is unavailable.
        """
        return await self._context(connection).is_still_signed_in()

    def clear_session(self, connection: HTTPConnection) -> None:
        """End the session with this response. The provider is not contacted."""
        with Owning(self.engine.name):
            self._context(connection).clear()

    async def user_info(self, session: OIDCSession[Identity]) -> Mapping[str, JSON] | None:
        """The session's user's current UserInfo claims, validated; None without that endpoint.

        Raises ProviderError, and ProtocolViolation for UserInfo of another user.
        """
        require_kind("session of oidc.user_info", session, OIDCSession)
        tokens, party = session.tokens, self.runtime.party.of(session)
        return await party.provider.userinfo(
            tokens.access_token, sub=session.sub, key=tokens.proof_key()
        )

    async def provider_metadata(self) -> ProviderMetadata:
        """The provider's metadata, from its discovery document; raises ProviderError.

        Of several registrations, `oidc.registration(settings)` chooses one.
        """
        return await self._only().provider.metadata()

    async def revoke(
        self,
        *,
        sub: str | None = None,
        sid: str | None = None,
        session_id: str | None = None,
        issuer: str | None = None,
    ) -> None:
        """Sign out everywhere: a user (`sub`), a session at the provider (`sid`), or one session.

        These sessions end immediately; later logins are not affected. `issuer` is the `iss` of the
        ID tokens, which is required where there are several. Raises ValueError unless
        exactly one of the others is set, ConfigurationError (configuration.store_missing) without a
        store, SessionError when it is down.
        """
        names = {"sub": sub, "sid": sid, "session_id": session_id, "issuer": issuer}
        for name, value in names.items():
            require_kind(f"{name} of oidc.revoke", value, str, NoneType)
        await revoke(self.runtime.party, sub=sub, sid=sid, session_id=session_id, issuer=issuer)

    async def sessions_of(
        self, sub: str, *, issuer: str | None = None
    ) -> Sequence[OIDCSession[Identity]]:
        """The sessions of a user that have not ended, the newest login first.

        `issuer` is as in `revoke`. Raises ConfigurationError (configuration.store_missing) without
        a session store, SessionError when it is down.
        """
        require_kind("sub of oidc.sessions_of", sub, str)
        require_kind("issuer of oidc.sessions_of", issuer, str, NoneType)
        return await sessions_of(self.runtime.party, sub, issuer)

    async def to_public_session(self, locals: OIDCLocals[Identity, RequestData]) -> object:
        """The public session of loaded locals; it reads no store and refreshes nothing."""
        require_kind("locals of oidc.to_public_session", locals, OIDCLocals)
        return await public_session(self.runtime, locals)

    @awaited
    async def get_public_session(self, connection: HTTPConnection) -> object:
        """The public session of a request; its locals are loaded if necessary."""
        return await public_session(
            self._context(connection).runtime, await self.get_locals(connection)
        )

    async def get_session_management_config(self) -> SessionManagementConfig:
        """How browsers watch the provider's session; unsupported while discovery is unavailable."""
        return await session_management(self._only(), self.runtime.origin)

    def csrf_token(self, session: OIDCSession[Identity]) -> str:
        """A new CSRF token of the session, for its forms and scripts. Each call returns another."""
        require_kind("session of oidc.csrf_token", session, OIDCSession)
        return self.runtime.csrf.token(session)

    def check_csrf_token(self, session: OIDCSession[Identity], token: str | None) -> None:
        """Raises SessionError (session.csrf) unless `token` is a CSRF token of this session."""
        require_kind("session of oidc.check_csrf_token", session, OIDCSession)
        require_kind("token of oidc.check_csrf_token", token, str, NoneType)
        with Owning(self.engine.name):
            self.runtime.csrf.require(session, token)

    def session_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /session`, the public session for the browser component.

        `active=1` counts as activity of the user.
        """
        return self._named(Role.SESSION, self._serve_session)

    def session_management_handler(self) -> EndpointFunction:
        """The endpoint function of `GET /session-management`, for the browser component."""
        return self._named(Role.SESSION_MANAGEMENT, self._serve_session_management)

    async def _serve_session(self, request: Request) -> Response:
        context, active = self._context(request), request.query_params.get("active")
        locals = await context.locals(active=active in ("1", "true"))
        usable_session(locals)
        return _not_stored(await session_document(context.runtime, locals))

    async def _serve_session_management(self, request: Request) -> Response:
        context = self._context(request)
        party = await context.registration_of_session() or context.party
        return _not_stored(await session_management(party, context.origin))


def _not_stored(content: object) -> Response:
    """JSON about one user, which caches must not store."""
    return JSONResponse(jsonable_encoder(content), headers=NO_STORE)
