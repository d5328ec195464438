"""The end of sessions, here and at the clients, and the page for watching sessions."""

from __future__ import annotations

import json

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fastapi_oidc.protocol.urls import with_query
from fastapi_oidc.testing import pages
from fastapi_oidc.testing.grants import OPSession
from fastapi_oidc.testing.hints import Hint, verified_hint
from fastapi_oidc.testing.messages import (
    NO_STORE,
    Parameters,
    Refusal,
    form_parameters,
    request_parameters,
    required,
)
from fastapi_oidc.testing.pages import source_hash
from fastapi_oidc.testing.record import LogoutDelivered, SignedOut
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.state import LogoutRequest, ProviderState
from fastapi_oidc.testing.tokens import logout_token

_SCRIPT = """
const cookie = %s;

function browserState() {
  const pair = document.cookie.split("; ").find((one) => one.startsWith(cookie + "="));
  return pair === undefined ? "" : pair.slice(cookie.length + 1);
}

async function sessionState(clientId, origin, salt) {
  const text = new TextEncoder().encode(`${clientId} ${origin} ${browserState()} ${salt}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  const encoded = btoa(String.fromCharCode(...digest));
  return encoded.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") + "." + salt;
}

addEventListener("message", async (event) => {
  if (event.source === null || event.source === window) return;
  const parts = typeof event.data === "string" ? event.data.split(" ") : [];
  const salt = parts.length === 2 ? parts[1].split(".")[1] : undefined;
  if (!parts[0] || !salt) return event.source.postMessage("error", event.origin);
  const expected = await sessionState(parts[0], event.origin, salt);
  event.source.postMessage(expected === parts[1] ? "unchanged" : "changed", event.origin);
});
"""


async def check_session(op: ProviderState, request: Request) -> Response:
    """The page whose script posts `changed`, `unchanged` or `error` to its parent."""
    script = _SCRIPT % json.dumps(op.sessions.browser_state_cookie)
    policy = f"default-src 'none'; script-src {source_hash(script)}"
    body = f"<!doctype html><title>Session check</title><script>{script}</script>"
    return HTMLResponse(body, headers={"Content-Security-Policy": policy})


DELIVERY_TIMEOUT = 5.0


async def end_session(op: ProviderState, session: OPSession, *, client_id: str | None) -> None:
    """End the session and its grants, then wait until the clients have received logout tokens."""
    op.sessions.end(session)
    op.record.add(SignedOut(session.user.sub, client_id))
    for name, sid in session.sids.items():
        op.credentials.revoke_session(sid)
        await deliver_logout(op, op.clients[name], user=session.user, sid=sid)


async def deliver_logout(
    op: ProviderState, client: DevClient, *, user: DevUser, sid: str
) -> int | None:
    """Post a logout token; returns the client's HTTP status, None without a response."""
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


def front_channel_urls(op: ProviderState, session: OPSession) -> list[str]:
    """The URLs that the browser must load to end sessions (Front-Channel Logout 1.0, 3)."""
    urls = []
    for name, sid in session.sids.items():
        client = op.clients[name]
        if client.frontchannel_logout_uri is not None:
            about = {"iss": str(op.issuer_claims(session.user)["iss"]), "sid": sid}
            is_told = client.frontchannel_logout_session_required
            urls.append(
                with_query(client.frontchannel_logout_uri, about)
                if is_told
                else client.frontchannel_logout_uri
            )
    return urls


async def request_logout(op: ProviderState, request: Request) -> Response:
    """Sign out the user of the hint. Without a matching hint the user must confirm first."""
    asked = _logout_request(op, await request_parameters(request))
    session = op.sessions.of(request)
    if session is not None and session.user != asked.hinted_user:
        return pages.confirm_logout(session.user, op.logouts.put(asked))
    return await _sign_out(op, asked, session)


async def confirm_logout(op: ProviderState, request: Request) -> Response:
    """The user confirmed the sign-out."""
    asked = op.logouts.take(required(await form_parameters(request), "logout"))
    if asked is None:
        raise Refusal("invalid_request", "this page is too old: start again from the app")
    return await _sign_out(op, asked, op.sessions.of(request))


def _logout_request(op: ProviderState, parameters: Parameters) -> LogoutRequest:
    hint = _hint(op, parameters)
    client = _client(op, parameters, hint)
    target = parameters.get("post_logout_redirect_uri")
    if target is not None and (client is None or not client.may_log_out_to(target)):
        raise Refusal("invalid_request", f"post_logout_redirect_uri is not registered: {target}")
    return LogoutRequest(client, hint.user if hint else None, _return_url(target, parameters))


def _hint(op: ProviderState, parameters: Parameters) -> Hint | None:
    if "id_token_hint" not in parameters:
        return None
    hint = verified_hint(op, parameters["id_token_hint"])
    if hint is None:
        raise Refusal("invalid_request", "id_token_hint was not issued by this provider")
    return hint


def _client(op: ProviderState, parameters: Parameters, hint: Hint | None) -> DevClient | None:
    client_id = parameters.get("client_id")
    if client_id is None:
        return hint.client if hint else None
    client = op.clients.get(client_id)
    if client is None or (hint is not None and hint.client != client):
        raise Refusal("invalid_request", "client_id is unknown or not the one of id_token_hint")
    return client


def _return_url(target: str | None, parameters: Parameters) -> str | None:
    if target is None or "state" not in parameters:
        return target
    return with_query(target, {"state": parameters["state"]})


async def _sign_out(op: ProviderState, asked: LogoutRequest, session: OPSession | None) -> Response:
    frames: list[str] = []
    if session is not None:
        frames = front_channel_urls(op, session)
        await end_session(op, session, client_id=asked.client_id)
    if frames or asked.return_url is None:
        response: Response = pages.signed_out(frames, asked.return_url)
    else:
        response = RedirectResponse(asked.return_url, 303, headers=NO_STORE)
    op.sessions.write_cookies(response, None)
    return response
