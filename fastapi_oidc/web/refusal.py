"""Responses to errors: a page, JSON or a websocket close, with a code and a short text."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, SessionError
from fastapi_oidc.events import EventName, refusal
from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.web import responses
from fastapi_oidc.web.challenge import AccessTokenError
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.pages import Fields, Page
from fastapi_oidc.web.refusal_page import is_read, refusal_page, shown, step_up_page
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.requests import requested_path
from fastapi_oidc.web.routes import Role

RETRY_AFTER = 5
"""The `Retry-After`, in seconds, while a store is down or busy."""

_FIRST_VISITS = (Code.SESSION_REQUIRED, Code.ACCESS_TOKEN_REQUIRED)
_POLICY_VIOLATION, _INTERNAL_ERROR = 1008, 1011


class SignInRequired(SessionError):
    """A guard found no session. Only this error redirects to a login automatically.

    A login can raise the other errors itself, so redirecting them could loop forever. `challenge`
    is added to the `WWW-Authenticate` header.
    """

    challenge: str = ""


class StepUpRequired(SessionError):
    """A guard found a session whose authentication does not satisfy `step_up` (RFC 9470).

    It leads to a login, which fails unless the new authentication satisfies `step_up`. `fields` are
    those of a posted form, None for any other request.
    """

    def __init__(self, step_up: StepUp, fields: Fields | None) -> None:
        explanation = f"the guard requires {step_up.parameters()}"
        super().__init__(Code.SESSION_STEP_UP_REQUIRED, explanation)
        self.step_up, self.fields = step_up, fields


async def refusal_response(context: RequestContext[Any, Any], error: OIDCError) -> Response:
    """A page for navigations, JSON for scripts. Navigations without a session go to the login."""
    if isinstance(error, AccessTokenError) or not is_navigation(context.connection):
        return _json(context, error)
    if isinstance(error, SignInRequired | StepUpRequired) and _is_to_return_to(context):
        try:
            url = _login_url(context, error)
        except ConfigurationError as missing:
            announce_refusal(context, missing)
            error = missing
        else:
            return responses.redirect(url)
    response = await shown(context, _page(context, error))
    response.headers.update(_headers(context, error))
    return response


def _page(context: RequestContext[Any, Any], error: OIDCError) -> Page:
    if isinstance(error, StepUpRequired) and context.paths.find(Role.LOGIN) is not None:
        query = urlencode(error.step_up.parameters())
        login = f"{context.paths.required(Role.LOGIN)}?{query}"
        return step_up_page(context, error, login, error.fields)
    return refusal_page(context, error)


def is_navigation(connection: HTTPConnection) -> bool:
    """Whether a browser shows the response as a page (by Fetch Metadata, else Accept)."""
    mode = connection.headers.get("sec-fetch-mode")
    if mode is not None:
        return mode == "navigate"
    return "text/html" in connection.headers.get("accept", "")


def websocket_close_code(status: int) -> int:
    """The close code (RFC 6455 7.4.1): policy violation, or internal error."""
    return _POLICY_VIOLATION if status < HTTPStatus.INTERNAL_SERVER_ERROR else _INTERNAL_ERROR


def announce_refusal(context: RequestContext[Any, Any], error: OIDCError) -> None:
    """Announce one event for each refusal, except first visits without a session or token.

    The refusal of a websocket is always announced: its client learns no cause.
    """
    is_websocket = context.scope["type"] == "websocket"
    if is_websocket:
        error.details["websocket"] = context.connection.url.replace(query="")
    if (is_websocket or error.code not in _FIRST_VISITS) and not error.is_announced:
        party = context.runtime.party
        party.sessions.announcer(refusal(EventName.REQUEST_REFUSED, error, party.clock.now()))


def _json(context: RequestContext[Any, Any], error: OIDCError) -> Response:
    content = {"detail": error.public_text, "code": str(error.code)}
    if ended := error.details.get("ended"):
        content["ended"] = str(ended)
    return JSONResponse(content, error.status, headers=_headers(context, error))


def _headers(context: RequestContext[Any, Any], error: OIDCError) -> dict[str, str]:
    """The headers of a refusal.

    A 401 has `WWW-Authenticate` (RFC 9110 11.6.1), by default for the cookie of a login. A 503 has
    `Retry-After` in seconds (10.2.3).
    """
    headers = dict(NO_STORE)
    if isinstance(error, AccessTokenError):
        headers |= {"WWW-Authenticate": error.challenge} if error.challenge else {}
    elif error.status is HTTPStatus.UNAUTHORIZED:
        name, cookie = context.runtime.name, context.runtime.party.sessions.names.session
        headers["WWW-Authenticate"] = f'Cookie realm="{name}", cookie-name="{cookie}"'
        if isinstance(error, SignInRequired) and error.challenge:
            headers["WWW-Authenticate"] += f", {error.challenge}"
    if isinstance(error, StepUpRequired):
        headers["WWW-Authenticate"] = error.step_up.challenge()
    if error.status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(error.details.get("retry_after", RETRY_AFTER))
    return headers


def _is_to_return_to(context: RequestContext[Any, Any]) -> bool:
    """Whether a login can return to this request; it cannot return to the library's routes."""
    return is_read(context) and context.path not in context.paths


def _login_url(context: RequestContext[Any, Any], error: OIDCError) -> str:
    """The URL of the login route, with the requested page to return to."""
    more = error.step_up.parameters() if isinstance(error, StepUpRequired) else {}
    query = urlencode({"return_to": requested_path(context.connection), **more})
    return f"{context.paths.required(Role.LOGIN)}?{query}"
