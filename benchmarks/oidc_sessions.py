"""What a session adds to a request, against Starlette's own session and the least it could cost."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fastapi import Depends, FastAPI, Request
from itsdangerous import TimestampSigner
from pydantic import SecretStr
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Message

from benchmarks.oidc_id_tokens import ISSUER, NOW, PROFILE, a_signed_id_token
from benchmarks.rounds import Batch, repeated
from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    Tokens,
    require_auth,
)

SECRET = "benchmark-secret-of-32-bytes-....."


def session_cases(session: OIDCSession[StandardIdentity], payload: bytes) -> dict[str, Batch]:
    loop = asyncio.new_event_loop()
    ours, cookie = our_app(session)
    peer = SessionMiddleware(an_app(peer_endpoint), secret_key=SECRET)
    return {
        "bare endpoint": requests(loop, an_app(bare_endpoint), ""),
        "fastapi_oidc": requests(loop, ours, cookie),
        "Starlette SessionMiddleware": requests(loop, peer, peer_cookie(payload)),
        "floor": repeated(floor_of(payload)),
    }


async def bare_endpoint() -> dict[str, str]:
    return {"sub": "alice"}


async def our_endpoint(
    session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)],
) -> dict[str, str]:
    return {"sub": session.sub}


async def peer_endpoint(request: Request) -> dict[str, str]:
    return {"sub": request.session["sub"]}


def an_app(endpoint: Callable[..., Awaitable[dict[str, str]]]) -> FastAPI:
    app = FastAPI()
    app.get("/me")(endpoint)
    return app


def our_app(session: OIDCSession[StandardIdentity]) -> tuple[FastAPI, str]:
    """The app, and the cookie of a browser that is signed in."""
    oidc: OIDC[StandardIdentity] = OIDC(
        OIDCSettings(
            issuer=ISSUER,
            client_id="app",
            cookie_secret=(SecretStr(SECRET),),
            base_url="https://app.example.com",
        )
    )

    app = an_app(our_endpoint)
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    keeper = oidc.site.party.keeper
    (change,) = keeper.cookies(keeper.placed(session), session.created_at)
    return app, f"{change.name}={change.value}"


def peer_cookie(payload: bytes) -> str:
    value = TimestampSigner(SECRET).sign(base64.b64encode(payload)).decode()
    return f"session={value}"


def floor_of(payload: bytes) -> Callable[[], object]:
    """The least that any sealed cookie session does."""
    cipher, nonce = AESGCM(os.urandom(32)), os.urandom(12)
    cookie = base64.urlsafe_b64encode(nonce + cipher.encrypt(nonce, payload, b"name"))

    def floor() -> object:
        raw = base64.urlsafe_b64decode(cookie)
        return json.loads(cipher.decrypt(raw[:12], raw[12:], b"name"))

    return floor


def requests(loop: asyncio.AbstractEventLoop, app: ASGIApp, cookie: str) -> Batch:
    """The batch that asks `app` for /me as a browser with this cookie; each answer must be 200."""
    headers = [(b"host", b"app.example.com"), (b"cookie", cookie.encode())]

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message.get("status", 200) != 200:
            raise RuntimeError(f"the benchmark was answered {message['status']}")

    async def ask(times: int) -> None:
        for _ in range(times):
            await app(a_scope(headers), receive, send)

    return lambda times: loop.run_until_complete(ask(times))


def a_scope(headers: list[tuple[bytes, bytes]]) -> dict[str, object]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "https",
        "path": "/me",
        "raw_path": b"/me",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 50000),
        "server": ("app.example.com", 443),
    }


def a_session_of_2_kb() -> OIDCSession[StandardIdentity]:
    """An ID token of usual size, and an opaque access and refresh token."""
    token, _ = a_signed_id_token()
    return OIDCSession(
        id=secrets.token_urlsafe(16),
        issuer=ISSUER,
        client_id="app",
        sub="alice",
        identity=StandardIdentity.from_claims("alice", PROFILE),
        claims={"iss": ISSUER, "aud": "app", "iat": NOW, "exp": NOW + 300, **PROFILE},
        tokens=Tokens(
            id_token=token,
            access_token=secrets.token_urlsafe(32),
            refresh_token=secrets.token_urlsafe(32),
            expires_at=NOW + 3600,
            scope=("openid", "profile", "email"),
        ),
        audiences=("app",),
        created_at=NOW,
        authenticated_at=NOW,
        expires_at=NOW + 8 * 3600,
    )
