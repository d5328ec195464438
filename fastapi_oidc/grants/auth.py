"""Authentication of httpx and httpx2 that sends an access token (RFC 6750 2.1)."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar

import anyio.from_thread
import httpx

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.grants.grants import Tokens
from fastapi_oidc.protocol.bearer_challenge import says_invalid_token
from fastapi_oidc.protocol.issued_token import IssuedToken, Needed

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class TokenAuth(httpx.Auth):
    """Sends a token with each request, to the origin of that request alone.

    A request that is refused with `invalid_token` (RFC 6750 3.1) is sent once more with another
    token, unless its body is a stream, which can be read once.
    """

    def __init__(self, tokens: Tokens, min_validity: int) -> None:
        self._tokens, self._min_validity = tokens, min_validity

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """For `httpx.AsyncClient`."""
        token = await self._tokens(Needed(self._min_validity))
        is_repeatable = _has_body(request)
        response = yield _with_token(request, token)
        if is_repeatable and _is_refused(request, response):
            other = await self._other_than(token)
            if other is not None:
                yield _with_token(request, other)

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """For `httpx.Client` in an endpoint that is not async, which runs in a thread."""
        token = _in_event_loop(self._tokens, Needed(self._min_validity))
        is_repeatable = _has_body(request)
        response = yield _with_token(request, token)
        if is_repeatable and _is_refused(request, response):
            other = _in_event_loop(self._other_than, token)
            if other is not None:
                yield _with_token(request, other)

    async def _other_than(self, refused: IssuedToken) -> IssuedToken | None:
        """Another token than the one that was refused; None when there can be none now."""
        try:
            token = await self._tokens(Needed(self._min_validity, refused.value))
        except ConfigurationError:  # there is no refresh token
            return None
        except SessionError as error:
            if error.code is Code.SESSION_RESPONSE_STARTED:
                return None
            raise
        return None if token.value == refused.value else token


def auth_of(tokens: Tokens, min_validity: int) -> TokenAuth:
    """The authentication for clients of httpx, and of httpx2 where that is imported."""
    other = getattr(sys.modules.get("httpx2"), "Auth", None)
    return _kind(other)(tokens, min_validity)


@cache
def _kind(other: type | None) -> type[TokenAuth]:
    """A client asks whether its authentication is an `Auth` of its own library."""
    if other is None or issubclass(TokenAuth, other):
        return TokenAuth
    return type("TokenAuth", (TokenAuth, other), {})


def _with_token(request: httpx.Request, token: IssuedToken) -> httpx.Request:
    request.headers["Authorization"] = f"{token.token_type} {token.value}"
    return request


def _has_body(request: httpx.Request) -> bool:
    """Whether the body is here, if there is any, and no stream, which can be read once."""
    try:
        return request.content is not None
    except RuntimeError:  # RequestNotRead
        return False


def _is_refused(request: httpx.Request, response: httpx.Response) -> bool:
    """Whether the API that was sent the token says that it is over."""
    if response.status_code != HTTPStatus.UNAUTHORIZED:
        return False
    is_from_there = _origin(response.request.url) == _origin(request.url)
    challenges = response.headers.get_list("WWW-Authenticate")
    return is_from_there and says_invalid_token(challenges)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _in_event_loop(
    function: Callable[[Argument], Coroutine[Any, Any, Result]], argument: Argument
) -> Result:
    """The result of `function` in the event loop of the application."""
    try:
        return anyio.from_thread.run(function, argument)
    except RuntimeError as error:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "oidc.auth works with httpx.Client in the thread of an endpoint that is not async; "
            "elsewhere use httpx.AsyncClient",
        ) from error
