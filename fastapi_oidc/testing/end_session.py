"""The end-session endpoint (RP-Initiated Logout 1.0)."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fastapi_oidc.testing import pages
from fastapi_oidc.testing.asked import LogoutRequest
from fastapi_oidc.testing.back_channel import end_session
from fastapi_oidc.testing.grants import Grant
from fastapi_oidc.testing.messages import (
    NO_STORE,
    Parameters,
    Refusal,
    form_parameters,
    request_parameters,
    required,
)
from fastapi_oidc.testing.op_sessions import OPSession
from fastapi_oidc.testing.registration import DevClient
from fastapi_oidc.testing.state import ProviderState


async def request_logout(op: ProviderState, request: Request) -> Response:
    """Signs out the user named by the hint; without a fitting hint the user is asked first."""
    asked = _logout_request(op, await request_parameters(request))
    session = op.sessions.of(request)
    if session is not None and session.user != asked.hinted_user:
        return pages.confirm_logout(session.user, op.logouts.put(asked))
    return await _sign_out(op, asked, session)


async def confirm_logout(op: ProviderState, request: Request) -> Response:
    """The user agreed to sign out."""
    asked = op.logouts.take(required(await form_parameters(request), "logout"))
    if asked is None:
        raise Refusal("invalid_request", "this page is too old: start again from the app")
    return await _sign_out(op, asked, op.sessions.of(request))


def _logout_request(op: ProviderState, parameters: Parameters) -> LogoutRequest:
    grant = _hinted_grant(op, parameters)
    client = _client(op, parameters, grant)
    target = parameters.get("post_logout_redirect_uri")
    if target is not None and (client is None or not client.may_log_out_to(target)):
        raise Refusal("invalid_request", f"post_logout_redirect_uri is not registered: {target}")
    return LogoutRequest(client, grant.user if grant else None, _return_url(target, parameters))


def _hinted_grant(op: ProviderState, parameters: Parameters) -> Grant | None:
    if "id_token_hint" not in parameters:
        return None
    grant = op.credentials.grant_of_id_token(parameters["id_token_hint"])
    if grant is None:
        raise Refusal("invalid_request", "id_token_hint was not issued by this provider")
    return grant


def _client(op: ProviderState, parameters: Parameters, grant: Grant | None) -> DevClient | None:
    client_id = parameters.get("client_id")
    if client_id is None:
        return grant.client if grant else None
    client = op.clients.get(client_id)
    if client is None or (grant is not None and grant.client != client):
        raise Refusal("invalid_request", "client_id is unknown or not the one of id_token_hint")
    return client


def _return_url(target: str | None, parameters: Parameters) -> str | None:
    if target is None or "state" not in parameters:
        return target
    joint = "&" if "?" in target else "?"
    return target + joint + urlencode({"state": parameters["state"]})


async def _sign_out(op: ProviderState, asked: LogoutRequest, session: OPSession | None) -> Response:
    if session is not None:
        await end_session(op, session, client_id=asked.client_id)
    if asked.return_url is None:
        response: Response = pages.signed_out()
    else:
        response = RedirectResponse(asked.return_url, 303, headers=NO_STORE)
    op.sessions.write_cookies(response, None)
    return response
