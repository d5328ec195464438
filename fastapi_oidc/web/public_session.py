"""The public session, and the configuration for watching the provider's session."""

from __future__ import annotations

from typing import Any

from fastapi.encoders import jsonable_encoder
from pydantic import BaseModel

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import OIDCError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import idle_end_of
from fastapi_oidc.session.model import Identity, PublicSession
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.runtime import PublicSessionContext, RequestData, Runtime

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


async def public_session(
    runtime: Runtime[Identity, RequestData], locals: OIDCLocals[Identity, RequestData]
) -> object:
    """The result of `create_public_session`, or else the token-free view of the session."""
    base: PublicSession[Identity] = PublicSession.of(locals.session)
    create = runtime.engine.create_public_session
    if create is None or locals.session is None:
        return base
    return await called(create, PublicSessionContext(base, locals.data))


async def session_document(
    runtime: Runtime[Identity, RequestData], locals: OIDCLocals[Identity, RequestData]
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


async def session_management(
    party: RelyingParty[Identity], origin: str | None
) -> SessionManagementConfig:
    """The configuration; unsupported while the provider's metadata is unavailable."""
    try:
        metadata = await party.provider.metadata()
    except OIDCError:
        return SessionManagementConfig(supported=False)
    if metadata.check_session_iframe is None:
        return SessionManagementConfig(supported=False)
    return SessionManagementConfig(
        supported=True,
        client_id=party.settings.client_id,
        check_session_iframe=metadata.check_session_iframe,
        redirect_origin=origin,
    )
