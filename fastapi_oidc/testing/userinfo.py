"""The UserInfo endpoint (Core 5.3)."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.testing.grants import Grant
from fastapi_oidc.testing.messages import NO_STORE, Refusal, form_parameters, json_answer
from fastapi_oidc.testing.record import UserInfoServed
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.tokens import signed_userinfo


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
