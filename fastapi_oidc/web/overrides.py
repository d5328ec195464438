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
