"""An API of the application, which accepts access tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Final, Generic, NoReturn, TypeAlias, Unpack

from fastapi import APIRouter, Security
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import (
    Code,
    ConfigurationError,
    ProtocolViolation,
    ProviderError,
    SessionError,
)
from fastapi_oidc.flows.relying_party import Application
from fastapi_oidc.resource_server import AccessToken, Caller
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.api_documents import Documented, protected_resource, refusals, token_scheme
from fastapi_oidc.web.api_options import (
    APIOptions,
    metadata_path,
    metadata_url,
    require_scopes_readable,
    resource_of,
    resource_server,
)
from fastapi_oidc.web.authorization_header import token_scheme_in
from fastapi_oidc.web.challenge import Challenger
from fastapi_oidc.web.dependencies import CSRF_IN_DOCUMENT, RequireAuth, RequireCSRF
from fastapi_oidc.web.overrides import override_of
from fastapi_oidc.web.refusal import SignInRequired
from fastapi_oidc.web.request_contexts import context_of, require_own_middleware
from fastapi_oidc.web.runtime import Runtime
from fastapi_oidc.web.token_request import presented_token

_ACCEPTED: Final = "fastapi_oidc.access_tokens"
_PUBLIC: Final = {"Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff"}
"""CORS headers: clients in browsers read the metadata too."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Safe methods (RFC 9110 9.2.1), which need no CSRF token."""

RequireToken: TypeAlias = Callable[..., Awaitable[AccessToken]]
RequireUser: TypeAlias = Callable[..., Awaitable[Caller[Identity]]]


class Protected:
    """An ASGI application that requires an access token."""

    def __init__(
        self, api: API[Any], app: ASGIApp, scopes: tuple[str, ...], role: str | None
    ) -> None:
        self._api, self._app, self._scopes, self._role = api, app, scopes, role

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with a sufficient token; raises AccessTokenError."""
        if scope["type"] in ("http", "websocket"):
            await self._api.access_token(HTTPConnection(scope), *self._scopes, role=self._role)
        await self._app(scope, receive, send)


class _Token(SecurityBase):
    """A dependency: the access token of the request, if it has the endpoint's scopes."""

    def __init__(self, api: API[Any], model: Documented) -> None:
        self._api, self.scheme_name, self.model = api, model.scheme_name, model.model

    async def __call__(self, connection: HTTPConnection, needs: SecurityScopes) -> AccessToken:
        return await self._api.access_token(connection, *needs.scopes)


class API(Generic[Identity]):
    """An OAuth resource server, made by `oidc.api(audience=...)`.

        app.include_router(api.router)
        @app.post("/machines", dependencies=[Depends(api.require("machines:write"))])

    `audience` is the `aud` of the provider's tokens for this API. Options:

    - `resource`: the URL of the API (RFC 9728); by default the audience, if it is a URL
    - `scopes`: the API's scopes with their descriptions, for its metadata and OpenAPI document
    - `algorithms`: the accepted algorithms of JWTs; by default those of ID tokens
    - `accept_plain_jwt`: also accept JWTs without the type `at+jwt`
    - `introspect`: introspect each token at the provider (RFC 7662), as opaque tokens require; the
      response is cached for `introspection_lifetime` seconds (default 60)
    - `client_claim`, `scope_claim`, `roles_claim`: the names of these claims; a tuple is a path
    - `client_certificate_header`: the header in which a trusted front server sends the client's
      certificate (RFC 8705)
    - `resolve_identity`: returns the identity of a token's user; by default that of `OIDC`
    - `authorization_url`, `token_url`: the provider's endpoints for the Authorize button
    """

    def __init__(
        self,
        runtime: Runtime[Identity, Any],
        require_auth: RequireAuth[Identity],
        require_csrf: RequireCSRF[Identity],
        login_algorithms: frozenset[str],
        audience: str,
        **options: Unpack[APIOptions[Identity]],
    ) -> None:
        policy = runtime.party.policy
        is_local = runtime.origin is None or runtime.origin.startswith("http:")
        self._runtime, self._require_auth, self._require_csrf = runtime, require_auth, require_csrf
        self._server = resource_server(runtime, audience, options, login_algorithms)
        self._certificate_header = options.get("client_certificate_header")
        self._application = runtime.party.application
        if (resolve := options.get("resolve_identity")) is not None:
            self._application = Application(resolve)
        self.audience, self.scopes = audience, dict(options.get("scopes", {}))
        self.resource = resource_of(audience, options.get("resource"), allow_insecure_http=is_local)
        url = None if self.resource is None else metadata_url(self.resource)
        self._challenger = Challenger(runtime.name, url)
        number = len(runtime.apis) + 1
        model = token_scheme(
            policy.issuer,
            self.scopes,
            authorization_url=options.get("authorization_url"),
            token_url=options.get("token_url"),
        )
        self._scheme = Documented(f"{runtime.name}_api{'' if number == 1 else number}", model)
        self._token = _Token(self, self._scheme)
        self._required: dict[tuple[tuple[str, ...], str | None], RequireToken] = {}
        runtime.apis.append(self)

    def require(self, *scopes: str, role: str | None = None) -> RequireToken:
        """A dependency: the `AccessToken` of the request, if it has all of `scopes` and the `role`.

        The same arguments return the same object. The dependencies with arguments depend on
        `api.require()`.
        """
        key = (scopes, role)
        if key not in self._required:
            require_scopes_readable(scopes)
            self._required[key] = self._requirement(scopes, role)
        return self._required[key]

    @cached_property
    def require_user(self) -> RequireUser[Identity]:
        """A dependency: the `Caller`, by an access token or else by a session.

        If a request has an access token, its session is ignored, and the token must have the scopes
        in `Security(oidc.require_user, scopes=[...])`. A request with a session must have the
        session's CSRF token, unless its method is safe (GET, HEAD, OPTIONS).
        """
        cookie = Documented(self._require_auth.scheme_name, self._require_auth.model)

        async def require_user(
            connection: HTTPConnection,
            needs: SecurityScopes,
            _cookie: None = Security(cookie),
            _token: None = Security(self._scheme),
            _csrf_token: str | None = CSRF_IN_DOCUMENT,
        ) -> Caller[Identity]:
            return await self.caller(connection, *needs.scopes)

        return require_user

    @cached_property
    def router(self) -> APIRouter:
        """The router of the protected resource metadata (RFC 9728). Include it without a prefix.

        Raises ConfigurationError when the API has no `resource`.
        """
        if self.resource is None:
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                "the path of an API's metadata depends on its URL: oidc.api(..., resource=...)",
            )
        document = protected_resource(
            self.resource,
            self._runtime.party.policy.issuer,
            self.scopes,
            has_certificates=self._certificate_header is not None,
        )

        async def metadata(_request: Request) -> JSONResponse:
            return JSONResponse(document, headers=_PUBLIC)

        router = APIRouter()
        # A plain route: dependencies of the application do not apply to it.
        router.add_route(metadata_path(self.resource), metadata, include_in_schema=False)
        return router

    @property
    def responses(self) -> dict[int | str, dict[str, Any]]:
        """The 401 and 403 responses for the API document: `@app.get(..., responses=...)`."""
        return refusals("access token")

    def protected(self, app: ASGIApp, *scopes: str, role: str | None = None) -> Protected:
        """`app`, for requests whose access token has all of `scopes` and the `role`.

        Use it to mount an ASGI application: `app.mount("/tools", api.protected(tools))`.
        """
        require_scopes_readable(scopes)
        return Protected(self, app, scopes, role)

    async def access_token(
        self, connection: HTTPConnection, *scopes: str, role: str | None = None
    ) -> AccessToken:
        """The access token of a request, verified once per request.

        Raises AccessTokenError.
        """
        context = context_of(connection, self._runtime.name)
        accepted = connection.scope.setdefault(_ACCEPTED, {})
        try:
            if self not in accepted:
                presented = presented_token(context, connection, self._certificate_header)
                accepted[self] = await self._server.accept(presented)
        except (ProtocolViolation, ProviderError, SessionError) as cause:
            self._refuse(connection, cause, scopes)
        token: AccessToken = accepted[self]
        self._require_permission(connection, token, scopes, role)
        return token

    async def caller(self, connection: HTTPConnection, *scopes: str) -> Caller[Identity]:
        """The caller, by an access token that has all of `scopes`, or else by a session.

        Raises AccessTokenError or, without a token, SessionError.
        """
        by_session = override_of(connection, self._require_auth)
        by_token = override_of(connection, self._token)
        if token_scheme_in(connection.scope["headers"]) or (by_token and not by_session):
            real = self.access_token
            token = await (called(by_token) if by_token else real(connection, *scopes))
            self._require_permission(connection, token, scopes, None)
            identity = await self._application.identity_of(token.claims, None, token.value)
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

    def _requirement(self, scopes: tuple[str, ...], role: str | None) -> RequireToken:
        if not scopes and role is None:
            return self._token

        async def required(
            connection: HTTPConnection,
            token: AccessToken = Security(self._token, scopes=scopes),
        ) -> AccessToken:
            self._require_permission(connection, token, scopes, role)
            return token

        return required

    def _require_permission(
        self,
        connection: HTTPConnection,
        token: AccessToken,
        scopes: tuple[str, ...],
        role: str | None,
    ) -> None:
        """Require the scopes of the client and the role of the user (RFC 6750 3.1)."""
        if missing := [scope for scope in scopes if scope not in token.scope]:
            explanation = f"the token lacks the scope {' '.join(missing)}"
            cause = ProtocolViolation(Code.ACCESS_TOKEN_SCOPE, explanation, client=token.client_id)
            self._refuse(connection, cause, scopes)
        if role is not None and role not in token.roles:
            cause = ProtocolViolation(Code.ACCESS_TOKEN_ROLE, f"the token lacks the role {role}")
            self._refuse(connection, cause, scopes)

    def _refuse(
        self,
        connection: HTTPConnection,
        cause: ProtocolViolation | ProviderError | SessionError,
        scopes: tuple[str, ...],
    ) -> NoReturn:
        require_own_middleware(connection)
        scheme = token_scheme_in(connection.scope["headers"]) or "Bearer"
        error = self._challenger.refusal(cause, scheme, scopes)
        context_of(connection, self._runtime.name).own(error)
        raise error from cause
