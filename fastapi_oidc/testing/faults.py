"""Failures and changed messages on demand, to simulate a provider that is down, slow or wrong."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, Protocol, TypeAlias, get_args

from pydantic import JsonValue
from starlette.responses import Response, StreamingResponse

from fastapi_oidc.testing.messages import Refusal

Endpoint: TypeAlias = Literal[
    "metadata",
    "jwks",
    "authorization",
    "token",
    "userinfo",
    "introspection",
    "revocation",
    "pushed_authorization_request",
    "end_session",
    "check_session",
]
_log = logging.getLogger("fastapi_oidc.testing")

Answer: TypeAlias = Callable[[], Awaitable[Response]]


class Fault(Protocol):
    """One failure. `answer` calls the endpoint."""

    async def happen(self, answer: Answer) -> Response:
        """The response to send in place of the endpoint's."""
        ...


@dataclass(frozen=True, slots=True)
class ServerError:
    """The request fails before it has any effect."""

    status: int = HTTPStatus.INTERNAL_SERVER_ERROR
    body: str = "<html>out of order</html>"

    async def happen(self, answer: Answer) -> Response:
        """A response that is not JSON."""
        return Response(self.body, self.status, media_type="text/html")


@dataclass(frozen=True, slots=True)
class OAuthError:
    """The request is refused with an OAuth error such as `invalid_grant`."""

    error: str
    status: HTTPStatus = HTTPStatus.BAD_REQUEST
    description: str = "refused on demand"

    async def happen(self, answer: Answer) -> Response:
        """The error as JSON."""
        return Refusal(self.error, self.description, status=self.status).answer()


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The request takes effect, for example rotates a refresh token, but the response is lost."""

    async def happen(self, answer: Answer) -> Response:
        """A gateway's error page in place of the response."""
        await answer()
        return Response("<html>bad gateway</html>", HTTPStatus.BAD_GATEWAY, media_type="text/html")


@dataclass(frozen=True, slots=True)
class Delay:
    """The response is correct, but delayed by `seconds`."""

    seconds: float

    async def happen(self, answer: Answer) -> Response:
        """The response, after the delay."""
        await asyncio.sleep(self.seconds)
        return await answer()


@dataclass(frozen=True, slots=True)
class Drip:
    """The response is correct, but sent one byte at a time, `seconds_per_byte` apart."""

    seconds_per_byte: float

    async def happen(self, answer: Answer) -> Response:
        """The response as a slow stream."""
        response = await answer()
        headers = dict(response.headers)
        return StreamingResponse(self._bytes(bytes(response.body)), response.status_code, headers)

    async def _bytes(self, body: bytes) -> AsyncIterator[bytes]:
        for octet in body:
            yield bytes((octet,))
            await asyncio.sleep(self.seconds_per_byte)


def _require_one_of(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{name!r} is not one of {', '.join(known)}")


class Faults:
    """Faults waiting for the next requests, by endpoint."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Endpoint, deque[Fault]] = defaultdict(deque)

    def put(self, endpoint: Endpoint, fault: Fault, *, times: int = 1) -> None:
        """Let the next `times` requests to `endpoint` fail.

        Raises ValueError for an unknown endpoint, TypeError for what is no fault.
        """
        _require_one_of(endpoint, get_args(Endpoint))
        if not hasattr(fault, "happen"):
            raise TypeError(f"a fault is ServerError(...), Delay(...) or another, not {fault!r}")
        seconds = getattr(fault, "seconds", 0)
        if seconds >= 100 and seconds % 60:
            _log.warning("Delay(%s) is in seconds, which are %.1f minutes", seconds, seconds / 60)
        self._waiting[endpoint].extend([fault] * times)

    def clear(self) -> None:
        """Let every endpoint work again."""
        self._waiting.clear()

    def next(self, endpoint: Endpoint) -> Fault | None:
        """The fault for this request, if there is one."""
        waiting = self._waiting[endpoint]
        return waiting.popleft() if waiting else None


Message: TypeAlias = Literal[
    "metadata",
    "jwks",
    "authorization_response",
    "token_response",
    "id_token_header",
    "id_token",
    "access_token_header",
    "access_token",
    "introspection",
    "userinfo",
    "logout_token_header",
    "logout_token",
]
Members: TypeAlias = dict[str, JsonValue]
Edit: TypeAlias = Callable[[Members], Members]


class Edits:
    """At most one edit for each kind of message, applied just before it is signed or sent."""

    def __init__(self) -> None:
        self._edits: dict[Message, Edit] = {}

    def put(self, message: Message, edit: Edit) -> None:
        """Apply `edit` to every such message from now on; ValueError for an unknown message."""
        _require_one_of(message, get_args(Message))
        self._edits[message] = edit

    def clear(self) -> None:
        """Stop editing messages."""
        self._edits.clear()

    def edited(self, message: Message, members: Members) -> Members:
        """The members after the edit, if there is one."""
        edit = self._edits.get(message)
        return edit(members) if edit else members
