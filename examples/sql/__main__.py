"""`python -m examples.sql`: the application and a provider for it, until Ctrl-C.

DATABASE is the URL of the database, by default a file `sessions.db` in the current folder. With
the same COOKIE_SECRET, users stay signed in after a restart.
"""

import os
import secrets

from examples.local import client, listening, serve, settings
from examples.sql.application import create_app
from fastapi_oidc.testing import DevProvider, DevUser


def main() -> None:
    """Serve, and print what to open."""
    (listener, origin), secret = listening(), secrets.token_urlsafe(32)
    cookie_secret = os.environ.get("COOKIE_SECRET") or secrets.token_urlsafe(32)
    provider = DevProvider(
        users=[DevUser("alice", "Alice"), DevUser("bob", "Bob")],
        clients=[client(f"{origin}/auth", client_secret=secret)],
    )
    with provider.serve(port=int(os.environ.get("PROVIDER_PORT", "9400"))) as issuer:
        chosen = settings(issuer, origin, client_secret=secret, cookie_secret=cookie_secret)
        app = create_app(chosen, os.environ.get("DATABASE", "sqlite+aiosqlite:///sessions.db"))
        serve(app, listener, f"Open {origin}/ in two browsers and sign in")


if __name__ == "__main__":
    main()
