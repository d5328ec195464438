"""From an error to a response: a page, JSON or a websocket close, with a code and a short text."""

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
"""Seconds after which a store that is down or busy is asked again."""

_FIRST_VISITS = (Code.SESSION_REQUIRED, Code.ACCESS_TOKEN_REQUIRED)
_POLICY_VIOLATION, _INTERNAL_ERROR = 1008, 1011


class SignInRequired(SessionError):
    """A guard found no session: the one refusal that leads to a login by itself.

    Any other one could be raised by the login, which would then begin again for ever. `challenge`
    is a further one for the `WWW-Authenticate` header; `role` is the route at which to sign in.
    """

    challenge: str = ""
    role: Role = Role.LOGIN


class StepUpRequired(SessionError):
    """A guard found a session whose authentication is not enough for `step_up` (RFC 9470).

    It leads to a login, which refuses what the provider sends back unless that is enough.
    `fields` are those of a form that was posted, None for any other request.
    """

    def __init__(self, step_up: StepUp, fields: Fields | None) -> None:
        explanation = f"the guard requires {step_up.parameters()}"
        super().__init__(Code.SESSION_STEP_UP_REQUIRED, explanation)
        self.step_up, self.fields = step_up, fields


async def refusal_response(context: RequestContext[Any, Any], error: OIDCError) -> Response:
    """A page for a person, JSON for a script; without a session a person is sent to sign in."""
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
    if isinstance(error, StepUpRequired) and Role.LOGIN in context.paths.paths:
        query = urlencode(error.step_up.parameters())
        login = f"{context.paths.required(Role.LOGIN)}?{query}"
        return step_up_page(context, error, login, error.fields)
    return refusal_page(context, error)


def is_navigation(connection: HTTPConnection) -> bool:
    """Whether a person's browser shows the response as a page (Fetch Metadata, else Accept)."""
    mode = connection.headers.get("sec-fetch-mode")
    if mode is not None:
        return mode == "navigate"
    return "text/html" in connection.headers.get("accept", "")


def websocket_close_code(status: int) -> int:
    """RFC 6455 7.4.1: a matter of policy, or a failure on this side."""
    return _POLICY_VIOLATION if status < HTTPStatus.INTERNAL_SERVER_ERROR else _INTERNAL_ERROR


def announce_refusal(context: RequestContext[Any, Any], error: OIDCError) -> None:
    """Every refusal is one event, but for the ordinary first visit without session or token."""
    if error.code not in _FIRST_VISITS and not error.is_announced:
        party = context.runtime.party
        party.announcer(refusal(EventName.REQUEST_REFUSED, error, party.clock.now()))


def _json(context: RequestContext[Any, Any], error: OIDCError) -> Response:
    content = {"detail": error.public_text, "code": str(error.code)}
    if ended := error.details.get("ended"):
        content["ended"] = str(ended)
    return JSONResponse(content, error.status, headers=_headers(context, error))


def _headers(context: RequestContext[Any, Any], error: OIDCError) -> dict[str, str]:
    """RFC 9110: a 401 says how to authenticate (11.6.1), here by a cookie that a login gives; a 503
    says when to come again, in seconds (10.2.3)."""
    headers = dict(NO_STORE)
    if isinstance(error, AccessTokenError):
        headers |= {"WWW-Authenticate": error.challenge} if error.challenge else {}
    elif error.status is HTTPStatus.UNAUTHORIZED:
        name, cookie = context.runtime.name, context.runtime.party.names.session
        headers["WWW-Authenticate"] = f'Cookie realm="{name}", cookie-name="{cookie}"'
        if isinstance(error, SignInRequired) and error.challenge:
            headers["WWW-Authenticate"] += f", {error.challenge}"
    if isinstance(error, StepUpRequired):
        headers["WWW-Authenticate"] = error.step_up.challenge()
    if error.status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(error.details.get("retry_after", RETRY_AFTER))
    return headers


def _is_to_return_to(context: RequestContext[Any, Any]) -> bool:
    """Whether a login can come back to this request; to a route of the library it cannot."""
    return is_read(context) and context.path not in context.paths


def _login_url(context: RequestContext[Any, Any], error: OIDCError) -> str:
    """The login route, to come back to where the person wanted to go."""
    role = error.role if isinstance(error, SignInRequired) else Role.LOGIN
    more = error.step_up.parameters() if isinstance(error, StepUpRequired) else {}
    query = urlencode({"return_to": requested_path(context.connection), **more})
    return f"{context.paths.required(role)}?{query}"
