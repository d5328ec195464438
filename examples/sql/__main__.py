"""`python -m examples.sql`: the application and a provider for it, until Ctrl-C.

DATABASE is another URL than that of a file `sessions.db` here. With the same COOKIE_SECRET people
stay signed in after a restart.
"""

import os
import secrets
import socket

import uvicorn

from examples.sql.application import create_app
from fastapi_oidc import OIDCSettings
from fastapi_oidc.testing import DevClient, DevProvider, DevUser


def main() -> None:
    """Serve, and say what to open."""
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "8000"))))
    origin, secret = f"http://127.0.0.1:{listener.getsockname()[1]}", secrets.token_urlsafe(32)
    client = DevClient(
        client_id="app",
        client_secret=secret,
        redirect_uris=[f"{origin}/auth/callback"],
        post_logout_redirect_uris=[f"{origin}/auth/logged-out"],
    )
    users = [DevUser("alice", "Alice"), DevUser("bob", "Bob")]
    port = int(os.environ.get("PROVIDER_PORT", "9400"))
    with DevProvider(users=users, clients=[client]).serve(port=port) as issuer:
        settings = OIDCSettings(
            issuer=issuer,
            client_id="app",
            client_secret=secret,
            cookie_secret=os.environ.get("COOKIE_SECRET") or secrets.token_urlsafe(32),
            base_url=origin,
            allow_insecure_http=True,
        )
        database = os.environ.get("DATABASE", "sqlite+aiosqlite:///sessions.db")
        app = create_app(settings, database)
        print(f"Open {origin}/ in two browsers and sign in", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


if __name__ == "__main__":
    main()
