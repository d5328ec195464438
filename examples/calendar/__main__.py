"""`python -m examples.calendar`: provider, calendar and application in one process."""

from __future__ import annotations

import os
import secrets
import socket

import uvicorn

from examples.calendar.application import application
from examples.calendar.calendar import CLIENT_ID, RESOURCE, SCOPE, calendar_api
from fastapi_oidc import OIDCSettings
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser, Lifetimes


def provider(base_url: str, secret: str) -> DevProvider:
    """Alice, Bob, the application and the calendar; access tokens live two minutes."""
    return DevProvider(
        users=[DevUser("alice", "Alice"), DevUser("bob", "Bob")],
        clients=[
            DevClient(
                client_id="app",
                client_secret=secret,
                redirect_uris=[f"{base_url}/auth/callback"],
                post_logout_redirect_uris=[f"{base_url}/auth/logged-out"],
            ),
            DevClient(client_id=CLIENT_ID, client_secret=secret),
        ],
        resources=[DevResource(RESOURCE, scope=[SCOPE], client_id=CLIENT_ID)],
        lifetimes=Lifetimes(access_token=120),
    )


def settings(issuer: str, base_url: str, secret: str) -> OIDCSettings:
    """The settings of the application."""
    return OIDCSettings(
        issuer=issuer,
        client_id="app",
        client_secret=secret,
        cookie_secret=secrets.token_urlsafe(32),
        base_url=base_url,
        scope=["openid", "profile", "offline_access"],
        allow_insecure_http=True,
    )


def main() -> None:
    """Serve until Ctrl+C; the calendar is a part of the same server."""
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "8000"))))
    base_url, secret = f"http://127.0.0.1:{listener.getsockname()[1]}", secrets.token_urlsafe(32)
    with provider(base_url, secret).serve() as issuer:
        app = application(settings(issuer, base_url, secret), f"{base_url}/calendar")
        app.mount("/calendar", calendar_api(issuer, secret, None))
        print(f"Open {base_url}/ and sign in as Alice or Bob.", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
