"""The options of `oidc.api(...)`: the resource server and the documents made from them.

The documents are the protected resource metadata (RFC 9728), and a part of OpenAPI.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter
from typing import Annotated, Any, Final, Generic, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Security
from fastapi.openapi import models
from fastapi.security.base import SecurityBase as Scheme
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse
from typing_extensions import TypedDict

from fastapi_oidc.errors import ConfigurationError, ProviderError, misconfigured
from fastapi_oidc.flows.relying_party import RelyingParty, ResolveIdentity
from fastapi_oidc.protocol.access_token import ExpectedAccessToken, StepUp, of_class, recent
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS
from fastapi_oidc.protocol.jose.keys import ALGORITHMS
from fastapi_oidc.protocol.metadata import discovery_url, require_issuer_url
from fastapi_oidc.protocol.urls import fault_of_url, is_word, travels_unencrypted
from fastapi_oidc.provider.document import Registration
from fastapi_oidc.resource_server.server import Introspections, ResourceServer, TokenIssuer
from fastapi_oidc.session.model import Identity
from fastapi_oidc.settings.faults import configuration_error
from fastapi_oidc.web.misuse import require_kind
from fastapi_oidc.web.runtime import Runtime

_WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"

Text = Annotated[str, Field(min_length=1)]


class APIOptions(TypedDict, Generic[Identity], total=False):
    """The options of `oidc.api`; `API` describes them."""

    resource: str | None
    scopes: Mapping[str, str]
    issuers: Sequence[str]
    algorithms: Sequence[str] | None
    accept_plain_jwt: bool
    introspect: bool | Literal["opaque"]
    introspection_lifetime: Annotated[int, Field(ge=0, le=3600)]
    introspection_client: tuple[Text, Text] | None
    dpop_required: bool
    client_claim: str | None
    scope_claim: str
    roles_claim: str | tuple[str, ...]
    client_certificate_header: str | None
    resolve_identity: ResolveIdentity[Identity] | None
    authorization_url: str | None
    token_url: str | None


_OPTIONS: Final = TypeAdapter[APIOptions[Any]](APIOptions[Any])


def require_valid(options: APIOptions[Any]) -> None:
    """Raise ConfigurationError for options with other types."""
    try:
        _OPTIONS.validate_python(options, strict=True)
    except ValidationError as error:
        raise configuration_error(error, APIOptions.__annotations__) from None


def resource_server(runtime: Runtime, audience: str, options: APIOptions[Any]) -> ResourceServer:
    """The resource server with these options; raises ConfigurationError."""
    party = runtime.party
    if not audience:
        raise misconfigured("audience must be the aud of the provider's tokens for this API")
    clients = {each.settings.client_id for each in party.together}
    if audience in clients and options.get("accept_plain_jwt", False):  # RFC 8725 3.9, 3.12
        raise misconfigured(
            "accept_plain_jwt needs another audience than the client_id, which ID tokens have. "
            "For a StandaloneAPI, pass client_id=..., of the client at which its users sign in"
        )
    introspections = _introspections(runtime, options)
    known = {each.settings.issuer: _own_issuer(each, audience, options) for each in party.together}
    first = known[party.settings.issuer]
    allows_http = party.settings.issuer.startswith("http:")
    for issuer in options.get("issuers", ()):
        require_issuer_url(issuer, allow_insecure_http=allows_http)
        known.setdefault(issuer, _other_issuer(first, issuer))
    return ResourceServer(
        issuers=tuple(known.values()),
        clock=party.clock,
        proofs=runtime.engine.proofs,
        name=party.sessions.names.prefix,
        introspections=introspections,
        introspects_jwts=options.get("introspect") is True,
        dpop_required=options.get("dpop_required", False),
    )


def _own_issuer(party: RelyingParty, audience: str, options: APIOptions[Any]) -> TokenIssuer:
    """The provider of a registration, as an issuer of access tokens."""
    settings, roles = party.settings, options.get("roles_claim", "roles")
    expected = ExpectedAccessToken(
        issuer=party.issuer,
        audience=audience,
        accepts_plain_jwt=options.get("accept_plain_jwt", False),
        client_claim=options.get("client_claim"),
        scope_claim=options.get("scope_claim", "scope"),
        roles_claim=(roles,) if isinstance(roles, str) else roles,
    )
    return TokenIssuer(expected, party.provider, _algorithms(options, settings.algorithms()))


def _other_issuer(first: TokenIssuer, issuer: str) -> TokenIssuer:
    """Another issuer with the same audience, whose keys are read."""
    expected = replace(first.expected, issuer=TrustedIssuer(issuer))
    nobody = _registration("", "", first.algorithms)
    return TokenIssuer(
        expected, first.provider.beside(TrustedIssuer(issuer), nobody), first.algorithms
    )


def _introspections(runtime: Runtime, options: APIOptions[Any]) -> Introspections | None:
    chosen, lifetime = options.get("introspect", False), options.get("introspection_lifetime", 60)
    party, client = runtime.party, options.get("introspection_client")
    if not chosen:
        return None
    if party.is_one_of_several:
        raise misconfigured("introspect needs one registration: an opaque token names no issuer")
    provider = party.provider
    if client is not None:
        provider = provider.beside(party.issuer, _registration(*client))
    return Introspections(provider, party.clock, lifetime)


def _registration(
    client_id: str, client_secret: str, algorithms: frozenset[str] = frozenset()
) -> Registration:
    """A client with a secret. Without them nobody, who can read the keys of an issuer."""
    authentication = ClientAuthentication("client_secret_basic", client_id, client_secret)
    return Registration(authentication=authentication, algorithms=algorithms)


def _algorithms(options: APIOptions[Any], login: frozenset[str]) -> frozenset[str]:
    """Algorithms with public keys only: a shared secret could also be used to make tokens."""
    known = {name for name, row in ALGORITHMS.items() if row.key_type != "oct"}
    chosen = options.get("algorithms")
    algorithms = known & login if chosen is None else frozenset(chosen)
    if not algorithms <= known or not (algorithms or options.get("introspect")):
        raise misconfigured(f"algorithms of an API must be from {', '.join(sorted(known))}")
    return frozenset(algorithms)


def resource_of(audience: str, resource: str | None, *, allow_insecure_http: bool) -> str | None:
    """The resource identifier (RFC 9728 1.2): `resource`, or the audience if it is a URL.

    Raises ConfigurationError unless it is an https URL without a fragment.
    """
    if resource is None and not audience.startswith(("https://", "http://")):
        return None
    identifier = resource or audience
    is_http_allowed = allow_insecure_http or not travels_unencrypted(identifier)
    if fault_of_url(identifier, allow_insecure_http=is_http_allowed) is not None:
        raise misconfigured("resource must be an https URL without a fragment")
    return identifier


def metadata_path(resource: str) -> str:
    """The path of the metadata of `resource` at its host (RFC 9728 3.1)."""
    return _WELL_KNOWN + urlsplit(resource).path.rstrip("/")


def metadata_url(resource: str) -> str:
    """The URL of the metadata of `resource` (RFC 9728 3.1)."""
    parts = urlsplit(resource)
    return parts._replace(path=metadata_path(resource)).geturl()


def require_scopes(scopes: Collection[str], known: Collection[str]) -> None:
    """Require a valid word (RFC 6749 3.3) for each scope, of `known` unless that is empty.

    Raises ConfigurationError.
    """
    for scope in scopes:
        require_kind("a scope, of which several are several arguments,", scope, str)
        if not is_word(scope):
            raise misconfigured(f"{scope!r} is not a scope, which is one word without quotes")
        if known and scope not in known:
            raise misconfigured(f"{scope!r} is none of the API's scopes: {', '.join(known)}")


def step_up_of(max_age: int | None, acr_values: Sequence[str]) -> StepUp | None:
    """The required authentication, None without a requirement; raises ConfigurationError."""
    require_kind("acr_values", acr_values, list, tuple)
    age = None if max_age is None else recent(max_age).max_age
    classes = of_class(tuple(acr_values)).acr_values if acr_values else ()
    return None if age is None and not classes else StepUp(age, classes)


_log = logging.getLogger("fastapi_oidc.configuration")

_PUBLIC: Final = {"Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff"}


class Refusal(BaseModel):
    """The JSON body of a refusal: a sentence, and a stable code (docs/errors.md)."""

    detail: str
    code: str


class Documented(Scheme):
    """A security scheme for the OpenAPI document only; it checks nothing."""

    def __init__(self, name: str, model: models.SecurityBase) -> None:
        self.scheme_name, self.model = name, model

    async def __call__(self) -> None:
        """Do nothing: another dependency checks the request."""


def documented(name: str, scheme: Documented) -> Parameter:
    """A parameter for the OpenAPI document."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=Security(scheme))


REFUSALS: Final[Mapping[int | str, dict[str, Any]]] = {
    401: {"model": Refusal, "description": "There is no valid access token."},
    403: {"model": Refusal, "description": "The access token does not permit this."},
}
"""The responses of endpoints that need a token, for `responses=`."""


def token_scheme(
    issuer: str | None, scopes: Mapping[str, str], options: APIOptions[Any]
) -> models.SecurityBase:
    """The OpenAPI security scheme: by discovery, or with two endpoints and `scopes`.

    Without an `issuer` the document says only that there is a token.
    """
    authorization_url, token_url = options.get("authorization_url"), options.get("token_url")
    if authorization_url is None or token_url is None:
        if issuer is None:
            return models.HTTPBearer()
        return models.OpenIdConnect(openIdConnectUrl=discovery_url(issuer))
    flow = models.OAuthFlowAuthorizationCode(
        authorizationUrl=authorization_url, tokenUrl=token_url, scopes=dict(scopes)
    )
    return models.OAuth2(flows=models.OAuthFlows(authorizationCode=flow))


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
