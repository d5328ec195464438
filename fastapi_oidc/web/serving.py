"""From a request or websocket to its context, and what the parts of `OIDC` have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeAlias
from weakref import ref

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.peer_names import PEER_MEMBERS
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import SCOPE_KEY, Awaited, require_kind
from fastapi_oidc.web.pages import NO_STORE
from fastapi_oidc.web.routes import Owning, Role
from fastapi_oidc.web.runtime import Engine, Registrations, RequestData, Runtime

Place: TypeAlias = tuple["ref[RequestContext]", "ref[RequestContext]"]
"""The innermost context of a request, and its outermost one, which stands for the request."""

of_this_task: Final[ContextVar[Place | None]] = ContextVar("fastapi_oidc", default=None)
"""The request of the running task; a task that outlives its request has no tokens."""

EndpointFunction: TypeAlias = Callable[[Request], Awaitable[Response]]

_NO_LINK: Final = (
    "Signing out is a POST. Links and images cannot do it, a form can: "
    '<form method="post" action="{}"><button>Sign out</button></form>'
)


def running(engine: Engine | None = None) -> RequestContext | None:
    """The context of the running task's request, at an instance if that is given."""
    place = of_this_task.get()
    context = None if place is None else place[0]()
    if context is None or engine is None:
        return context
    found = context.find(engine.name)
    return found if found.engine is engine else None


def context_of(connection: HTTPConnection, engine: Engine | None = None) -> RequestContext:
    """Like `find_context`; raises HTTPException (404) if no registration serves the request."""
    context = find_context(connection, engine)
    if not context.is_served:
        _ = context.runtime  # raises
    return context


def find_context(connection: HTTPConnection, engine: Engine | None = None) -> RequestContext:
    """The context of this instance, or of the only one.

    Raises ConfigurationError: configuration.middleware_missing, configuration.instance_ambiguous,
    also for a namesake, or configuration.invalid in a task that outlives its request.
    """
    context: RequestContext | None = connection.scope.get(SCOPE_KEY)
    if context is not None and (
        context.outer is None if engine is None else context.engine is engine
    ):
        return context
    if context is None and SCOPE_KEY in connection.scope:
        raise misconfigured(
            "this request has ended: a task that outlives it must read the session earlier"
        )
    if context is not None and engine is None:
        raise ConfigurationError(
            Code.CONFIGURATION_INSTANCE_AMBIGUOUS,
            "this app has several OIDC instances: use the guards and methods of one of them",
        )
    if context is not None and engine is not None and context.serves(engine):
        return context.find(engine.name)
    name = "oidc" if engine is None else engine.name
    raise ConfigurationError(
        Code.CONFIGURATION_MIDDLEWARE_MISSING,
        f"this request has passed no middleware of {name!r}. Add it last, because it runs before "
        f"those that were added earlier: app.add_middleware(OIDCMiddleware, oidc={name})",
    )


def require_own_middleware(connection: HTTPConnection) -> None:
    """Raise ConfigurationError for a mounted application without its own OIDCMiddleware.

    A mounted application handles its errors itself, so nothing could redirect to the login.
    """
    if connection.scope["app"] is not connection.scope[SCOPE_KEY].app:
        raise ConfigurationError(
            Code.CONFIGURATION_MIDDLEWARE_MISSING,
            "this endpoint is in a mounted application, which handles its errors itself: add "
            "OIDCMiddleware to the mounted application too, with the same oidc. Scopes of MCP "
            "tools are given to api.mount(..., tools={...})",
        )


class Serving(Awaited, Generic[Identity, RequestData]):
    """Finds the registrations of a request."""

    registrations: Registrations
    noun = "oidc"
    """What an application calls the object."""

    @property
    def engine(self) -> Engine:
        """What all requests share."""
        return self.registrations.engine

    if not TYPE_CHECKING:  # type checkers know the members

        def __getattr__(self, name: str) -> NoReturn:
            """Say what there is, for names of other libraries, and for `include_router(oidc)`."""
            hint = PEER_MEMBERS.get(name)
            if hint is None and (like := get_close_matches(name, dir(self), 1)):
                hint = f"is {self.noun}.{like[0]} meant?"
            told = f"{self.noun} has no {name!r}" + (f": {hint}" if hint else "")
            raise AttributeError(told, name=name, obj=self)

    @property
    def runtime(self) -> Runtime:
        """What serves every request, or the running one if each has its own registration.

        Raises ConfigurationError outside of a request that has a registration.
        """
        if (fixed := self.registrations.fixed) is not None:
            return fixed
        context = running(self.engine)
        if context is None or not context.is_served:
            raise misconfigured(
                "a function finds the registration of each request, and there is none here: "
                "oidc.registration(settings) is the instance for one registration"
            )
        return context.runtime

    def _context(self, connection: HTTPConnection) -> RequestContext:
        require_kind("the request or websocket", connection, HTTPConnection)
        return context_of(connection, self.engine)

    def _only(self) -> RelyingParty:
        """The only registration; raises ConfigurationError if there are several."""
        party = self.runtime.party
        if party.is_one_of_several:
            raise misconfigured("of several registrations, oidc.registration(settings) chooses one")
        return party

    def _named(self, role: Role, serve: EndpointFunction) -> EndpointFunction:
        """The endpoint of a route: 404 for a registration without it, 405 for another method.

        Starlette adds HEAD, with which a link scanner could use up the code of a callback.
        """
        instance = self.engine.name

        async def endpoint(request: Request) -> Response:
            with Owning(instance):
                context = self._context(request)
                party = context.registration(request) if role.is_of_one else context.party
                methods = role.methods(party.settings)
                if not methods:
                    raise HTTPException(404, headers=NO_STORE)
                if request.method not in methods:
                    told = _NO_LINK.format(request.url.path) if role is Role.LOGOUT else None
                    raise HTTPException(405, told, {"Allow": ", ".join(methods)})
                return await serve(request)

        endpoint.__name__ = role.route_name(instance)
        return endpoint


def serves(middleware: Middleware, instance: str) -> bool:
    """Whether it is the OIDCMiddleware of the instance."""
    given: tuple[Any, ...] = (*middleware.args, *middleware.kwargs.values())
    # The type: other middlewares may be given proxies, whose attributes are not there yet.
    ours = [value for value in given if issubclass(type(value), Serving)]
    return any(each.registrations.engine.name == instance for each in ours)
