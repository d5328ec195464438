"""A relying party of a few lines, written without fastapi_oidc, that a test can make err."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import httpx
from pydantic import JsonValue

from fastapi_oidc.clock import Clock
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser
from tests.oidc.world import Time

CALLBACK = "https://app.test/callback"
AFTER_LOGOUT = "https://app.test/bye"
VERIFIER = "v" * 64
SECRET = "secret-of-more-than-thirty-two-bytes"

NO_HEADER = httpx.Auth()

ALICE = DevUser("alice", "Alice Doe", "alice@example.com", {"roles": ["admin"]})
BOB = DevUser("bob")
APP = DevClient(
    client_id="app",
    client_secret=SECRET,
    redirect_uris=[CALLBACK],
    post_logout_redirect_uris=[AFTER_LOGOUT],
)


@dataclass
class BareClient:
    """One browser and one client's server in one."""

    provider: DevProvider
    time: Time
    http: httpx.AsyncClient
    client_id: str
    authorization: httpx.Auth

    def parameters(self, **changes: str) -> dict[str, str]:
        """A valid authorization request; an empty value removes a parameter."""
        digest = hashlib.sha256(VERIFIER.encode()).digest()
        valid = {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": "openid profile email",
            "state": "the-state",
            "nonce": "the-nonce",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "login_hint": "alice",
        }
        return {name: value for name, value in {**valid, **changes}.items() if value}

    async def authorize(self, **changes: str) -> httpx.Response:
        return await self.http.get("/authorize", params=self.parameters(**changes))

    async def answer(self, **changes: str) -> dict[str, str]:
        """The parameters of the authorization response."""
        return returned(await self.authorize(**changes))

    async def code(self, **changes: str) -> str:
        return (await self.answer(**changes))["code"]

    async def post(self, path: str, form: dict[str, str]) -> httpx.Response:
        present = {name: value for name, value in form.items() if value}
        return await self.http.post(path, data=present, auth=self.authorization)

    async def exchange(self, code: str, **changes: str) -> httpx.Response:
        valid = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER,
        }
        return await self.post("/token", {**valid, **changes})

    async def tokens(self, **changes: str) -> dict[str, str]:
        """The token response of a whole sign-in."""
        answer = await self.exchange(await self.code(**changes))
        assert answer.status_code == 200, answer.text
        members: dict[str, str] = answer.json()
        return members

    async def refresh(self, refresh_token: str, **changes: str) -> httpx.Response:
        valid = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return await self.post("/token", {**valid, **changes})

    async def userinfo(self, access_token: str) -> httpx.Response:
        return await self.http.get("/userinfo", headers={"Authorization": f"Bearer {access_token}"})


def bare_client(
    *clients: DevClient, resources: Sequence[DevResource] = (), acr_values: Sequence[str] = ()
) -> BareClient:
    """A client of a new provider; the first of `clients` is the one that acts."""
    registered = clients or (APP,)
    time = Time()
    provider = DevProvider(
        users=[ALICE, BOB],
        clients=registered,
        clock=Clock(read=time),
        resources=resources,
        acr_values=acr_values,
    )
    transport = httpx.ASGITransport(provider.app)
    http = httpx.AsyncClient(base_url=provider.issuer, transport=transport)
    acting = registered[0]
    is_basic = acting.authentication_method == "client_secret_basic"
    authorization = basic(acting.client_id, acting.client_secret or "") if is_basic else NO_HEADER
    return BareClient(provider, time, http, acting.client_id, authorization)


def basic(client_id: str, client_secret: str) -> httpx.Auth:
    """Client authentication by header; only for secrets that form-urlencoding leaves alone."""
    return httpx.BasicAuth(client_id, client_secret)


def returned(answer: httpx.Response) -> dict[str, str]:
    """The parameters that a redirect carries back."""
    assert answer.status_code == 303, answer.text
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query, strict_parsing=True))


def jwt_parts(token: str) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Header and claims of a compact JWS, unverified."""
    header, claims, _ = token.split(".")
    return _json(header), _json(claims)


def _json(segment: str) -> dict[str, JsonValue]:
    octets = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    members: dict[str, JsonValue] = json.loads(octets)
    return members
