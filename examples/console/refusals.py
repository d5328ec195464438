"""Refusals as pages: what happened, that nothing was changed, and the way on."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException

from examples.console.changes import Change
from examples.console.identity import User
from examples.console.pages import page
from examples.console.routes import change_of, monitor_of
from examples.console.view import machine_page, visit_of
from fastapi_oidc import OIDC, Code, OIDCError, OIDCSession


def tell_refusals(app: FastAPI, oidc: OIDC[User]) -> None:
    """Gives people pages; scripts, and visitors who only have to sign in, are the library's."""

    async def oidc_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, OIDCError)
        is_page = "text/html" in request.headers.get("accept", "")
        if not is_page or (request.method == "GET" and error.code is Code.SESSION_REQUIRED):
            raise error
        if "change" not in request.path_params:
            return message_page(error.status, error.public_text, "", "/", "Sign in again")
        session = None if error.code is Code.SESSION_REQUIRED else await oidc.get_session(request)
        return session_over(request) if session is None else await refused(request, session, error)

    async def refused(
        request: Request, session: OIDCSession[User], error: OIDCError
    ) -> HTMLResponse:
        change = change_of(request.path_params["change"])
        visit = replace(
            await visit_of(oidc, request, session),
            tab=change.tab,
            refusal=refusal_sentence(change, error),
            status=error.status,
        )
        return await machine_page(monitor_of(request, request.path_params["machine"]), visit)

    async def http_error(request: Request, error: Exception) -> HTMLResponse:
        assert isinstance(error, HTTPException)
        heading = "There is no such page." if error.detail == "Not Found" else str(error.detail)
        return message_page(error.status_code, heading, "", "/", "All machines")

    app.add_exception_handler(OIDCError, oidc_error)
    app.add_exception_handler(HTTPException, http_error)


def refusal_sentence(change: Change, error: OIDCError) -> str:
    """Why somebody who is signed in was refused."""
    if error.code is Code.SESSION_FORBIDDEN:
        return f"Only an admin may {change.verb}. Nothing was changed."
    return f"{error.public_text} Nothing was changed."


def session_over(request: Request) -> HTMLResponse:
    """The session ended before the button was pressed."""
    back = urlencode({"return_to": f"/machines/{request.path_params['machine']}"})
    return message_page(
        401,
        "Your session has ended",
        "Nothing was changed. Sign in again to go on where you were.",
        f"/auth/login?{back}",
        "Sign in",
    )


def message_page(status: int, heading: str, text: str, way_on: str, label: str) -> HTMLResponse:
    """A page that says one thing and has one way on."""
    values = {"heading": heading, "text": text, "way_on": way_on, "way_on_label": label}
    return page("message.html", {"user": None, **values}, status=status)
