"""`python -m examples.several_providers`: staff and partners choose where to sign in."""

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated

from fastapi import Depends, FastAPI

from examples import local
from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, OIDCSettings, StandardIdentity
from fastapi_oidc.testing import DevProvider, DevUser

PEOPLE = {"staff": DevUser("alice", "Alice"), "partners": DevUser("carol", "Carol")}
LABELS = {"staff": "Our staff", "partners": "Partners"}


def create_app(registrations: Mapping[str, OIDCSettings]) -> FastAPI:
    """An application for users of all `registrations`."""
    oidc = OIDC(registrations)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/")
    async def home(
        session: Annotated[OIDCSession[StandardIdentity], Depends(oidc.require_auth)],
    ) -> str:
        """The user's name and provider."""
        return f"{session.identity.name} of {LABELS[oidc.settings_of(session).name]}"

    return app


def main() -> None:
    """Serve, and print what to try."""
    listener, origin = local.listening()
    cookie_secret = secrets.token_urlsafe(32)
    with ExitStack() as serving:
        registrations: dict[str, OIDCSettings] = {}
        for name, user in PEOPLE.items():
            client = local.client(f"{origin}/auth/{name}")
            issuer = serving.enter_context(DevProvider(users=[user], clients=[client]).serve())
            registrations[LABELS[name]] = local.settings(
                issuer, origin, name=name, cookie_secret=cookie_secret
            )
        app = create_app(registrations)
        local.serve(app, listener, f"Open {origin}/ and choose where to sign in.")


if __name__ == "__main__":
    main()
