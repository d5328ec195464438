"""Two small endpoints for authenticated clients: pushed requests and token revocation."""

from __future__ import annotations

from http import HTTPStatus

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.testing.authorization_request import authorization_request, return_address
from fastapi_oidc.testing.client_authentication import authenticated_client
from fastapi_oidc.testing.grants import Credential
from fastapi_oidc.testing.messages import (
    NO_STORE,
    Refusal,
    form_parameters,
    json_answer,
    required,
)
from fastapi_oidc.testing.record import TokenRevoked
from fastapi_oidc.testing.state import ProviderState

_CREDENTIALS = ("client_secret", "client_assertion", "client_assertion_type")


async def push_authorization_request(op: ProviderState, request: Request) -> Response:
    """Checks an authorization request ahead of time and keeps it for one use (RFC 9126 2)."""
    form = await form_parameters(request)
    client = authenticated_client(op, request.headers, form)
    if "request_uri" in form:
        raise Refusal("invalid_request", "request_uri cannot be pushed (RFC 9126 2.1)")
    parameters = {name: value for name, value in form.items() if name not in _CREDENTIALS}
    parameters["client_id"] = client.client_id
    authorization_request(parameters, return_address(op, parameters))
    members: dict[str, JsonValue] = {
        "request_uri": op.pushed.put(parameters),
        "expires_in": op.pushed.lifetime,
    }
    return json_answer(members, status=HTTPStatus.CREATED)


async def revoke(op: ProviderState, request: Request) -> Response:
    """Revokes a token of the client; an unknown one is answered 200 too (RFC 7009 2.2).

    Revoking a refresh token ends its whole grant, revoking an access token only that token.
    """
    form = await form_parameters(request)
    client = authenticated_client(op, request.headers, form)
    token = required(form, "token")
    refresh = op.credentials.refresh_token(token)
    access = op.credentials.access_token(token)
    credential: Credential | None = refresh or access
    if credential is not None and credential.grant.client != client:
        raise Refusal("invalid_grant", "the token was issued to another client")
    if refresh is not None:
        refresh.grant.is_revoked = True
    elif access is not None:
        access.is_used = True
    if credential is not None:
        op.record.add(TokenRevoked(client.client_id, form.get("token_type_hint")))
    return Response(headers=NO_STORE)
