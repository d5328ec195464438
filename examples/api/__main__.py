"""`python -m examples.api`: the application and a provider for it, until Ctrl-C."""

import secrets

from examples.api.application import SCOPES, create_app
from examples.local import client, listening, serve, settings
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser


def provider(origin: str, secret: str) -> DevProvider:
    """A provider with the application, a program, and the API document as its clients."""
    machines = f"{origin}/machines"
    return DevProvider(
        users=[DevUser("alice", "Alice"), DevUser("bob", "Bob")],
        clients=[
            client(f"{origin}/auth", client_secret=secret),
            DevClient(
                client_id="program",
                client_secret=secret,
                access_token_format="jwt",  # noqa: S106 - a format
            ),
            DevClient(
                client_id="docs",
                redirect_uris=[f"{origin}/docs/oauth2-redirect"],
                access_token_format="jwt",  # noqa: S106 - a format
            ),
        ],
        resources=[DevResource(machines, list(SCOPES))],
    )


def main() -> None:
    """Serve, and print what to try."""
    (listener, origin), secret = listening(), secrets.token_urlsafe(32)
    with provider(origin, secret).serve() as issuer:
        app = create_app(settings(issuer, origin, client_secret=secret))
        told = (
            f"A person:  open {origin}/machines\n"
            f"A program: curl -u program:{secret} -d grant_type=client_credentials"
            f" -d scope=machines:write {issuer}/token\n"
            f"           curl -H 'Authorization: Bearer ...' -X POST '{origin}/machines?name=one'\n"
            f"By hand:   open {origin}/docs and press Authorize"
        )
        serve(app, listener, told)


if __name__ == "__main__":
    main()
