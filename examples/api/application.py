"""The application. Its API accepts the session of a person, or the access token of a program."""

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Security

from fastapi_oidc import (
    OIDC,
    AccessToken,
    Caller,
    OIDCMiddleware,
    OIDCSettings,
    StandardIdentity,
)

SCOPES = {"machines:read": "See machines", "machines:write": "Add machines"}


def create_app(settings: OIDCSettings, **options: Any) -> FastAPI:
    """The application at `settings.base_url`; `options` are those of `OIDC`, for tests."""
    oidc = OIDC(settings, **options)
    api = oidc.api(
        audience=f"{settings.base_url}/machines",
        scopes=SCOPES,
        authorization_url=f"{settings.issuer}/authorize",
        token_url=f"{settings.issuer}/token",
    )
    app = FastAPI(
        swagger_ui_init_oauth={
            "clientId": "docs",
            "scopes": list(SCOPES),
            "usePkceWithAuthorizationCodeGrant": True,
            "additionalQueryStringParams": {"resource": api.resource},
        }
    )
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.include_router(api.router)
    machines: list[str] = []

    @app.get("/machines", responses=api.responses)
    async def list_machines(
        caller: Annotated[
            Caller[StandardIdentity], Security(oidc.require_user, scopes=["machines:read"])
        ],
    ) -> list[str]:
        """For people with a session, and for tokens with the scope machines:read."""
        return machines

    @app.post("/machines", status_code=201, responses=api.responses)
    async def add_machine(
        name: str, token: Annotated[AccessToken, Depends(api.require("machines:write"))]
    ) -> str:
        """Only for tokens with the scope machines:write."""
        machines.append(f"{name}, added by {token.client_id} for {token.sub}")
        return machines[-1]

    return app
