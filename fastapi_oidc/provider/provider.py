"""The OpenID Provider (OP): what it says of itself, and what this application asks of it."""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from fastapi_oidc.clock import Clock
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.protocol.metadata import ProviderMetadata, discovery_url
from fastapi_oidc.protocol.token import (
    TokenResponse,
    authorization_code_grant,
    refresh_token_grant,
)
from fastapi_oidc.protocol.userinfo import accept_signed_userinfo, accept_userinfo
from fastapi_oidc.provider.client_endpoints import AssertionAudience, ClientEndpoints
from fastapi_oidc.provider.deadline import deadline
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.provider.keys import Sender, TokenVerifier, VerifiedToken
from fastapi_oidc.provider.remembered import Remembered


class Provider:
    """One OP, asked over the network when needed; making one does no I/O.

    Each call takes `timeout` seconds at most, for every request it needs. Failures are
    ProviderErrors, answers that break the protocol ProtocolViolations.
    """

    def __init__(
        self,
        issuer: str,
        *,
        client_id: str,
        client_secret: str | None,
        authentication: ClientAuthentication,
        algorithms: frozenset[str],
        clock: Clock,
        assertion_audience: AssertionAudience = "issuer",
        allow_insecure_http: bool = False,
        timeout: float = 10.0,
        max_answer_bytes: int = 1_000_000,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._allow_insecure_http = allow_insecure_http
        self._timeout = timeout
        self._http = HTTPClient(
            timeout=timeout, max_answer_bytes=max_answer_bytes, transport=transport
        )
        self._metadata = Remembered(self._fetch_metadata, clock)
        self._verifier = TokenVerifier(
            self._http, self._metadata, clock, algorithms=algorithms, client_secret=client_secret
        )
        self._endpoints = ClientEndpoints(
            self._http, authentication, clock, assertion_audience=assertion_audience
        )

    async def metadata(self) -> ProviderMetadata:
        """The discovery document, fetched when there is none younger than an hour.

        A failed fetch is not tried again for five seconds (provider.unavailable).
        """
        async with deadline(self._timeout):
            return await self._metadata.get()

    async def exchange_code(
        self, code: AuthorizationCode, redirect_uri: str, code_verifier: str
    ) -> TokenResponse:
        """The tokens for `code` (OpenID Connect Core 3.1.3); nothing in them is verified yet."""
        return await self._tokens(authorization_code_grant(code.value, redirect_uri, code_verifier))

    async def refresh(self, refresh_token: str) -> TokenResponse:
        """New tokens (OpenID Connect Core 12); TokenRefused tells a final refusal."""
        return await self._tokens(refresh_token_grant(refresh_token))

    async def userinfo(self, access_token: str, *, sub: str) -> Claims | None:
        """The UserInfo claims about exactly `sub` (OpenID Connect Core 5.3), as JSON or signed.

        None when the OP has no such endpoint.
        """
        async with deadline(self._timeout):
            endpoint = (await self._metadata.get()).userinfo_endpoint
            return await self._userinfo(endpoint, access_token, sub) if endpoint else None

    async def verify(self, token: str, *, sender: Sender = "provider") -> VerifiedToken:
        """The claims of a JWT that the OP signed with a pinned algorithm.

        Raises ProtocolViolation (`jws` codes). An unknown key id makes the keys be read again, at
        once the first time and then once a minute at the most for each kind of sender.
        """
        async with deadline(self._timeout):
            return await self._verifier.verify(token, sender=sender)

    async def push_authorization_request(self, parameters: Mapping[str, str]) -> str:
        """The `request_uri` for `parameters` (RFC 9126); provider.endpoint_missing without one."""
        async with deadline(self._timeout):
            return await self._endpoints.push(await self._metadata.get(), parameters)

    async def revoke(self, token: str, token_type_hint: str) -> None:
        """Make the OP forget `token` (RFC 7009); provider.endpoint_missing if it offers no way."""
        async with deadline(self._timeout):
            await self._endpoints.revoke(await self._metadata.get(), token, token_type_hint)

    async def aclose(self) -> None:
        """Close the pooled connections; a later call opens new ones."""
        await self._http.aclose()

    async def _tokens(self, grant: Mapping[str, str]) -> TokenResponse:
        async with deadline(self._timeout):
            return await self._endpoints.tokens(await self._metadata.get(), grant)

    async def _userinfo(self, endpoint: str, access_token: str, sub: str) -> Claims:
        answer = await self._http.get(
            endpoint, accept="application/json, application/jwt", bearer=access_token
        )
        answer.require_status(200)
        if not answer.is_jwt:
            return accept_userinfo(answer.document(), sub=sub)
        token = await self._verifier.verify(answer.text())
        return accept_signed_userinfo(
            token.claims, sub=sub, issuer=self._issuer, client_id=self._client_id
        )

    async def _fetch_metadata(self) -> ProviderMetadata:
        answer = await self._http.get(discovery_url(self._issuer), accept="application/json")
        answer.require_status(200)
        return ProviderMetadata.parse(
            answer.document(),
            issuer=self._issuer,
            allow_insecure_http=self._allow_insecure_http,
        )
