"""The contexts of one request, one for each OIDC instance that it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from enum import Enum
from typing import Any, Final, TypeAlias
from weakref import ref

from starlette.requests import HTTPConnection
from starlette.types import Scope

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.web.cookie_header import cookie_names, require_parsable
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.misuse import SCOPE_KEY, Call, is_lost, require_awaited
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.routes import Application, Entrance, Role, RoutePaths, mounted_paths
from fastapi_oidc.web.runtime import Runtime

FindPaths: TypeAlias = Callable[[Application, str], Mapping[Role, str]]

of_this_task: Final[ContextVar[ref[RequestContexts] | None]] = ContextVar(
    "fastapi_oidc", default=None
)
"""The contexts of the running task's request; a task that outlives its request has no tokens."""

_NOBODY: OIDCLocals[Any, Any] = OIDCLocals()


class Served:
    """One instance of a middleware. `excluded` are path prefixes that end with a slash.

    `find_paths` returns the paths of the instance's routes in the app.
    """

    def __init__(
        self,
        runtime: Runtime[Any, Any],
        excluded: tuple[str, ...],
        find_paths: FindPaths = mounted_paths,
    ) -> None:
        self.runtime, self._excluded, self._find_paths = runtime, excluded, find_paths
        self.cookie = runtime.party.sessions.names.session.encode()
        self._paths: RoutePaths | None = None
        self._own: frozenset[str] = frozenset()

    def paths_for(self, entrance: Entrance) -> RoutePaths:
        """The paths of the instance's routes in the app."""
        if self._paths is None or self._paths.root_path != entrance.root_path:
            self._paths = RoutePaths(self._mounted(entrance), entrance.root_path)
            self._own = frozenset(self._paths.paths.values())
        return self._paths

    def leaves_alone(self, entrance: Entrance) -> bool:
        """Whether the path is the library's own or excluded: sessions are not preloaded there."""
        self.paths_for(entrance)
        path = entrance.path
        return path in self._own or (bool(self._excluded) and f"{path}/".startswith(self._excluded))

    def _mounted(self, entrance: Entrance) -> Mapping[Role, str]:
        if self._paths is not None:
            return self._paths.paths
        return self._find_paths(entrance.app, self.runtime.name)


class Table:
    """The instances of one middleware."""

    def __init__(self, served: Iterable[Served]) -> None:
        self.by_name = {each.runtime.name: each for each in served}
        self.by_cookie = {
            each.runtime.party.sessions.names.session: each for each in self.by_name.values()
        }
        self.nobody = dict.fromkeys(self.by_name, _NOBODY)
        self.only = next(iter(self.by_name.values())) if len(self.by_name) == 1 else None

    def joined(self, other: Table) -> Table:
        """The instances of both; raises ConfigurationError when two have the same name."""
        for name in self.by_name.keys() & other.by_name.keys():
            _require_same(self.by_name[name].runtime, other.by_name[name].runtime)
        return Table([*other.by_name.values(), *self.by_name.values()])

    def expected(self, headers: Iterable[tuple[bytes, bytes]]) -> list[Served]:
        """The instances whose session cookie the request has, or seems to have."""
        if self.only is not None:
            for name, line in headers:
                if name == b"cookie" and self.only.cookie in line:
                    return [self.only]
            return []
        known = map(self.by_cookie.get, cookie_names(headers))
        return [served for served in known if served is not None]

    def inside(self, outer: RequestContexts | None) -> Table:
        """The instances that no outer app serves; an outer app would write their cookies."""
        if outer is None:
            return self
        for name in self.by_name.keys() & set(outer.names):
            _require_same(self.by_name[name].runtime, outer.required(name).runtime)
        return Table(each for name, each in self.by_name.items() if name not in outer.names)


class Caching(Enum):
    """For which requests a cache may reuse a response."""

    ANYBODY = "anybody"
    VARIES = "whoever sends the same cookies"
    PERSONAL = "nobody else"


class RequestContexts:
    """Opens contexts on demand, so instances that a request does not use cost nothing.

    `outer` are the contexts of an outer app for the same request.
    """

    def __init__(self, table: Table, scope: Scope, outer: RequestContexts | None) -> None:
        self._table, self._scope, self._outer = table, scope, outer
        self._entrance = Entrance.of(scope)
        self._opened: dict[str, RequestContext[Any, Any]] = {}
        self._calls: list[Call] = []
        self.is_open = True
        """Whether the response has not started, so cookies can still be sent."""
        self.only = table.only.runtime.name if table.only is not None and outer is None else None
        """The name of the instance that serves this request, if it is the only one."""

    @property
    def app(self) -> object:
        """The application that has the middleware."""
        return self._entrance.app

    @property
    def names(self) -> list[str]:
        """The names of the instances that serve this request."""
        return [*self._table.by_name, *(self._outer.names if self._outer else ())]

    def required(self, name: str) -> RequestContext[Any, Any]:
        """The context of the instance `name`, opened if necessary; raises KeyError."""
        context = self._opened.get(name)
        if context is not None:
            return context
        served = self._table.by_name.get(name)
        if served is None:
            if self._outer is None:
                raise KeyError(name)
            return self._outer.required(name)
        context = RequestContext(served.runtime, self._scope, self._entrance, served.paths_for)
        context.is_open = self.is_open
        self._opened[name] = context
        return context

    def note(self, call: Call) -> None:
        """Remember a call of a guard until it is awaited. After the start it cannot matter."""
        if self.is_open:
            self._calls = [*filter(is_lost, self._calls), call]

    def require_awaited(self) -> None:
        """Raise ConfigurationError for a guard that was called without `await`."""
        calls, self._calls = self._calls, []
        require_awaited(calls)

    def close(self) -> None:
        """The response starts, or none will: no further cookies can be sent."""
        self.is_open = False
        for context in self._opened.values():
            context.is_open = False

    def owner(self, instance: str | None) -> RequestContext[Any, Any]:
        """The context of an error: of the instance that it names, else of one that was used."""
        names = self.names
        return self.required(instance if instance in names else next(iter(self._opened), names[0]))

    async def load(self) -> None:
        """Load the locals of each instance whose session cookie the request has."""
        require_parsable(self._scope["headers"])
        self._scope.setdefault("state", {}).update(self._table.nobody)
        for served in self._table.expected(self._scope["headers"]):
            if not served.leaves_alone(self._entrance):
                context = self.required(served.runtime.name)
                if context.is_of_trusted_origin:
                    await context.locals()

    def caching(self) -> Caching:
        """How caches may reuse the response."""
        caching = Caching.ANYBODY
        for context in self._opened.values():
            if context.known is not None:
                if context.known.session is not None:
                    return Caching.PERSONAL
                caching = Caching.VARIES
        if caching is Caching.ANYBODY:
            for served in self._table.by_name.values():
                if not served.leaves_alone(self._entrance):
                    return Caching.VARIES
        return caching

    def has_changes(self) -> bool:
        """Whether there may be cookie changes to send with the response."""
        for context in self._opened.values():  # noqa: SIM110 - at every request
            if context.has_changes:
                return True
        return False

    def end_cleared(self) -> None:
        """Record the end of every session that the request has cleared."""
        for context in self._opened.values():
            context.end_cleared()

    async def taken_changes(self) -> list[CookieChange]:
        """Take the current cookie changes, for the caller to send."""
        return [
            change
            for context in self._opened.values()
            if context.has_changes
            for change in await context.taken_changes()
        ]


def context_of(connection: HTTPConnection, name: str | None = None) -> RequestContext[Any, Any]:
    """The context of the instance `name`, or of the only instance.

    Raises ConfigurationError: configuration.middleware_missing, configuration.instance_ambiguous,
    or configuration.invalid in a task that outlives its request.
    """
    contexts: RequestContexts | None = connection.scope.get(SCOPE_KEY)
    if contexts is None and SCOPE_KEY in connection.scope:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "this request has ended: a task that outlives it must read the session earlier",
        )
    if contexts is not None and (only := contexts.only) is not None and name in (None, only):
        return contexts.required(only)
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
    return contexts.required(name or names[0])


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


def _require_same(runtime: Runtime[Any, Any], other: Runtime[Any, Any]) -> None:
    if runtime is not other:
        raise ConfigurationError(
            Code.CONFIGURATION_INSTANCE_AMBIGUOUS,
            f"two OIDC instances are named {runtime.name!r}; give each a name of its own",
        )
