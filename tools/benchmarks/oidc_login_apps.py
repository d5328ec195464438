"""The applications that people sign in to: ours and authlib's, and the provider of both."""

from __future__ import annotations

import logging
import multiprocessing
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final

from authlib.deprecate import AuthlibDeprecationWarning
from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import SecretStr
from starlette.middleware.sessions import SessionMiddleware

from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevUser
from tools.benchmarks.layers import TellsItsTime

with warnings.catch_warnings():
    # authlib would rather have httpx2; without it it uses httpx, which is what is measured here.
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    from authlib.integrations.starlette_client import OAuth

BASE_URL: Final = "https://app.test"
METADATA: Final = "/.well-known/openid-configuration"
SECRET: Final = "a-secret-of-a-benchmark-that-guards-nothing"
OURS, PEER = "ours, cookie", "authlib, SessionMiddleware"


@contextmanager
def a_dev_provider() -> Iterator[str]:
    """The issuer of a DevProvider in a process of its own, for as long as the block runs."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    process.start()
    there.close()  # or nobody would learn that the provider has ended
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()
        here.close()


def _serve(connection: Connection) -> None:
    logging.disable()
    with the_provider().serve() as issuer:
        connection.send(issuer)
        connection.recv()


def the_provider() -> DevProvider:
    """Knows Alice, and the applications as one client; each answer says how long it took."""
    client = DevClient(
        client_id="app", client_secret=SECRET, redirect_uris=[f"{BASE_URL}/auth/callback"]
    )
    op = DevProvider(users=[DevUser("alice", "Alice")], clients=[client])
    op.app.add_middleware(TellsItsTime)
    return op


def our_app(issuer: str) -> FastAPI:
    settings = OIDCSettings(
        issuer=issuer,
        client_id="app",
        client_secret=SecretStr(SECRET),
        cookie_secret=(SecretStr(SECRET),),
        base_url=BASE_URL,
        allow_insecure_http=True,
    )
    oidc: OIDC[StandardIdentity] = OIDC(settings)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    async def me(
        session: OIDCSession[StandardIdentity] = Depends(require_auth),
    ) -> dict[str, str]:
        return {"sub": session.sub}

    app.get("/me")(me)
    return app


def authlib_app(issuer: str) -> FastAPI:
    """As authlib's documentation for FastAPI has it, with PKCE and UserInfo as ours."""
    client = OAuth().register(
        "op",
        server_metadata_url=f"{issuer}{METADATA}",
        client_id="app",
        client_secret=SECRET,
        client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
    )
    app = FastAPI()
    app.add_middleware(SessionMiddleware, secret_key=SECRET, https_only=True)

    async def login(request: Request) -> Response:
        answer: Response = await client.authorize_redirect(request, f"{BASE_URL}/auth/callback")
        return answer

    async def callback(request: Request) -> Response:
        token = await client.authorize_access_token(request)
        request.session["user"] = dict(await client.userinfo(token=token))
        return RedirectResponse("/me", 303)

    async def me(request: Request) -> dict[str, str]:
        return {"sub": request.session["user"]["sub"]}

    routes: dict[str, Callable[..., object]] = {
        "/auth/login": login,
        "/auth/callback": callback,
        "/me": me,
    }
    for path, endpoint in routes.items():
        app.get(path, response_model=None)(endpoint)
    return app


APPLICATIONS: Final[Mapping[str, Callable[[str], FastAPI]]] = {OURS: our_app, PEER: authlib_app}
"""What makes each, for an issuer."""
