"""`app.dependency_overrides` for a dependency that another one calls only in some requests.

FastAPI replaces sub-dependencies, all of which it calls. A caller with a token has no session to
require, so `require_user` cannot have `require_auth` as a sub-dependency.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, ConfigurationError


def override_of(connection: HTTPConnection, dependency: object) -> Callable[[], Any] | None:
    """The function without parameters that replaces `dependency` in this application.

    Raises ConfigurationError for one with parameters, which only FastAPI could fill.
    """
    overrides = getattr(connection.scope.get("app"), "dependency_overrides", None)
    override: Callable[..., Any] | None = overrides.get(dependency) if overrides else None
    if override is not None and (
        inspect.signature(override).parameters or inspect.isgeneratorfunction(override)
    ):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "require_user calls the override of this dependency itself: it is a function without "
            "parameters; or override require_user",
        )
    return override
