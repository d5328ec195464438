"""Tokens for APIs from the certified provider: by resource indicator and for the application."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, DownstreamAPI, OIDCSession, StandardIdentity, require_auth
from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import SECRET, RelyingParty, relying_party

API = "https://machines.test/opaque"
Session = Annotated[OIDCSession[StandardIdentity], Depends(require_auth)]
GRANT_TYPES = ["authorization_code", "refresh_token", "client_credentials"]
ALMOST_EXPIRED = 100
"""Seconds after which a token of 120 is not valid for another minute."""


@pytest.fixture
def rp(provider: RealProvider) -> Iterator[RelyingParty]:
    api = DownstreamAPI(grant="refresh_token", resource=API, scope="machines:read")
    with relying_party(
        provider,
        registration={"grant_types": GRANT_TYPES},
        settings={
            "scope": ["openid", "offline_access", "machines:read"],
            "extra_params": {"resource": API},
            "fetch_userinfo": False,
        },
        options={"session_store": "memory", "downstream_apis": [api]},
        mount=mount,
    ) as rp:
        yield rp


def introspected(rp: RelyingParty, token: str) -> dict[str, Any]:
    """What the provider says of the token (RFC 7662)."""
    settings = rp.oidc.settings
    response = httpx.post(
        f"{settings.issuer}/token/introspection",
        data={"token": token},
        auth=(settings.client_id, SECRET),
    )
    claims: dict[str, Any] = response.raise_for_status().json()
    return claims


def mount(app: FastAPI, oidc: OIDC) -> None:
    """Pages that tell their tokens, to the test alone."""

    @app.get("/token")
    async def token(session: Session) -> str:
        grant = await oidc.grant(session.id, resource=API)
        tokens = await asyncio.gather(*(grant.access_token() for _ in range(5)))
        assert len(set(tokens)) == 1
        return tokens[0].value

    @app.get("/own-token")
    async def own_token() -> str:
        return await sent_by(oidc.app_auth(resource=API, scope="machines:read"))


async def sent_by(auth: httpx.Auth) -> str:
    """The token that an API gets."""

    def told(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=request.headers["Authorization"])

    async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(told)) as client:
        return (await client.get(API)).text.removeprefix("Bearer ")


def test_a_refresh_token_gets_tokens_for_an_api_and_the_session_goes_on(
    rp: RelyingParty, browser: Browser
) -> None:
    """RFC 8707 2.2; the provider rotates refresh tokens."""
    browser.login(rp)
    for generation in (1, 2):
        claims = introspected(rp, browser.http.get(f"{rp.origin}/token").json())
        assert (claims["active"], claims["aud"]) == (True, API)
        assert (claims["sub"], claims["scope"]) == ("alice", "machines:read")
        assert browser.me(rp).json()["generation"] == 2 * generation - 1
        rp.time.ahead += ALMOST_EXPIRED
        assert browser.me(rp).json()["generation"] == 2 * generation


def test_the_application_gets_a_token_of_its_own(rp: RelyingParty) -> None:
    claims = introspected(rp, httpx.get(f"{rp.origin}/own-token").json())
    assert (claims["active"], claims["aud"], claims["scope"]) == (True, API, "machines:read")
