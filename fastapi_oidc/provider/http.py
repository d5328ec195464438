"""Requests to a provider: limits of time and size, proofs of keys, and responses as values."""

from __future__ import annotations

import asyncio
import ssl
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import Final

import httpx

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.protocol.encoding import JSON, Claims, MalformedJSON, parse_json
from fastapi_oidc.protocol.refusal import TEMPORARY_ERRORS, cleaned, refusal, without
from fastapi_oidc.provider.network import HTTPOptions, Network

_TRY_LATER: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)

_ends_at: Final[ContextVar[float | None]] = ContextVar("ends_at", default=None)
"""When the time of the call under way ends, by the clock of the event loop."""


def remaining() -> float:
    """The seconds that the call under way still has."""
    ends_at = _ends_at.get()
    return inf if ends_at is None else ends_at - asyncio.get_running_loop().time()


@contextmanager
def budget(seconds: float) -> Iterator[None]:
    """All requests of the block end within `seconds`, also those of tasks that it starts."""
    token = _ends_at.set(asyncio.get_running_loop().time() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(token)


@dataclass(frozen=True, slots=True)
class OPResponse:
    """One complete response. `url` has no query; the body may contain tokens.

    `sent` are the secrets in the request, which some OPs repeat in their error messages. `date`,
    `location` and `dpop_nonce` are the headers with these names (RFC 9110 6.6.1, 10.2.2; RFC 9449
    8).
    """

    url: str
    status: int
    media_type: str
    body: bytes = field(repr=False)
    sent: tuple[str, ...] = field(default=(), repr=False)
    date: str = ""
    location: str = field(default="", repr=False)
    dpop_nonce: str = ""

    def document(self) -> JSON:
        """The parsed JSON body, whatever its media type.

        Raises ProviderError (provider.answer_malformed).
        """
        try:
            return parse_json(self.body.removeprefix(BOM_UTF8))
        except MalformedJSON as error:
            raise self._malformed(f"{error}; the media type is {self.media_type[:80]!r}") from error

    def json_body(self) -> bytes:
        """The unparsed body of a media type for JSON; raises ProviderError."""
        # Or a type that is built on JSON (RFC 6839 3.1).
        if self.media_type != "application/json" and not self.media_type.endswith("+json"):
            raise self._malformed(f"the media type is {self.media_type[:80]!r}, not JSON")
        try:
            # RFC 8259 8.1: a parser may ignore a byte order mark. A row has the body as text.
            return self.body.removeprefix(BOM_UTF8).decode().encode()
        except UnicodeDecodeError:
            raise self._malformed("not UTF-8") from None

    def members(self) -> Claims:
        """The members of the JSON object in the body; raises ProviderError."""
        document = self.document()
        if not isinstance(document, dict):
            raise self._malformed("not a JSON object")
        return document

    def error_members(self) -> Claims:
        """Like `members`, and none if the body is something else: errors may have any form."""
        try:
            return self.members()
        except ProviderError:
            return {}

    def published_document(self) -> JSON:
        """Like `document`, with status 200."""
        self.require_status(200)
        return self.document()

    def text(self) -> str:
        """The body as ASCII text; raises ProviderError (provider.answer_malformed)."""
        try:
            return self.body.decode("ascii").strip()
        except UnicodeDecodeError:
            raise self._malformed("the body is not ASCII") from None

    def require_status(self, *expected: int) -> None:
        """Raise ProviderError (provider.status) for any other status."""
        if self.status not in expected:
            raise self.refused_status()

    def require_no_refusal(self) -> None:
        """Raise TokenRefused for a 4xx with an `error` (RFC 6749 5.2), unless it means "try later".

        Also raise it for an `error` with HTTP 200 in place of tokens, as some OPs send it. Another
        4xx may be from a proxy or a firewall: it refuses nothing. But 400 without a body is
        Glewlwyd's way to refuse a refresh token.
        """
        if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        is_ok = self.status == HTTPStatus.OK
        # Most responses are tokens, which should be parsed only once.
        may_be_error = b'"error"' in self.body if is_ok else self.status >= 400
        members = self.error_members() if may_be_error else {}
        error = said if isinstance(said := members.get("error"), str) else None
        if self.status < 400 and (not error or "access_token" in members):
            return
        if self.status in _TRY_LATER or error in TEMPORARY_ERRORS:
            raise self.refused_status()
        if error is None and (self.status != HTTPStatus.BAD_REQUEST or self.body):
            raise self.unreadable_refusal()
        raise refusal(members, self.status, url=self.url, sent=self.sent)

    def refused_status(self, advice: str = "") -> ProviderError:
        """The ProviderError for the status (provider.status), with the OP's error message."""
        said = self._words_of_refusal()
        explanation = f"HTTP {self.status}{said and ': '}{said}{advice}"
        return ProviderError(Code.PROVIDER_STATUS, explanation, url=self.url, status=self.status)

    def unreadable_refusal(self) -> ProviderError:
        """The ProviderError for a 4xx without an OAuth error (provider.refusal_unreadable)."""
        explanation = (
            f"HTTP {self.status} without an OAuth error ({cleaned(self.media_type, 80)}): "
            "a proxy or a firewall may have answered in the provider's place"
        )
        return ProviderError(
            Code.PROVIDER_REFUSAL_UNREADABLE, explanation, url=self.url, status=self.status
        )

    def _words_of_refusal(self) -> str:
        """The OP's `error` and `error_description` (RFC 6749 5.2; RFC 6750 3.1 in its body)."""
        members = self.error_members()
        texts = [members.get(name) for name in ("error", "error_description")]
        return " - ".join(
            cleaned(without(text, self.sent)) for text in texts if isinstance(text, str)
        )

    def _malformed(self, explanation: str) -> ProviderError:
        return ProviderError(Code.PROVIDER_ANSWER_MALFORMED, explanation, url=self.url)


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


PROVIDER_TIMEOUT: Final = 10.0
"""Seconds for an exchange with the provider, unless the settings have another time."""


_QUOTING: Final = (httpx.InvalidURL, httpx.LocalProtocolError)
"""Errors that quote their input: a password in the proxy's URL, or a header with a token."""


def cause_of(error: BaseException) -> str:
    """The cause of `error` in one line: its kind, and what the system or else httpx says of it."""
    kind, said = type(error).__name__, "" if isinstance(error, _QUOTING) else str(error)
    for below in islice(_below(error), 20):  # one that is raised again may be its own cause
        if isinstance(below, ssl.SSLCertVerificationError):
            reason = cleaned(below.verify_message)
            return f"the certificate is not trusted: {reason}; set ca_file for other authorities"
        if isinstance(below, OSError):
            said = below.strerror or said
    return f"{kind}: {cleaned(said)}" if said else kind


def _below(error: BaseException | None) -> Iterator[BaseException]:
    """`error` and its causes."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        else:
            error = error.__cause__ or error.__context__


_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Failures to get a connection. After other failures the OP may have received the request."""


class HTTPClient:
    """Sends requests to the OP within limits. It follows no redirects and stores no cookies.

    `timeout` is in seconds for a whole exchange, from the name lookup to the last byte.
    """

    def __init__(
        self,
        network: Network,
        options: HTTPOptions,
        *,
        timeout: float = PROVIDER_TIMEOUT,
        max_answer_bytes: int = 1_000_000,
    ) -> None:
        network.prepare(options)
        self._network, self._options, self._timeout = network, options, timeout
        self._max_answer_bytes = max_answer_bytes
        # A request with patience has more time than this for its response, not for connecting.
        self._limits = httpx.Timeout(None, connect=timeout, pool=timeout).as_dict()

    async def request(
        self,
        method: str,
        url: str,
        *,
        accept: str = "*/*",
        headers: Mapping[str, str] = MappingProxyType({}),
        form: Mapping[str, str] | None = None,
        sent: tuple[str, ...] = (),
        patience: float | None = None,
        may_redirect: bool = False,
        before_sending: Callable[[], None] | None = None,
    ) -> OPResponse:
        """The response, with any status except a redirect, unless it `may_redirect`.

        Raises ProviderError. A GET is sent once more if the connection fails; a code or a refresh
        token must not be sent twice. `sent` are the secrets in the request. With `patience`, the
        response is awaited for that many seconds; connecting is still limited by `timeout`.
        `before_sending` may raise when the connection is open and nothing of the form has been
        sent.
        """
        where = url.partition("?")[0]
        try:
            headers = {"Accept": accept, **headers}
            request = httpx.Request(method, url, headers=headers, data=form and dict(form))
            request.extensions["timeout"] = self._limits
            if before_sending is not None:
                before_sending()  # a transport that replaces the network traces nothing
                request.extensions["trace"] = _trace(before_sending)
            async with asyncio.timeout_at(self._end(patience)):
                try:
                    answer = await self._send(request, where, sent)
                except (httpx.NetworkError, httpx.RemoteProtocolError):
                    if method != "GET":
                        raise
                    answer = await self._send(request, where, sent)
        except TimeoutError as error:
            raise self._late(patience, where) from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            timed_out = isinstance(error, httpx.TimeoutException)
            code = Code.PROVIDER_TIMEOUT if timed_out else Code.PROVIDER_UNREACHABLE
            failed = ProviderError(code, without(cause_of(error), sent), url=where)
            failed.is_unsent = isinstance(error, _NOT_SENT)
            raise failed from error
        if 300 <= answer.status < 400 and not may_redirect:
            # It could send credentials to an unknown place.
            explanation = f"HTTP {answer.status}; redirects are not followed"
            raise ProviderError(Code.PROVIDER_REDIRECTED, explanation, url=where)
        return answer

    def _end(self, patience: float | None) -> float:
        """When the time of a request ends: that of the call around it, unless it has `patience`."""
        around = _ends_at.get() if patience is None else None
        return around or asyncio.get_running_loop().time() + (patience or self._timeout)

    def _late(self, patience: float | None, where: str) -> ProviderError:
        seconds = self._timeout if patience is None else patience
        explanation = f"no complete response within {seconds:g} seconds"
        details = {"url": where} | ({} if patience else {"setting": "provider_timeout"})
        return ProviderError(Code.PROVIDER_TIMEOUT, explanation, **details)

    async def _send(self, request: httpx.Request, where: str, sent: tuple[str, ...]) -> OPResponse:
        # Compressed responses are not requested and not read: a few bytes could expand to
        # gigabytes. `send` adds no cookies of the client: one user's response must not affect
        # another's request.
        request.headers["Accept-Encoding"] = "identity"
        request.headers["User-Agent"] = "fastapi-oidc"
        response = await self._network.client(self._options).send(request, stream=True)
        try:
            media_type = str(response.headers.get("Content-Type", "")).partition(";")[0]
            return OPResponse(
                url=where,
                status=response.status_code,
                media_type=media_type.strip().lower(),
                body=await self._body(response, where),
                sent=sent,
                date=response.headers.get("Date", ""),
                location=response.headers.get("Location", ""),
                dpop_nonce=response.headers.get("DPoP-Nonce", ""),
            )
        finally:
            await response.aclose()

    async def _body(self, response: httpx.Response, where: str) -> bytes:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            explanation = "compressed, although only identity is accepted"
            raise ProviderError(Code.PROVIDER_ANSWER_MALFORMED, explanation, url=where)
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._max_answer_bytes:
                explanation = f"more than {self._max_answer_bytes} bytes"
                raise ProviderError(Code.PROVIDER_ANSWER_TOO_LARGE, explanation, url=where)
        return bytes(body)


def _trace(before_sending: Callable[[], None]) -> Callable[[str, object], Awaitable[None]]:
    """The hook with which httpcore tells that it begins to send a body."""

    async def trace(event: str, _: object) -> None:
        if event.endswith(".send_request_body.started"):
            before_sending()

    return trace
