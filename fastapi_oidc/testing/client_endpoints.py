"""What clients ask themselves: tokens, UserInfo, pushed requests, revocation."""

from __future__ import annotations

import hashlib
import hmac
from http import HTTPStatus

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.testing.authorize import authorization_request, return_address
from fastapi_oidc.testing.client_authentication import authenticated_client
from fastapi_oidc.testing.grants import AuthorizationCode, Credential, Grant
from fastapi_oidc.testing.messages import (
    NO_STORE,
    Parameters,
    Refusal,
    form_parameters,
    json_answer,
    required,
)
from fastapi_oidc.testing.record import TokenRevoked, TokensIssued, UserInfoServed
from fastapi_oidc.testing.registration import DevClient
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.tokens import signed_userinfo, token_response

_SECRETS = ("client_secret", "client_assertion")


async def token(op: ProviderState, request: Request) -> Response:
    """Issues tokens to an authenticated client."""
    form = await form_parameters(request)
    client = authenticated_client(op, request.headers, form)
    match required(form, "grant_type"):
        case "authorization_code":
            grant, members = _by_code(op, client, form)
        case "refresh_token":
            grant, members = _by_refresh_token(op, client, form)
        case _:
            raise Refusal("unsupported_grant_type", "use authorization_code or refresh_token")
    shown = {name: value for name, value in form.items() if name not in _SECRETS}
    op.record.add(TokensIssued(client.client_id, grant.user.sub, form["grant_type"], shown))
    return json_answer(members)


def _by_code(
    op: ProviderState, client: DevClient, form: Parameters
) -> tuple[Grant, dict[str, JsonValue]]:
    code = op.credentials.code(required(form, "code"))
    if code is None or code.grant.client != client:
        raise _invalid_grant("the code is unknown or was issued to another client")
    if code.is_used:
        # A second use means the code leaked: what the first one gave ends too (RFC 6749 4.1.2).
        code.grant.is_revoked = True
        raise _invalid_grant("the code was used before")
    code.is_used = True
    if op.clock.now() >= code.expires_at:
        raise _invalid_grant("the code has expired")
    _require_same_request(code, form)
    return code.grant, token_response(op, code.grant, code.grant.scope, nonce=code.grant.nonce)


def _require_same_request(code: AuthorizationCode, form: Parameters) -> None:
    """The token request must come from whoever made the authorization request."""
    if required(form, "redirect_uri") != code.redirect_uri:
        raise _invalid_grant("redirect_uri differs from the authorization request (RFC 6749 4.1.3)")
    verifier = required(form, "code_verifier")
    challenge = base64url.encode(hashlib.sha256(verifier.encode()).digest())
    if not hmac.compare_digest(challenge, code.code_challenge):
        raise _invalid_grant("code_verifier does not fit the code_challenge (RFC 7636 4.6)")


def _by_refresh_token(
    op: ProviderState, client: DevClient, form: Parameters
) -> tuple[Grant, dict[str, JsonValue]]:
    """Rotates: the token presented is used up, and presenting it again ends the grant."""
    credential = op.credentials.refresh_token(required(form, "refresh_token"))
    if credential is None or credential.grant.client != client:
        raise _invalid_grant("the refresh token is unknown or was issued to another client")
    grant = credential.grant
    if credential.is_used:
        grant.is_revoked = True
        raise _invalid_grant("the refresh token was used before: the grant is revoked")
    if not credential.is_valid(op.clock.now()):
        raise _invalid_grant("the refresh token has expired or was revoked")
    scope = _narrowed(grant.scope, form)
    credential.is_used = True
    return grant, token_response(op, grant, scope, nonce=None)


def _narrowed(granted: tuple[str, ...], form: Parameters) -> tuple[str, ...]:
    scope = tuple(form["scope"].split(" ")) if "scope" in form else granted
    if not set(scope) <= set(granted):
        raise Refusal("invalid_scope", "a refresh cannot widen the scope (RFC 6749 6)")
    return scope


def _invalid_grant(description: str) -> Refusal:
    return Refusal("invalid_grant", description)


async def userinfo(op: ProviderState, request: Request) -> Response:
    """The claims of the access token's user, as JSON or as a signed JWT."""
    grant = _grant_of(op, await _access_token(request))
    claims = grant.user.claims_for(grant.scope) | {"sub": grant.user.sub}
    claims = op.edits.edited("userinfo", claims)
    op.record.add(UserInfoServed(grant.client.client_id, grant.user.sub))
    if grant.client.userinfo_signed_response_alg is None:
        return json_answer(claims)
    jwt = signed_userinfo(op, grant.client, claims)
    return Response(jwt, media_type="application/jwt", headers=NO_STORE)


def _grant_of(op: ProviderState, access_token: str) -> Grant:
    credential = op.credentials.access_token(access_token)
    if credential is None or not credential.is_valid(op.clock.now()):
        raise _unauthorized("invalid_token", "the access token is unknown, expired or revoked")
    return credential.grant


async def _access_token(request: Request) -> str:
    """From the header or the body, never the query, never twice (RFC 6750 2)."""
    offered = []
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        offered.append(value)
    if request.method == "POST" and "content-type" in request.headers:
        form = await form_parameters(request)
        offered.extend(form[name] for name in ("access_token",) if name in form)
    if len(offered) != 1 or "access_token" in request.query_params:
        raise _unauthorized("invalid_request", "give one access token, in the header or the body")
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
