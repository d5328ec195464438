"""Refusals as pages: what happened, that nothing was changed, and a link."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from examples.console.account import User, admit
from examples.console.creating import WAYS
from examples.console.events import EventLog
from examples.console.pages import NO_STORE, page
from examples.console.routes import monitors_of
from fastapi_oidc import Code, OIDCError

LONGEST_PATH: Final = 200
"""The characters of a path that an event has."""


async def refusal(request: Request, error: Exception) -> Response:
    """The page, after an event of what a signed-in user was refused.

    Raises an OIDCError to which the library responds: for scripts, and for users who only have to
    sign in.
    """
    if isinstance(error, HTTPException):
        return await _refusal_of_console(request, error)
    assert isinstance(error, OIDCError)
    if getattr(request.state, "told", None) is not error:  # it comes again if it is raised
        request.state.told = error
        await _note(request, error)
    is_page = "text/html" in request.headers.get("accept", "")
    is_login = request.method == "GET" and error.code is Code.SESSION_REQUIRED
    if not is_page or is_login or error.code is Code.SESSION_STEP_UP_REQUIRED:
        raise error
    if error.code is Code.SESSION_REQUIRED:
        return session_over(request)
    return message_page(error.status, error.public_text)


async def _refusal_of_console(request: Request, error: HTTPException) -> Response:
    if request.method not in ("GET", "HEAD"):
        await _record(request, str(error.detail))
    if request.url.path.startswith("/api/"):
        return JSONResponse({"refused": str(error.detail)}, error.status_code, headers=NO_STORE)
    heading = "There is no such page." if error.detail == "Not Found" else str(error.detail)
    return message_page(error.status_code, heading)


async def _note(request: Request, error: OIDCError) -> None:
    if error.code is Code.ACCESS_TOKEN_SCOPE:
        admit(request, (await request.app.state.api.caller(request)).identity)
    if error.status == 403:
        await _record(request, error.public_text)


async def _record(request: Request, why: str) -> None:
    """Record what the user was refused, as an event of the machine if they may view it."""
    if not isinstance(user := getattr(request.state, "user", None), User):
        return
    monitors, name = monitors_of(request), request.path_params.get("machine", "")
    monitor = monitors.get(name) if user.may("view", name) else None
    log = EventLog("", monitors.records) if monitor is None else monitor.events
    await log.add(f"Tried to call {request.method} {request.url.path[:LONGEST_PATH]}.", why)


def session_over(request: Request) -> HTMLResponse:
    """The page if the session ended before the button was pressed; it leads back to the form."""
    path = request.url.path.removesuffix("/input")
    back = path if path.startswith("/machines/") or path in WAYS else "/"
    return message_page(
        401,
        "Your session has ended",
        "Nothing was changed. Sign in again to continue where you were.",
        f"/auth/login?{urlencode({'return_to': back})}",
        "Sign in",
    )


def message_page(
    status: int, heading: str, text: str = "", way_on: str = "/", label: str = "All machines"
) -> HTMLResponse:
    """A page with one message and one link."""
    values = {"heading": heading, "text": text, "way_on": way_on, "way_on_label": label}
    return page("message.html", {"user": None, **values}, status=status)
