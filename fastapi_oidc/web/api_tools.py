"""ASGI applications that require an access token, such as MCP servers, with scopes by tool."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.resource_server.token import AccessToken

MAX_CALL_BYTES: Final = 4 * 1024 * 1024
"""Maximum size, in bytes, of a request body whose tools are told apart; that of the package `mcp`.
"""

_CALL: Final = "tools/call"
_MAX_LOGGED: Final = 100  # characters: the caller chooses the name
_log = logging.getLogger("fastapi_oidc.configuration")


@dataclass(frozen=True, slots=True)
class Protected:
    """An ASGI application that requires an access token. `tools` are the scopes by MCP tool.

    `require` returns the token of a request, or raises AccessTokenError without all of the scopes.
    The tools that a request calls are read from its body before the application runs: a refusal
    inside of the application would be a result of the tool, and the client could not step up. A
    tool that is not listed needs the scopes of all tools, as does a websocket, whose calls are not
    known when it begins.
    """

    require: Callable[..., Awaitable[AccessToken]]
    app: ASGIApp
    scopes: tuple[str, ...]
    tools: Mapping[str, Sequence[str]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request with a sufficient token; raises AccessTokenError."""
        if scope["type"] in ("http", "websocket"):
            connection = HTTPConnection(scope)
            token = await self.require(connection, *self.scopes)
            if self.tools:
                body = None  # the messages of a websocket come later
                if scope["type"] == "http":
                    body, receive = await _read(receive)
                needed = chain(self.scopes, *map(self.tools.__getitem__, self._called(body)))
                await self.require(connection, *dict.fromkeys(needed))
            if (user := mcp_user(token)) is not None:
                scope["user"] = user
        await self.app(scope, receive, send)

    def _called(self, body: bytes | None) -> Iterable[str]:
        """The tools whose scopes a body needs: all of them where it may call another one."""
        called = called_tools(body)
        if called is None:
            return self.tools
        unlisted = called - self.tools.keys()
        if unlisted:  # one is enough: the caller chooses how many there are
            _report_unlisted(min(unlisted)[:_MAX_LOGGED])
        return self.tools if unlisted else called


@lru_cache(100)  # so it is logged once
def _report_unlisted(name: str) -> None:
    _log.warning(
        "The tool %r was called. tools={...} does not have it, so that the call needs the scopes "
        "of all its tools. Add %r with its scopes, of which there may be none.",
        name,
        name,
    )


def scopes_by_tool(given: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The scopes of each tool, where a single one may be a string."""
    return {
        name: (scope,) if isinstance(scope, str) else tuple(scope) for name, scope in given.items()
    }


def called_tools(body: bytes | None) -> frozenset[str] | None:
    """The tools that a JSON-RPC message or batch calls (MCP 2025-11-25, "Tools").

    None for a body that is too long, or no JSON with unique names: another reader may find a call
    in it.
    """
    if not body:
        return None if body is None else frozenset()
    try:
        value: JSON = json.loads(body, object_pairs_hook=_unique_members)
    except (ValueError, RecursionError):
        return None
    messages: list[JSON] = value if isinstance(value, list) else [value]
    calls = [each for each in messages if isinstance(each, dict) and each.get("method") == _CALL]
    parameters = [each.get("params") for each in calls]
    names = [each.get("name") for each in parameters if isinstance(each, dict)]
    return frozenset(name for name in names if isinstance(name, str))


def _unique_members(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is repeated: another reader may take the other one")
    return members


def mcp_user(token: AccessToken) -> object | None:
    """The user as the package `mcp` compares it with the owner of a session; None without `mcp`."""
    bearer = sys.modules.get("mcp.server.auth.middleware.bearer_auth")
    provider = sys.modules.get("mcp.server.auth.provider")
    if bearer is None or provider is None:
        return None
    info = provider.AccessToken(
        token=token.value,
        client_id=token.client_id,
        scopes=list(token.scope),
        expires_at=token.expires_at,
        subject=token.sub,
        claims={"iss": token.iss, **token.claims},
    )
    user: object = bearer.AuthenticatedUser(info)
    return user


def with_lifespan_of(server: ASGIApp) -> APIRouter:
    """A router without routes, whose lifespan is that of `server`: Starlette runs no inner one."""
    inner = getattr(server, "router", None)

    @asynccontextmanager
    async def lifespan(_app: Any) -> AsyncIterator[None]:
        async with inner.lifespan_context(server) if inner else nullcontext():
            yield

    return APIRouter(lifespan=lifespan)


async def _read(receive: Receive) -> tuple[bytes | None, Receive]:
    """The body, None beyond the limit, and a `receive` that returns the same messages again."""
    messages: list[Message] = []
    size, has_more = 0, True
    while has_more and size <= MAX_CALL_BYTES:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        has_more = bool(message.get("more_body"))
    body = None if has_more else b"".join(message.get("body", b"") for message in messages)

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return body, again
