"""What the provider publishes about itself (Discovery 1.0, 3), and its keys."""

from __future__ import annotations

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fastapi_oidc.testing.registration import AUTHENTICATION_METHODS
from fastapi_oidc.testing.signatures import ALGORITHMS
from fastapi_oidc.testing.state import ProviderState

PATHS = {
    "authorization_endpoint": "/authorize",
    "token_endpoint": "/token",
    "userinfo_endpoint": "/userinfo",
    "jwks_uri": "/jwks",
    "end_session_endpoint": "/end-session",
    "revocation_endpoint": "/revoke",
    "pushed_authorization_request_endpoint": "/par",
    "check_session_iframe": "/check-session",
}


async def metadata(op: ProviderState, request: Request) -> Response:
    """The discovery document."""
    members: dict[str, JsonValue] = {"issuer": op.published_issuer}
    members |= {name: op.url(path) for name, path in PATHS.items()}
    members |= _abilities()
    # A shared endpoint has no single issuer that an authorization response could name (RFC 9207).
    members["authorization_response_iss_parameter_supported"] = op.published_issuer == op.issuer
    return JSONResponse(op.edits.edited("metadata", members))


async def jwks(op: ProviderState, request: Request) -> Response:
    """The JWK Set."""
    return JSONResponse(op.edits.edited("jwks", op.keys.jwk_set()))


def _abilities() -> dict[str, JsonValue]:
    signing: list[JsonValue] = list(ALGORITHMS)
    return {
        "response_types_supported": ["code"],
        "response_modes_supported": ["query", "form_post"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "subject_types_supported": ["public"],
        "scopes_supported": ["openid", "profile", "email", "offline_access"],
        "id_token_signing_alg_values_supported": signing,
        "userinfo_signing_alg_values_supported": signing,
        "token_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
        "token_endpoint_auth_signing_alg_values_supported": signing,
        "revocation_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
        "code_challenge_methods_supported": ["S256"],
        "prompt_values_supported": ["none", "login", "consent", "select_account"],
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
    }
