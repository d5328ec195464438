"""The OpenID Provider (OP): its metadata, and all calls to it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final, Literal, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProtocolViolation, ProviderError
from fastapi_oidc.protocol.authorization import pushed_request_uri
from fastapi_oidc.protocol.claims import TrustedIssuer, accept_signed_userinfo, accept_userinfo
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.encoding import Claims
from fastapi_oidc.protocol.metadata import ProviderMetadata, discovery_url
from fastapi_oidc.protocol.refusal import NonceRequired
from fastapi_oidc.protocol.token import TokenResponse, refresh_token_grant
from fastapi_oidc.protocol.urls import with_query
from fastapi_oidc.provider.document import Document, Registration, TokenVerifier
from fastapi_oidc.provider.http import PROVIDER_TIMEOUT, HTTPClient, OPResponse, Proofs, budget
from fastapi_oidc.provider.network import HTTPOptions, Network

_logger = logging.getLogger("fastapi_oidc.provider")

_JSON, _JWT = "application/json", "application/jwt"

Endpoint: TypeAlias = Literal[
    "token_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "pushed_authorization_request_endpoint",
]
"""An endpoint at which clients authenticate, by its name in the metadata."""


_SECRET_PARAMETERS: Final = frozenset(
    {
        "code", "code_verifier", "refresh_token", "token", "client_secret", "client_assertion",
        "id_token_hint", "state", "nonce", "subject_token", "actor_token",
        "assertion",
    }
)  # fmt: skip

LONGEST_EXCHANGE: Final = 60.0
"""Seconds for which the response to a refresh token is awaited."""


@dataclass(eq=False, repr=False)
class Provider:
    """The client for one OP. Making one makes no requests.

    Each call except `refresh` takes at most `timeout` seconds for all its requests; the keys for a
    signed UserInfo response have the same time again, because other calls may await them too.
    Failures raise ProviderError; responses that break the protocol raise ProtocolViolation.
    """

    issuer: TrustedIssuer
    registration: Registration
    clock: Clock
    allow_insecure_http: bool = False
    timeout: float = PROVIDER_TIMEOUT
    network: Network = field(default_factory=Network)
    options: HTTPOptions = field(default_factory=HTTPOptions)

    def __post_init__(self) -> None:
        """Make what the calls share, without a request."""
        self._http = HTTPClient(self.network, self.options, timeout=self.timeout)
        self._metadata = Document("metadata", self._fetch_metadata, self.clock)
        self._verifier = TokenVerifier(
            self._http, self._metadata, self.clock, self.registration, self.timeout
        )
        self.verify = self._verifier.verify
        self._proofs = Proofs(self.clock)

    def beside(self, issuer: TrustedIssuer, registration: Registration) -> Provider:
        """A client for `issuer`, with this client's limits and connections.

        Only this client's own issuer gets its certificate.
        """
        own = replace(self, registration=registration)
        if issuer == self.issuer:
            return own
        options = replace(self.options, client_certificate_file=None, mutual_tls=False)
        return replace(own, issuer=issuer, options=options)

    async def metadata(self) -> ProviderMetadata:
        """The metadata, fetched again when it is older than an hour.

        Only this is needed before a code exchange. The last known metadata is used for a day while
        a new one is unavailable. A failed fetch is not repeated for five seconds
        (provider.unavailable).
        """
        async with self._call() as metadata:
            return metadata

    async def prepare_refresh(self) -> None:
        """Make sure that the metadata and keys for a refresh response are available.

        Await this before a refresh, because the refresh token may work only once. Raises
        ProviderError when they are unavailable and the last known ones are more than a day old.
        """
        async with self._call():
            await self._verifier.prepare()

    async def is_reachable(self) -> bool:
        """Whether the OP responds now; cached metadata and 5xx responses do not count.

        Check this before redirecting a browser, which would otherwise show an error page.
        """
        try:
            with budget(self.timeout):
                answer = await self._get_metadata()
        except ProviderError as error:
            return error.code is Code.PROVIDER_REDIRECTED
        return answer.status < HTTPStatus.INTERNAL_SERVER_ERROR

    async def obtain(
        self,
        grant: Mapping[str, str],
        *,
        key: DPoPKey | None = None,
        before_sending: Callable[[], None] | None = None,
    ) -> TokenResponse:
        """The tokens for a `grant` (RFC 6749 4), not verified yet.

        With a `key` the tokens are bound to it (RFC 9449 5). `before_sending`, which may raise, is
        called right before the grant is sent.
        """
        async with self._call() as metadata:
            answer = await self._post(
                metadata, "token_endpoint", grant, key=key, before_sending=before_sending
            )
        response = TokenResponse.read(answer.json_body())
        response.require_binding(is_bound=key is not None)
        return response

    async def refresh(
        self,
        refresh_token: str,
        *,
        key: DPoPKey | None = None,
        target: Mapping[str, str] | None = None,
        before_sending: Callable[[], None] | None = None,
    ) -> bytes:
        """The JSON with new tokens (OpenID Connect Core 12), to be recorded before it is parsed.

        Raises RefusedGrant for an invalid refresh token. With a `key` the tokens are bound to it
        (RFC 9449 5). `target` requests a token for another API (RFC 8707 2.2).

        `before_sending`, which may raise, is called when the connection is open, right before the
        token is sent. The response is awaited for up to 60 seconds, because the OP may have used up
        the token. So a caller with less time must run this in a task and stop waiting for the task.
        """
        answer = await self._post(
            await self._metadata.get(),
            "token_endpoint",
            refresh_token_grant(refresh_token) | dict(target or {}),
            patience=LONGEST_EXCHANGE,
            key=key,
            before_sending=before_sending,
        )
        return answer.json_body()

    async def userinfo(
        self, access_token: str, *, sub: str, key: DPoPKey | None = None
    ) -> Claims | None:
        """The UserInfo claims of exactly `sub` (OpenID Connect Core 5.3), from JSON or a JWT.

        `key` is the key to which the access token is bound (RFC 9449 7.1).

        None when the OP has no such endpoint. Raises ProtocolViolation (userinfo.subject) only for
        a response about another user. An expired response, or one with another issuer or audience,
        is a ProviderError, like no response.
        """
        async with self._call() as metadata:
            endpoint = metadata.userinfo_endpoint
            try:
                return await self._userinfo(endpoint, access_token, sub, key) if endpoint else None
            except ProtocolViolation as error:
                if error.code is Code.USERINFO_SUBJECT:
                    raise
                raise ProviderError(error.code, error.explanation, **error.details) from error

    async def authorization_url(self, parameters: Mapping[str, str], *, is_pushed: bool) -> str:
        """The URL to which the browser is redirected with `parameters`.

        If `is_pushed`, or if the OP requires it, they are sent there first, and the URL names them
        (RFC 9126). Raises ProviderError.
        """
        async with self._call() as metadata:
            if is_pushed or metadata.requires_pushed_authorization_requests:
                endpoint: Endpoint = "pushed_authorization_request_endpoint"
                # RFC 9126 2.2 says 201; some providers send 200.
                statuses = (HTTPStatus.CREATED, HTTPStatus.OK)
                answer = await self._post(metadata, endpoint, parameters, *statuses)
                request_uri = pushed_request_uri(answer.document())
                parameters = {"client_id": parameters["client_id"], "request_uri": request_uri}
            return with_query(metadata.authorization_endpoint, parameters)

    async def revoke(self, token: str, token_type_hint: str) -> None:
        """Revoke `token` (RFC 7009); provider.endpoint_missing when the OP has no such endpoint.

        The status alone says that it is invalid now (RFC 7009 2.2).
        """
        form = {"token": token, "token_type_hint": token_type_hint}
        async with self._call() as metadata:
            await self._post(metadata, "revocation_endpoint", form, is_body_read=False)

    async def introspect(self, token: str) -> Claims:
        """The OP's introspection response for an access token (RFC 7662 2), not checked yet."""
        form = {"token": token, "token_type_hint": "access_token"}
        async with self._call() as metadata:
            answer = await self._post(metadata, "introspection_endpoint", form)
        return answer.members()

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[ProviderMetadata]:
        """The metadata; all requests of the call have the same time together."""
        with budget(self.timeout):
            yield await self._metadata.get()

    async def _post(
        self,
        metadata: ProviderMetadata,
        endpoint_name: Endpoint,
        form: Mapping[str, str],
        *expected: int,
        key: DPoPKey | None = None,
        patience: float | None = None,
        before_sending: Callable[[], None] | None = None,
        is_body_read: bool = True,
    ) -> OPResponse:
        """The response to `form`, with an `expected` status, awaited for `patience` seconds.

        With a `key` the request has a proof of it (RFC 9449 5), and is repeated once if the proof
        lacks a nonce: nothing was used up (8). `before_sending` may raise right before a request is
        sent. Raises TokenRefused when the OP refuses the request, and other ProviderErrors when a
        later attempt may succeed.
        """
        endpoint: str | None = getattr(metadata, endpoint_name)
        if endpoint is None:
            explanation = f"the provider's metadata has no {endpoint_name}"
            raise ProviderError(Code.PROVIDER_ENDPOINT_MISSING, explanation)
        client = self.registration.authentication
        audiences = {"issuer": metadata.issuer, "token_endpoint": metadata.token_endpoint}
        may_repeat = key is not None
        while True:
            headers, sent_form = client.apply(
                form,
                audience=audiences[self.registration.assertion_audience],
                now=self.clock.now(),
                jti=secrets.token_urlsafe(24),
            )
            # To remove from the OP's error messages.
            sent = [one for name, one in sent_form.items() if name in _SECRET_PARAMETERS]
            answer = await self._http.request(
                "POST",
                endpoint,
                accept=_JSON,
                headers={**headers, **self._proofs.headers(key, "POST", endpoint)},
                form=sent_form,
                sent=(*sent, client.client_secret),
                patience=patience,
                before_sending=before_sending,
            )
            self._proofs.learn(endpoint, answer.dpop_nonce)
            try:
                if is_body_read or answer.status != HTTPStatus.OK:
                    answer.require_no_refusal()
            except NonceRequired:
                if not may_repeat:
                    raise
                may_repeat = False
            else:
                answer.require_status(*expected or (HTTPStatus.OK,))
                return answer

    async def _userinfo(
        self, endpoint: str, access_token: str, sub: str, key: DPoPKey | None
    ) -> Claims:
        answer = await self._get_userinfo(endpoint, access_token, key)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            # Spring Authorization Server does this for opaque access tokens (RFC 6750 3.1).
            raise answer.refused_status("; fetch_userinfo=False leaves UserInfo out")
        answer.require_status(200)
        if answer.media_type != _JWT:  # Core 5.3.2
            return accept_userinfo(answer.document(), sub=sub)
        token = await self.verify(
            answer.text(),
            algorithms=self.registration.userinfo_algorithms,
            setting="userinfo_signing_algorithms",
        )
        return accept_signed_userinfo(
            token.claims,
            sub=sub,
            issuer=self.issuer,
            client_id=self.registration.authentication.client_id,
            at=self.clock.instant(),
        )

    async def _get_userinfo(
        self, endpoint: str, access_token: str, key: DPoPKey | None, *, may_repeat: bool = True
    ) -> OPResponse:
        """The response; of a second request if the first one lacked the nonce (RFC 9449 9)."""
        sent = self._proofs.nonce(endpoint)
        proof = self._proofs.headers(key, "GET", endpoint, access_token=access_token)
        # In no other place (RFC 6750 2.1, RFC 9449 7.1).
        scheme = "DPoP" if proof else "Bearer"
        answer = await self._http.request(
            "GET",
            endpoint,
            accept=f"{_JSON}, {_JWT}",
            headers={"Authorization": f"{scheme} {access_token}", **proof},
            sent=(access_token,),
        )
        self._proofs.learn(endpoint, answer.dpop_nonce)
        is_new = answer.dpop_nonce not in ("", sent)
        if key is None or answer.status != HTTPStatus.UNAUTHORIZED or not (is_new and may_repeat):
            return answer
        return await self._get_userinfo(endpoint, access_token, key, may_repeat=False)

    async def _get_metadata(self) -> OPResponse:
        return await self._http.request("GET", discovery_url(self.issuer.url), accept=_JSON)

    async def _fetch_metadata(self) -> ProviderMetadata:
        answer = await self._get_metadata()
        if answer.status == HTTPStatus.NOT_FOUND:
            raise answer.refused_status("; the setting issuer is what comes before /.well-known")
        metadata = ProviderMetadata.parse(
            answer.published_document(),
            issuer=self.issuer,
            allow_insecure_http=self.allow_insecure_http,
            mutual_tls=self.options.shows_certificate,
        )
        for fault in metadata.ignored:
            _logger.warning("%s: %s; it counts as absent", answer.url, fault)
        return metadata
