"""The key of a demo that runs machines, or whose guests run programs of this host.

The demo's people sign in without a password, so others on this host, and pages of other sites that
reach it by a name of their own (DNS rebinding), could run programs as the demo's user.
"""

from __future__ import annotations

import hmac
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from examples.console.refusals import message_page

COOKIE: Final = "console_key"
KEYLESS: Final = ("/static/", "/metrics", "/auth/backchannel-logout")
"""Paths that show nothing, or ask for a secret of their own."""
NEEDED: Final = "Open the address that the demo has printed: it has a key."
WHY: Final = (
    "This demo runs programs as the user who has started it, and its people need no password. So "
    "only who sees that user's terminal gets in."
)


class KeyHolders:
    """Admits browsers that have opened the address with `key`."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request of a holder on; the first one gets a cookie."""
        if scope["type"] == "lifespan" or scope["path"].startswith(KEYLESS):
            return await self._app(scope, receive, send)
        request = Request(scope)
        if self._is(request.cookies.get(COOKIE, "")):
            return await self._app(scope, receive, send)
        await self._answer(request)(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        if not self._is(request.query_params.get("key", "")):
            return message_page(403, NEEDED, WHY, "/", "Try again")
        response = RedirectResponse(request.url.path, 303)
        response.set_cookie(COOKIE, self._key, httponly=True, samesite="lax")
        return response

    def _is(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._key.encode())
