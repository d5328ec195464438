"""Shared by the small examples: a port of this machine, settings for it, and the server."""

import os
import secrets
import socket
from contextlib import suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from fastapi_oidc import OIDCSettings
from fastapi_oidc.testing import DevClient


def listening() -> tuple[socket.socket, str]:
    """A socket at the port `PORT`, and its origin."""
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "8000"))))
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


def client(routes: str, **members: Any) -> DevClient:
    """The application at the provider; `routes` is the URL below which its routes are."""
    return DevClient(
        client_id="app",
        redirect_uris=[f"{routes}/callback"],
        post_logout_redirect_uris=[f"{routes}/logged-out"],
        **members,
    )


def settings(issuer: str, origin: str, **options: Any) -> OIDCSettings:
    """The settings of the application."""
    return OIDCSettings(
        issuer=issuer,
        client_id="app",
        base_url=origin,
        allow_insecure_http=True,
        **{"cookie_secret": secrets.token_urlsafe(32)} | options,
    )


def serve(app: ASGIApp, listener: socket.socket, told: str) -> None:
    """Print what to try, and serve until Ctrl-C."""
    print(told, flush=True)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
