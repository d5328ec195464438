"""An agent: the official MCP client, which finds the provider and signs its user in."""

from collections.abc import Awaitable, Callable

import httpx2
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

CLIENT_ID = "agent"
REDIRECT_URI = "http://127.0.0.1:9401/callback"

SignIn = Callable[[str], Awaitable[AuthorizationCodeResult]]
"""Opens the provider's login page, and returns what the redirect brought back."""


class Registered(TokenStorage):
    """A client that is registered at the provider, and its tokens while the program runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client = OAuthClientInformationFull(
            client_id=CLIENT_ID,
            redirect_uris=[AnyUrl(REDIRECT_URI)],
            token_endpoint_auth_method="none",
        )

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens of an earlier sign-in."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the tokens."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The registration."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep another registration."""
        self.client = client_info


async def notes_of(url: str, sign_in: SignIn) -> object:
    """What the tool at the MCP server `url` returns to whoever signs in."""
    results: list[AuthorizationCodeResult] = []

    async def redirect(login_url: str) -> None:
        results.append(await sign_in(login_url))

    async def result() -> AuthorizationCodeResult:
        return results.pop()

    auth = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(redirect_uris=[AnyUrl(REDIRECT_URI)]),
        storage=Registered(),
        redirect_handler=redirect,
        callback_handler=result,
    )
    async with httpx2.AsyncClient(auth=auth) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            answer = await client.call_tool("my_notes", {})
            return answer.structured_content
