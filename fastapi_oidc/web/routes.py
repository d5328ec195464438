"""The library's routes and their paths in the application."""

from __future__ import annotations

import re
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.routing import NoMatchFound
from starlette.types import Scope

from fastapi_oidc.errors import OIDCError
from fastapi_oidc.settings import OIDCSettings

REGISTRATION: Final = "registration"
"""The path parameter with the name of a registration."""

_ANY: Final = "any_registration"


class Role(StrEnum):
    """The purpose of a route; its value is the conventional path below the prefix."""

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

    @property
    def handler(self) -> str:
        """The name of the method of `OIDC` that makes the endpoint function."""
        return f"{self.name.lower()}_handler"

    @property
    def is_of_one(self) -> bool:
        """Whether each of several registrations has a route of its own."""
        return self in (Role.CALLBACK, Role.FRONT_CHANNEL_LOGOUT, Role.BACK_CHANNEL_LOGOUT)

    def methods(self, settings: OIDCSettings) -> tuple[str, ...]:
        """The HTTP methods of a registration with these settings; none without the route."""
        match self:
            case Role.LOGOUT | Role.BACK_CHANNEL_LOGOUT:
                return ("POST",)
            case Role.CALLBACK if settings.response_mode == "form_post":
                return ("GET", "POST")
            case Role.FRONT_CHANNEL_LOGOUT if not settings.front_channel_logout:
                return ()
        return ("GET",)


def origin_of(connection: HTTPConnection) -> str:
    """The scheme and host of a request."""
    url = connection.base_url
    scheme = {"ws": "http", "wss": "https"}.get(url.scheme, url.scheme)
    return f"{scheme}://{url.netloc}"


def route_path(scope: Scope) -> str:
    """The path below `root_path`, which a proxy may have removed already."""
    root_path, path = scope.get("root_path"), str(scope["path"])
    if not root_path:
        return path
    below = path.removeprefix(root_path)
    return below if below.startswith("/") or not below else path


class Owning:
    """A block whose errors get the name of an instance."""

    __slots__ = ("_instance",)

    def __init__(self, instance: str) -> None:
        self._instance = instance

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OIDCError) and error.instance is None:
            error.instance = self._instance


class OwnRoutes:
    """The routes of an instance in an app; sessions are not preloaded there.

    Nor are they at the paths with the prefixes `excluded`, which end with a slash. A path may have
    the parameter `registration`: in the prefix, or for several registrations.
    """

    def __init__(self, app: Any, instance: str, excluded: tuple[str, ...]) -> None:
        found = {role: path_of(app, role.route_name(instance)) for role in Role}
        self.by_role = {role: path for role, path in found.items() if path is not None}
        """The paths of the routes that are mounted."""
        patterns = [re.escape(path).replace(_ANY, "[^/]+") for path in self.by_role.values()]
        self._pattern, self._excluded = re.compile("|".join(patterns) or "(?!)"), excluded

    def path_to(self, role: Role, registration: str) -> str | None:
        """The path of a registration's route; None if it is not mounted."""
        path = self.by_role.get(role)
        return None if path is None else path.replace(_ANY, registration)

    def __contains__(self, path: str) -> bool:
        """Whether `path`, without the `root_path`, belongs to the library."""
        return self._pattern.fullmatch(path) is not None

    def excludes(self, path: str) -> bool:
        """Whether the path has one of the prefixes that are excluded."""
        return bool(self._excluded) and f"{path}/".startswith(self._excluded)


def path_of(app: Any, name: str) -> str | None:
    """The path of the route `name` in an app, a mount or a router; None without the route."""
    for parameters in ({}, {REGISTRATION: _ANY}):
        with suppress(NoMatchFound):
            return str(app.url_path_for(name, **parameters))
    return None
