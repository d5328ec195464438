"""Authentication of requests by clients of httpx, and their DPoP proofs."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Generator
from functools import cache
from http import HTTPStatus
from typing import cast

import anyio.from_thread
import httpx

from fastapi_oidc.errors import Code, ConfigurationError, SessionError, misconfigured
from fastapi_oidc.grants.grants import Tokens
from fastapi_oidc.protocol.access_token import refuses
from fastapi_oidc.protocol.downstream import IssuedToken, Needed, NotText
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.urls import travels_unencrypted
from fastapi_oidc.provider.http import Proofs


@cache
def _with_proof(kind: type[httpx.Headers]) -> Callable[[httpx.Headers, str], httpx.Headers]:
    """Headers with a proof that is sent and not copied. `kind` is that of httpx or of httpx2.

    A client that follows a redirect copies the headers. Without the proof, a request to another
    origin has nothing of the token, and one within the origin gets a proof of its own.
    """

    class WithProof(kind):  # type: ignore[misc, valid-type]
        plain = kind

        def __init__(self, headers: httpx.Headers, proof: str) -> None:
            super().__init__(headers)
            self._proof = proof

        @property
        def raw(self) -> list[tuple[bytes, bytes]]:
            """The headers as they are sent."""
            return [*super().raw, (b"DPoP", self._proof.encode())]

        def __getitem__(self, key: str) -> str:
            return self._proof if key.lower() == "dpop" else super().__getitem__(key)

        def __contains__(self, key: object) -> bool:
            return str(key).lower() == "dpop" or super().__contains__(key)

    return WithProof


_INVALID, _NONCE = "invalid_token", "use_dpop_nonce"


class TokenAuth(NotText, httpx.Auth):
    """Sends a token with each request, only to the origin of that request.

    A request over http that leaves this machine raises ConfigurationError
    (configuration.insecure_url, RFC 6750 5.3) unless `is_insecure_allowed`.

    A request that is refused with `invalid_token` (RFC 6750 3.1) is sent once more with another
    token. A request whose proof lacks a nonce (RFC 9449 9) is sent once more with the nonce. A
    request with a stream as its body is never repeated, because the stream can be read only once.
    """

    def __init__(
        self, tokens: Tokens, min_validity: int, proofs: Proofs, is_insecure_allowed: bool
    ) -> None:
        self._tokens, self._min_validity, self._proofs = tokens, min_validity, proofs
        self._is_insecure_allowed = is_insecure_allowed

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """For `httpx.AsyncClient`: three requests at most, and one more at each redirect."""
        if not self._is_insecure_allowed:
            _require_encrypted(request.url)
        is_repeatable = _has_body(request)
        token = await self._tokens(Needed(self._min_validity, url=str(request.url)))
        nonce = self._proofs.nonce(_origin(request.url))
        response = yield self._with(request, token)
        while is_repeatable and _lacks_proof(request, response, token):
            request = response.request
            response = yield self._with(request, token)
        asks_for_nonce = self._learn_nonce(request, response) not in ("", nonce)
        if is_repeatable and asks_for_nonce and _is_refused(request, response, _NONCE):
            response = yield self._with(request, token)
            self._learn_nonce(request, response)
        if is_repeatable and _is_refused(request, response, _INVALID):
            other = await self._other_than(token.value)
            if other is not None:
                yield self._with(request, other)

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """For `httpx.Client` in a sync endpoint, which runs in a thread.

        Each step runs in the event loop of the application.
        """
        steps, response = self.async_auth_flow(request), cast("httpx.Response", None)
        while True:
            try:
                step = anyio.from_thread.run(steps.asend, response)
            except StopAsyncIteration:
                return
            except RuntimeError as error:
                raise misconfigured(
                    "oidc.auth works with httpx.Client only in the thread of a sync endpoint; "
                    "elsewhere use httpx.AsyncClient"
                ) from error
            response = yield step

    async def _other_than(self, refused: str) -> IssuedToken | None:
        """A token in place of one that an API has refused; None if no other one is available."""
        try:
            token = await self._tokens(Needed(self._min_validity, refused=refused))
        except ConfigurationError:
            return None
        except SessionError as error:
            if error.code is not Code.SESSION_RESPONSE_STARTED:
                raise
            return None
        return None if token.value == refused else token

    def _with(self, request: httpx.Request, token: IssuedToken) -> httpx.Request:
        """The request with `token`, and with a proof for this request alone."""
        request.headers["Authorization"] = f"{token.token_type} {token.value}"
        if token.dpop_key is not None:
            headers = self._proofs.headers(
                DPoPKey.from_text(token.dpop_key),
                request.method,
                str(request.url),
                access_token=token.value,
                server=_origin(request.url),
            )
            # The class without a proof, also when the request is sent again.
            kind = getattr(request.headers, "plain", type(request.headers))
            request.headers = _with_proof(kind)(request.headers, headers["DPoP"])
        return request

    def _learn_nonce(self, request: httpx.Request, response: httpx.Response) -> str:
        """The nonce that the API sent for the next proofs; "" without one."""
        server, nonce = _origin(request.url), str(response.headers.get("DPoP-Nonce", ""))
        if not nonce or _origin(response.request.url) != server:
            return ""
        self._proofs.learn(server, nonce)
        return nonce


def auth_of(
    tokens: Tokens, min_validity: int, proofs: Proofs, *, is_insecure_allowed: bool
) -> TokenAuth:
    """The authentication for clients of httpx, and of httpx2 if it is imported."""
    other = getattr(sys.modules.get("httpx2"), "Auth", None)
    return _kind(other)(tokens, min_validity, proofs, is_insecure_allowed)


@cache
def _kind(other: type | None) -> type[TokenAuth]:
    """The class of the authentication: each library accepts instances of its own `Auth` only."""
    if other is None or issubclass(TokenAuth, other):
        return TokenAuth
    return type("TokenAuth", (TokenAuth, other), {})


def _require_encrypted(url: httpx.URL) -> None:
    """Refuse to send a token in clear text (RFC 6750 5.3)."""
    if travels_unencrypted(str(url)):
        raise ConfigurationError(
            Code.CONFIGURATION_INSECURE_URL,
            f"a token would be sent to {_origin(url)} unencrypted. Use https; allow_insecure_http "
            "permits http",
        )


def _has_body(request: httpx.Request) -> bool:
    """Whether the body can be sent again: a stream can be read only once."""
    try:
        return request.content is not None
    except RuntimeError:  # RequestNotRead
        return False


def _is_refused(request: httpx.Request, response: httpx.Response, error: str) -> bool:
    """Whether the API refused the token with `error`; responses of other origins do not count."""
    if response.status_code != HTTPStatus.UNAUTHORIZED:
        return False
    is_from_there = _origin(response.request.url) == _origin(request.url)
    return is_from_there and refuses(response.headers.get_list("WWW-Authenticate"), error)


def _lacks_proof(request: httpx.Request, response: httpx.Response, token: IssuedToken) -> bool:
    """Whether a redirect within the origin led to a refusal: a proof is for one URL (RFC 9449 4.3).

    The client limits the number of redirects.
    """
    sent = response.request
    is_refused = response.status_code == HTTPStatus.UNAUTHORIZED and "DPoP" not in sent.headers
    return token.dpop_key is not None and is_refused and _origin(sent.url) == _origin(request.url)


def _origin(url: httpx.URL) -> str:
    """Scheme, host and port, without the scheme's default port."""
    return f"{url.scheme}://{url.netloc.decode()}"
