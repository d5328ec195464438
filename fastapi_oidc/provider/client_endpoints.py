"""The endpoints of the OpenID Provider (OP) at which this client proves who it is."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Literal

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.authorization import pushed_request_uri
from fastapi_oidc.protocol.client_auth import AssertionTimes, ClientAuthentication
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.protocol.token import TokenResponse, refusal
from fastapi_oidc.provider.answer import Answer
from fastapi_oidc.provider.http import HTTPClient

AssertionAudience = Literal["issuer", "token_endpoint"]

_TRY_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class ClientEndpoints:
    """Token endpoint, pushed authorization requests, revocation: each call is sent once."""

    def __init__(
        self,
        http: HTTPClient,
        authentication: ClientAuthentication,
        clock: Clock,
        *,
        assertion_audience: AssertionAudience,
    ) -> None:
        self._http = http
        self._authentication = authentication
        self._clock = clock
        self._assertion_audience = assertion_audience

    async def tokens(self, metadata: ProviderMetadata, grant: Mapping[str, str]) -> TokenResponse:
        """The tokens for `grant` (OpenID Connect Core 3.1.3, 12).

        Raises TokenRefused when the OP refuses it, other ProviderErrors when trying later may help.
        """
        answer = await self._post(metadata, metadata.token_endpoint, grant)
        _require(answer, HTTPStatus.OK)
        return TokenResponse.parse(answer.document())

    async def push(self, metadata: ProviderMetadata, parameters: Mapping[str, str]) -> str:
        """The `request_uri` that stands for the pushed `parameters` (RFC 9126 2)."""
        endpoint = _required(metadata.pushed_authorization_request_endpoint, "pushed requests")
        answer = await self._post(metadata, endpoint, parameters)
        # RFC 9126 2.2 says 201; providers that answer 200 mean the same.
        _require(answer, HTTPStatus.CREATED, HTTPStatus.OK)
        return pushed_request_uri(answer.document())

    async def revoke(self, metadata: ProviderMetadata, token: str, token_type_hint: str) -> None:
        """Afterwards the OP takes `token` no more, whether it knew it or not (RFC 7009 2)."""
        endpoint = _required(metadata.revocation_endpoint, "revocation")
        form = {"token": token, "token_type_hint": token_type_hint}
        _require(await self._post(metadata, endpoint, form), HTTPStatus.OK)

    async def _post(
        self, metadata: ProviderMetadata, endpoint: str, form: Mapping[str, str]
    ) -> Answer:
        audiences = {"issuer": metadata.issuer, "token_endpoint": metadata.token_endpoint}
        authenticated = self._authentication.apply(
            dict(form),
            assertion=AssertionTimes(now=self._clock.now(), jti=secrets.token_urlsafe(24)),
            audience=audiences[self._assertion_audience],
        )
        return await self._http.post(endpoint, authenticated.form, authenticated.headers)


def _required(endpoint: str | None, purpose: str) -> str:
    if endpoint is None:
        explanation = f"the provider's metadata has no endpoint for {purpose}"
        raise ProviderError(Code.PROVIDER_ENDPOINT_MISSING, explanation)
    return endpoint


def _require(answer: Answer, *expected: HTTPStatus) -> None:
    """A 4xx is the OP's decision about this request (RFC 6749 5.2), unless it says "later"."""
    if 400 <= answer.status < 500 and answer.status not in _TRY_LATER:
        raise refusal(answer.document_or_none(), answer.status)
    answer.require_status(*expected)
