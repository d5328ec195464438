"""Refusals as pages: what happened, that nothing was changed, and a link."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from examples.console.changes import CHANGES
from examples.console.creating import WAYS
from examples.console.events import EventLog, on_behalf_of
from examples.console.identity import User
from examples.console.monitors import Monitor
from examples.console.pages import NO_STORE, page
from examples.console.routes import change_of, monitors_of
from examples.console.view import machine_page, visit_of
from fastapi_oidc import OIDC, Caller, Code, OIDCError

LONGEST_PATH: Final = 200
"""The characters of a path that an event has."""
LONGEST_FORM: Final = 65_536
"""The largest form, in bytes, that is read from a user whose session has ended."""


def tell_refusals(app: FastAPI, oidc: OIDC[User]) -> None:
    """Pages for users; the library responds to scripts, and to users who only have to sign in."""

    async def oidc_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, OIDCError)
        session = await oidc.get_session(request) if error.status == 403 else None
        if session is not None:
            await _record(request, session.identity, refusal_sentence(request, error))
        elif error.code is Code.ACCESS_TOKEN_SCOPE:
            caller: Caller[User] = await request.app.state.api.caller(request)
            await _record(request, caller.identity, error.public_text)
        is_page = "text/html" in request.headers.get("accept", "")
        is_login = request.method == "GET" and error.code is Code.SESSION_REQUIRED
        if not is_page or is_login or error.code is Code.SESSION_STEP_UP_REQUIRED:
            raise error
        if error.code is Code.SESSION_REQUIRED:
            return await session_over(request)
        if session is None or "change" not in request.path_params:
            return message_page(error.status, error.public_text)
        monitor = _monitor(request, session.identity)
        if monitor is None:
            return message_page(404, "There is no such machine.")
        visit = await visit_of(
            request,
            session,
            tab=change_of(request.path_params["change"]).tab,
            refusal=refusal_sentence(request, error),
            status=error.status,
        )
        return await machine_page(monitor, visit)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if request.url.path.startswith("/api/"):
            return JSONResponse({"refused": str(error.detail)}, error.status_code, headers=NO_STORE)
        heading = "There is no such page." if error.detail == "Not Found" else str(error.detail)
        return message_page(error.status_code, heading)

    app.add_exception_handler(OIDCError, oidc_error)
    app.add_exception_handler(HTTPException, http_error)


def refusal_sentence(request: Request, error: OIDCError) -> str:
    """Why a signed-in user was refused."""
    change = CHANGES.get(request.path_params.get("change", ""))
    if error.code is Code.SESSION_FORBIDDEN and change is not None:
        return f"{change.not_yours} Nothing was changed."
    return f"{error.public_text} Nothing was changed."


async def _record(request: Request, user: User, why: str) -> None:
    """Record what a signed-in user was refused, as an event of the machine if there is one."""
    path, monitor = request.url.path[:LONGEST_PATH], _monitor(request, user)
    log = monitor.events if monitor is not None else EventLog("", monitors_of(request).records)
    what = f"open {path}" if request.method == "GET" else f"send a form to {path}"
    if path.startswith("/api/"):
        what = f"call {request.method} {path}"
    if (change := CHANGES.get(request.path_params.get("change", ""))) is not None:
        what = change.verb
    with on_behalf_of(user.person):
        await log.add(f"Tried to {what}.", why)


def _monitor(request: Request, user: User) -> Monitor | None:
    """The machine that the path names, if the user may view it."""
    name = request.path_params.get("machine", "")
    return monitors_of(request).get(name) if user.may("view", name) else None


async def session_over(request: Request) -> HTMLResponse:
    """The page if the session ended before the button was pressed; it shows the input again."""
    return message_page(
        401,
        "Your session has ended",
        "Nothing was changed. Sign in again to continue where you were.",
        f"/auth/login?{urlencode({'return_to': _page_of(request)})}",
        "Sign in",
        await _typed(request),
    )


def _page_of(request: Request) -> str:
    """The page with the form that was sent."""
    path, names = request.url.path, request.path_params
    if "change" not in names:
        return path.removesuffix("/input") if "machine" in names or path in WAYS else "/"
    return f"/machines/{names['machine']}/{change_of(names['change']).tab}"


async def _typed(request: Request) -> Mapping[str, str]:
    """The input of the form, by the labels of its fields; empty for an unknown form."""
    name = request.path_params.get("change", "")
    change = WAYS.get(request.url.path) or CHANGES.get(name)
    length = request.headers.get("content-length", "")
    if change is None or not length.isdecimal() or int(length) > LONGEST_FORM:
        return {}
    form = await request.form()
    return {
        field.label: str(form[key])
        for section in change.sections
        for field in section.fields
        if form.get(key := f"{section.key}.{field.name}") and field.kind not in ("flag", "item")
    }


def message_page(
    status: int,
    heading: str,
    text: str = "",
    way_on: str = "/",
    label: str = "All machines",
    typed: Mapping[str, str] = MappingProxyType({}),
) -> HTMLResponse:
    """A page with one message and one link, and what was `typed`."""
    values = {"heading": heading, "text": text, "way_on": way_on, "way_on_label": label}
    return page("message.html", {"user": None, "typed": typed, **values}, status=status)
