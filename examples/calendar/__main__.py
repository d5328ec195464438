"""`python -m examples.calendar`: provider, calendar and application in one process."""

from __future__ import annotations

import secrets

from examples.calendar.application import application
from examples.calendar.calendar import CLIENT_ID, RESOURCE, SCOPE, calendar_api
from examples.local import client, listening, serve, settings
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser, Lifetimes

SIGN_IN_SCOPE = ["openid", "profile", "offline_access"]


def provider(base_url: str, secret: str) -> DevProvider:
    """A provider with Alice, Bob and both clients; access tokens last two minutes."""
    return DevProvider(
        users=[DevUser("alice", "Alice"), DevUser("bob", "Bob")],
        clients=[
            client(f"{base_url}/auth", client_secret=secret),
            DevClient(client_id=CLIENT_ID, client_secret=secret),
        ],
        resources=[DevResource(RESOURCE, scope=[SCOPE], client_id=CLIENT_ID)],
        lifetimes=Lifetimes(access_token=120),
    )


def main() -> None:
    """Serve until Ctrl+C; the calendar is part of the same server."""
    (listener, origin), secret = listening(), secrets.token_urlsafe(32)
    with provider(origin, secret).serve() as issuer:
        chosen = settings(issuer, origin, client_secret=secret, scope=SIGN_IN_SCOPE)
        app = application(chosen, f"{origin}/calendar")
        app.mount("/calendar", calendar_api(issuer, secret, None))
        serve(app, listener, f"Open {origin}/ and sign in as Alice or Bob.")


if __name__ == "__main__":
    main()
