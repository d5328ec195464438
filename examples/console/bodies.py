"""Limits of what a browser may send, before a route or a session is looked up."""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from examples.console.library import Body
from examples.console.refusals import message_page

LONGEST_BODY: Final = 262_144
"""The longest form in bytes; the longest one is that of a metadata document."""
MOST: Final = {
    re.compile(r"/images/upload"): 64 << 30,
    re.compile(r"/machines/[^/]+/guest/file"): 1 << 30,
}
"""Bytes of the forms with a file, by their paths: an image, or a file for a guest."""
TOO_LONG: Final = "This form is too long."


class BodyLimit:
    """Refuses bodies that no form of the console has: longer ones (413), and files (415).

    Files of a form with several parts would be stored on disk before anybody has signed in. Those
    of `MOST` are read by their routes, which know who sends them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, unless its body is refused."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        is_form = headers.get("content-type", "").lower().startswith("multipart/")
        limits = [most for path, most in MOST.items() if path.fullmatch(scope["path"])]
        if is_form and not limits:
            page = message_page(415, "The console takes no files.")
            return await page(scope, receive, send)
        limit = limits[0] if is_form else LONGEST_BODY
        if not length.isdecimal() or int(length) > limit:
            return await message_page(413, TOO_LONG)(scope, receive, send)
        body = scope["body"] = Body(int(length))

        async def receive_within_limit() -> Message:
            message = await receive()
            body.received += len(message.get("body", b""))
            if body.received > limit:
                raise HTTPException(413, TOO_LONG)
            return message

        await self._app(scope, receive_within_limit, send)
