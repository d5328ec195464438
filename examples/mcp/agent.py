"""An agent: the official MCP client, which finds the provider and signs its user in."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

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

SignIn = Callable[[str], Awaitable[AuthorizationCodeResult]]
"""Opens an address in the user's browser, and returns the parameters of the redirect back."""


class Registered(TokenStorage):
    """The agent's registration at the provider, and its tokens while the program runs."""

    def __init__(self, redirect_uri: AnyUrl) -> None:
        self._tokens: OAuthToken | None = None
        self._client = OAuthClientInformationFull(
            client_id=CLIENT_ID,
            redirect_uris=[redirect_uri],
            token_endpoint_auth_method="none",  # noqa: S106 - a method
        )

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens of the last sign-in."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The registration."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        self._client = client_info


@asynccontextmanager
async def connected(url: str, *, redirect_uri: str, sign_in: SignIn) -> AsyncIterator[Client]:
    """A client of the MCP server at `url`, for the user who signs in when it is necessary."""
    results: list[AuthorizationCodeResult] = []

    async def redirect(login_url: str) -> None:
        results.append(await sign_in(login_url))

    async def result() -> AuthorizationCodeResult:
        return results.pop()

    auth = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri)]),
        storage=Registered(AnyUrl(redirect_uri)),
        redirect_handler=redirect,
        callback_handler=result,
    )
    async with (
        httpx2.AsyncClient(auth=auth) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client
