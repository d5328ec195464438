"""An API that the application calls: it knows which tokens the provider would accept."""

from dataclasses import dataclass, field
from typing import Any

import httpx

from fastapi_oidc.testing import TokensIssued
from tests.oidc.world import World

API_URL = "https://calendar.test"
CHALLENGE = 'Bearer error="invalid_token"'


@dataclass(slots=True)
class Api:
    """Answers 200 to a token that is valid at the provider, else 401 as RFC 6750 3 says."""

    world: World
    tokens: list[str] = field(default_factory=list)
    """The token of each request, in order; "" without one."""
    urls: list[str] = field(default_factory=list)
    redirect_to: str = ""
    challenge: str = CHALLENGE
    refused: set[str] = field(default_factory=set)

    def __call__(self, request: Any) -> httpx.Response:
        """Serve one request, of httpx or httpx2."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        self.tokens.append(token if scheme == "Bearer" else "")
        self.urls.append(str(request.url))
        if self.redirect_to and request.url.path == "/redirected":
            return httpx.Response(307, headers={"Location": self.redirect_to})
        if self.is_accepted(token):
            return httpx.Response(200, content=request.content)
        return httpx.Response(401, headers={"WWW-Authenticate": self.challenge})

    def is_accepted(self, token: str) -> bool:
        state = self.world.op._state
        credential = state.credentials.access_token(token)
        is_valid = credential is not None and credential.is_valid(state.clock.now())
        return is_valid and token not in self.refused

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)

    def client(self, auth: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(auth=auth, transport=self.transport, base_url=API_URL)

    async def status(self, auth: Any) -> int:
        """The status of one request."""
        async with self.client(auth) as client:
            return (await client.get("/events")).status_code


def issued(world: World, grant_type: str = "refresh_token") -> int:
    """How many token requests of this kind the provider has accepted."""
    return sum(event.grant_type == grant_type for event in world.op.record.of(TokensIssued))


def session_id(world: World) -> str:
    """The id of the session that began first."""
    return next(event.session_id for event in world.events if event.session_id)


def without_refresh_token(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name != "refresh_token"}
