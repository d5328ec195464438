"""The documents of an API: protected resource metadata (RFC 9728), and its part of OpenAPI."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Final
from urllib.parse import urlsplit

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
from fastapi_oidc.resource_server.server import Introspections
from fastapi_oidc.web.api_options import APIOptions, metadata_path
from fastapi_oidc.web.application import Endpoint
from fastapi_oidc.web.guards import FromAPI, Guard
from fastapi_oidc.web.requests import SAFE_METHODS

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
    resource: str,
    issuers: Sequence[str],
    scopes: Mapping[str, str],
    *,
    has_certificates: bool,
    dpop_required: bool,
) -> dict[str, object]:
    """The protected resource metadata (RFC 9728 2)."""
    return {
        "resource": resource,
        "authorization_servers": list(issuers),
        **({"scopes_supported": list(scopes)} if scopes else {}),
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": list(PROOF_ALGORITHMS),
        **({"dpop_bound_access_tokens_required": True} if dpop_required else {}),
        **({"tls_client_certificate_bound_access_tokens": True} if has_certificates else {}),
    }


def report_mounting(
    resource: str | None, paths: Collection[str], plain: Iterable[Endpoint]
) -> None:
    """Log missing metadata, and a `plain` endpoint at the URL of the API: no guard runs for it."""
    path = urlsplit(resource or "").path.rstrip("/")
    if path and path in {each.path.rstrip("/") for each in plain}:
        _log.error(
            "The application at the API %s is open: nothing asks for tokens.\n"
            "Replace its routes or app.mount(...) by api.mount(app, path, server, *scopes), or "
            "mount api.protected(server, *scopes).",
            resource,
        )
    if resource is not None and metadata_path(resource) not in paths:
        _log.warning(
            "The metadata of the API %s is not mounted: clients cannot find the provider.\n"
            "Add the line, without a prefix: app.include_router(api.router)",
            resource,
        )


def report_scopes(scopes: Collection[str], endpoints: Iterable[Endpoint]) -> None:
    """Log that no guard of an API with these scopes requires one, or a role, to change something.

    If some guards do, the others are meant so.
    """
    guarded = [
        each
        for each in endpoints
        if any(isinstance(call, FromAPI) and call.scopes is scopes for call in each.calls)
    ]
    for each in guarded:
        if any(isinstance(call, Guard) and call.needs for call in each.calls):
            return
        if any(dependant.own_oauth_scopes for dependant in each.dependants):
            return
    if changing := [each for each in guarded if each.methods - SAFE_METHODS]:
        _log.warning(
            "%s %s takes every access token of the API: no guard requires one of its scopes, %s.\n"
            "Write Depends(api.require(scope)), or Security(oidc.require_user, scopes=[scope]).",
            min(changing[0].methods),
            changing[0].path,
            ", ".join(scopes),
        )


async def report_introspection(audience: str, introspections: Introspections) -> None:
    """Log that the provider does not introspect the tokens of an API."""
    try:
        await introspections.require_endpoint()
    except ConfigurationError as error:
        _log.error("The API %s: %s", audience, error.explanation)
    except ProviderError:
        pass  # Requests with a token tell of the outage.


def report_path(resource: str, path: str) -> None:
    """Log that an API is mounted at another path than that of its URL."""
    if not urlsplit(resource).path.rstrip("/").endswith(path.rstrip("/")):
        _log.warning(
            "The API %s has another path than %r of api.mount, and clients find its metadata "
            "by its URL. Unless a proxy or an API above it has that path, correct its audience "
            "or resource.",
            resource,
            path,
        )
