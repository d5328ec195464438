"""The endpoints for clients and APIs: UserInfo, pushed requests, introspection, revocation."""

from __future__ import annotations

from http import HTTPStatus

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.testing.authorize import authorization_request, return_address
from fastapi_oidc.testing.client_authentication import authenticated_client, invalid_client
from fastapi_oidc.testing.grants import AccessToken
from fastapi_oidc.testing.messages import NO_STORE, Refusal, form_parameters, json_answer, required
from fastapi_oidc.testing.proofs import nonce_header, require_possession
from fastapi_oidc.testing.record import TokenIntrospected, TokenRevoked, UserInfoServed
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.tokens import signed_userinfo


async def userinfo(op: ProviderState, request: Request) -> Response:
    """The claims of the access token's user, as JSON or as a signed JWT."""
    token = await _access_token(op, request)
    grant = token.grant
    claims = grant.user.claims_for(grant.scope) | {"sub": grant.user.sub}
    claims = op.edits.edited("userinfo", claims)
    op.record.add(UserInfoServed(grant.client.client_id, grant.user.sub))
    if grant.client.userinfo_signed_response_alg is None:
        return json_answer(claims, headers=nonce_header(op))
    jwt = signed_userinfo(op, grant.client, claims)
    return Response(jwt, media_type="application/jwt", headers=NO_STORE | nonce_header(op))


async def _access_token(op: ProviderState, request: Request) -> AccessToken:
    """The user's access token in the request, sent as its type requires (RFC 6750, RFC 9449 7)."""
    scheme, value = await _sent_token(request)
    token = op.credentials.access_token(value)
    if token is None or not token.is_valid(op.clock.now()):
        raise _unauthorized("invalid_token", "the access token is unknown, expired or revoked")
    if scheme != token.access.token_type.lower():
        # Accepting a bound token as a bearer token would ignore its binding (RFC 9449 7.2).
        raise _unauthorized("invalid_token", f"send it as {token.access.token_type}")
    if scheme == "dpop":
        require_possession(op, request, value, token.access)
    if "openid" not in token.access.scope:
        raise _unauthorized("insufficient_scope", "UserInfo needs the scope openid (Core 5.3)")
    return token


async def _sent_token(request: Request) -> tuple[str, str]:
    """The scheme and the only token, from the header or the body, not the query (RFC 6750 2)."""
    offered = []
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "dpop"):
        offered.append((scheme.lower(), value))
    if request.method == "POST" and "content-type" in request.headers:
        form = await form_parameters(request)
        offered.extend(("bearer", form[name]) for name in ("access_token",) if name in form)
    if len(offered) != 1 or "access_token" in request.query_params:
        raise _unauthorized("invalid_request", "send one access token, in the header or the body")
    return offered[0]


def _unauthorized(error: str, description: str) -> Refusal:
    return Refusal(
        error,
        description,
        status=HTTPStatus.UNAUTHORIZED,
        headers={"WWW-Authenticate": f'Bearer error="{error}"'},
    )


_CREDENTIALS = ("client_secret", "client_assertion", "client_assertion_type")


async def push_authorization_request(op: ProviderState, request: Request) -> Response:
    """Check an authorization request and store it for one use (RFC 9126 2)."""
    form = await form_parameters(request)
    client = authenticated_client(op, request.headers, form)
    if "request_uri" in form:
        raise Refusal("invalid_request", "request_uri cannot be pushed (RFC 9126 2.1)")
    parameters = {name: value for name, value in form.items() if name not in _CREDENTIALS}
    parameters["client_id"] = client.client_id
    authorization_request(op, parameters, return_address(op, parameters))
    members: dict[str, JsonValue] = {
        "request_uri": op.pushed.put(parameters),
        "expires_in": op.pushed.lifetime,
    }
    return json_answer(members, status=HTTPStatus.CREATED)


async def introspect(op: ProviderState, request: Request) -> Response:
    """Introspection for confidential clients; only `active` for invalid tokens (RFC 7662 2)."""
    form = await form_parameters(request)
    client = authenticated_client(op, request.headers, form)
    if client.authentication_method == "none":
        raise invalid_client("a public client cannot ask about tokens (RFC 7662 2.1)")
    members = op.edits.edited("introspection", _introspected(op, required(form, "token")))
    op.record.add(TokenIntrospected(client.client_id, members["active"] is True))
    return json_answer(members)


def _introspected(op: ProviderState, value: str) -> dict[str, JsonValue]:
    access, refresh = op.credentials.access_token(value), op.credentials.refresh_token(value)
    if access is not None and access.is_valid(op.clock.now()):
        return {"active": True, "token_type": access.access.token_type, **access.claims}
    if refresh is not None and refresh.is_valid(op.clock.now()):
        grant = refresh.grant
        return {
            "active": True,
            "client_id": grant.client.client_id,
            "sub": grant.user.sub,
            "scope": " ".join(grant.scope),
            "exp": refresh.expires_at,
        }
    return {"active": False}


async def revoke(op: ProviderState, request: Request) -> Response:
    """Revoke a token of the client; the status is also 200 for an unknown token (RFC 7009 2.2).

    Revoking a refresh token ends its whole grant, revoking an access token only that token.
    """
    form = await form_parameters(request)
    client = authenticated_client(op, request.headers, form)
    token = required(form, "token")
    refresh, access = op.credentials.refresh_token(token), op.credentials.access_token(token)
    owner = refresh.grant.client if refresh else access.access.client if access else None
    if owner not in (None, client):
        raise Refusal("invalid_grant", "the token was issued to another client")
    if refresh is not None:
        refresh.grant.is_revoked = True
    elif access is not None:
        access.is_used = True
    if owner is not None:
        op.record.add(TokenRevoked(client.client_id, form.get("token_type_hint")))
    return Response(headers=NO_STORE)
