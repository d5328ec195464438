"""The library's routes at their conventional paths."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter

from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.endpoints import Endpoints
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import RequestData
from fastapi_oidc.web.startup import reporting_missing_middleware


def conventional_router(
    endpoints: Endpoints[Identity, RequestData],
    response_mode: Literal["query", "form_post"],
    *,
    front_channel_logout: bool = False,
) -> APIRouter:
    """A router to include with a prefix; its routes are not part of the app's API document."""
    lifespan = reporting_missing_middleware(endpoints.instance)
    router = APIRouter(include_in_schema=False, lifespan=lifespan)
    callback_methods = ["GET", "POST"] if response_mode == "form_post" else ["GET"]
    routes = [
        (Role.LOGIN, endpoints.login(), ["GET"]),
        (Role.CALLBACK, endpoints.callback(), callback_methods),
        (Role.LOGOUT, endpoints.logout(), ["POST"]),
        (Role.LOGGED_OUT, endpoints.logged_out(), ["GET"]),
        (Role.SESSION, endpoints.session(), ["GET"]),
        (Role.SESSION_MANAGEMENT, endpoints.session_management(), ["GET"]),
        (Role.SCRIPT, endpoints.script(), ["GET"]),
    ]
    if endpoints.has_back_channel_logout:
        routes.append((Role.BACK_CHANNEL_LOGOUT, endpoints.back_channel_logout(), ["POST"]))
    if front_channel_logout:
        routes.append((Role.FRONT_CHANNEL_LOGOUT, endpoints.front_channel_logout(), ["GET"]))
    for role, endpoint, methods in routes:
        router.add_api_route(f"/{role}", endpoint, methods=methods, response_model=None)
    return router
