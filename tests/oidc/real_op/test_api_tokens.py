"""Access tokens of a provider that nobody here wrote, at an API: JWTs, opaque and bound ones."""

import itertools
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, AccessToken, OIDCMiddleware, OIDCSettings
from fastapi_oidc.protocol.dpop import DPoPKey
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import SECRET

ORIGIN = "https://app.test"
NUMBERS = itertools.count(1)


class Program:
    """A client that acts for itself, and the API that it calls."""

    def __init__(self, provider: RealProvider, token_format: str, **registration: object) -> None:
        self.issuer, self.client_id = provider.issuer, f"program-{next(NUMBERS)}"
        self.audience, self.key = f"{ORIGIN}/{token_format}", DPoPKey.new()
        provider.register(
            {
                "client_id": self.client_id,
                "client_secret": SECRET,
                "redirect_uris": [],
                "response_types": [],
                "grant_types": ["client_credentials"],
                **registration,
            }
        )
        settings = OIDCSettings(
            issuer=provider.issuer,
            client_id=self.client_id,
            client_secret=SECRET,
            cookie_secret="cookie secret of at least 32 bytes",
            base_url=ORIGIN,
            allow_insecure_http=True,
        )
        self.oidc = OIDC(settings)
        api = self.oidc.api(self.audience, introspect=token_format == "opaque")
        self.app = FastAPI()
        self.app.add_middleware(OIDCMiddleware, oidc=self.oidc)

        may_read = Depends(api.require("machines:read"))

        @self.app.get("/machines")
        def machines(token: AccessToken = may_read) -> object:
            return {"client_id": token.client_id, "scope": token.scope}

    def token(self, *, bound: bool = False) -> str:
        url = f"{self.issuer}/token"
        headers = {"DPoP": self.key.proof("POST", url, int(time.time()))} if bound else {}
        form = {
            "grant_type": "client_credentials",
            "resource": self.audience,
            "scope": "machines:read",
        }
        answer = httpx.post(url, data=form, auth=(self.client_id, SECRET), headers=headers)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def revoke(self, token: str) -> None:
        url, auth = f"{self.issuer}/token/revocation", (self.client_id, SECRET)
        httpx.post(url, data={"token": token}, auth=auth).raise_for_status()

    def proof(self, token: str) -> str:
        url = f"{ORIGIN}/machines"
        return self.key.proof("GET", url, int(time.time()), access_token=token)

    async def get(self, authorization: str, **headers: str) -> httpx.Response:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
            return await http.get("/machines", headers={"Authorization": authorization, **headers})


@pytest.fixture(params=["jwt", "opaque"])
def token_format(request: pytest.FixtureRequest) -> str:
    token_format: str = request.param
    return token_format


@pytest.fixture
async def program(token_format: str, provider: RealProvider) -> AsyncIterator[Program]:
    program = Program(provider, token_format)
    yield program
    await program.oidc.aclose()


async def test_a_token_gets_in(program: Program) -> None:
    answer = await program.get(f"Bearer {program.token()}")
    assert answer.json() == {"client_id": program.client_id, "scope": ["machines:read"]}


async def test_a_bound_token_gets_in_with_its_proof_alone(program: Program) -> None:
    token = program.token(bound=True)
    answer = await program.get(f"DPoP {token}", DPoP=program.proof(token))
    assert answer.status_code == 200, answer.text
    assert (await program.get(f"Bearer {token}")).json()["code"] == "access_token.binding"
    program.key = DPoPKey.new()
    stolen = await program.get(f"DPoP {token}", DPoP=program.proof(token))
    assert stolen.json()["code"] == "dpop.key"


@pytest.mark.parametrize("token_format", ["opaque"])
async def test_a_revoked_opaque_token_is_refused(program: Program) -> None:
    token = program.token()
    program.revoke(token)
    assert (await program.get(f"Bearer {token}")).json()["code"] == "access_token.inactive"


async def test_a_token_for_another_api_is_refused(program: Program) -> None:
    program.audience = f"{ORIGIN}/another/{program.audience.rpartition('/')[2]}"
    answer = await program.get(f"Bearer {program.token()}")
    assert answer.json()["code"] == "access_token.audience"
