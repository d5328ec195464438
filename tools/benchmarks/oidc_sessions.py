"""What a session adds to a request, against Starlette's own session and the least it could cost."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle
from typing import Annotated, Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fastapi import Depends, FastAPI, Request
from itsdangerous import TimestampSigner
from pydantic import SecretStr
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Message

from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    Tokens,
    require_auth,
)
from tools.benchmarks.oidc_id_tokens import ISSUER, NOW, PROFILE, a_signed_id_token
from tools.benchmarks.rounds import Batch, Cost, costs

SECRET = "benchmark-secret-of-32-bytes-....."
ELSEWHERE_BYTES = 48 * 2**20
CACHE_LINE_BYTES = 64

Endpoint = Callable[..., Awaitable[dict[str, str]]]


BARE = "bare endpoint"
BARE_DEPENDS = "bare endpoint with a Depends"
OURS, OURS_DEPENDS = "fastapi_oidc, request.state", "fastapi_oidc, Depends(require_auth)"
PEER, PEER_DEPENDS = "SessionMiddleware, request.session", "SessionMiddleware, a Depends"
OURS_ENDINGS = "fastapi_oidc, endings in memory"
OURS_MEMORY = "fastapi_oidc, memory store with endings"
OURS_FIRST = "fastapi_oidc, each time another cookie"
PEER_FIRST = "SessionMiddleware, as often another"


def session_cases(
    session: OIDCSession[StandardIdentity], payload: bytes, *, browsers: int
) -> dict[str, Batch]:
    """The same answer by each way to know who asks, and by none.

    One browser asks again and again, as a page does that has been opened. Where each request has
    another cookie, so many `browsers` take turns; none comes twice if there are enough.
    """
    loop = asyncio.new_event_loop()
    ours = {
        OURS: our_app(loop, session, our_state),
        OURS_DEPENDS: our_app(loop, session, our_endpoint),
        OURS_ENDINGS: our_app(loop, session, our_state, back_channel_logout_store="memory"),
        OURS_MEMORY: our_app(loop, session, our_state, session_store="memory"),
        OURS_FIRST: our_app(loop, session, our_state, browsers),
    }
    peers = {
        PEER: (peer_app(peer_endpoint), [peer_cookie(payload)]),
        PEER_DEPENDS: (peer_app(peer_dependent), [peer_cookie(payload)]),
        PEER_FIRST: (peer_app(peer_endpoint), peer_cookies(payload, browsers)),
    }
    return {
        BARE: requests(loop, an_app(bare_endpoint), ""),
        BARE_DEPENDS: requests(loop, an_app(bare_dependent), ""),
        **{name: requests(loop, app, *cookies) for name, (app, cookies) in (ours | peers).items()},
    }


def cold(cases: Mapping[str, Batch], *, rounds: int) -> dict[str, Cost]:
    """What one request costs when the processor's caches are full of something else."""
    elsewhere = bytearray(ELSEWHERE_BYTES)
    return costs(cases, rounds=rounds, calls=1, before=lambda: elsewhere[::CACHE_LINE_BYTES])


async def bare_endpoint() -> dict[str, str]:
    return {"sub": "alice"}


async def an_answer(request: Request) -> dict[str, str]:
    return {"sub": request.method and "alice"}


async def bare_dependent(
    answer: Annotated[dict[str, str], Depends(an_answer)],
) -> dict[str, str]:
    return answer


async def our_state(request: Request) -> dict[str, str]:
    return {"sub": request.state.oidc.session.sub}


async def our_endpoint(
    session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)],
) -> dict[str, str]:
    return {"sub": session.sub}


async def peer_endpoint(request: Request) -> dict[str, str]:
    return {"sub": request.session["sub"]}


async def peer_session(request: Request) -> Mapping[str, str]:
    session: Mapping[str, str] = request.session
    return session


async def peer_dependent(
    session: Annotated[Mapping[str, str], Depends(peer_session)],
) -> dict[str, str]:
    return {"sub": session["sub"]}


def peer_app(endpoint: Endpoint) -> FastAPI:
    app = an_app(endpoint)
    app.add_middleware(SessionMiddleware, secret_key=SECRET)
    return app


def an_app(endpoint: Endpoint) -> FastAPI:
    app = FastAPI()
    app.get("/me")(endpoint)
    return app


def our_app(
    loop: asyncio.AbstractEventLoop,
    session: OIDCSession[StandardIdentity],
    endpoint: Endpoint,
    browsers: int = 1,
    **options: Any,
) -> tuple[FastAPI, list[str]]:
    """The app, and the cookies of browsers that are signed in."""
    oidc, app = an_instance(**options), an_app(endpoint)
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    keeper, cookies = oidc.site.party.keeper, []
    for number in range(browsers):
        kept = keeper.placed(session.model_copy(update={"id": f"session-{number:09}"}))
        loop.run_until_complete(keeper.save(kept))
        (change,) = keeper.cookies(kept, session.created_at)
        cookies.append(f"{change.name}={change.value}")
    return app, cookies


def an_instance(**options: Any) -> OIDC[StandardIdentity]:
    settings = OIDCSettings(
        issuer=ISSUER,
        client_id="app",
        cookie_secret=(SecretStr(SECRET),),
        base_url="https://app.example.com",
    )
    return OIDC(settings, **options)


def peer_cookie(payload: bytes) -> str:
    value = TimestampSigner(SECRET).sign(base64.b64encode(payload)).decode()
    return f"session={value}"


def peer_cookies(payload: bytes, browsers: int) -> list[str]:
    members = json.loads(payload)
    return [
        peer_cookie(json.dumps(members | {"id": f"session-{number:09}"}).encode())
        for number in range(browsers)
    ]


def floor_of(payload: bytes) -> Callable[[], object]:
    """The least that any sealed cookie session does."""
    cipher, nonce = AESGCM(os.urandom(32)), os.urandom(12)
    cookie = base64.urlsafe_b64encode(nonce + cipher.encrypt(nonce, payload, b"name"))

    def floor() -> object:
        raw = base64.urlsafe_b64decode(cookie)
        return json.loads(cipher.decrypt(raw[:12], raw[12:], b"name"))

    return floor


def requests(loop: asyncio.AbstractEventLoop, app: ASGIApp, *cookies: str) -> Batch:
    """The batch that asks `app` for /me, each time with the next cookie; answers must be 200."""
    host = (b"host", b"app.example.com")
    turns = cycle([[host, (b"cookie", cookie.encode())] for cookie in cookies])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message.get("status", 200) != 200:
            raise RuntimeError(f"the benchmark was answered {message['status']}")

    async def ask(times: int) -> None:
        for _ in range(times):
            await app(a_scope(next(turns)), receive, send)

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
