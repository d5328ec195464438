"""The documents of an API: protected resource metadata (RFC 9728), and its part of OpenAPI."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, Final

from fastapi import APIRouter, Security
from fastapi.openapi.models import (
    HTTPBearer,
    OAuth2,
    OAuthFlowAuthorizationCode,
    OAuthFlows,
    OpenIdConnect,
    SecurityBase,
)
from fastapi.security.base import SecurityBase as Scheme
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from fastapi_oidc.errors import ConfigurationError, ProviderError
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS
from fastapi_oidc.protocol.metadata import discovery_url
from fastapi_oidc.resource_server.server import Introspections, ResourceServer
from fastapi_oidc.web.api_options import APIOptions

_log = logging.getLogger("fastapi_oidc.configuration")

_PUBLIC: Final = {"Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff"}


class Refusal(BaseModel):
    """The JSON body of a refusal: a sentence, and a stable code (docs/errors.md)."""

    detail: str
    code: str


class Documented(Scheme):
    """A security scheme for the OpenAPI document only; it checks nothing."""

    def __init__(self, name: str, model: SecurityBase) -> None:
        self.scheme_name, self.model = name, model

    async def __call__(self) -> None:
        """Do nothing: another dependency checks the request."""


def documented(name: str, scheme: Documented) -> Parameter:
    """A parameter for the OpenAPI document."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=Security(scheme))


def refusals(name: str) -> dict[int | str, dict[str, Any]]:
    """The 401 and 403 responses of endpoints that need `name`, for `responses=`."""
    return {
        401: {"model": Refusal, "description": f"There is no valid {name}."},
        403: {"model": Refusal, "description": f"The {name} does not permit this."},
    }


def token_scheme(
    issuer: str | None, scopes: Mapping[str, str], options: APIOptions[Any]
) -> SecurityBase:
    """The OpenAPI security scheme: by discovery, or with two endpoints and `scopes`.

    Without an `issuer` the document says only that there is a token.
    """
    authorization_url, token_url = options.get("authorization_url"), options.get("token_url")
    if authorization_url is None or token_url is None:
        if issuer is None:
            return HTTPBearer()
        return OpenIdConnect(openIdConnectUrl=discovery_url(issuer))
    flow = OAuthFlowAuthorizationCode(
        authorizationUrl=authorization_url, tokenUrl=token_url, scopes=dict(scopes)
    )
    return OAuth2(flows=OAuthFlows(authorizationCode=flow))


def metadata_router(path: str, document: Callable[[Request], Mapping[str, object]]) -> APIRouter:
    """A router that serves the metadata at `path`, also to clients in browsers (RFC 9728 3)."""

    async def metadata(request: Request) -> JSONResponse:
        return JSONResponse(document(request), headers=_PUBLIC)

    router = APIRouter()
    # A plain route: dependencies of the application do not apply to it.
    router.add_route(path, metadata, include_in_schema=False)
    return router


def protected_resource(
    resource: str, server: ResourceServer, scopes: Mapping[str, str], options: APIOptions[Any]
) -> dict[str, object]:
    """The protected resource metadata (RFC 9728 2)."""
    has_certificates = options.get("client_certificate_header") is not None
    return {
        "resource": resource,
        "authorization_servers": [each.expected.issuer.url for each in server.issuers],
        **({"scopes_supported": list(scopes)} if scopes else {}),
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": list(PROOF_ALGORITHMS),
        **({"dpop_bound_access_tokens_required": True} if server.dpop_required else {}),
        **({"tls_client_certificate_bound_access_tokens": True} if has_certificates else {}),
    }


def report_missing_metadata(resource: str) -> None:
    """Log that the metadata of an API has no route."""
    _log.warning(
        "The metadata of the API %s is not served: clients cannot find the provider.\n"
        "Add the line, without a prefix and above routes for every path: "
        "app.include_router(api.router)",
        resource,
    )


async def report_introspection(audience: str, introspections: Introspections) -> None:
    """Log that the provider does not introspect the tokens of an API."""
    try:
        await introspections.require_endpoint()
    except ConfigurationError as error:
        _log.error("The API %s: %s", audience, error.explanation)
    except ProviderError:
        pass  # Requests with a token tell of the outage.
