"""The token endpoint and its grant types."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.testing.client_authentication import authenticated_client
from fastapi_oidc.testing.grants import Access, AccessToken, AuthorizationCode, Grant
from fastapi_oidc.testing.messages import (
    Parameters,
    Refusal,
    form_parameters,
    json_answer,
    required,
)
from fastapi_oidc.testing.proofs import nonce_header, proven_key
from fastapi_oidc.testing.record import TokensIssued
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.targets import (
    api_access,
    is_for,
    requested_resource,
    requested_scope,
    scope_at,
)
from fastapi_oidc.testing.tokens import access_token_response, token_response

EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ON_BEHALF_OF: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TYPES: Final = "urn:ietf:params:oauth:token-type:"

_SECRETS = ("client_secret", "client_assertion", "actor_token")


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token request of an authenticated client; `thumbprint` is of the key in its proof."""

    client: DevClient
    form: Parameters
    thumbprint: str | None


Issued = tuple[Grant, dict[str, JsonValue]]


async def token(op: ProviderState, request: Request) -> Response:
    """Issues tokens to an authenticated client."""
    form = await form_parameters(request)
    client = authenticated_client(op, request.headers, form)
    by_grant_type = GRANTS.get(required(form, "grant_type"))
    if by_grant_type is None:
        raise Refusal("unsupported_grant_type", f"use {', '.join(GRANTS)}")
    grant, members = by_grant_type(op, TokenRequest(client, form, proven_key(op, client, request)))
    shown = {name: value for name, value in form.items() if name not in _SECRETS}
    op.record.add(TokensIssued(client.client_id, grant.user.sub, form["grant_type"], shown))
    return json_answer(members, headers=nonce_header(op))


def _by_code(op: ProviderState, asked: TokenRequest) -> Issued:
    code = op.credentials.code(required(asked.form, "code"))
    if code is None or code.grant.client != asked.client:
        raise _invalid_grant("the code is unknown or was issued to another client")
    if code.is_used:
        # A second use means that the code leaked: tokens of the first use end too (RFC 6749 4.1.2).
        code.grant.is_revoked = True
        raise _invalid_grant("the code was used before")
    code.is_used = True
    if op.clock.now() >= code.expires_at:
        raise _invalid_grant("the code has expired")
    _require_same_request(code, asked.form)
    access = _user_access(op, asked, code.grant, code.grant.scope)
    return code.grant, token_response(op, code.grant, access, nonce=code.grant.nonce)


def _require_same_request(code: AuthorizationCode, form: Parameters) -> None:
    """Require that the sender made the authorization request (redirect URI and PKCE)."""
    if required(form, "redirect_uri") != code.redirect_uri:
        raise _invalid_grant("redirect_uri differs from the authorization request (RFC 6749 4.1.3)")
    verifier = required(form, "code_verifier")
    challenge = encode_base64url(hashlib.sha256(verifier.encode()).digest())
    if not hmac.compare_digest(challenge, code.code_challenge):
        raise _invalid_grant("code_verifier does not fit the code_challenge (RFC 7636 4.6)")


def _by_refresh_token(op: ProviderState, asked: TokenRequest) -> Issued:
    """Rotate the refresh token: it is used up, and using it again ends the grant."""
    credential = op.credentials.refresh_token(required(asked.form, "refresh_token"))
    if credential is None or credential.grant.client != asked.client:
        raise _invalid_grant("the refresh token is unknown or was issued to another client")
    grant = credential.grant
    if credential.is_used:
        grant.is_revoked = True
        raise _invalid_grant("the refresh token was used before: the grant is revoked")
    if not credential.is_valid(op.clock.now()):
        raise _invalid_grant("the refresh token has expired or was revoked")
    if credential.thumbprint not in (None, asked.thumbprint):
        raise _invalid_grant("the refresh token is bound to another key (RFC 9449 5)")
    access = _user_access(op, asked, grant, _narrowed(grant.scope, asked.form))
    credential.is_used = True
    return grant, token_response(op, grant, access, nonce=None)


def _user_access(
    op: ProviderState, asked: TokenRequest, grant: Grant, scope: tuple[str, ...]
) -> Access:
    resource = requested_resource(op, asked.form, grant.resources)
    if resource is None and grant.resources:
        [resource] = grant.resources
    return _access(op, asked, resource, scope_at(op, resource, scope))


def _access(
    op: ProviderState, asked: TokenRequest, resource: str | None, scope: tuple[str, ...]
) -> Access:
    audience = resource or asked.client.audience or op.issuer
    return Access(asked.client, scope, audience, asked.thumbprint)


def _narrowed(granted: tuple[str, ...], form: Parameters) -> tuple[str, ...]:
    scope = requested_scope(form) or granted
    if not set(scope) <= set(granted):
        raise Refusal("invalid_scope", "the scope cannot be widened (RFC 6749 6)")
    return scope


def _by_client_credentials(op: ProviderState, asked: TokenRequest) -> Issued:
    """A token for the client itself, with neither ID token nor refresh token (RFC 6749 4.4)."""
    _require_confidential(asked.client)
    resource, scope = api_access(op, asked.form)
    user = DevUser(asked.client.client_id)
    grant = Grant(asked.client, user, scope, None, op.clock.now(), sid="")
    return grant, access_token_response(op, grant, _access(op, asked, resource, scope))


def _by_exchange(op: ProviderState, asked: TokenRequest) -> Issued:
    """Exchange a user's token for one for another API, or with less scope (RFC 8693 2)."""
    _require_confidential(asked.client)
    if required(asked.form, "subject_token_type") != f"{_TYPES}access_token":
        raise Refusal("invalid_request", "subject_token_type must be that of access tokens")
    issued_type = _issued_type(asked)
    subject = _token_of(op, asked.client, required(asked.form, "subject_token"))
    if subject is None:
        raise Refusal("invalid_request", "the subject_token is not valid for this client")
    access = replace(_exchanged(op, asked, subject.access), actor=_actor(op, asked.form))
    members = access_token_response(op, subject.grant, access)
    return subject.grant, members | {"issued_token_type": issued_type}


def _actor(op: ProviderState, form: Parameters) -> str | None:
    """Whose access token the actor token is; None without one (RFC 8693 2.1)."""
    if "actor_token" not in form:
        return None
    if required(form, "actor_token_type") != f"{_TYPES}access_token":
        raise Refusal("invalid_request", "actor_token_type must be that of access tokens")
    found = op.credentials.access_token(form["actor_token"])
    if found is None or not found.is_valid(op.clock.now()):
        raise Refusal("invalid_request", "the actor_token is not valid")
    return found.grant.user.sub


def _issued_type(asked: TokenRequest) -> str:
    requested = asked.form.get("requested_token_type", f"{_TYPES}access_token")
    possible = {f"{_TYPES}access_token"}
    if asked.client.access_token_typ is not None:
        possible.add(f"{_TYPES}jwt")
    if requested not in possible:
        raise Refusal("invalid_request", f"requested_token_type must be {sorted(possible)}")
    return requested


def _exchanged(op: ProviderState, asked: TokenRequest, subject: Access) -> Access:
    resource = requested_resource(op, asked.form)
    if resource is None:
        scope = _narrowed(subject.scope, asked.form)
        return replace(subject, client=asked.client, scope=scope, thumbprint=asked.thumbprint)
    return _access(op, asked, *api_access(op, asked.form))


def _on_behalf_of(op: ProviderState, asked: TokenRequest) -> Issued:
    """Entra's token exchange: `assertion` is the user's token, `scope` names the API."""
    _require_confidential(asked.client)
    if required(asked.form, "requested_token_use") != "on_behalf_of":
        raise Refusal("invalid_request", "requested_token_use must be on_behalf_of")
    required(asked.form, "scope")
    subject = _token_of(op, asked.client, required(asked.form, "assertion"))
    if subject is None:
        raise _invalid_grant("the assertion is not valid for this client")
    access = _access(op, asked, *api_access(op, asked.form))
    return subject.grant, access_token_response(op, subject.grant, access)


def _token_of(op: ProviderState, client: DevClient, value: str) -> AccessToken | None:
    """A user's access token that `client` may exchange; None for any other value."""
    found = op.credentials.access_token(value)
    if found is None or not found.is_valid(op.clock.now()) or not found.grant.is_of_a_user:
        return None
    return found if is_for(op, found, client) else None


def _require_confidential(client: DevClient) -> None:
    if client.authentication_method == "none":
        raise Refusal("unauthorized_client", "only a confidential client may use this grant type")


def _invalid_grant(description: str) -> Refusal:
    return Refusal("invalid_grant", description)


GRANTS: Final[dict[str, Callable[[ProviderState, TokenRequest], Issued]]] = {
    "authorization_code": _by_code,
    "refresh_token": _by_refresh_token,
    "client_credentials": _by_client_credentials,
    EXCHANGE: _by_exchange,
    ON_BEHALF_OF: _on_behalf_of,
}
"""The grant types of the token endpoint."""
