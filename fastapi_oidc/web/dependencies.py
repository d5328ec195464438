"""The `Depends(...)` callables: sessions, guards and locals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, Final, Generic, TypeAlias

from fastapi import Depends, Header
from fastapi.openapi.models import APIKey
from fastapi.security.base import SecurityBase
from starlette.datastructures import FormData
from starlette.requests import HTTPConnection, Request

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.csrf import CSRF_FIELD, CSRF_HEADER
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.misuse import Dependency, awaited, require_kind
from fastapi_oidc.web.refusal import SignInRequired
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import (
    context_of,
    find_context,
    require_own_middleware,
)
from fastapi_oidc.web.runtime import RequestData

Predicate: TypeAlias = Callable[[Identity], bool | Awaitable[bool]]

_NAMED: Final = Parameter.POSITIONAL_OR_KEYWORD
CSRF_PARAMETER: Final = Parameter(
    "csrf_header",
    Parameter.KEYWORD_ONLY,
    default=Header(
        default=None,
        alias=CSRF_HEADER,
        description="The session's CSRF token, unless a form has it.",
    ),
    annotation=str | None,
)
"""The header in the OpenAPI document; `RequireCSRF` reads it from the request itself."""

URL_ENCODED = "application/x-www-form-urlencoded"
_FORMS = (URL_ENCODED, "multipart/form-data")
_DEFAULT_COOKIE = CookieNames("oidc", secure=True).session


class RequireAuth(SecurityBase, Dependency, Generic[Identity]):
    """The session of the request; a request without a session is refused.

    A page navigation (GET or HEAD) is redirected to the login route and returns afterwards. Any
    other request gets a 401 response with JSON. A websocket without a session, or from an origin
    that is not trusted, is closed before it is accepted. Raises SessionError (session.required,
    session.cross_site).
    """

    def __init__(
        self,
        instance: str | None = None,
        cookie_name: str = _DEFAULT_COOKIE,
        only: str | None = None,
    ) -> None:
        self._instance, self._only = instance, only
        self.scheme_name = instance or "oidc"
        self.model = APIKey.model_validate(
            {"in": "cookie", "name": cookie_name, "description": "OpenID Connect session"}
        )

    @property
    def instance(self) -> str | None:
        """The name of the instance; None for the app's only instance."""
        return self._instance

    @awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCSession[Identity]:
        """The session; raises SessionError."""
        context: RequestContext[Identity, Any] = context_of(connection, self._instance)
        try:
            locals = context.known
            if locals is None:
                locals = await context.locals()
            if locals.unavailable is not None:
                raise locals.unavailable
            if locals.session is None:
                require_own_middleware(connection)
                raise SignInRequired(Code.SESSION_REQUIRED, "no session", ended=locals.ended)
            if self._only is not None:
                self._require_own(context.runtime.party.of(locals.session))
        except OIDCError as error:
            context.own(error)
            raise
        return locals.session

    def _require_own(self, party: RelyingParty[Identity]) -> None:
        if party.settings.name != self._only:
            explanation = f"the session is of another registration than {self._only!r}"
            raise SessionError(Code.SESSION_FORBIDDEN, explanation)


class Guard(Dependency, ABC, Generic[Identity]):
    """A check of the session from `require_auth`, which is a sub-dependency.

    So `app.dependency_overrides[require_auth]` changes the session of every guard that depends on
    it. `await guard(request)` calls `require_auth` itself.
    """

    def __init__(self, require_auth: RequireAuth[Identity], *documented: Parameter) -> None:
        self._require_auth = require_auth
        connection = Parameter("connection", _NAMED, annotation=HTTPConnection)
        session = Parameter("session", _NAMED, default=Depends(require_auth))
        self.__signature__ = Signature([connection, session, *documented])
        """The signature that FastAPI reads; it has the instance's `require_auth`."""

    @awaited
    async def __call__(
        self,
        connection: HTTPConnection,
        session: OIDCSession[Identity] | None = None,
        **documented: object,
    ) -> OIDCSession[Identity]:
        """The session; raises SessionError."""
        if session is None:
            session = await self._require_auth(connection)
        require_kind("session of a guard, also of an override", session, OIDCSession)
        context: RequestContext[Identity, Any] = context_of(connection, self._require_auth.instance)
        with context.owning():
            await self._check(context, connection, session)
        return session

    def step_up_at(self, context: RequestContext[Any, Any]) -> StepUp | None:
        """The authentication that the guard requires from sessions of this instance."""

    @abstractmethod
    async def _check(
        self,
        context: RequestContext[Identity, Any],
        connection: HTTPConnection,
        session: OIDCSession[Identity],
    ) -> None:
        """Raises SessionError to refuse the request."""


class Require(Guard[Identity]):
    """The session of the request, if the predicate is true for its identity; else 403."""

    def __init__(self, predicate: Predicate[Identity], require_auth: RequireAuth[Identity]) -> None:
        super().__init__(require_auth)
        self._predicate = predicate

    async def _check(
        self,
        context: RequestContext[Identity, Any],
        connection: HTTPConnection,
        session: OIDCSession[Identity],
    ) -> None:
        """Raises SessionError (session.forbidden), ConfigurationError for a value not a bool."""
        result: object = await called(self._predicate, session.identity)
        if result and not isinstance(result, bool):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"the predicate of oidc.require returned {type(result).__name__}, not True or "
                "False. Call it if it is a method or function; write bool(...) around other values",
            )
        if not result:
            said = "was not true" if result is not None else "returned None, which is not true"
            raise SessionError(Code.SESSION_FORBIDDEN, f"the endpoint's predicate {said}")


class RequireRole(Guard[Identity]):
    """The session of the request, if its identity has the role in `roles`; else 403."""

    def __init__(self, role: str, require_auth: RequireAuth[Identity]) -> None:
        super().__init__(require_auth)
        self._role = role

    async def _check(
        self,
        context: RequestContext[Identity, Any],
        connection: HTTPConnection,
        session: OIDCSession[Identity],
    ) -> None:
        """Raises SessionError (session.forbidden), ConfigurationError without `roles`."""
        roles = getattr(session.identity, "roles", None)
        if roles is None or isinstance(roles, str | Mapping):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                "oidc.require_role reads `roles`, a list, of the identity, and "
                f"{type(session.identity).__name__} has none: let resolve_identity return it",
            )
        if self._role not in roles:
            raise SessionError(Code.SESSION_FORBIDDEN, f"the user lacks the role {self._role!r}")


class OptionalUser(Dependency, Generic[Identity]):
    """The session of the request, None without one."""

    def __init__(self, instance: str) -> None:
        self._instance = instance

    @awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCSession[Identity] | None:
        """The session; raises SessionError while it is unavailable."""
        context: RequestContext[Identity, Any] | None = find_context(connection, self._instance)
        if context is None:
            return None
        locals = await context.locals()
        if locals.unavailable is not None:
            raise locals.unavailable
        return locals.session


class RequireCSRF(Guard[Identity]):
    """The session of the request, if the request has the session's CSRF token.

    The token is in the header `X-CSRF-Token` or, for HTML forms, in the field `csrf_token`.
    """

    def __init__(self, require_auth: RequireAuth[Identity]) -> None:
        super().__init__(require_auth, CSRF_PARAMETER)

    async def _check(
        self,
        context: RequestContext[Identity, Any],
        connection: HTTPConnection,
        session: OIDCSession[Identity],
    ) -> None:
        """Raises SessionError (session.csrf)."""
        token = connection.headers.get(CSRF_HEADER)
        if token is None:
            token = await _csrf_field(connection)
        if token is None and connection.scope["type"] == "websocket":
            explanation = (
                "a browser sends no CSRF token with a websocket: use require_auth, which refuses "
                "pages of other origins"
            )
            raise SessionError(Code.SESSION_CSRF, explanation)
        context.runtime.csrf.require(session, token)


def media_type(connection: HTTPConnection) -> str:
    """The media type of the body, without parameters (RFC 9110 8.3.1)."""
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _csrf_field(connection: HTTPConnection) -> str | None:
    """The CSRF field of an HTML form, which the endpoint can still read."""
    if not isinstance(connection, Request) or media_type(connection) not in _FORMS:
        return None
    values = (await form_of(connection)).getlist(CSRF_FIELD)
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


async def form_of(request: Request) -> FormData:
    """The request's form; raises ConfigurationError without python-multipart."""
    try:
        return await request.form()
    except AssertionError:  # Starlette's
        explanation = "forms need python-multipart: pip install python-multipart"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation) from None


class Locals(Dependency, Generic[Identity, RequestData]):
    """The `OIDCLocals` of the request; a session is optional."""

    def __init__(self, instance: str | None = None) -> None:
        self._instance = instance

    @awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCLocals[Identity, RequestData]:
        """The locals; raises SessionError when a store is unavailable."""
        context: RequestContext[Identity, RequestData] | None = find_context(
            connection, self._instance
        )
        return OIDCLocals() if context is None else await context.locals()


require_auth: RequireAuth[Any] = RequireAuth()
"""`Depends(require_auth)`: the session of the app's only OIDC instance; else to the login."""

require_csrf: RequireCSRF[Any] = RequireCSRF(require_auth)
"""`Depends(require_csrf)`: like `require_auth`; the request must have the CSRF token."""

oidc_locals: Locals[Any, Any] = Locals()
"""`Depends(oidc_locals)`: session, identity and request data of the app's only OIDC instance."""
