"""`python -m examples.step_up`: a transfer needs a recent sign-in, the vault a second factor."""

from typing import Annotated

from fastapi import Depends, FastAPI, Form
from fastapi.responses import HTMLResponse

from examples import local
from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, OIDCSettings, StandardIdentity
from fastapi_oidc.testing import DevProvider, DevUser

RECENT_SECONDS = 300


def create_app(settings: OIDCSettings) -> FastAPI:
    """The application at `settings.base_url`."""
    oidc = OIDC(settings)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    recent, strong = oidc.require_recent(RECENT_SECONDS), oidc.require_acr("otp")

    @app.get("/", response_class=HTMLResponse)
    async def form(
        session: Annotated[OIDCSession[StandardIdentity], Depends(oidc.require_auth)],
    ) -> str:
        """The form needs only a session."""
        token = oidc.csrf_token(session)
        return (
            '<!doctype html><title>Transfer</title><form method="post" action="/transfer">'
            f'<input type="hidden" name="csrf_token" value="{token}">'
            '<label>To <input name="to"></label> <button>Transfer</button></form>'
            '<a href="/vault">Vault</a>'
        )

    @app.post("/transfer", dependencies=[Depends(recent), Depends(oidc.require_csrf)])
    async def transfer(to: Annotated[str, Form()]) -> str:
        """If the login is too old, a page keeps the form until the user has signed in again."""
        return f"Transferred to {to}"

    @app.get("/vault")
    async def vault(
        session: Annotated[OIDCSession[StandardIdentity], Depends(strong)],
    ) -> str:
        """For users who have authenticated with a second factor."""
        return f"Opened with {session.acr}"

    return app


def main() -> None:
    """Serve, and print what to try."""
    listener, origin = local.listening()
    users = [DevUser("alice", "Alice")]
    provider = DevProvider(
        users=users,
        clients=[local.client(f"{origin}/auth")],
        acr_values=["password", "otp"],
    )
    with provider.serve() as issuer:
        app = create_app(local.settings(issuer, origin))
        told = f"Open {origin}/ and then {origin}/vault, which leads through the provider again."
        local.serve(app, listener, told)


if __name__ == "__main__":
    main()
