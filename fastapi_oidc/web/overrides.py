"""`app.dependency_overrides` for dependencies that are called for some requests only.

FastAPI calls every sub-dependency. A request with an access token needs no session, so
`require_auth` cannot be a sub-dependency of `require_user`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.web.misuse import Dependency, name_of
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.route_checks import calls_of


def override_of(connection: HTTPConnection, dependency: object) -> Callable[[], Any] | None:
    """The function without parameters that replaces `dependency` in this application.

    Raises ConfigurationError for a function with parameters, which only FastAPI can fill.
    """
    overrides = getattr(connection.scope.get("app"), "dependency_overrides", None)
    override: Callable[..., Any] | None = overrides.get(dependency) if overrides else None
    if override is not None and (
        inspect.signature(override).parameters or inspect.isgeneratorfunction(override)
    ):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "require_user calls the override of this dependency itself: use a function without "
            "parameters, or override require_user",
        )
    return override


def advise_on_overrides(context: RequestContext[Any, Any]) -> None:
    """Log that an override reaches nothing of the endpoint that refused a request."""
    overrides = getattr(context.scope["app"], "dependency_overrides", {})
    calls = [id(each) for each in calls_of(context.scope)]
    lost = [each for each in overrides if isinstance(each, Dependency) and id(each) not in calls]
    if lost:
        context.runtime.party.announcer.advise(
            "dependency_overrides",
            f"the endpoint that refused a request does not depend on {name_of(lost[0])}, which is "
            "overridden. Override the object in its Depends(...): each oidc.require_role(...) and "
            "oidc.require(...) makes another one, and all of them depend on oidc.require_auth",
        )
