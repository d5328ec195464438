"""Requests that authenticate the client, and the proofs of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal, TypeAlias

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.protocol.client_auth import ClientAuthentication
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.refusal import TEMPORARY_ERRORS, refusal
from fastapi_oidc.provider.http import OPResponse

MAX_NONCE_LENGTH: Final = 1000
"""Maximum length, in characters, of a nonce that is sent back."""

NONCE_SECONDS: Final = 3600
"""Seconds for which the last nonce of a server is cached."""

MOST_SERVERS: Final = 1000
"""Maximum number of servers whose nonces are cached."""


class Proofs:
    """Signs proofs with the key of a token, and stores nonces in this process only.

    Another process gets a nonce with the refusal of its first request (8, 9). `server` is what has
    nonces of its own: the provider's endpoint, or the origin of an API.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nonces: TTLCache[str, str] = TTLCache(clock, max_entries=MOST_SERVERS)

    def headers(
        self,
        key: DPoPKey | None,
        method: str,
        url: str,
        *,
        access_token: str = "",
        server: str = "",
    ) -> dict[str, str]:
        """The `DPoP` header of one request; none without a key."""
        if key is None:
            return {}
        now, nonce = self._clock.now(), self.nonce(server or url)
        proof = key.proof(method, url, now, access_token=access_token or None, nonce=nonce)
        return {"DPoP": proof}

    def nonce(self, server: str) -> str | None:
        """The nonce for the next proof to `server`."""
        return self._nonces.get(server)

    def learn(self, server: str, nonce: str) -> None:
        """Use `nonce`, from a response header, in the next proofs to `server` (8.2)."""
        if 0 < len(nonce) <= MAX_NONCE_LENGTH:
            self._nonces.set(server, nonce, expires_at=self._clock.now() + NONCE_SECONDS)


AssertionAudience: TypeAlias = Literal["issuer", "token_endpoint"]
Endpoint: TypeAlias = Literal[
    "token_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "pushed_authorization_request_endpoint",
]
"""An endpoint at which clients authenticate, by its name in the metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration of the client: its authentication, and the OP's signing algorithms.

    `userinfo_algorithms` are for signed UserInfo; None means those of ID tokens.
    """

    authentication: ClientAuthentication
    algorithms: frozenset[str]
    userinfo_algorithms: frozenset[str] | None = None
    assertion_audience: AssertionAudience = "issuer"


_TRY_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


def require_no_refusal(answer: OPResponse) -> None:
    """Raise TokenRefused for a 4xx with an `error` (RFC 6749 5.2), unless it means "try later".

    Also raise it for an `error` with HTTP 200 in place of tokens, as some OPs send it. Another 4xx
    may be from a proxy or a firewall: it refuses nothing. But 400 without a body is Glewlwyd's way
    to refuse a refresh token.
    """
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return
    is_ok = answer.status == HTTPStatus.OK
    # Most responses are tokens, which should be parsed only once.
    may_be_error = b'"error"' in answer.body if is_ok else answer.status >= 400
    members = answer.error_members() if may_be_error else {}
    error = said if isinstance(said := members.get("error"), str) else None
    if answer.status < 400 and (not error or "access_token" in members):
        return
    if answer.status in _TRY_LATER or error in TEMPORARY_ERRORS:
        raise answer.refused_status()
    if error is None and (answer.status != HTTPStatus.BAD_REQUEST or answer.body):
        raise answer.unreadable_refusal()
    raise refusal(members, answer.status, url=answer.url, sent=answer.sent)
