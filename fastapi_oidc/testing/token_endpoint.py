"""The token endpoint: a code or a refresh token for tokens (Core 3.1.3 and 12)."""

from __future__ import annotations

import hashlib
import hmac

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.testing.client_authentication import authenticated_client
from fastapi_oidc.testing.grants import AuthorizationCode, Grant
from fastapi_oidc.testing.messages import (
    Parameters,
    Refusal,
    form_parameters,
    json_answer,
    required,
)
from fastapi_oidc.testing.record import TokensIssued
from fastapi_oidc.testing.registration import DevClient
from fastapi_oidc.testing.signatures import base64url
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.tokens import token_response

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
    challenge = base64url(hashlib.sha256(verifier.encode()).digest())
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
