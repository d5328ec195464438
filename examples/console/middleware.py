"""Headers of every response, and the key of the demo."""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from examples.console.events import work_at
from examples.console.refusals import message_page


class SecurityHeaders:
    """Begins each request. Pages only run this console's files, and no other site can frame them.

    `issuer` is the OpenID Provider's: the sign-out form ends there, and browsers apply
    `form-action` to every redirect on the way; its session iframe comes from there too.
    """

    def __init__(self, app: ASGIApp, issuer: str) -> None:
        self._app = app
        parts = urlsplit(issuer)
        provider = f"{parts.scheme}://{parts.netloc}"
        self._policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            f"connect-src 'self'; form-action 'self' {provider}; frame-src 'self' {provider}; "
            "base-uri 'none'; frame-ancestors 'none'"
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the headers to the response."""
        work_at(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", self._policy)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("X-Frame-Options", "DENY")
                headers.setdefault("Cache-Control", "no-cache")  # of files: they may change
                headers.setdefault("Referrer-Policy", "same-origin")
            await send(message)

        await self._app(scope, receive, send_with_headers)


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
