"""`python -m examples.several_providers`: staff and partners choose where to sign in."""

from contextlib import ExitStack
from typing import Annotated

from fastapi import Depends, FastAPI, Request

from examples import local
from fastapi_oidc import OIDC, OIDCMiddleware, OIDCProviders, OIDCSession, StandardIdentity
from fastapi_oidc.testing import DevProvider, DevUser

PEOPLE = {"staff": DevUser("alice", "Alice"), "partners": DevUser("carol", "Carol")}
LABELS = {"staff": "Our staff", "partners": "Partners"}


def create_app(providers: OIDCProviders) -> FastAPI:
    """An application for users of all `providers`."""
    app = FastAPI()
    for oidc in providers:
        app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(providers.router, prefix="/auth")

    @app.get("/")
    async def home(
        request: Request,
        session: Annotated[OIDCSession[StandardIdentity], Depends(providers.require_auth)],
    ) -> str:
        """The user's name and provider."""
        oidc = await providers.current(request)
        assert oidc is not None
        return f"{session.identity.name} of {LABELS[oidc.settings.name]}"

    return app


def main() -> None:
    """Serve, and print what to try."""
    listener, origin = local.listening()
    with ExitStack() as serving:
        instances: dict[str, OIDC] = {}
        for name, user in PEOPLE.items():
            client = local.client(f"{origin}/auth/{name}")
            issuer = serving.enter_context(DevProvider(users=[user], clients=[client]).serve())
            instances[LABELS[name]] = OIDC(local.settings(issuer, origin, name=name))
        app = create_app(OIDCProviders(instances))
        local.serve(app, listener, f"Open {origin}/ and choose where to sign in.")


if __name__ == "__main__":
    main()
