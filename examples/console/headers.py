"""Strict security headers, on every response that does not set its own."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class SecurityHeaders:
    """Pages only run this console's files, and no other site can frame them.

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

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", self._policy)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("X-Frame-Options", "DENY")
                headers.setdefault("Referrer-Policy", "same-origin")
            await send(message)

        await self._app(scope, receive, send_with_headers)
