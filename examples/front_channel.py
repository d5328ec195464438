"""`python -m examples.front_channel`: a sign-out at the provider ends the session here."""

from typing import Annotated, Any

from fastapi import Depends, FastAPI

from examples import local
from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, OIDCSettings, StandardIdentity
from fastapi_oidc.testing import DevProvider, DevUser


def create_app(settings: OIDCSettings, **options: Any) -> FastAPI:
    """The application at `settings.base_url`; `options` are those of `OIDC`, for tests."""
    oidc = OIDC(settings, session_store="memory", **options)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/")
    async def home(
        session: Annotated[OIDCSession[StandardIdentity], Depends(oidc.require_auth)],
    ) -> str:
        """The user's name."""
        return f"Hello {session.identity.name}"

    return app


def main() -> None:
    """Serve, and print what to try."""
    listener, origin = local.listening()
    client = local.client(
        f"{origin}/auth",
        frontchannel_logout_uri=f"{origin}/auth/frontchannel-logout",
        frontchannel_logout_session_required=True,
    )
    provider = DevProvider(users=[DevUser("alice", "Alice")], clients=[client])
    with provider.serve() as issuer:
        app = create_app(local.settings(issuer, origin, front_channel_logout=True))
        told = f"Open {origin}/ and then {issuer}/end-session; the first page then needs a login."
        local.serve(app, listener, told)


if __name__ == "__main__":
    main()
