"""The endpoints of the OpenID Provider (OP) at which this client authenticates."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.authorization import pushed_request_uri
from fastapi_oidc.protocol.client_auth import AssertionTimes, ClientAuthentication
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.protocol.refusal import TEMPORARY_ERRORS, refusal
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.provider.proofs import Proofs
from fastapi_oidc.provider.response import OPResponse

AssertionAudience: TypeAlias = Literal["issuer", "token_endpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration of the client: its authentication, and the OP's signing algorithms.

    `userinfo_algorithms` are for signed UserInfo; None means those of ID tokens.
    """

    client_id: str
    client_secret: str | None = field(repr=False)
    authentication: ClientAuthentication
    algorithms: frozenset[str]
    userinfo_algorithms: frozenset[str] | None = None
    assertion_audience: AssertionAudience = "issuer"


_SECRET_PARAMETERS: Final = frozenset(
    {
        "code", "code_verifier", "refresh_token", "token", "client_secret", "client_assertion",
        "id_token_hint", "state", "nonce", "subject_token", "assertion",
    }
)  # fmt: skip
_TRY_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class ClientEndpoints:
    """The token, pushed authorization, revocation and introspection endpoints."""

    def __init__(self, http: HTTPClient, registration: Registration, clock: Clock) -> None:
        self._http, self._registration, self._clock = http, registration, clock
        self.proofs = Proofs(clock)

    async def tokens(
        self,
        metadata: ProviderMetadata,
        grant: Mapping[str, str],
        *,
        key: DPoPKey | None = None,
        before_sending: Callable[[], None] | None = None,
    ) -> TokenResponse:
        """The tokens for `grant` (OpenID Connect Core 3.1.3); raises like `token_body`."""
        body = await self.token_body(metadata, grant, key=key, before_sending=before_sending)
        response = TokenResponse.read(body)
        response.require_binding(is_bound=key is not None)
        return response

    async def token_body(
        self,
        metadata: ProviderMetadata,
        grant: Mapping[str, str],
        *,
        patience: float | None = None,
        key: DPoPKey | None = None,
        before_sending: Callable[[], None] | None = None,
    ) -> bytes:
        """The JSON of a successful response to `grant`, awaited for `patience` seconds.

        With a `key` the tokens are to be bound to it (RFC 9449 5). `before_sending` may raise right
        before the request is sent. Raises TokenRefused when the OP refuses the request. After
        NonceRequired the caller may repeat it, and the nonce is then known. Raises other
        ProviderErrors when a later attempt may succeed.
        """
        endpoint = metadata.token_endpoint
        proof = self.proofs.headers(key, "POST", endpoint)
        answer = await self._post(metadata, endpoint, grant, patience, proof, before_sending)
        answer.require_status(HTTPStatus.OK)
        return answer.json_body()

    async def push(self, metadata: ProviderMetadata, parameters: Mapping[str, str]) -> str:
        """The `request_uri` of the pushed `parameters` (RFC 9126 2)."""
        endpoint = _required(metadata.pushed_authorization_request_endpoint, "pushed requests")
        answer = await self._post(metadata, endpoint, parameters)
        # RFC 9126 2.2 says 201; some providers send 200.
        answer.require_status(HTTPStatus.CREATED, HTTPStatus.OK)
        return pushed_request_uri(answer.document())

    async def revoke(self, metadata: ProviderMetadata, token: str, token_type_hint: str) -> None:
        """Revoke `token`. The status alone says that it is invalid now (RFC 7009 2.2)."""
        endpoint = _required(metadata.revocation_endpoint, "revocation")
        form = {"token": token, "token_type_hint": token_type_hint}
        answer = await self._post(metadata, endpoint, form, is_body_read=False)
        answer.require_status(HTTPStatus.OK)

    async def introspect(self, metadata: ProviderMetadata, token: str) -> Claims:
        """The OP's introspection response for the access token `token` (RFC 7662 2)."""
        endpoint = _required(metadata.introspection_endpoint, "introspection")
        form = {"token": token, "token_type_hint": "access_token"}
        answer = await self._post(metadata, endpoint, form)
        answer.require_status(HTTPStatus.OK)
        return answer.members()

    async def _post(
        self,
        metadata: ProviderMetadata,
        endpoint: str,
        form: Mapping[str, str],
        patience: float | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        before_sending: Callable[[], None] | None = None,
        *,
        is_body_read: bool = True,
    ) -> OPResponse:
        audiences = {"issuer": metadata.issuer, "token_endpoint": metadata.token_endpoint}
        authenticated = self._registration.authentication.apply(
            dict(form),
            assertion=AssertionTimes(now=self._clock.now(), jti=secrets.token_urlsafe(24)),
            audience=audiences[self._registration.assertion_audience],
        )
        answer = await self._http.post(
            endpoint,
            authenticated.form,
            {**authenticated.headers, **headers},
            sent=self._secrets(authenticated.form),
            patience=patience,
            before_sending=before_sending,
        )
        self.proofs.learn(endpoint, answer.dpop_nonce)
        if is_body_read or answer.status != HTTPStatus.OK:
            _require_no_refusal(answer)
        return answer

    def _secrets(self, form: Mapping[str, str]) -> tuple[str, ...]:
        """The secrets in a request, to remove from the OP's error messages."""
        sent = [value for name, value in form.items() if name in _SECRET_PARAMETERS]
        return (*sent, self._registration.client_secret or "")


def _required(endpoint: str | None, purpose: str) -> str:
    if endpoint is None:
        explanation = f"the provider's metadata has no endpoint for {purpose}"
        raise ProviderError(Code.PROVIDER_ENDPOINT_MISSING, explanation)
    return endpoint


def _require_no_refusal(answer: OPResponse) -> None:
    """Raise TokenRefused for a 4xx with an `error` (RFC 6749 5.2), unless it means "try later".

    Also raise it for an `error` with HTTP 200 in place of tokens, as some OPs send it. Another 4xx
    may be from a proxy or a firewall: it refuses nothing. But 400 without a body is Glewlwyd's way
    to refuse a refresh token.
    """
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return
    document = answer.document_or_none() if _may_be_error(answer) else None
    members = document if isinstance(document, dict) else {}
    error = said if isinstance(said := members.get("error"), str) else None
    if answer.status < 400 and (not error or "access_token" in members):
        return
    if answer.status in _TRY_LATER or error in TEMPORARY_ERRORS:
        raise answer.refused_status()
    if error is None and (answer.status != HTTPStatus.BAD_REQUEST or answer.body):
        raise answer.unreadable_refusal()
    raise refusal(document, answer.status, url=answer.url, sent=answer.sent)


def _may_be_error(answer: OPResponse) -> bool:
    # Most responses are tokens, which should be parsed only once.
    if answer.status == HTTPStatus.OK:
        return b'"error"' in answer.body
    return answer.status >= 400
