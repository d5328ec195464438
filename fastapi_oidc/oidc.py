"""`OIDC` and `StandaloneAPI`, the objects that an application creates."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Self, Unpack, overload
from urllib.parse import urlsplit

import httpx
from starlette.requests import HTTPConnection
from typing_extensions import TypeVar

from fastapi_oidc.assembly import Options
from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import misconfigured
from fastapi_oidc.events import EventListener
from fastapi_oidc.flows.relying_party import IdentityContext, ResolveIdentity
from fastapi_oidc.peer_names import require_known
from fastapi_oidc.protocol.access_token import StepUp, of_class, recent
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.provider.network import HTTPOptions
from fastapi_oidc.registrations import Given, Registrations
from fastapi_oidc.resource_server.server import Caller
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.model import OIDCSession, StandardIdentity
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web import guards
from fastapi_oidc.web.api import API
from fastapi_oidc.web.api_options import APIOptions
from fastapi_oidc.web.endpoints import Endpoints, conventional_router
from fastapi_oidc.web.misuse import Argument, require_kind
from fastapi_oidc.web.outgoing import Outgoing
from fastapi_oidc.web.pages import SCRIPT_VERSION
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import LoadRequestData, OIDCLocals, RequestDataContext
from fastapi_oidc.web.sessions import Sessions

Identity = TypeVar("Identity", default=StandardIdentity)
RequestData = TypeVar("RequestData", default=None)


class OIDC(
    Sessions[Identity, RequestData],
    Outgoing[Identity, RequestData],
    Endpoints[Identity, RequestData],
):
    """Sign-in with OpenID Providers, for one FastAPI app.

        oidc = OIDC(OIDCSettings())
        app.add_middleware(OIDCMiddleware, oidc=oidc)
        app.include_router(oidc.router, prefix="/auth")

    `settings` are those of one registration at a provider, of several by the labels that their
    login page shows, or a function that returns those of a request (None: 404). Several
    registrations have one session cookie, named after `name` ("oidc" by default), and the session
    says which of them serves it. Registrations that a function finds have a cookie each, named
    after their settings: a session of one is worth nothing at another.

    `OIDC()` makes no requests: a provider is contacted when it is first needed.
    `resolve_identity` returns the application's identity for validated provider data. Its return
    annotation (or `identity_type`) is the type as which stored identities are read. Without
    `resolve_identity` the identity is a `StandardIdentity`. Callbacks may be sync or async; only
    `on_event` must be sync.

    `downstream_apis` are other APIs for which sessions get access tokens.

    Without `session_store` the sealed session is in its cookie. `"memory"` stores work for a single
    process. `http` has options for the connections to the provider and replaces the certificate
    files of the settings. `transport` and `clock` are for tests. Raises ConfigurationError.
    """

    # A type checker cannot infer the result of a callback that may be sync or async: one overload
    # for each.
    @overload
    def __init__(
        self,
        settings: Given,
        *,
        resolve_identity: Callable[[IdentityContext], Awaitable[Identity]],
        load_request_data: Callable[[RequestDataContext[Identity]], Awaitable[RequestData]],
        **options: Unpack[Options[Identity, RequestData]],
    ) -> None: ...

    @overload
    def __init__(
        self,
        settings: Given,
        *,
        resolve_identity: Callable[[IdentityContext], Awaitable[Identity]],
        load_request_data: Callable[[RequestDataContext[Identity]], RequestData] | None = None,
        **options: Unpack[Options[Identity, RequestData]],
    ) -> None: ...

    @overload
    def __init__(
        self,
        settings: Given,
        *,
        resolve_identity: Callable[[IdentityContext], Identity] | None = None,
        load_request_data: Callable[[RequestDataContext[Identity]], Awaitable[RequestData]],
        **options: Unpack[Options[Identity, RequestData]],
    ) -> None: ...

    @overload
    def __init__(
        self,
        settings: Given,
        *,
        resolve_identity: Callable[[IdentityContext], Identity] | None = None,
        load_request_data: Callable[[RequestDataContext[Identity]], RequestData] | None = None,
        **options: Unpack[Options[Identity, RequestData]],
    ) -> None: ...

    def __init__(
        self,
        settings: Given,
        *,
        resolve_identity: ResolveIdentity[Identity] | None = None,
        load_request_data: LoadRequestData[Identity, RequestData] | None = None,
        **options: Unpack[Options[Identity, RequestData]],
    ) -> None:
        require_known("OIDC", options, Options.__annotations__)
        self.registrations: Registrations = Registrations(
            settings, resolve_identity, load_request_data, options
        )
        self._make_guards()
        self.router = conventional_router(self, self.registrations.settings)

    require_auth: guards.RequireAuth[Identity]
    """`Depends(oidc.require_auth)`, or `await oidc.require_auth(request)`."""
    require_csrf: guards.Guard[OIDCSession[Identity]]
    """Like `require_auth`; the request must also have the session's CSRF token."""
    locals: guards.FromLocals[OIDCLocals[Identity, RequestData]]
    """`Depends(oidc.locals)`: the `OIDCLocals` of the request; a session is optional."""
    optional_user: guards.FromLocals[OIDCSession[Identity] | None]
    """`Depends(oidc.optional_user)`: the session of the request, None without one."""

    def _make_guards(self) -> None:
        fixed, engine = self.registrations.fixed, self.engine
        names = CookieNames(engine.name, secure=True)
        cookie = fixed.cookie.decode() if fixed else names.session
        self.require_auth = guards.RequireAuth(engine, cookie, self.registrations.only)
        self.require_csrf = guards.with_csrf_token(self.require_auth)
        self.locals = guards.FromLocals("locals", engine, OIDCLocals)
        user = guards.FromLocals("optional_user", engine, OIDCSession, guards.usable_session)
        self.optional_user = user

    @property
    def settings(self) -> OIDCSettings:
        """The settings of the only registration, or of the request's.

        Raises ConfigurationError if there are several, and outside of a request if a function finds
        them.
        """
        return self._only().settings

    def settings_of(self, session: OIDCSession[Identity]) -> OIDCSettings:
        """The settings of the registration that the session is of.

        Raises SessionError (session.required) for a session of another instance.
        """
        require_kind("session of oidc.settings_of", session, OIDCSession)
        return self.runtime.party.of(session).settings

    def registration(self, settings: OIDCSettings) -> Self:
        """This instance with one of its registrations alone.

        For what belongs to no session, such as `app_auth`, and for work without a request where a
        function finds the registrations. Its guards accept only sessions of that registration (else
        403), and its `api` only that registration's tokens. Raises ConfigurationError.
        """
        alone = copy.copy(self)
        alone.registrations = self.registrations.alone(settings)
        alone._make_guards()
        return alone

    def api(self, audience: str, **options: Unpack[APIOptions[Identity]]) -> API[Identity]:
        """An API that accepts access tokens for `audience`; the options are those of `API`.

        Raises ConfigurationError.
        """
        return API(self.registrations, self.require_auth, self.require_csrf, audience, **options)

    @property
    def require_user(self) -> guards.FromAPI[Caller[Identity]]:
        """The `require_user` of the only API.

        Raises ConfigurationError when no API or several APIs exist.
        """
        apis: list[API[Identity]] = self.engine.apis
        if len(apis) != 1:
            raise misconfigured(
                f"oidc.require_user needs exactly one API, and this instance has {len(apis)}: "
                "api = oidc.api(audience=...), and then api.require_user"
            )
        return apis[0].require_user

    def require_role(
        self, role: Annotated[str, Argument("oidc.require_role('admin')")]
    ) -> guards.Guard[OIDCSession[Identity]]:
        """A dependency that returns the session if `role` is in `identity.roles`; 403 otherwise.

        `resolve_identity` decides what `roles` are. Without them the request fails with
        ConfigurationError.
        """
        require_kind("role of oidc.require_role", role, str)
        return guards.with_role(role, self.require_auth)

    def require(
        self,
        predicate: Annotated[
            guards.Predicate[Identity], Argument("oidc.require(lambda user: ...)")
        ],
    ) -> guards.Guard[OIDCSession[Identity]]:
        """A dependency that returns the session if `predicate(identity)` is True; 403 otherwise.

        It depends on `require_auth`. The request fails with ConfigurationError for another value
        that Python takes for true, such as a method. Raises ConfigurationError when `predicate` is
        not callable.
        """
        return guards.with_predicate(predicate, self.require_auth)

    def require_recent(
        self, seconds: Annotated[int, Argument("oidc.require_recent(300)")]
    ) -> guards.Guard[OIDCSession[Identity]]:
        """A dependency that returns the session if its user authenticated in the last `seconds`.

        Otherwise a page request is sent to the provider to sign in again, and returns afterwards.
        Raises ConfigurationError unless `seconds` is a whole number, 0 or more.
        """
        return self._step_up("require_recent", recent(seconds))

    def require_acr(
        self, *values: Annotated[str, Argument("oidc.require_acr('mfa')")]
    ) -> guards.Guard[OIDCSession[Identity]]:
        """A dependency that returns the session if the `acr` of its ID token is one of `values`.

        Otherwise a page request is sent to the provider to sign in again, and returns afterwards.
        Raises ConfigurationError without values, or for a value with a space or a quote.
        """
        return self._step_up("require_acr", of_class(values))

    def _step_up(self, name: str, step_up: StepUp) -> guards.Guard[OIDCSession[Identity]]:
        engine = self.engine
        engine.announcer.advise_on_seconds(f"oidc.{name}", step_up.max_age)
        engine.step_ups[step_up] = None
        return guards.with_step_up(name, step_up, self.require_auth)

    def script_url(self, connection: HTTPConnection) -> str:
        """The path of `oidc-context.js` with its version; browsers cache this URL for a year."""
        return f"{self._context(connection).link_to(Role.SCRIPT)}?v={SCRIPT_VERSION}"


class StandaloneAPI(API[Identity], Outgoing[Identity, None]):
    """An API in an application without sign-in and sessions.

        api = StandaloneAPI("https://op.example.com", "https://api.example.com")
        app.add_middleware(OIDCMiddleware, oidc=api)
        app.include_router(api.router)

    `audience` or `resource` is the URL of the API. The other `options` are those of `oidc.api`. The
    client's id and secret are for introspection and token exchange; `accept_plain_jwt` needs the id
    too, to know ID tokens. Further settings are read from variables such as `OIDC_API_CA_FILE`.
    Raises ConfigurationError.
    """

    function = "StandaloneAPI"

    def __init__(
        self,
        issuer: str,
        audience: str,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        allow_insecure_http: bool = False,
        downstream_apis: Sequence[DownstreamAPI] = (),
        on_event: EventListener | None = None,
        http: HTTPOptions | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
        **options: Unpack[APIOptions[Identity]],
    ) -> None:
        settings = OIDCSettings(
            name="api",
            issuer=issuer,
            client_id=client_id or audience,
            client_secret=client_secret,
            # Nothing is sealed that another process or a later one could read.
            cookie_secret=secrets.token_urlsafe(48),
            base_url=_origin(options.get("resource") or audience),
            allow_insecure_http=allow_insecure_http,
        )
        oidc: OIDC[Identity] = OIDC(
            settings,
            downstream_apis=downstream_apis,
            on_event=on_event,
            http=http,
            transport=transport,
            clock=clock,
        )
        oidc.engine.signs_in = False
        super().__init__(
            oidc.registrations, oidc.require_auth, oidc.require_csrf, audience, **options
        )


def _origin(url: str) -> str:
    """The scheme and host of the API's URL, which the proofs of bound tokens name."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.netloc:
        raise misconfigured(
            "StandaloneAPI needs the URL of the API, as audience or else as resource: "
            'StandaloneAPI(issuer, audience, resource="https://api.example.com")'
        )
    return f"{parts.scheme}://{parts.netloc}"
