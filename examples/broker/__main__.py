"""`python -m examples.broker`: provider, calendar and application in one process."""

from __future__ import annotations

import secrets

from examples.broker.application import application
from examples.calendar.__main__ import SIGN_IN_SCOPE, provider
from examples.calendar.calendar import calendar_api
from examples.local import listening, serve, settings


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
