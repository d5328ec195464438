"""`OIDC`, the object that an application creates."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Self, Unpack, overload

from starlette.requests import HTTPConnection
from typing_extensions import TypeVar

from fastapi_oidc.assembly import Options
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.relying_party import IdentityContext, ResolveIdentity
from fastapi_oidc.peer_names import require_known
from fastapi_oidc.protocol.step_up import StepUp, of_class, recent
from fastapi_oidc.registrations import Given, Registrations
from fastapi_oidc.session.identity import StandardIdentity
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.browser.script import SCRIPT
from fastapi_oidc.web.dependencies import (
    Guard,
    Locals,
    OptionalUser,
    Predicate,
    Require,
    RequireAuth,
    RequireCSRF,
    RequireRole,
)
from fastapi_oidc.web.endpoints import Endpoints
from fastapi_oidc.web.misuse import Argument, require_kind
from fastapi_oidc.web.outgoing import Outgoing
from fastapi_oidc.web.request_contexts import noted
from fastapi_oidc.web.router import conventional_router
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import LoadRequestData, RequestDataContext
from fastapi_oidc.web.sessions import Sessions
from fastapi_oidc.web.step_up import RequireStepUp

if TYPE_CHECKING:
    from fastapi_oidc.web.api import API
    from fastapi_oidc.web.api_guards import RequireUser
    from fastapi_oidc.web.api_options import APIOptions

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
        if misplaced := sorted((options.keys() & OIDCSettings.model_fields) - {"name"}):
            names = ", ".join(misplaced)
            raise TypeError(
                f"{names}: settings go into OIDCSettings: OIDC(OIDCSettings({names}=...))"
            )
        require_known("OIDC", options, Options.__annotations__)
        self.registrations: Registrations[Identity, RequestData] = Registrations(
            settings, resolve_identity, load_request_data, options
        )
        self.router = conventional_router(self, self.registrations.settings)

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
        alone.__dict__.pop("_require_auth", None)
        alone.__dict__.pop("_require_csrf", None)
        alone.registrations = self.registrations.alone(settings)
        return alone

    @property
    def require_auth(self) -> RequireAuth[Identity]:
        """`Depends(oidc.require_auth)`, or `await oidc.require_auth(request)`."""
        return noted(self._require_auth)

    @cached_property
    def _require_auth(self) -> RequireAuth[Identity]:
        fixed, name = self.registrations.fixed, self.registrations.engine.name
        cookie = fixed.cookie.decode() if fixed else f"__Host-{name}_session"
        return RequireAuth(name, cookie, self.registrations.only)

    @property
    def require_csrf(self) -> RequireCSRF[Identity]:
        """Like `require_auth`; the request must also have the session's CSRF token."""
        return noted(self._require_csrf)

    @cached_property
    def _require_csrf(self) -> RequireCSRF[Identity]:
        return RequireCSRF(self._require_auth)

    def api(self, audience: str, **options: Unpack[APIOptions[Identity]]) -> API[Identity]:
        """An API that accepts access tokens for `audience`; the options are those of `API`.

        Raises ConfigurationError.
        """
        from fastapi_oidc.web.api import API

        return API(self.registrations, self._require_auth, self._require_csrf, audience, **options)

    @property
    def require_user(self) -> RequireUser[Identity]:
        """The `require_user` of the only API.

        Raises ConfigurationError when no API or several APIs exist.
        """
        apis: list[API[Identity]] = self.registrations.engine.apis
        if len(apis) != 1:
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"oidc.require_user needs exactly one API, and this instance has {len(apis)}: "
                "api = oidc.api(audience=...), and then api.require_user",
            )
        return apis[0].require_user

    @property
    def locals(self) -> Locals[Identity, RequestData]:
        """`Depends(oidc.locals)`: the `OIDCLocals` of the request; a session is optional."""
        return noted(self._locals)

    @cached_property
    def _locals(self) -> Locals[Identity, RequestData]:
        return Locals(self.registrations.engine.name)

    @property
    def optional_user(self) -> OptionalUser[Identity]:
        """`Depends(oidc.optional_user)`: the session of the request, None without one."""
        return noted(self._optional_user)

    @cached_property
    def _optional_user(self) -> OptionalUser[Identity]:
        return OptionalUser(self.registrations.engine.name)

    def require_role(
        self, role: Annotated[str, Argument("oidc.require_role('admin')")]
    ) -> Guard[Identity]:
        """A dependency that returns the session if `role` is in `identity.roles`; 403 otherwise.

        `resolve_identity` decides what `roles` are. Without them the request fails with
        ConfigurationError.
        """
        require_kind(
            "role of oidc.require_role (for several: oidc.require(lambda user: ...))", role, str
        )
        return noted(RequireRole(role, self._require_auth))

    def require(
        self, predicate: Annotated[Predicate[Identity], Argument("oidc.require(lambda user: ...)")]
    ) -> Require[Identity]:
        """A dependency that returns the session if `predicate(identity)` is True; 403 otherwise.

        It depends on `require_auth`. The request fails with ConfigurationError for another value
        that Python takes for true, such as a method. Raises ConfigurationError when `predicate` is
        not callable.
        """
        if not callable(predicate):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"oidc.require takes a function of the identity, not {type(predicate).__name__}:"
                " oidc.require(lambda user: ...)",
            )
        return noted(Require(predicate, self._require_auth))

    def require_recent(
        self, seconds: Annotated[int, Argument("oidc.require_recent(300)")]
    ) -> Guard[Identity]:
        """A dependency that returns the session if its user authenticated in the last `seconds`.

        Otherwise a page request is sent to the provider to sign in again, and returns afterwards.
        Raises ConfigurationError unless `seconds` is a whole number, 0 or more.
        """
        return self._step_up(recent(seconds))

    def require_acr(
        self, *values: Annotated[str, Argument("oidc.require_acr('mfa')")]
    ) -> Guard[Identity]:
        """A dependency that returns the session if the `acr` of its ID token is one of `values`.

        Otherwise a page request is sent to the provider to sign in again, and returns afterwards.
        Raises ConfigurationError without values, or for a value with a space or a quote.
        """
        return self._step_up(of_class(values))

    def _step_up(self, step_up: StepUp) -> Guard[Identity]:
        self.registrations.engine.step_ups[step_up] = None
        return noted(RequireStepUp(step_up, self._require_auth))

    def script_url(self, connection: HTTPConnection) -> str:
        """The path of `oidc-context.js` with its version; browsers cache this URL for a year."""
        paths = self._context(connection).paths
        return f"{paths.required(Role.SCRIPT)}?v={SCRIPT.version}"

    async def aclose(self) -> None:
        """Wait for requests under way, and close the connections to providers and the store.

        The middleware calls this at the application's shutdown.
        """
        await self.registrations.engine.aclose()
