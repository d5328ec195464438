"""The library's routes and their paths in the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from starlette.datastructures import URLPath
from starlette.routing import NoMatchFound
from starlette.types import Scope

from fastapi_oidc.errors import Code, ConfigurationError


class Role(StrEnum):
    """The purpose of a route; its value is the conventional path below the prefix."""

    CHOOSER = "choose-provider"
    LOGIN = "login"
    CALLBACK = "callback"
    LOGOUT = "logout"
    LOGGED_OUT = "logged-out"
    FRONT_CHANNEL_LOGOUT = "frontchannel-logout"
    BACK_CHANNEL_LOGOUT = "backchannel-logout"
    SESSION = "session"
    SESSION_MANAGEMENT = "session-management"
    SCRIPT = "oidc-context.js"

    def route_name(self, instance: str) -> str:
        """The name of the route, and of its endpoint function, in the instance's app."""
        return f"{instance}_{self.name.lower()}"


class Application(Protocol):
    """The app in which the middleware runs."""

    def url_path_for(self, name: str, /, **path_params: str) -> URLPath:
        """The path of the route with this name."""
        ...


class Entrance(NamedTuple):
    """The app and path of a request at the middleware, because inner mounts change the scope."""

    app: Application
    root_path: str
    path: str

    @classmethod
    def of(cls, scope: Scope) -> Entrance:
        """The entrance of a request with this scope, at the middleware."""
        return cls(scope["app"], scope.get("root_path", ""), route_path(scope))


def route_path(scope: Scope) -> str:
    """The path below `root_path`, which a proxy may have removed already."""
    root_path, path = scope.get("root_path"), str(scope["path"])
    if not root_path:
        return path
    below = path.removeprefix(root_path)
    return below if below.startswith("/") or not below else path


def mounted_paths(app: Application, instance: str) -> Mapping[Role, str]:
    """The paths of the instance's routes in `app`, without routes that are not mounted."""
    found: dict[Role, str] = {}
    for role in Role:
        try:
            found[role] = app.url_path_for(role.route_name(instance))
        except NoMatchFound:
            continue
    return found


@dataclass(frozen=True, slots=True)
class RoutePaths:
    """The paths of the routes in the app, and the `root_path` before them in browsers."""

    paths: Mapping[Role, str]
    root_path: str = ""

    def required(self, role: Role) -> str:
        """The path for `role` as browsers request it.

        Raises ConfigurationError (configuration.route_missing).
        """
        if role not in self.paths:
            raise ConfigurationError(
                Code.CONFIGURATION_ROUTE_MISSING,
                f"the {role} route is not mounted: app.include_router(oidc.router, prefix='/auth')",
            )
        return self.root_path + self.paths[role]

    @property
    def sign_in(self) -> str:
        """The path for signing in: the page with the choice of providers, if there are several.

        Raises ConfigurationError (configuration.route_missing).
        """
        return self.required(Role.CHOOSER if Role.CHOOSER in self.paths else Role.LOGIN)

    def __contains__(self, path: str) -> bool:
        """Whether `path`, without the `root_path`, belongs to the library."""
        return path in self.paths.values()
