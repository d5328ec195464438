"""Access tokens of requests: strict parsing, the refusals, and applications that require them.

RFC 6750, RFC 9449, RFC 9728. The applications may be MCP servers, with scopes by tool.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc.codes import ANSWERS, PublicAnswer
from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation
from fastapi_oidc.protocol.access_token import challenge
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS, Scheme
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.resource_server.server import AccessToken, Permission, PresentedToken
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.requests import requested_path, token_scheme_in

_UNDECIDED: Final = PublicAnswer(
    HTTPStatus.SERVICE_UNAVAILABLE, "Access tokens cannot be checked right now. Try again shortly."
)
_B64TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class AccessTokenError(OIDCError):
    """The request has no access token that is sufficient.

    `status` is 401, 403 or 400. It is 503 while tokens cannot be checked because the provider or a
    store does not respond. `challenge` is the `WWW-Authenticate` header, empty with 503.
    """

    def __init__(self, cause: OIDCError, challenge: str = "") -> None:
        super().__init__(cause.code, cause.explanation, **cause.details)
        self.answer, self.challenge = _UNDECIDED, ""
        if isinstance(cause, ProtocolViolation):
            # Other codes are those of logins.
            is_own = self.code.startswith(("access_token.", "dpop."))
            self.answer = ANSWERS[self.code if is_own else Code.ACCESS_TOKEN_KIND]
            self.challenge = challenge


@dataclass(frozen=True, slots=True)
class Challenger:
    """Writes the challenges of one API; `resource_metadata` is the URL of RFC 9728 3."""

    realm: str
    resource_metadata: str | None
    dpop_required: bool

    def refusal(
        self, cause: OIDCError, scheme: Scheme | None, needed: Permission
    ) -> AccessTokenError:
        """The error for `cause` at an endpoint that needs this permission.

        It never quotes the token. `scheme` is that of the request, None without a token.
        """
        if cause.code is Code.ACCESS_TOKEN_ROLE:
            # No token of this user would have the role, so there is nothing to request.
            return AccessTokenError(cause)
        members = _error_of(cause)
        if needed.scopes:
            members["scope"] = " ".join(needed.scopes)
        if needed.step_up is not None:
            members |= needed.step_up.parameters()
        if cause.code is Code.ACCESS_TOKEN_BINDING:
            scheme = "DPoP"
        return AccessTokenError(cause, self.challenges(scheme, members))

    def challenges(self, scheme: Scheme | None, members: Mapping[str, str]) -> str:
        """The challenge for `scheme`, or for each scheme that the API accepts (RFC 9449 7.1)."""
        members = {"realm": self.realm, **members}
        if self.resource_metadata is not None:
            members["resource_metadata"] = self.resource_metadata
        algorithms = {"algs": " ".join(PROOF_ALGORITHMS)}
        if scheme == "DPoP" or self.dpop_required:
            return challenge("DPoP", members | algorithms)
        bearer = challenge("Bearer", members)
        return bearer if "error" in members else f"{bearer}, {challenge('DPoP', algorithms)}"


def _error_of(cause: OIDCError) -> dict[str, str]:
    """The error members of RFC 6750 3.1 and RFC 9470 3; none for a request without a token."""
    if cause.code is Code.ACCESS_TOKEN_REQUIRED:
        return {}
    names = {
        Code.ACCESS_TOKEN_REQUEST: "invalid_request",
        Code.ACCESS_TOKEN_SCOPE: "insufficient_scope",
        Code.ACCESS_TOKEN_STEP_UP_REQUIRED: "insufficient_user_authentication",
    }
    other = "invalid_dpop_proof" if cause.code.startswith("dpop.") else "invalid_token"
    return {
        "error": names.get(cause.code, other),
        "error_description": AccessTokenError(cause).public_text,
    }


def presented_token(
    context: RequestContext, connection: HTTPConnection, certificate_header: str | None
) -> PresentedToken:
    """The token in the Authorization header; tokens elsewhere in the request are ignored.

    Raises ProtocolViolation: access_token.required without a token, access_token.request for
    several or a malformed one.
    """
    scheme = token_scheme_in(connection.scope["headers"])
    lines = connection.headers.getlist("authorization")
    if scheme is None:
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUIRED, "no access token")
    if len(lines) > 1:
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, "several Authorization headers")
    value = lines[0].partition(" ")[2].strip(" ")
    if not _B64TOKEN.fullmatch(value):
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, f"the scheme {scheme} without a token")
    certificates = connection.headers.getlist(certificate_header) if certificate_header else []
    return PresentedToken(
        scheme=scheme,
        value=value,
        method=connection.scope.get("method", "GET"),
        # Behind a front server only base_url has the host of the request's URL.
        url=context.origin + requested_path(connection) if scheme == "DPoP" else "",
        proofs=connection.headers.getlist("dpop"),
        certificate=certificates[0] if len(certificates) == 1 else None,
    )


MAX_CALL_BYTES: Final = 4 * 1024 * 1024
"""Maximum size, in bytes, of a request body whose tools are told apart; that of the package `mcp`.
"""

_CALL: Final = "tools/call"


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
        return self.tools if called is None or called - self.tools.keys() else called


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
