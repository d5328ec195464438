"""Limits of what a browser may send, before a route or a session is looked up."""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from examples.console.refusals import message_page

LONGEST_BODY: Final = 262_144
"""The longest form in bytes; the longest one is that of a metadata document."""
UPLOADS: Final = re.compile(r"/images/upload|/machines/[^/]+/guest/file")
TOO_LONG: Final = "This form is too long."


class BodyLimit:
    """Refuses bodies that no form of the console has: longer ones (413), and files (415).

    Files of a form with several parts would be stored on disk before anybody has signed in. The
    routes of `UPLOADS` read theirs after they know who sends it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless its body is refused."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers, received = Headers(scope=scope), 0
        length = headers.get("content-length", "0")
        is_form = headers.get("content-type", "").lower().startswith("multipart/")
        if is_form and scope["method"] == "POST" and UPLOADS.fullmatch(scope["path"]):
            return await self._app(scope, receive, send)  # read as a stream, with its own limit
        if is_form:
            page = message_page(415, "The console takes no files.")
            return await page(scope, receive, send)
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            return await message_page(413, TOO_LONG)(scope, receive, send)

        async def receive_within_limit() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LONGEST_BODY:
                raise HTTPException(413, TOO_LONG)
            return message

        await self._app(scope, receive_within_limit, send)
