"""Refusals as pages: what happened, that nothing was changed, and a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from examples.console.changes import CHANGES, Change
from examples.console.creating import WAYS
from examples.console.events import on_behalf_of
from examples.console.identity import User
from examples.console.pages import NO_STORE, page
from examples.console.routes import change_of, monitors_of
from examples.console.view import machine_page, visit_of
from fastapi_oidc import OIDC, Code, OIDCError, OIDCSession

LONGEST_FORM: Final = 65_536
"""The largest form, in bytes, that is read from a user whose session has ended."""


def tell_refusals(app: FastAPI, oidc: OIDC[User]) -> None:
    """Pages for users; the library responds to scripts, and to users who only have to sign in."""

    async def oidc_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, OIDCError)
        is_page = "text/html" in request.headers.get("accept", "")
        is_login = request.method == "GET" and error.code is Code.SESSION_REQUIRED
        if not is_page or is_login or error.code is Code.SESSION_STEP_UP_REQUIRED:
            raise error
        if error.code is Code.SESSION_REQUIRED:
            return await session_over(request)
        session = await oidc.get_session(request) if "change" in request.path_params else None
        if session is None:
            return message_page(error.status, error.public_text, "", "/", "All machines")
        return await refused(request, session, error)

    async def refused(
        request: Request, session: OIDCSession[User], error: OIDCError
    ) -> HTMLResponse:
        change = change_of(request.path_params["change"])
        monitor = monitors_of(request).get(request.path_params["machine"])
        if monitor is None or not session.identity.may("view", monitor.name):
            return message_page(404, "There is no such machine.", "", "/", "All machines")
        sentence = refusal_sentence(change, error)
        with on_behalf_of(session.identity.person):
            await monitor.events.add(f"Tried to {change.verb}.", sentence)
        visit = replace(
            await visit_of(oidc, request, session),
            tab=change.tab,
            refusal=sentence,
            status=error.status,
        )
        return await machine_page(monitor, visit)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if request.url.path.startswith("/api/"):
            return JSONResponse({"refused": str(error.detail)}, error.status_code, headers=NO_STORE)
        heading = "There is no such page." if error.detail == "Not Found" else str(error.detail)
        return message_page(error.status_code, heading, "", "/", "All machines")

    app.add_exception_handler(OIDCError, oidc_error)
    app.add_exception_handler(HTTPException, http_error)


def refusal_sentence(change: Change, error: OIDCError) -> str:
    """Why a signed-in user was refused."""
    if error.code is Code.SESSION_FORBIDDEN:
        return f"{change.not_yours} Nothing was changed."
    return f"{error.public_text} Nothing was changed."


async def session_over(request: Request) -> HTMLResponse:
    """The page if the session ended before the button was pressed; it shows the input again."""
    back = urlencode({"return_to": _page_of(request)})
    values = {
        "heading": "Your session has ended",
        "text": "Nothing was changed. Sign in again to continue where you were.",
        "way_on": f"/auth/login?{back}",
        "way_on_label": "Sign in",
        "typed": await _typed(request),
    }
    return page("message.html", {"user": None, **values}, status=401)


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
        field.full_label: str(form[key])
        for section in change.sections
        for field in section.fields
        if form.get(key := f"{section.key}.{field.name}") and field.kind not in ("flag", "item")
    }


def message_page(status: int, heading: str, text: str, way_on: str, label: str) -> HTMLResponse:
    """A page with one message and one link."""
    values = {
        "heading": heading,
        "text": text,
        "way_on": way_on,
        "way_on_label": label,
        "typed": {},
    }
    return page("message.html", {"user": None, **values}, status=status)
