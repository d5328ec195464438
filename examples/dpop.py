"""`python -m examples.dpop`: an application calls an API, which a stolen token does not open."""

from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI

from examples import local
from fastapi_oidc import (
    OIDC,
    AccessToken,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
)
from fastapi_oidc.testing import DevProvider, DevUser


def create_app(settings: OIDCSettings, **options: Any) -> FastAPI:
    """The application at `settings.base_url`, and its API; `options` are those of `OIDC`."""
    oidc = OIDC(settings, **options)
    machines_url = f"{settings.base_url}/machines"
    api = oidc.api(audience=machines_url)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.include_router(api.router)

    @app.get("/machines")
    async def machines(token: Annotated[AccessToken, Depends(api.require())]) -> list[str]:
        """Only for tokens; a token that is bound to a key needs a proof."""
        return [f"a machine of {token.sub}"]

    @app.get("/")
    async def tried(
        session: Annotated[OIDCSession[StandardIdentity], Depends(oidc.require_auth)],
    ) -> dict[str, int]:
        """The statuses of a call with the session's key, and of a call with its token alone."""
        stolen = {"Authorization": f"Bearer {session.tokens.access_token}"}
        async with httpx.AsyncClient() as http:
            with_key = await http.get(machines_url, auth=oidc.auth(session))
            without = await http.get(machines_url, headers=stolen)
        return {"with the key": with_key.status_code, "with the token alone": without.status_code}

    return app


def main() -> None:
    """Serve, and print what to open."""
    listener, origin = local.listening()
    client = local.client(
        f"{origin}/auth",
        access_token_format="jwt",  # noqa: S106 (a format)
        audience=f"{origin}/machines",
        dpop_bound_access_tokens=True,
    )
    with DevProvider(users=[DevUser("alice", "Alice")], clients=[client]).serve() as issuer:
        app = create_app(local.settings(issuer, origin, dpop=True))
        local.serve(app, listener, f"Open {origin}/ and sign in: the token alone opens nothing.")


if __name__ == "__main__":
    main()
