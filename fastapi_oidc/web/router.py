"""The library's routes at their conventional paths."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.session.model import Identity
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.endpoints import EndpointFunction, Endpoints
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.refusal import is_navigation
from fastapi_oidc.web.refusal_page import method_page, shown
from fastapi_oidc.web.request_contexts import context_of
from fastapi_oidc.web.routes import REGISTRATION, Role
from fastapi_oidc.web.runtime import RequestData
from fastapi_oidc.web.startup import reporting_missing_middleware

_NO_LINK: Final = (
    "Signing out is a POST. Links and images cannot do it, a form can: "
    '<form method="post"><button>Sign out</button></form>'
)


class Row(NamedTuple):
    """One route. `methods` are those that a registration with these settings has."""

    role: Role
    endpoint: EndpointFunction
    methods: Callable[[OIDCSettings], Collection[str]]
    is_of_one: bool = False
    """Whether each of several registrations has a route of its own."""


def conventional_router(
    endpoints: Endpoints[Identity, RequestData], settings: Collection[OIDCSettings] | None
) -> APIRouter:
    """A router to include with a prefix. Its routes are not in the app's OpenAPI document.

    They are plain Starlette routes, so dependencies of the application or of an outer router do not
    apply to them: a login that needs a session would never end. `settings` are those of the
    registrations, None if a function finds them.
    """
    engine = endpoints.registrations.engine
    lifespan = reporting_missing_middleware(engine.name)
    router = APIRouter(include_in_schema=False, lifespan=lifespan)
    for row in _rows(endpoints, settings):
        offered = {method for each in settings or () for method in row.methods(each)}
        methods = sorted(offered) if settings is not None else ["GET", "POST"]
        if not methods:
            continue
        is_of_one = row.is_of_one and settings is not None and len(settings) > 1
        path = f"/{{{REGISTRATION}}}/{row.role}" if is_of_one else f"/{row.role}"
        # The response to `GET /logout` says how to sign out.
        matched = {"GET", *methods} if row.role is Role.LOGOUT else methods
        name = row.role.route_name(engine.name)
        router.add_route(path, _only(row, engine.name), methods=[*matched], name=name)
    return router


def _rows(
    endpoints: Endpoints[Identity, RequestData], settings: Collection[OIDCSettings] | None
) -> list[Row]:
    """Every route of an instance; ConfigurationError for one that needs a store."""
    records_endings = endpoints.registrations.engine.records_endings
    has_front_channel = any(each.front_channel_logout for each in settings or ())
    rows = [
        Row(Role.LOGIN, endpoints.login_handler(), _get),
        Row(Role.CALLBACK, endpoints.callback_handler(), _of_callback, is_of_one=True),
        Row(Role.LOGOUT, endpoints.logout_handler(), _post),
        Row(Role.LOGGED_OUT, endpoints.logged_out_handler(), _get),
        Row(Role.SESSION, endpoints.session_handler(), _get),
        Row(Role.SESSION_MANAGEMENT, endpoints.session_management_handler(), _get),
        Row(Role.SCRIPT, endpoints.script_handler(), _get),
    ]
    if records_endings:
        back = endpoints.back_channel_logout_handler()
        rows.append(Row(Role.BACK_CHANNEL_LOGOUT, back, _post, is_of_one=True))
    if has_front_channel or (settings is None and records_endings):
        front = endpoints.front_channel_logout_handler()
        rows.append(Row(Role.FRONT_CHANNEL_LOGOUT, front, _of_front_channel, is_of_one=True))
    return rows


def _get(_: OIDCSettings) -> Collection[str]:
    return ["GET"]


def _post(_: OIDCSettings) -> Collection[str]:
    return ["POST"]


def _of_callback(settings: OIDCSettings) -> Collection[str]:
    return ["GET", "POST"] if settings.response_mode == "form_post" else ["GET"]


def _of_front_channel(settings: OIDCSettings) -> Collection[str]:
    return ["GET"] if settings.front_channel_logout else []


def _only(row: Row, instance: str) -> EndpointFunction:
    """The endpoint for the methods of the registration only; other methods get a 405 response.

    Starlette adds HEAD, with which a link scanner could use up the code of a callback. To a browser
    the response to `GET /logout` is a page. 404 for a registration without this route.
    """

    async def respond(request: Request) -> Response:
        context = context_of(request, instance)
        party = context.registration(request) if row.is_of_one else context.runtime.party
        methods = row.methods(party.settings)
        if not methods:
            raise HTTPException(404, headers=NO_STORE)
        if request.method in methods:
            return await row.endpoint(request)
        allowed, is_link = {"Allow": ", ".join(methods)}, row.role is Role.LOGOUT
        if not is_link or not is_navigation(request):
            raise HTTPException(405, _NO_LINK if is_link else None, allowed)
        response = await shown(context, method_page(context, _NO_LINK))
        response.headers.update(allowed)
        return response

    return respond
