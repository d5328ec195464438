"""The contexts of one request, one for each OIDCMiddleware that it passes."""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum
from typing import Any, Final, TypeVar
from weakref import ref

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Scope

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.web.cookie_header import require_parsable
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.misuse import SCOPE_KEY, Dependency, Use, faults_of, is_lost, name_of
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.routes import Application, Entrance, RouteTemplates
from fastapi_oidc.web.runtime import Engine, Registrations, Runtime

of_this_task: Final[ContextVar[ref[RequestContexts] | None]] = ContextVar(
    "fastapi_oidc", default=None
)
"""The contexts of the running task's request; a task that outlives its request has no tokens."""

_NOBODY: OIDCLocals[Any, Any] = OIDCLocals()


class Served:
    """The instance of a middleware. `excluded` are path prefixes that end with a slash."""

    def __init__(
        self, registrations: Registrations[Any, Any], excluded: tuple[str, ...] = ()
    ) -> None:
        self.engine, self._excluded = registrations.engine, excluded
        self._templates: RouteTemplates | None = None

    def routes_in(self, app: Application) -> RouteTemplates:
        """The paths of the instance's routes in the app."""
        if self._templates is None:
            self._templates = RouteTemplates(app, self.engine.name)
        return self._templates

    def leaves_alone(self, entrance: Entrance) -> bool:
        """Whether the path is the library's own or excluded: sessions are not preloaded there."""
        path = entrance.path
        if path in self.routes_in(entrance.app):
            return True
        return bool(self._excluded) and f"{path}/".startswith(self._excluded)


class Caching(Enum):
    """For which requests a cache may reuse a response."""

    ANYBODY = "anybody"
    VARIES = "whoever sends the same cookies"
    PERSONAL = "nobody else"


class RequestContexts:
    """The context of a request at one OIDCMiddleware, opened on demand.

    `runtime` serves the request, None if no registration does. `outer` belongs to the middleware
    around this one; the middleware of the same instance there writes the cookies.
    """

    def __init__(
        self,
        served: Served,
        runtime: Runtime[Any, Any] | None,
        scope: Scope,
        outer: RequestContexts | None,
    ) -> None:
        self._served, self._runtime, self._scope, self._outer = served, runtime, scope, outer
        self._entrance = Entrance.of(scope)
        self._opened: RequestContext[Any, Any] | None = None
        self._is_repeated = outer is not None and outer.serves(served.engine)
        self._uses: list[Use] = []
        self.is_open = True
        """Whether the response has not started, so cookies can still be sent."""
        self.only = served.engine.name if outer is None else None
        """The name of the instance that serves this request, if it is the only one."""

    @property
    def app(self) -> object:
        """The application that has the middleware."""
        return self._entrance.app

    @property
    def names(self) -> list[str]:
        """The names of the instances that serve this request."""
        own = [] if self._is_repeated else [self._served.engine.name]
        return own if self._outer is None else [*own, *self._outer.names]

    def serves(self, engine: Engine[Any, Any]) -> bool:
        """Whether the instance serves this request; raises ConfigurationError for its namesake."""
        mine = self._served.engine
        if mine is not engine and mine.name == engine.name:
            raise ConfigurationError(
                Code.CONFIGURATION_INSTANCE_AMBIGUOUS,
                f"two OIDC instances are named {mine.name!r}; give each a name of its own",
            )
        return mine is engine or (self._outer is not None and self._outer.serves(engine))

    def find(self, name: str | None) -> RequestContext[Any, Any] | None:
        """The context of the instance `name`, or of the only instance, opened if necessary.

        None if no registration serves the request. Raises KeyError without that instance.
        """
        if self._is_repeated or name not in (None, self._served.engine.name):
            if self._outer is None:
                raise KeyError(name)
            return self._outer.find(name)
        if self._opened is None and self._runtime is not None:
            routes = self._served.routes_in(self._entrance.app)
            self._opened = RequestContext(self._runtime, self._scope, self._entrance, routes)
            self._opened.is_open = self.is_open
        return self._opened

    def note(self, use: Use, of: object = None) -> None:
        """Remember a guard until it is called, and a call `of` it until it is awaited.

        Raises ConfigurationError (configuration.invalid) after the start for a call that follows a
        lost one: `while oidc.is_still_signed_in(socket)` without `await` would never end.
        """
        lost = [each for each in self._uses if each is not of and is_lost(each)]
        self._uses = [*lost, use]
        if not self.is_open and name_of(use) in map(name_of, lost):
            self.require_used()

    def require_used(self) -> None:
        """Raise ConfigurationError for a guard that was not called, or without `await`."""
        for fault in self.faults():
            explanation = f"{fault}. It has checked nothing; the response was not sent"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)

    def faults(self) -> list[str]:
        """What is wrong with the guards that the request has used so far."""
        uses, self._uses = self._uses, []
        return faults_of(uses)

    def close(self) -> None:
        """The response starts, or none will: no further cookies can be sent."""
        self.is_open = False
        if self._opened is not None:
            self._opened.is_open = False

    def owner(self, instance: str | None) -> RequestContext[Any, Any] | None:
        """The context of an error: of the instance that it names, else of the innermost one."""
        return self.find(instance if instance in self.names else None)

    async def load(self) -> None:
        """Load the locals if the request has the instance's session cookie."""
        require_parsable(self._scope["headers"])
        if self._is_repeated:
            return
        self._scope.setdefault("state", {})[self._served.engine.name] = _NOBODY
        if self._has_cookie() and not self._served.leaves_alone(self._entrance):
            context = self.find(None)
            if context is not None and context.is_of_trusted_origin:
                await context.locals()

    def caching(self) -> Caching:
        """How caches may reuse the response."""
        if self._opened is not None and self._opened.known is not None:
            is_personal = self._opened.known.session is not None
            return Caching.PERSONAL if is_personal else Caching.VARIES
        if self._is_repeated or self._served.leaves_alone(self._entrance):
            return Caching.ANYBODY
        return Caching.VARIES

    def has_changes(self) -> bool:
        """Whether there may be cookie changes to send with the response."""
        return self._opened is not None and self._opened.has_changes

    def end_cleared(self) -> None:
        """Record the end of the session if the request has cleared it."""
        if self._opened is not None:
            self._opened.end_cleared()

    async def take_changes(self) -> list[CookieChange]:
        """Take the current cookie changes, for the caller to send."""
        return [] if self._opened is None else await self._opened.take_changes()

    def _has_cookie(self) -> bool:
        """Whether the request has, or seems to have, the session cookie."""
        if self._runtime is None:
            return False
        cookie = self._runtime.cookie
        for name, line in self._scope["headers"]:  # noqa: SIM110 - at every request
            if name == b"cookie" and cookie in line:
                return True
        return False


Guarding = TypeVar("Guarding", bound=Dependency)


def noted(dependency: Guarding) -> Guarding:
    """`dependency`, which the running request, if there is one, must call."""
    reference = of_this_task.get()
    contexts = None if reference is None else reference()
    if contexts is not None:
        contexts.note(dependency)
    return dependency


def context_of(connection: HTTPConnection, name: str | None = None) -> RequestContext[Any, Any]:
    """Like `find_context`; raises HTTPException (404) if no registration serves the request."""
    context = find_context(connection, name)
    if context is None:
        raise HTTPException(404, headers=NO_STORE)
    return context


def find_context(
    connection: HTTPConnection, name: str | None = None
) -> RequestContext[Any, Any] | None:
    """The context of the instance `name`, or of the only instance.

    None if no registration serves the request. Raises ConfigurationError:
    configuration.middleware_missing, configuration.instance_ambiguous, or configuration.invalid in
    a task that outlives its request.
    """
    contexts: RequestContexts | None = connection.scope.get(SCOPE_KEY)
    if contexts is None and SCOPE_KEY in connection.scope:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "this request has ended: a task that outlives it must read the session earlier",
        )
    if contexts is not None and contexts.only is not None and name in (None, contexts.only):
        return contexts.find(None)
    names = [] if contexts is None else contexts.names
    if name is None and len(names) > 1:
        raise ConfigurationError(
            Code.CONFIGURATION_INSTANCE_AMBIGUOUS,
            f"this app has the OIDC instances {', '.join(names)}; use a method of one of them",
        )
    if contexts is None or (name is not None and name not in names):
        raise ConfigurationError(
            Code.CONFIGURATION_MIDDLEWARE_MISSING,
            f"this app has no middleware of {_instance(name)}, which needs three lines:\n"
            "  oidc = OIDC(OIDCSettings())\n"
            "  app.add_middleware(OIDCMiddleware, oidc=oidc)\n"
            "  app.include_router(oidc.router, prefix='/auth')",
        )
    return contexts.find(name)


def require_own_middleware(connection: HTTPConnection) -> None:
    """Raise ConfigurationError for a mounted application without its own OIDCMiddleware.

    A mounted application handles its errors itself, so nothing could redirect to the login.
    """
    contexts: RequestContexts = connection.scope[SCOPE_KEY]
    if connection.scope["app"] is not contexts.app:
        raise ConfigurationError(
            Code.CONFIGURATION_MIDDLEWARE_MISSING,
            "this endpoint is in a mounted application, which handles its errors itself: add "
            "OIDCMiddleware to the mounted application too, with the same oidc",
        )


def _instance(name: str | None) -> str:
    return "an OIDC instance" if name is None else f"the OIDC instance {name!r}"
