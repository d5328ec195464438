"""The application. It calls an API with its user's token, as itself and as a thief would."""

import time
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, OIDCSettings, StandardIdentity


def create_app(
    settings: OIDCSettings, api: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> FastAPI:
    """The application, and the address of the `api` that it calls; `transport` is for tests."""
    oidc = OIDC(settings, transport=transport)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/")
    async def tried(
        session: Annotated[OIDCSession[StandardIdentity], Depends(oidc.require_auth)],
    ) -> dict[str, int]:
        """The status of three calls to the API."""
        async with httpx.AsyncClient(transport=transport) as http:
            attempts = {
                "with a proof": proven(session, api),
                "without the key": {"Authorization": f"Bearer {session.tokens.access_token}"},
                "with the proof of another request": proven(session, f"{api}/another"),
            }
            return {
                words: (await http.get(api, headers=headers)).status_code
                for words, headers in attempts.items()
            }

    return app


def proven(session: OIDCSession[Any], url: str) -> dict[str, str]:
    """The headers of one GET request to `url` with the session's access token."""
    key, token = session.tokens.proof_key(), session.tokens.access_token
    assert key is not None  # with `dpop=True` every new session has one
    proof = key.proof("GET", url, int(time.time()), access_token=token)
    return {"Authorization": f"DPoP {token}", "DPoP": proof}
