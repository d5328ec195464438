"""The OpenID Provider (OP): its metadata, and every call that this application makes to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Final

import httpx

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProtocolViolation, ProviderError
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.json import Claims
from fastapi_oidc.protocol.metadata import ProviderMetadata, discovery_url
from fastapi_oidc.protocol.refusal import NonceRequired
from fastapi_oidc.protocol.tenants import Tenants
from fastapi_oidc.protocol.token import (
    TokenResponse,
    authorization_code_grant,
    refresh_token_grant,
)
from fastapi_oidc.protocol.userinfo import accept_signed_userinfo, accept_userinfo
from fastapi_oidc.provider.client_endpoints import ClientEndpoints, Registration
from fastapi_oidc.provider.deadline import deadline
from fastapi_oidc.provider.document import STALE_PATIENCE, Document
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.provider.keys import Sender, TokenVerifier, VerifiedToken
from fastapi_oidc.provider.options import HTTPOptions
from fastapi_oidc.provider.response import OPResponse

_logger = logging.getLogger("fastapi_oidc.provider")

_ACCEPT: Final = "application/json"

LONGEST_EXCHANGE: Final = 60.0
"""Seconds that the answer to a refresh token is awaited."""


class Provider:
    """One OP, asked over the network when needed; making one does no I/O.

    Each call but `refresh` takes `timeout` seconds at most, for every request it needs. Failures
    are ProviderErrors, answers that break the protocol ProtocolViolations.
    """

    def __init__(
        self,
        issuer: str,
        registration: Registration,
        *,
        clock: Clock,
        allow_insecure_http: bool = False,
        timeout: float = 10.0,
        max_answer_bytes: int = 1_000_000,
        transport: httpx.AsyncBaseTransport | None = None,
        http: HTTPOptions | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        self._issuer, self._registration, self._tenants = issuer, registration, tenants
        self._allow_insecure_http = allow_insecure_http
        self._mutual_tls = http is not None and http.shows_certificate
        self._timeout, self._clock = timeout, clock
        self._http = HTTPClient(
            timeout=timeout, max_answer_bytes=max_answer_bytes, transport=transport, options=http
        )
        # Two documents that are stale leave each call half of its time.
        patience = min(STALE_PATIENCE, timeout / 4)
        self._metadata = Document("metadata", self._fetch_metadata, clock, patience=patience)
        self._verifier = TokenVerifier(
            self._http, self._metadata, clock, registration, patience=patience
        )
        self._endpoints = ClientEndpoints(self._http, registration, clock)

    async def metadata(self) -> ProviderMetadata:
        """The discovery document, fetched when there is none younger than an hour.

        All that is needed before a code is presented. The last known one serves for a day while a
        new one cannot be had. A failed fetch is not tried again for five seconds
        (provider.unavailable).
        """
        async with self._limit():
            return await self._metadata.get()

    async def prepare_refresh(self) -> None:
        """Metadata and keys are at hand afterwards: all that a refreshed answer needs.

        To be awaited before a refresh token is presented, which works once. Raises ProviderError
        when they cannot be had and the last known ones are over a day old.
        """
        async with self._limit():
            await self._metadata.get()
            await self._verifier.prepare()

    async def is_reachable(self) -> bool:
        """Whether the OP answers now, whatever is remembered of it; a 5xx is no answer.

        A browser that is sent to an OP that does not answer ends on an error page.
        """
        try:
            async with self._limit():
                answer = await self._http.get(discovery_url(self._issuer), accept=_ACCEPT)
        except ProviderError as error:
            return error.code is Code.PROVIDER_REDIRECTED
        return answer.status < HTTPStatus.INTERNAL_SERVER_ERROR

    async def exchange_code(
        self,
        code: AuthorizationCode,
        redirect_uri: str,
        code_verifier: str,
        *,
        key: DPoPKey | None = None,
    ) -> TokenResponse:
        """The tokens for `code` (OpenID Connect Core 3.1.3); nothing in them is verified yet.

        With a `key` they are bound to it (RFC 9449 5).
        """
        grant = authorization_code_grant(code.value, redirect_uri, code_verifier)
        return await self.obtain(grant, key=key)

    async def obtain(
        self, grant: Mapping[str, str], *, key: DPoPKey | None = None
    ) -> TokenResponse:
        """The tokens for a `grant` that is not used up when the proof lacks a nonce.

        With a `key` they are bound to it (RFC 9449 5).
        """
        async with self._limit():
            metadata = await self._metadata.get()
            try:
                return await self._endpoints.tokens(metadata, grant, key=key)
            except NonceRequired:
                if key is None:
                    raise
                return await self._endpoints.tokens(metadata, grant, key=key)

    async def refresh(
        self,
        refresh_token: str,
        *,
        key: DPoPKey | None = None,
        target: Mapping[str, str] | None = None,
        before_sending: Callable[[], None] = lambda: None,
    ) -> TokenResponse:
        """New tokens (OpenID Connect Core 12); RefusedGrant when the refresh token is over.

        With a `key` they are bound to it (RFC 9449 5); NonceRequired when the proof needs a nonce,
        which the next call has. `target` asks for a token for another API (RFC 8707 2.2).

        The request goes out within `timeout` seconds, or not at all; nothing is awaited between
        `before_sending`, which may raise, and the request. Once it is sent its answer is
        awaited for up to 60 seconds, because the OP may have used the token up: a caller with less
        time waits in a task of its own and lets this one run.
        """
        metadata = await self.metadata()
        before_sending()
        grant = refresh_token_grant(refresh_token) | dict(target or {})
        return await self._endpoints.tokens(metadata, grant, patience=LONGEST_EXCHANGE, key=key)

    async def userinfo(
        self, access_token: str, *, sub: str, key: DPoPKey | None = None
    ) -> Claims | None:
        """The UserInfo claims about exactly `sub` (OpenID Connect Core 5.3), as JSON or signed.

        `key` is the one that the access token is bound to (RFC 9449 7.1).

        None when the OP has no such endpoint. Only an answer about somebody else is a
        ProtocolViolation (userinfo.subject): one that is over, or that is not this provider's for
        this client, says nothing about the user and is a ProviderError like no answer.
        """
        async with self._limit():
            endpoint = (await self._metadata.get()).userinfo_endpoint
            try:
                return await self._userinfo(endpoint, access_token, sub, key) if endpoint else None
            except ProtocolViolation as error:
                if error.code is Code.USERINFO_SUBJECT:
                    raise
                raise ProviderError(error.code, error.explanation, **error.details) from error

    async def verify(
        self,
        token: str,
        *,
        sender: Sender = "provider",
        algorithms: frozenset[str] | None = None,
        setting: str = "id_token_signing_algorithms",
    ) -> VerifiedToken:
        """The claims of a JWT that the OP signed with one of the pinned `algorithms`.

        Without any it is those of ID tokens; `setting` is where they are pinned. Raises
        ProtocolViolation (`jws` codes), or Undecided when newer keys may verify it. What the keys
        at hand do not verify makes them be read again, at once the first time and then once a
        minute at the most for each kind of sender.
        """
        async with self._limit():
            return await self._verifier.verify(
                token, sender=sender, algorithms=algorithms, setting=setting
            )

    async def push_authorization_request(self, parameters: Mapping[str, str]) -> str:
        """The `request_uri` for `parameters` (RFC 9126); provider.endpoint_missing without one."""
        async with self._limit():
            return await self._endpoints.push(await self._metadata.get(), parameters)

    async def revoke(self, token: str, token_type_hint: str) -> None:
        """Revoke `token` (RFC 7009); provider.endpoint_missing when the OP has no such endpoint."""
        async with self._limit():
            await self._endpoints.revoke(await self._metadata.get(), token, token_type_hint)

    async def introspect(self, token: str) -> Claims:
        """What the OP says of an access token (RFC 7662); nothing of it is checked yet."""
        async with self._limit():
            return await self._endpoints.introspect(await self._metadata.get(), token)

    async def aclose(self) -> None:
        """Close the pooled connections; a later call opens new ones."""
        await self._http.aclose()

    def _limit(self) -> AbstractAsyncContextManager[None]:
        """The time limit of one call; each request inside names its own URL."""
        return deadline(self._timeout, url=self._issuer, setting="provider_timeout")

    async def _userinfo(
        self, endpoint: str, access_token: str, sub: str, key: DPoPKey | None
    ) -> Claims:
        answer = await self._get_userinfo(endpoint, access_token, key)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            # Spring Authorization Server does so when its access tokens are opaque (RFC 6750 3.1).
            raise answer.refused_status("; fetch_userinfo=False leaves UserInfo out")
        answer.require_status(200)
        if not answer.is_jwt:
            return accept_userinfo(answer.document(), sub=sub)
        token = await self._verifier.verify(
            answer.text(),
            algorithms=self._registration.userinfo_algorithms,
            setting="userinfo_signing_algorithms",
        )
        return accept_signed_userinfo(
            token.claims,
            sub=sub,
            issuer=self._issuer,
            client_id=self._registration.client_id,
            at=self._clock.instant(),
            tenants=self._tenants,
        )

    async def _get_userinfo(
        self, endpoint: str, access_token: str, key: DPoPKey | None, *, may_repeat: bool = True
    ) -> OPResponse:
        """The response, to a second request when the first lacked the nonce (RFC 9449 9)."""
        proofs = self._endpoints.proofs
        sent = proofs.nonce(endpoint)
        answer = await self._http.get(
            endpoint,
            accept="application/json, application/jwt",
            access_token=access_token,
            proof=proofs.headers(key, "GET", endpoint, access_token=access_token),
        )
        proofs.learn(endpoint, answer.dpop_nonce)
        lacks_nonce = answer.status == HTTPStatus.UNAUTHORIZED and answer.dpop_nonce not in (
            "",
            sent,
        )
        if key is None or not lacks_nonce or not may_repeat:
            return answer
        return await self._get_userinfo(endpoint, access_token, key, may_repeat=False)

    async def _fetch_metadata(self) -> ProviderMetadata:
        answer = await self._http.get(discovery_url(self._issuer), accept=_ACCEPT)
        if answer.status == HTTPStatus.NOT_FOUND:
            raise answer.refused_status("; the setting issuer is what comes before /.well-known")
        answer.require_status(200)
        metadata = ProviderMetadata.parse(
            answer.published_document(),
            issuer=self._issuer,
            allow_insecure_http=self._allow_insecure_http,
            mutual_tls=self._mutual_tls,
            tenants=self._tenants,
        )
        for fault in metadata.ignored:
            _logger.warning("%s: %s; it counts as absent", answer.url, fault)
        return metadata
