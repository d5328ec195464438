"""Ending sessions and telling their clients (Back-Channel Logout 1.0)."""

from __future__ import annotations

import httpx

from fastapi_oidc.testing.op_sessions import OPSession
from fastapi_oidc.testing.record import LogoutDelivered, SignedOut
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.tokens import logout_token

DELIVERY_TIMEOUT = 5.0


async def end_session(op: ProviderState, session: OPSession, *, client_id: str | None) -> None:
    """Ends the session and its grants, then waits until every client was told."""
    op.sessions.end(session)
    op.record.add(SignedOut(session.user.sub, client_id))
    for name, sid in session.sids.items():
        op.credentials.revoke_session(sid)
        await deliver_logout(op, op.clients[name], user=session.user, sid=sid)


async def deliver_logout(
    op: ProviderState, client: DevClient, *, user: DevUser, sid: str
) -> int | None:
    """Posts a logout token; returns the client's HTTP status, None when it gave no answer."""
    uri = client.backchannel_logout_uri
    if uri is None:
        return None
    form = {"logout_token": logout_token(op, client, user=user, sid=sid)}
    status = await _posted(op.back_channel_transport, uri, form)
    op.record.add(LogoutDelivered(client.client_id, uri, status))
    return status


async def _posted(
    transport: httpx.AsyncBaseTransport | None, uri: str, form: dict[str, str]
) -> int | None:
    try:
        async with httpx.AsyncClient(
            transport=transport, timeout=DELIVERY_TIMEOUT, trust_env=False
        ) as http:
            return (await http.post(uri, data=form)).status_code
    except httpx.HTTPError:
        return None
