"""The router with the library's routes at their conventional paths."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.endpoints import Endpoints
from fastapi_oidc.web.pages import NO_STORE, method_page
from fastapi_oidc.web.refusals import is_navigation, shown
from fastapi_oidc.web.routes import REGISTRATION, Role
from fastapi_oidc.web.runtime import Engine
from fastapi_oidc.web.serving import EndpointFunction, context_of

_NO_LINK: Final = (
    "Signing out is a POST. Links and images cannot do it, a form can: "
    '<form method="post" action="{}"><button>Sign out</button></form>'
)


def conventional_router(
    endpoints: Endpoints[Any, Any], settings: Collection[OIDCSettings] | None
) -> APIRouter:
    """A router to include with a prefix. Its routes are not in the app's OpenAPI document.

    They are plain Starlette routes, so dependencies of the application or of an outer router do not
    apply to them: a login that needs a session would never end. `settings` are those of the
    registrations, None if a function finds them. Raises ConfigurationError for a route that needs a
    store.
    """
    engine = endpoints.registrations.engine
    router = APIRouter(include_in_schema=False)
    for role in Role:
        methods = {method for each in settings or () for method in role.methods(each)}
        if settings is None:
            methods = {"GET", "POST"}
        lacks_store = not engine.endings.are_recorded
        if not methods or (lacks_store and role is Role.FRONT_CHANNEL_LOGOUT and settings is None):
            continue
        if lacks_store and role is Role.BACK_CHANNEL_LOGOUT:
            endpoint = endpoints.handle_back_channel_logout  # which says what is missing
        else:
            endpoint = getattr(endpoints, role.handler)()
        is_of_one = role.is_of_one and settings is not None and len(settings) > 1
        path = f"/{{{REGISTRATION}}}/{role}" if is_of_one else f"/{role}"
        # The response to `GET /logout` says how to sign out.
        matched = sorted({"GET", *methods} if role is Role.LOGOUT else methods)
        respond = _only(role, endpoint, engine)
        router.add_route(path, respond, methods=matched, name=role.route_name(engine.name))
    return router


def _only(role: Role, endpoint: EndpointFunction, engine: Engine) -> EndpointFunction:
    """The endpoint for the methods of the registration only; other methods get a 405 response.

    Starlette adds HEAD, with which a link scanner could use up the code of a callback. To a browser
    the response to `GET /logout` is a page. 404 for a registration without this route.
    """

    async def respond(request: Request) -> Response:
        context = context_of(request, engine)
        party = context.registration(request) if role.is_of_one else context.party
        methods = role.methods(party.settings)
        if not methods:
            raise HTTPException(404, headers=NO_STORE)
        if request.method in methods:
            return await endpoint(request)
        allowed, is_link = {"Allow": ", ".join(methods)}, role is Role.LOGOUT
        told = _NO_LINK.format(request.url.path)
        if not is_link or not is_navigation(request):
            raise HTTPException(405, told if is_link else None, allowed)
        page = method_page(told, party.settings.default_return_path)
        response = await shown(context, page)
        response.headers.update(allowed)
        return response

    return respond
