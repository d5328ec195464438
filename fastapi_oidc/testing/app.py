"""The provider's routes, with counts, faults and refusals for every endpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS
from fastapi_oidc.protocol.jose.keys import ALGORITHMS
from fastapi_oidc.testing import pages
from fastapi_oidc.testing.authorize import authorize, decline, log_in
from fastapi_oidc.testing.client_endpoints import (
    introspect,
    push_authorization_request,
    revoke,
    userinfo,
)
from fastapi_oidc.testing.faults import Endpoint
from fastapi_oidc.testing.messages import Refusal
from fastapi_oidc.testing.record import Refused
from fastapi_oidc.testing.registration import AUTHENTICATION_METHODS, SECRET_METHODS
from fastapi_oidc.testing.sessions import check_session, confirm_logout, request_logout
from fastapi_oidc.testing.state import ProviderState
from fastapi_oidc.testing.token_endpoint import GRANTS, token

PATHS = {
    "authorization_endpoint": "/authorize",
    "token_endpoint": "/token",
    "userinfo_endpoint": "/userinfo",
    "jwks_uri": "/jwks",
    "end_session_endpoint": "/end-session",
    "introspection_endpoint": "/introspect",
    "revocation_endpoint": "/revoke",
    "pushed_authorization_request_endpoint": "/par",
    "check_session_iframe": "/check-session",
}


async def metadata(op: ProviderState, request: Request) -> Response:
    """The discovery document."""
    members: dict[str, JsonValue] = {"issuer": op.published_issuer}
    members |= {name: op.url(path) for name, path in PATHS.items()}
    members |= _abilities()
    if op.acr_values:
        members["acr_values_supported"] = list(op.acr_values)
    # With a shared issuer, an authorization response cannot name a single one (RFC 9207).
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
        "grant_types_supported": list(GRANTS),
        "subject_types_supported": ["public"],
        "scopes_supported": ["openid", "profile", "email", "offline_access"],
        "id_token_signing_alg_values_supported": signing,
        "userinfo_signing_alg_values_supported": signing,
        "token_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
        "token_endpoint_auth_signing_alg_values_supported": signing,
        "introspection_endpoint_auth_methods_supported": list(SECRET_METHODS),
        "revocation_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
        "dpop_signing_alg_values_supported": list(PROOF_ALGORITHMS),
        "code_challenge_methods_supported": ["S256"],
        "prompt_values_supported": ["none", "login", "consent", "select_account"],
        "claims_parameter_supported": True,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
        "frontchannel_logout_supported": True,
        "frontchannel_logout_session_supported": True,
    }


class Served(NamedTuple):
    """One path: its endpoint, and the form of its refusals."""

    endpoint: Endpoint
    path: str
    function: Callable[[ProviderState, Request], Awaitable[Response]]
    methods: tuple[str, ...]
    refusal: Callable[[Refusal], Response]


_API, _PAGE = Refusal.answer, pages.refusal
_GET, _POST, _BOTH = ("GET",), ("POST",), ("GET", "POST")

SERVED: Final = (
    Served("metadata", "/.well-known/openid-configuration", metadata, _GET, _API),
    Served("jwks", PATHS["jwks_uri"], jwks, _GET, _API),
    Served("authorization", PATHS["authorization_endpoint"], authorize, _BOTH, _PAGE),
    Served("authorization", "/log-in", log_in, _POST, _PAGE),
    Served("authorization", "/decline", decline, _POST, _PAGE),
    Served("token", PATHS["token_endpoint"], token, _POST, _API),
    Served("userinfo", PATHS["userinfo_endpoint"], userinfo, _BOTH, _API),
    Served("introspection", PATHS["introspection_endpoint"], introspect, _POST, _API),
    Served("revocation", PATHS["revocation_endpoint"], revoke, _POST, _API),
    Served(
        "pushed_authorization_request",
        PATHS["pushed_authorization_request_endpoint"],
        push_authorization_request,
        _POST,
        _API,
    ),
    Served("end_session", PATHS["end_session_endpoint"], request_logout, _BOTH, _PAGE),
    Served("end_session", "/confirm-logout", confirm_logout, _POST, _PAGE),
    Served("check_session", PATHS["check_session_iframe"], check_session, _GET, _PAGE),
)


def provider_app(op: ProviderState) -> Starlette:
    """The ASGI application that serves one provider."""
    below = urlsplit(op.issuer).path.rstrip("/")
    return Starlette(
        routes=[
            Route(f"{below}/", _welcome),
            *(
                Route(below + row.path, _answering(op, row), methods=list(row.methods))
                for row in SERVED
            ),
        ],
        # For clients in browsers, such as FastAPI's documentation page (RFC 6749 2.1).
        middleware=[Middleware(CORSMiddleware, allow_origins=["*"], allow_headers=["*"])],
    )


async def _welcome(_: Request) -> Response:
    return pages.welcome()


def _answering(op: ProviderState, row: Served) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        async def answer() -> Response:
            try:
                return await row.function(op, request)
            except Refusal as refusal:
                op.record.add(Refused(row.endpoint, refusal.error, refusal.description))
                return row.refusal(refusal)

        op.record.calls[row.endpoint] += 1
        fault = op.faults.next(row.endpoint)
        return await (fault.happen(answer) if fault else answer())

    return respond
