"""Access tokens of a provider that nobody here wrote: at an API, and for APIs that are called."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    AccessToken,
    DownstreamAPI,
    OIDCSession,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.protocol.dpop import DPoPKey
from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import SECRET, RelyingParty, relying_party

ORIGIN = "https://app.test"
PROGRAM: dict[str, object] = {"redirect_uris": [], "response_types": []}
PROGRAM["grant_types"] = ["client_credentials"]


@dataclass
class Program:
    """A client that acts for itself, and the API that it calls."""

    rp: RelyingParty
    audience: str
    key: DPoPKey = field(default_factory=DPoPKey.new)

    def _posted(self, path: str, form: dict[str, str], **headers: str) -> httpx.Response:
        settings = self.rp.oidc.settings
        url, client = f"{settings.issuer}{path}", (settings.client_id, SECRET)
        return httpx.post(url, data=form, auth=client, headers=headers).raise_for_status()

    def token(self, *, bound: bool = False) -> str:
        form = {"grant_type": "client_credentials", "scope": "machines:read"}
        form["resource"] = self.audience
        url = f"{self.rp.oidc.settings.issuer}/token"
        headers = {"DPoP": self.key.proof("POST", url, int(time.time()))} if bound else {}
        return str(self._posted("/token", form, **headers).json()["access_token"])

    def revoke(self, token: str) -> None:
        self._posted("/token/revocation", {"token": token})

    def proof(self, token: str) -> str:
        url = f"{self.rp.origin}/machines"
        return self.key.proof("GET", url, int(time.time()), access_token=token)

    def get(self, authorization: str, **headers: str) -> httpx.Response:
        headers = {"Authorization": authorization, **headers}
        return httpx.get(f"{self.rp.origin}/machines", headers=headers)


@pytest.fixture(params=["jwt", "opaque"])
def program(request: pytest.FixtureRequest, provider: RealProvider) -> Iterator[Program]:
    audience = f"{ORIGIN}/{request.param}"

    def mount(app: FastAPI, oidc: OIDC) -> None:
        api = oidc.api(audience, introspect=request.param == "opaque")
        may_read = Depends(api.require("machines:read"))

        @app.get("/machines")
        def machines(token: AccessToken = may_read) -> object:
            return {"client_id": token.client_id, "scope": token.scope}

    with relying_party(provider, registration=PROGRAM, mount=mount) as rp:
        yield Program(rp, audience)


def test_a_token_gets_in(program: Program) -> None:
    answer = program.get(f"Bearer {program.token()}")
    client_id = program.rp.oidc.settings.client_id
    assert answer.json() == {"client_id": client_id, "scope": ["machines:read"]}


def test_a_bound_token_gets_in_with_its_proof_alone(program: Program) -> None:
    token = program.token(bound=True)
    answer = program.get(f"DPoP {token}", DPoP=program.proof(token))
    assert answer.status_code == 200, answer.text
    assert program.get(f"Bearer {token}").json()["code"] == "access_token.binding"
    program.key = DPoPKey.new()
    stolen = program.get(f"DPoP {token}", DPoP=program.proof(token))
    assert stolen.json()["code"] == "dpop.key"


@pytest.mark.parametrize("program", ["opaque"], indirect=True)
def test_a_revoked_opaque_token_is_refused(program: Program) -> None:
    token = program.token()
    program.revoke(token)
    assert program.get(f"Bearer {token}").json()["code"] == "access_token.inactive"


def test_a_token_for_another_api_is_refused(program: Program) -> None:
    program.audience = f"{ORIGIN}/another/{program.audience.rpartition('/')[2]}"
    answer = program.get(f"Bearer {program.token()}")
    assert answer.json()["code"] == "access_token.audience"


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
