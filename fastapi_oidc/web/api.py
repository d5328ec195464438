"""An API of the application, which accepts access tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from types import NoneType
from typing import Annotated, Any, Final, NoReturn, TypeAlias, Unpack
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from fastapi import APIRouter, FastAPI
from starlette.requests import HTTPConnection, Request
from starlette.routing import Route
from starlette.types import ASGIApp

from fastapi_oidc.clock import Instant
from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, ProtocolViolation, ProviderError, SessionError, misconfigured
from fastapi_oidc.flows.relying_party import Application, IdentityContext
from fastapi_oidc.peer_names import require_known
from fastapi_oidc.resource_server.server import AccessToken, Caller, Permission, ResourceServer
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web import access_tokens, api_options, guards
from fastapi_oidc.web.application import endpoints_of, override_of
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import Argument, awaited, require_kind, require_takes
from fastapi_oidc.web.refusals import SignInRequired
from fastapi_oidc.web.requests import SAFE_METHODS, token_scheme_in
from fastapi_oidc.web.runtime import Registrations, Runtime
from fastapi_oidc.web.serving import Serving, context_of, require_own_middleware

TokenGuard: TypeAlias = guards.FromAPI[AccessToken] | guards.Guard[AccessToken]

_ACCEPTED: Final = "fastapi_oidc.access_tokens"
"""Where the scope of a request has its accepted tokens."""


class API(Serving[Identity, Any]):
    """An OAuth resource server, made by `oidc.api(audience=...)`.

        app.include_router(api.router)
        @app.post("/machines", dependencies=[Depends(api.require("machines:write"))])

    `audience` is the `aud` of the provider's tokens for this API. Options:

    - `resource`: the URL of the API (RFC 9728); by default the audience, if it is a URL
    - `scopes`: the API's scopes with their descriptions, for its metadata and OpenAPI document;
      if there are any, a guard requires no others
    - `issuers`: other issuers whose JWTs are accepted too, with the same audience
    - `algorithms`: the accepted algorithms of JWTs; by default those of ID tokens
    - `accept_plain_jwt`: also accept JWTs without the type `at+jwt`
    - `introspect`: introspect each token at the provider (RFC 7662), or with `"opaque"` each token
      that is no JWT; the response is cached for `introspection_lifetime` seconds (60; 3600 at most)
    - `introspection_client`: the id and secret of the API's own client for this
    - `dpop_required`: refuse tokens that are not bound to a key (RFC 9449)
    - `client_claim`, `scope_claim`, `roles_claim`: the names of these claims; a tuple is a path
    - `client_certificate_header`: the header in which a trusted front server sends the client's
      certificate (RFC 8705)
    - `resolve_identity`: returns the identity of a token's user; by default that of `OIDC`
    - `authorization_url`, `token_url`: the provider's endpoints for the Authorize button
    """

    noun = "api"
    function = "oidc.api"
    """What makes the API, for errors."""

    def __init__(
        self,
        registrations: Registrations,
        require_auth: guards.RequireAuth[Identity],
        require_csrf: guards.Guard[OIDCSession[Identity]],
        audience: str,
        **options: Unpack[api_options.APIOptions[Identity]],
    ) -> None:
        require_known(self.function, options, api_options.APIOptions.__annotations__)
        require_kind(f"audience of {self.function}", audience, str)
        api_options.require_valid(options)
        self.registrations: Registrations = registrations
        fixed = registrations.fixed
        self._require_auth, self._require_csrf = require_auth, require_csrf
        self._options, self.audience = options, audience
        self._servers: WeakKeyDictionary[Runtime, ResourceServer] = WeakKeyDictionary()
        is_http_allowed = fixed is not None and fixed.party.settings.allow_insecure_http
        self.resource = api_options.resource_of(
            audience, options.get("resource"), allow_insecure_http=is_http_allowed
        )
        self._fixed = None if fixed is None else self._server_of(fixed)
        resolve = options.get("resolve_identity")
        require_takes(f"resolve_identity of {self.function}", resolve, IdentityContext)
        self._application = None if resolve is None else Application(resolve)
        self.scopes = dict(options.get("scopes", {}))
        url = None if self.resource is None else api_options.metadata_url(self.resource)
        dpop_required = options.get("dpop_required", False)
        self._challenger = access_tokens.Challenger(self.engine.name, url, dpop_required)
        number = len(self.engine.apis) + 1
        issuer = None if fixed is None else fixed.party.settings.issuer
        model = api_options.token_scheme(issuer, self.scopes, options)
        self._scheme = api_options.Documented(
            f"{self.engine.name}_api{'' if number == 1 else number}", model
        )
        self._token: guards.FromAPI[AccessToken] = guards.FromAPI(
            "api.require",
            self.engine,
            AccessToken,
            self.access_token,
            self.scopes,
            api_options.documented("scheme", self._scheme),
        )
        self._required: dict[Permission, TokenGuard] = {Permission(): self._token}
        self._looking: asyncio.Task[None] | None = None
        self.engine.apis.append(self)

    def require(
        self,
        *scopes: Annotated[str, Argument("api.require('machines:write')")],
        role: str | None = None,
        max_age: int | None = None,
        acr_values: Sequence[str] = (),
    ) -> TokenGuard:
        """A dependency: the `AccessToken` of the request, if it has all of `scopes` and the `role`.

        With `max_age` the user must have authenticated in that many seconds, with `acr_values` in
        one of these classes (RFC 9470). The same arguments return the same object. The dependencies
        with arguments depend on `api.require()`. Raises ConfigurationError.
        """
        api_options.require_scopes(scopes, self.scopes)
        require_kind("role of api.require", role, str, NoneType)
        permission = Permission(scopes, role, api_options.step_up_of(max_age, acr_values))
        self.engine.announcer.advise_on_seconds("max_age of api.require", max_age)
        if permission not in self._required:
            check = partial(self._check, permission)
            self._required[permission] = guards.Guard(
                "api.require", self._token, check, needs=permission, scopes=scopes
            )
        return guards.made_here(self._required[permission])

    @cached_property
    def require_user(self) -> guards.FromAPI[Caller[Identity]]:
        """A dependency: the `Caller`, by an access token or else by a session.

        If a request has an access token, its session is ignored, and the token must have the scopes
        in `Security(oidc.require_user, scopes=[...])`. A request with a session must have the
        session's CSRF token, unless its method is safe (GET, HEAD, OPTIONS).
        """
        self._require_identities()
        shown = [api_options.documented("token", self._scheme)]
        if self.engine.signs_in:
            root = self._require_auth
            cookie = api_options.Documented(root.scheme_name, root.model)
            shown = [api_options.documented("cookie", cookie), *shown, guards.CSRF_PARAMETER]
        return guards.FromAPI("require_user", self.engine, Caller, self.caller, self.scopes, *shown)

    @cached_property
    def router(self) -> APIRouter:
        """The router of the protected resource metadata (RFC 9728). Include it without a prefix.

        Raises ConfigurationError when the API has no `resource`.
        """
        return api_options.metadata_router(api_options.metadata_path(self._url), self._metadata)

    def _metadata(self, request: Request) -> dict[str, object]:
        server = self._server_of(self.registrations.fixed or self._context(request).runtime)
        return api_options.protected_resource(self._url, server, self.scopes, self._options)

    @property
    def _url(self) -> str:
        if self.resource is None:
            raise misconfigured(
                "the path of an API's metadata depends on its URL: oidc.api(..., resource=...)"
            )
        return self.resource

    @property
    def responses(self) -> dict[int | str, dict[str, Any]]:
        """The 401 and 403 responses for the API document: `@app.get(..., responses=...)`."""
        return dict(api_options.REFUSALS)

    def protected(
        self,
        app: ASGIApp,
        *scopes: str,
        role: str | None = None,
        tools: Mapping[str, str | Sequence[str]] | None = None,
    ) -> access_tokens.Protected:
        """`app`, for requests whose access token has all of `scopes` and the `role`.

        Use it to mount an ASGI application: `app.mount("/tools", api.protected(tools))`. `tools`
        are the scopes that single tools of an MCP server need besides: `{"list": (), "delete":
        "write"}`. A tool that they do not name needs the scopes of all.
        """
        if not callable(app):
            raise misconfigured(f"app must be an ASGI application, not {type(app).__name__}")
        by_tool = access_tokens.scopes_by_tool(tools or {})
        api_options.require_scopes([*scopes, *chain.from_iterable(by_tool.values())], self.scopes)
        return access_tokens.Protected(partial(self.access_token, role=role), app, scopes, by_tool)

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
        require_kind("app of api.mount", app, FastAPI)
        require_kind("path of api.mount", path, str)
        given, served = urlsplit(self._url).path.rstrip("/"), path.rstrip("/")
        if not (served.startswith(given) or given.endswith(served)):
            text = f"its clients look for {self._url}: pass that URL's path, or oidc.api(resource=)"
            self.engine.announcer.advise(f"api.mount at {path}", text)
        if api_options.metadata_path(self._url) not in {each.path for each in endpoints_of(app)}:
            app.include_router(self.router)
        app.include_router(access_tokens.with_lifespan_of(server))
        guarded = self.protected(server, *scopes, role=role, tools=tools)
        app.router.routes.append(Route(path, guarded))

    @awaited
    async def access_token(
        self, connection: HTTPConnection, *scopes: str, role: str | None = None
    ) -> AccessToken:
        """The access token of a request, verified once per request until it expires.

        Raises AccessTokenError.
        """
        api_options.require_scopes(scopes, self.scopes)
        context, permission = context_of(connection, self.engine), Permission(scopes, role)
        accepted = connection.scope.setdefault(_ACCEPTED, {})
        try:
            if self not in accepted:
                header = self._options.get("client_certificate_header")
                presented = access_tokens.presented_token(context, connection, header)
                accepted[self] = await self._server_of(self._serving(context)).accept(presented)
            elif self._now(context).is_past(accepted[self].expires_at):  # of a websocket
                explanation = "the token has expired since the request began"
                raise ProtocolViolation(Code.ACCESS_TOKEN_EXPIRED, explanation)
        except (ProtocolViolation, ProviderError, SessionError) as cause:
            self._refuse(connection, cause, permission)
        token: AccessToken = accepted[self]
        await self._check(permission, context, connection, token)
        return token

    @awaited
    async def caller(self, connection: HTTPConnection, *scopes: str) -> Caller[Identity]:
        """The caller, by an access token that has all of `scopes`, or else by a session.

        Raises AccessTokenError or, without a token, SessionError.
        """
        context = context_of(connection, self.engine)
        runtime = self._serving(context)
        self._require_identities()
        by_session = override_of(connection, self._require_auth)
        by_token = override_of(connection, self._token)
        brings_token = token_scheme_in(connection.scope["headers"]) is not None
        if brings_token or (by_token and not by_session) or not self.engine.signs_in:
            real = self.access_token
            token = await (called(by_token) if by_token else real(connection, *scopes))
            await self._check(Permission(scopes), context, connection, token)
            application = self._application or runtime.party.application
            party = runtime.party.at(token.iss)
            name = None if party is None else party.settings.name
            identity = await application.identity_of(token.claims, None, token.value, name)
            return Caller(identity, access_token=token)
        auth = self._require_auth
        try:
            session = await (called(by_session) if by_session else auth(connection))
        except SignInRequired as error:
            error.challenge = self._challenger.challenges(None, {})
            raise
        is_safe = connection.scope.get("method", "GET") in SAFE_METHODS
        if not is_safe and override_of(connection, self._require_csrf) is None:
            await self._require_csrf(connection, session)
        return Caller(session.identity, session=session)

    def _serving(self, context: RequestContext) -> Runtime:
        """The registrations whose tokens the API accepts in this request."""
        return self.registrations.fixed or context.runtime

    def _now(self, context: RequestContext) -> Instant:
        return self._serving(context).party.clock.instant()

    def _server_of(self, runtime: Runtime) -> ResourceServer:
        """The API as the registrations that serve a request see it; raises ConfigurationError."""
        if (server := self._servers.get(runtime)) is None:
            server = api_options.resource_server(runtime, self.audience, self._options)
            self._servers[runtime] = server
        return server

    def _require_identities(self) -> None:
        """Require a `resolve_identity` for several issuers: each of them may have an `alice`."""
        if self._options.get("issuers") and self._application is None:
            raise misconfigured(
                "with issuers, oidc.api needs resolve_identity, which returns the user for `iss` "
                "and `sub` of the claims: a sub is unique only within its issuer"
            )

    def look(self, is_served: Callable[[str], bool]) -> None:
        """Log what can never work, at startup with the served paths: a route or endpoint."""
        if self.resource is not None and not is_served(api_options.metadata_path(self.resource)):
            api_options.report_missing_metadata(self.resource)
        if self._fixed is not None and self._fixed.introspections is not None:
            looking = api_options.report_introspection(self.audience, self._fixed.introspections)
            self._looking = asyncio.create_task(looking)

    async def stop_looking(self) -> None:
        """End the look for the endpoint, before the connections are closed."""
        looking = self._looking
        if looking is None or looking.get_loop() is not asyncio.get_running_loop():
            return  # a job in a thread has an event loop of its own
        looking.cancel()
        await asyncio.wait([looking])

    async def _check(
        self,
        permission: Permission,
        context: RequestContext,
        connection: HTTPConnection,
        token: AccessToken,
    ) -> None:
        if (cause := permission.lack(token, self._now(context))) is not None:
            self._refuse(connection, cause, permission)

    def _refuse(
        self,
        connection: HTTPConnection,
        cause: ProtocolViolation | ProviderError | SessionError,
        permission: Permission,
    ) -> NoReturn:
        """Raises AccessTokenError, whose challenge names what all guards of the endpoint need."""
        require_own_middleware(connection)
        scheme = token_scheme_in(connection.scope["headers"])
        others = guards.needs_of(connection, lambda root: root is self._token)
        needed = permission.joined([*others, Permission(guards.scopes_of(connection))])
        raise self._challenger.refusal(cause, scheme, needed) from cause
