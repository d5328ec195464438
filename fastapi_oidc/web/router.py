"""The library's routes at their conventional paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.session.model import Identity
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.endpoints import Endpoints, OnSuccess
from fastapi_oidc.web.refusal import is_navigation
from fastapi_oidc.web.refusal_page import method_page, shown
from fastapi_oidc.web.request_contexts import context_of
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import RequestData
from fastapi_oidc.web.startup import reporting_missing_middleware

_NO_LINK: Final = (
    "Signing out is a POST. Links and images cannot do it, a form can: "
    '<form method="post"><button>Sign out</button></form>'
)


def conventional_router(
    endpoints: Endpoints[Identity, RequestData], settings: OIDCSettings
) -> APIRouter:
    """A router to include with a prefix. Its routes are not in the app's OpenAPI document.

    They are plain Starlette routes, so dependencies of the application or of an outer router do not
    apply to them: a login that needs a session would never end.
    """
    name = endpoints.runtime.name
    router = APIRouter(include_in_schema=False, lifespan=reporting_missing_middleware(name))
    for row in routes_of(endpoints, settings):
        add_route(router, f"/{row.role}", row, name)
    return router


class Row(NamedTuple):
    """One route of an instance."""

    role: Role
    endpoint: Callable[[Request], Awaitable[Response]]
    methods: Collection[str]


def routes_of(
    endpoints: Endpoints[Identity, RequestData],
    settings: OIDCSettings,
    *,
    on_success: OnSuccess[Identity] | None = None,
) -> list[Row]:
    """Every route of one instance."""
    callback_methods = ["GET", "POST"] if settings.response_mode == "form_post" else ["GET"]
    rows = [
        Row(Role.LOGIN, endpoints.login_handler(), ["GET"]),
        Row(Role.CALLBACK, endpoints.callback_handler(on_success=on_success), callback_methods),
        Row(Role.LOGOUT, endpoints.logout_handler(), ["POST"]),
        Row(Role.LOGGED_OUT, endpoints.logged_out_handler(), ["GET"]),
        Row(Role.SESSION, endpoints.session_handler(), ["GET"]),
        Row(Role.SESSION_MANAGEMENT, endpoints.session_management_handler(), ["GET"]),
        Row(Role.SCRIPT, endpoints.script_handler(), ["GET"]),
    ]
    if endpoints.runtime.party.sessions.records_endings:
        endpoint = endpoints.back_channel_logout_handler()
        rows.append(Row(Role.BACK_CHANNEL_LOGOUT, endpoint, ["POST"]))
    if settings.front_channel_logout:
        endpoint = endpoints.front_channel_logout_handler()
        rows.append(Row(Role.FRONT_CHANNEL_LOGOUT, endpoint, ["GET"]))
    return rows


def add_route(router: APIRouter, path: str, row: Row, instance: str) -> None:
    """Mount `row` at `path`, with the name by which the instance finds it."""
    matched = ["GET", *row.methods] if row.role is Role.LOGOUT else list(row.methods)
    endpoint = only(row.endpoint, row.methods, instance)
    router.add_route(path, endpoint, methods=matched, name=row.role.route_name(instance))


def only(
    endpoint: Callable[[Request], Awaitable[Response]], methods: Collection[str], instance: str
) -> Callable[[Request], Awaitable[Response]]:
    """`endpoint` for `methods` only; other methods get a 405 response.

    Starlette adds HEAD, with which a link scanner could use up the code of a callback. The response
    to `GET /logout` says how to sign out; to a browser it is a page.
    """

    async def respond(request: Request) -> Response:
        if request.method in methods:
            return await endpoint(request)
        allowed, detail = {"Allow": ", ".join(methods)}, None if "GET" in methods else _NO_LINK
        if detail is None or not is_navigation(request):
            raise HTTPException(405, detail, allowed)
        context = context_of(request, instance)
        response = await shown(context, method_page(context, detail))
        response.headers.update(allowed)
        return response

    return respond
