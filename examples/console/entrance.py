"""The entrance of every request, before it is routed: the sign-in, limits of bodies, the trail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from examples.console.account import User, admit
from examples.console.library import Body
from examples.console.refusals import refusal
from fastapi_oidc import OIDC, OIDCError

LONGEST_BODY: Final = 262_144
"""The longest form in bytes; the longest one is that of a metadata document."""
MOST: Final = {
    re.compile(r"/images/upload"): 64 << 30,
    re.compile(r"/machines/[^/]+/guest/file"): 1 << 30,
}
"""Bytes of the forms with a file, by their paths: an image, or a file for a guest."""
TOO_LONG: Final = "This form is too long."


class Entrance:
    """Admits the requests of signed-in users, with bodies that forms of the console have.

    Others are refused before a route is looked up and a byte is read. What follows is recorded as
    the user's. Paths below `open_to_all` need no session.
    """

    def __init__(self, app: ASGIApp, oidc: OIDC[User], open_to_all: Sequence[str]) -> None:
        self._app, self._oidc = app, oidc
        self._open = tuple(f"{path}/" for path in open_to_all)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request = Request(scope, receive)
        try:
            if not f"{routed(scope)}/".startswith(self._open):
                admit(request, (await self._oidc.require_auth(request)).identity)
            receive = limited(request)
        except (OIDCError, HTTPException) as error:
            answer = await refusal(request, error)
            return await answer(scope, receive, send)
        await self._app(scope, receive, send)


def routed(scope: Scope) -> str:
    """The path that is looked up: without the prefix that a proxy removes, or a mount."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "").rstrip("/"))


def limited(request: Request) -> Receive:
    """The body of a request. Raises HTTPException for one that is too long (413), or a file (415).

    Files of a form with several parts would be stored on disk before a route knows whether the
    user may send them. Those of `MOST` are read by their routes.
    """
    length = request.headers.get("content-length", "0")
    is_form = request.headers.get("content-type", "").lower().startswith("multipart/")
    limits = [most for path, most in MOST.items() if path.fullmatch(routed(request.scope))]
    if is_form and not limits:
        raise HTTPException(415, "The console takes no files.")
    limit = limits[0] if is_form else LONGEST_BODY
    if not length.isdecimal() or int(length) > limit:
        raise HTTPException(413, TOO_LONG)
    body = request.scope["body"] = Body(int(length))

    async def receive_within_limit() -> Message:
        message = await request.receive()
        body.received += len(message.get("body", b""))
        if body.received > limit:
            raise HTTPException(413, TOO_LONG)
        return message

    return receive_within_limit
