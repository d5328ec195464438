"""The application that is measured, its browsers, and the same application with its peers."""

from __future__ import annotations

import asyncio
import base64
import json
import warnings
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import authlib.deprecate  # noqa: F401  - it shows its warnings always; what ignores them comes later
import httpx
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
    require_auth,
)
from tools.benchmarks.provider import CLIENT_ID
from tools.benchmarks.rounds import Batch, awaited

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of pydantic's and authlib's old names
    from auth0_fastapi.auth.auth_client import AuthClient
    from auth0_fastapi.config import Auth0Config

SECRET: Final = "benchmark-secret-of-32-bytes-....."
BASE_URL: Final = "https://app.example.com"
BY_REQUEST, BY_DEPENDS, TOKEN = "/by-request", "/by-depends", "/token"
AUTH0_COOKIE_BYTES: Final = 4096 - len("_a0_session") - 10
"""How much of a session auth0-fastapi writes into one cookie, before it begins another."""

Session = OIDCSession[StandardIdentity]
Endpoint = Callable[..., Awaitable[dict[str, str]]]


def our_application(
    issuer: str, *, provider: ASGIApp | None = None, **options: Any
) -> tuple[FastAPI, OIDC]:
    """With these options of `OIDC`; `provider` is reached in this process, else at its port."""
    oidc = OIDC(
        OIDCSettings(
            issuer=issuer,
            client_id=CLIENT_ID,
            cookie_secret=(SecretStr(SECRET),),
            base_url=BASE_URL,
            allow_insecure_http=True,
            fetch_userinfo=False,
        ),
        transport=None if provider is None else httpx.ASGITransport(provider),
        **options,
    )

    async def by_request(request: Request) -> dict[str, str]:
        return {"sub": request.state.oidc.session.sub}

    async def by_depends(session: Session = Depends(require_auth)) -> dict[str, str]:
        return {"sub": session.sub}

    async def token(session: Session = Depends(require_auth)) -> dict[str, str]:
        return {"sub": session.sub, "access_token": session.tokens.access_token}

    app = application({BY_REQUEST: by_request, BY_DEPENDS: by_depends, TOKEN: token})
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    return app, oidc


def bare_application() -> FastAPI:
    """Nobody is signed in."""

    async def by_request(request: Request) -> dict[str, str]:
        return {"sub": request.method}

    async def found(request: Request) -> dict[str, str]:
        return {"sub": request.method}

    async def by_depends(subject: dict[str, str] = Depends(found)) -> dict[str, str]:
        return subject

    return application({BY_REQUEST: by_request, BY_DEPENDS: by_depends})


def starlette_application() -> FastAPI:
    """SessionMiddleware, as its documentation has it and by a Depends."""

    async def by_request(request: Request) -> dict[str, str]:
        return {"sub": request.session["sub"]}

    async def session_of(request: Request) -> dict[str, str]:
        return request.session

    async def by_depends(session: dict[str, str] = Depends(session_of)) -> dict[str, str]:
        return {"sub": session["sub"]}

    app = application({BY_REQUEST: by_request, BY_DEPENDS: by_depends})
    app.add_middleware(SessionMiddleware, secret_key=SECRET)
    return app


def starlette_cookies(payload: bytes, count: int) -> list[str]:
    """Cookies of SessionMiddleware that hold the same JSON, each of another user."""
    signer, members = TimestampSigner(SECRET), json.loads(payload)
    payloads = (json.dumps(members | {"sub": f"user-{number:06}"}) for number in range(count))
    values = (signer.sign(base64.b64encode(each.encode())).decode() for each in payloads)
    return [f"session={value}" for value in values]


def auth0_application(payload: bytes) -> tuple[FastAPI, str]:
    """auth0-fastapi with its own encrypted cookie, which holds the same JSON."""
    client = AuthClient(
        Auth0Config(
            domain="op.example.com",
            clientId=CLIENT_ID,
            clientSecret=SECRET,
            appBaseUrl=BASE_URL,
            secret=SECRET,
        )
    )

    async def me(session: dict[str, Any] = Depends(client.require_session)) -> dict[str, str]:
        return {"sub": session["user"]["sub"]}

    state = {"user": json.loads(payload), "internal": {"sid": "sid", "created_at": 0}}
    sealed: str = client.client._state_store.encrypt(client.client._state_identifier, state)
    starts = range(0, len(sealed), AUTH0_COOKIE_BYTES)
    chunks = [sealed[start : start + AUTH0_COOKIE_BYTES] for start in starts]
    cookie = "; ".join(f"_a0_session_{number}={chunk}" for number, chunk in enumerate(chunks))
    return application({BY_DEPENDS: me}), cookie


def application(endpoints: dict[str, Endpoint]) -> FastAPI:
    """These endpoints and nothing else."""
    app = FastAPI()
    for path, endpoint in endpoints.items():
        app.get(path)(endpoint)
    return app


def browser_of(app: ASGIApp) -> httpx.AsyncClient:
    """A browser that reaches the application in this process."""
    return httpx.AsyncClient(base_url=BASE_URL, transport=httpx.ASGITransport(app))


async def signed_in(app: ASGIApp, count: int) -> list[str]:
    """The `Cookie` headers of so many browsers, each signed in as another user."""
    async with browser_of(app) as browser:
        return [await sign_in(browser) for _ in range(count)]


async def sign_in(browser: httpx.AsyncClient) -> str:
    """Signs in anew; the `Cookie` header of the session."""
    browser.cookies.clear()
    login = await browser.get("/auth/login")
    asked = parse_qs(urlsplit(login.headers["Location"]).query)
    response = {"code": asked["nonce"][0], "state": asked["state"][0]}
    callback = await browser.get("/auth/callback", params=response)
    if not callback.has_redirect_location:
        raise RuntimeError(f"nobody was signed in: {callback.status_code} {callback.text[:200]}")
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies.jar)


async def session_of(app: FastAPI, cookie: str) -> Session:
    """What the application knows of a browser."""
    seen: list[Session] = []

    @app.get("/session")
    async def look(session: Session = Depends(require_auth)) -> None:
        seen.append(session)

    await ask(app, "/session", cookie)
    return seen[0]


def asking(runner: asyncio.Runner, app: ASGIApp, path: str, cookies: Sequence[str]) -> Batch:
    """The batch that asks for `path`, each time with the next cookie; each status must be 200."""
    turns = cycle(cookies)

    async def ask_once() -> None:
        status, _ = await ask(app, path, next(turns))
        if status != httpx.codes.OK:
            raise RuntimeError(f"the benchmark got a response with status {status}")

    return awaited(runner, ask_once)


async def ask(app: ASGIApp, path: str, cookie: str) -> tuple[int, Message]:
    """The status, and head and body of the response in one message; no socket is involved."""
    response: dict[str, Any] = {}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        response.update(message)  # the head, then the body in one part

    await app(_scope(path, cookie), receive, send)
    return response["status"], response


def _scope(path: str, cookie: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "https",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"app.example.com"), (b"cookie", cookie.encode())],
        "client": ("127.0.0.1", 50000),
        "server": ("app.example.com", 443),
    }
