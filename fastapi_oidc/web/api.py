"""An API of the application, which accepts access tokens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Annotated, Any, Final, NoReturn, Unpack
from weakref import WeakKeyDictionary

from fastapi import APIRouter, FastAPI
from starlette.requests import HTTPConnection, Request
from starlette.routing import Route
from starlette.types import ASGIApp

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import (
    Code,
    ConfigurationError,
    ProtocolViolation,
    ProviderError,
    SessionError,
)
from fastapi_oidc.flows.relying_party import Application
from fastapi_oidc.peer_names import require_known
from fastapi_oidc.resource_server import AccessToken, Caller, ResourceServer
from fastapi_oidc.resource_server.permission import Permission
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.api_documents import (
    Documented,
    metadata_router,
    protected_resource,
    refusals,
    token_scheme,
)
from fastapi_oidc.web.api_guards import AnyToken, RequireToken, RequireUser, documented
from fastapi_oidc.web.api_options import (
    APIOptions,
    described,
    metadata_path,
    metadata_url,
    require_scopes_readable,
    resource_of,
    resource_server,
    step_up_of,
)
from fastapi_oidc.web.api_tools import Protected, paths_in, scopes_by_tool, with_lifespan_of
from fastapi_oidc.web.authorization_header import token_scheme_in
from fastapi_oidc.web.challenge import Challenger
from fastapi_oidc.web.dependencies import CSRF_PARAMETER, RequireAuth, RequireCSRF
from fastapi_oidc.web.misuse import Argument, awaited, require_kind
from fastapi_oidc.web.overrides import override_of
from fastapi_oidc.web.refusal import SignInRequired
from fastapi_oidc.web.request_contexts import context_of, noted, require_own_middleware
from fastapi_oidc.web.route_checks import calls_of
from fastapi_oidc.web.runtime import Registrations, Runtime
from fastapi_oidc.web.serving import Serving
from fastapi_oidc.web.startup import report_missing_introspection
from fastapi_oidc.web.token_request import presented_token

_ACCEPTED: Final = "fastapi_oidc.access_tokens"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Safe methods (RFC 9110 9.2.1), which need no CSRF token."""

_log = logging.getLogger("fastapi_oidc.configuration")


class API(Serving[Identity, Any]):
    """An OAuth resource server, made by `oidc.api(audience=...)`.

        app.include_router(api.router)
        @app.post("/machines", dependencies=[Depends(api.require("machines:write"))])

    `audience` is the `aud` of the provider's tokens for this API. Options:

    - `resource`: the URL of the API (RFC 9728); by default the audience, if it is a URL
    - `scopes`: the API's scopes with their descriptions, for its metadata and OpenAPI document
    - `issuers`: other issuers whose JWTs are accepted too, with the same audience
    - `algorithms`: the accepted algorithms of JWTs; by default those of ID tokens
    - `accept_plain_jwt`: also accept JWTs without the type `at+jwt`
    - `introspect`: introspect each token at the provider (RFC 7662), or with `"opaque"` each token
      that is no JWT; the response is cached for `introspection_lifetime` seconds (default 60)
    - `introspection_client`: the id and secret of the API's own client for this
    - `dpop_required`: refuse tokens that are not bound to a key (RFC 9449)
    - `client_claim`, `scope_claim`, `roles_claim`: the names of these claims; a tuple is a path
    - `client_certificate_header`: the header in which a trusted front server sends the client's
      certificate (RFC 8705)
    - `resolve_identity`: returns the identity of a token's user; by default that of `OIDC`
    - `authorization_url`, `token_url`: the provider's endpoints for the Authorize button
    """

    function = "oidc.api"
    """What makes the API, for errors."""

    def __init__(
        self,
        registrations: Registrations[Identity, Any],
        require_auth: RequireAuth[Identity],
        require_csrf: RequireCSRF[Identity],
        audience: str,
        **options: Unpack[APIOptions[Identity]],
    ) -> None:
        require_known(self.function, options, APIOptions.__annotations__)
        for name in ("accept_plain_jwt", "dpop_required"):
            require_kind(f"{name} of {self.function}", options.get(name, False), bool)
        self.registrations: Registrations[Identity, Any] = registrations
        self._engine, fixed = registrations.engine, registrations.fixed
        self._require_auth, self._require_csrf = require_auth, require_csrf
        self._options, self.audience = options, audience
        self._servers: WeakKeyDictionary[Runtime[Identity, Any], ResourceServer]
        self._servers = WeakKeyDictionary()
        self._fixed = None if fixed is None else self._server_of(fixed)
        self._certificate_header = options.get("client_certificate_header")
        resolve = options.get("resolve_identity")
        self._application = None if resolve is None else Application(resolve)
        self.scopes = described(options.get("scopes", {}))
        is_local = fixed is None or fixed.origin is None or fixed.origin.startswith("http:")
        self.resource = resource_of(audience, options.get("resource"), allow_insecure_http=is_local)
        url = None if self.resource is None else metadata_url(self.resource)
        dpop_required = options.get("dpop_required", False)
        self._challenger = Challenger(self._engine.name, url, dpop_required)
        number = len(self._engine.apis) + 1
        model = token_scheme(
            None if fixed is None else fixed.party.settings.issuer,
            self.scopes,
            authorization_url=options.get("authorization_url"),
            token_url=options.get("token_url"),
        )
        self._scheme = Documented(f"{self._engine.name}_api{'' if number == 1 else number}", model)
        self._token = AnyToken(self, self._scheme)
        self._required: dict[Permission, AnyToken | RequireToken] = {Permission(): self._token}
        self._looking: asyncio.Task[None] | None = None
        self._engine.apis.append(self)

    def require(
        self,
        *scopes: Annotated[str, Argument("api.require('machines:write')")],
        role: str | None = None,
        max_age: int | None = None,
        acr_values: Sequence[str] = (),
    ) -> AnyToken | RequireToken:
        """A dependency: the `AccessToken` of the request, if it has all of `scopes` and the `role`.

        With `max_age` the user must have authenticated in that many seconds, with `acr_values` in
        one of these classes (RFC 9470). The same arguments return the same object. The dependencies
        with arguments depend on `api.require()`. Raises ConfigurationError.
        """
        require_scopes_readable(scopes)
        permission = Permission(scopes, role, step_up_of(max_age, acr_values))
        if permission not in self._required:
            self._required[permission] = RequireToken(self._token, permission, self._require)
        return noted(self._required[permission])

    @property
    def require_user(self) -> RequireUser[Identity]:
        """A dependency: the `Caller`, by an access token or else by a session.

        If a request has an access token, its session is ignored, and the token must have the scopes
        in `Security(oidc.require_user, scopes=[...])`. A request with a session must have the
        session's CSRF token, unless its method is safe (GET, HEAD, OPTIONS).
        """
        return noted(self._require_user)

    @cached_property
    def _require_user(self) -> RequireUser[Identity]:
        if (fixed := self.registrations.fixed) is not None:
            self._require_identities(fixed)
        token = documented("token", self._scheme)
        if not self._engine.signs_in:
            return RequireUser(self, token)
        scheme = Documented(self._require_auth.scheme_name, self._require_auth.model)
        return RequireUser(self, documented("cookie", scheme), token, CSRF_PARAMETER)

    @cached_property
    def router(self) -> APIRouter:
        """The router of the protected resource metadata (RFC 9728). Include it without a prefix.

        Raises ConfigurationError when the API has no `resource`.
        """
        return metadata_router(metadata_path(self._url), self._metadata)

    def _metadata(self, request: Request) -> dict[str, object]:
        server = self._server_of(self._serving(request))
        return protected_resource(
            self._url,
            [each.expected.issuer for each in server.issuers],
            self.scopes,
            has_certificates=self._certificate_header is not None,
            dpop_required=server.dpop_required,
        )

    @property
    def _url(self) -> str:
        if self.resource is None:
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                "the path of an API's metadata depends on its URL: oidc.api(..., resource=...)",
            )
        return self.resource

    @property
    def responses(self) -> dict[int | str, dict[str, Any]]:
        """The 401 and 403 responses for the API document: `@app.get(..., responses=...)`."""
        return refusals("access token")

    def protected(
        self,
        app: ASGIApp,
        *scopes: str,
        role: str | None = None,
        tools: Mapping[str, str | Sequence[str]] | None = None,
    ) -> Protected:
        """`app`, for requests whose access token has all of `scopes` and the `role`.

        Use it to mount an ASGI application: `app.mount("/tools", api.protected(tools))`. `tools`
        are the scopes that single tools of an MCP server need besides: `{"delete": "write"}`.
        """
        if not callable(app):
            explanation = "api.protected takes the ASGI application first, and then its scopes"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        by_tool = scopes_by_tool(tools or {})
        require_scopes_readable([*scopes, *chain.from_iterable(by_tool.values())])
        return Protected(partial(self.access_token, role=role), app, scopes, by_tool)

    def mount(
        self,
        app: FastAPI,
        path: str,
        server: ASGIApp,
        *scopes: str,
        role: str | None = None,
        tools: Mapping[str, str | Sequence[str]] | None = None,
    ) -> None:
        """Serve an MCP server at exactly `path` of `app`, protected; see `protected`.

        The lifespan of `server` runs with that of `app`, and the metadata (`router`) is mounted.
        """
        if metadata_path(self._url) not in paths_in(app):
            app.include_router(self.router)
        app.include_router(with_lifespan_of(server))
        guarded = self.protected(server, *scopes, role=role, tools=tools)
        app.router.routes.append(Route(path, guarded))

    @awaited
    async def access_token(
        self, connection: HTTPConnection, *scopes: str, role: str | None = None
    ) -> AccessToken:
        """The access token of a request, verified once per request.

        Raises AccessTokenError.
        """
        context = context_of(connection, self._engine.name)
        accepted = connection.scope.setdefault(_ACCEPTED, {})
        try:
            if self not in accepted:
                presented = presented_token(context, connection, self._certificate_header)
                accepted[self] = await self._server_of(self._serving(connection)).accept(presented)
        except (ProtocolViolation, ProviderError, SessionError) as cause:
            self._refuse(connection, cause, Permission(scopes, role))
        token: AccessToken = accepted[self]
        self._require(connection, token, Permission(scopes, role))
        return token

    @awaited
    async def caller(self, connection: HTTPConnection, *scopes: str) -> Caller[Identity]:
        """The caller, by an access token that has all of `scopes`, or else by a session.

        Raises AccessTokenError or, without a token, SessionError.
        """
        runtime = self._serving(connection)
        self._require_identities(runtime)
        by_session = override_of(connection, self._require_auth)
        by_token = override_of(connection, self._token)
        brings_token = token_scheme_in(connection.scope["headers"]) is not None
        if brings_token or (by_token and not by_session) or not self._engine.signs_in:
            real = self.access_token
            token = await (called(by_token) if by_token else real(connection, *scopes))
            self._require(connection, token, Permission(scopes))
            application = self._application or runtime.party.application
            party = runtime.party.at(token.iss)
            name = None if party is None else party.settings.name
            identity = await application.identity_of(token.claims, None, token.value, name)
            return Caller(identity, access_token=token)
        auth = self._require_auth
        try:
            session = await (called(by_session) if by_session else auth(connection))
        except SignInRequired as error:
            error.challenge = self._challenger.invitation()
            raise
        is_safe = connection.scope.get("method", "GET") in _SAFE
        if not is_safe and override_of(connection, self._require_csrf) is None:
            await self._require_csrf(connection, session)
        return Caller(session.identity, session=session)

    def _serving(self, connection: HTTPConnection) -> Runtime[Identity, Any]:
        """The registrations whose tokens the API accepts in this request."""
        return self.registrations.fixed or context_of(connection, self._engine.name).runtime

    def _server_of(self, runtime: Runtime[Identity, Any]) -> ResourceServer:
        """The API as the registrations that serve a request see it; raises ConfigurationError."""
        if (server := self._servers.get(runtime)) is None:
            server = resource_server(runtime, self.audience, self._options)
            self._servers[runtime] = server
        return server

    def _require_identities(self, runtime: Runtime[Identity, Any]) -> None:
        """Require a `resolve_identity` for several issuers: each of them may have an `alice`."""
        is_own = self._application is not None
        knows = runtime.party.is_one_of_several and not self._options.get("issuers")
        if is_own or knows or len(self._server_of(runtime).issuers) == 1:
            return
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "with issuers, oidc.api needs resolve_identity, which returns the user for `iss` "
            "and `sub` of the claims: a sub is unique only within its issuer",
        )

    def look(self, app: Any) -> None:
        """Log what can never work, at the startup of `app`: a missing route or endpoint."""
        if self.resource is not None and metadata_path(self.resource) not in paths_in(app):
            _log.warning(
                "The metadata of the API %s is not mounted: clients cannot find the provider.\n"
                "Add the line, without a prefix: app.include_router(api.router)",
                self.resource,
            )
        if self._fixed is not None and self._fixed.introspections is not None:
            looking = report_missing_introspection(self.audience, self._fixed.introspections)
            self._looking = asyncio.create_task(looking)

    async def aclose(self) -> None:
        """Stop looking for the endpoint."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    def _require(
        self, connection: HTTPConnection, token: AccessToken, permission: Permission
    ) -> None:
        at = self._serving(connection).party.clock.instant()
        if (cause := permission.lack(token, at)) is not None:
            self._refuse(connection, cause, permission)

    def _refuse(
        self,
        connection: HTTPConnection,
        cause: ProtocolViolation | ProviderError | SessionError,
        permission: Permission,
    ) -> NoReturn:
        """Raises AccessTokenError, whose challenge names what all guards of the endpoint need."""
        try:
            require_own_middleware(connection)
        except ConfigurationError as misplaced:
            hint = "scopes of MCP tools are given to api.mount(..., tools={...})"
            raise ConfigurationError(misplaced.code, f"{misplaced.explanation}; {hint}") from cause
        scheme = token_scheme_in(connection.scope["headers"])
        guards = [each for each in calls_of(connection.scope) if isinstance(each, RequireToken)]
        others = [guard.permission for guard in guards if guard.token is self._token]
        error = self._challenger.refusal(cause, scheme, permission.joined(others))
        context_of(connection, self._engine.name).own(error)
        raise error from cause
