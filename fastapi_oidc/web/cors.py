"""CORS headers for OIDCMiddleware's own responses, if the application has a CORSMiddleware.

A middleware handles the responses of those that were added before it. So a CORSMiddleware that was
added before OIDCMiddleware does not handle its refusals, and a browser would show "Failed to fetch"
in place of the 401 (Fetch 3.2.3).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from fastapi_oidc.protocol.error_text import shown
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.runtime import Engine

_log = logging.getLogger("fastapi_oidc.configuration")


def with_cors(app: Any, instances: Collection[str], response: ASGIApp) -> ASGIApp:
    """`response`, wrapped in the CORSMiddlewares of `app` that are inside OIDCMiddleware."""
    for each in reversed(_cors_inside(app, instances)):
        response = each.cls(response, *each.args, **each.kwargs)
    return response


def report_cors_inside(app: Any, instances: Collection[str]) -> None:
    """Log one warning about a CORSMiddleware that does not handle every response."""
    if _cors_inside(app, instances):
        _log.warning(
            "CORSMiddleware was added before OIDCMiddleware, and does not see what the middlewares "
            "after it respond. Refusals of OIDCMiddleware get its headers, others do not.\n"
            "Move app.add_middleware(CORSMiddleware, ...) below the line with OIDCMiddleware."
        )


def advise_on_cors(context: RequestContext[Any, Any]) -> None:
    """Log that a script of another origin was refused and cannot read why, without CORS."""
    app, headers = context.scope["app"], context.connection.headers
    is_foreign = headers.get("sec-fetch-site") in ("same-site", "cross-site")
    if headers.get("sec-fetch-mode") != "cors" or not is_foreign:
        return
    if not any(_is_cors(each) for each in getattr(app, "user_middleware", ())):
        context.runtime.party.announcer.advise(
            "CORSMiddleware",
            f"a script at {shown(headers.get('origin'))} was refused and cannot read why, so that "
            'its browser says "Failed to fetch". If the page is yours, add CORSMiddleware',
        )


def serves(middleware: Middleware, instances: Collection[str]) -> bool:
    """Whether it is the OIDCMiddleware of one of `instances`."""
    given = (*middleware.args, *middleware.kwargs.values())
    found = [getattr(getattr(value, "registrations", None), "engine", None) for value in given]
    return any(isinstance(each, Engine) and each.name in instances for each in found)


def _cors_inside(app: Any, instances: Collection[str]) -> Sequence[Middleware]:
    """The CORSMiddlewares inside OIDCMiddleware; Starlette lists the outermost first."""
    added: list[Middleware] = getattr(app, "user_middleware", [])
    places = [place for place, each in enumerate(added) if serves(each, instances)]
    inside = added[places[-1] + 1 :] if places else []
    return [each for each in inside if _is_cors(each)]


def _is_cors(middleware: Middleware) -> bool:
    return isinstance(middleware.cls, type) and issubclass(middleware.cls, CORSMiddleware)
