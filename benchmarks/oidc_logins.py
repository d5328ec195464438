"""How many logins one process completes, and where the time of one goes; ours and authlib's.

The provider is a process of its own on a port of this machine; the browser is httpx, in the process
of the application.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

import httpx
from authlib.integrations.starlette_client import OAuth
from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import SecretStr
from starlette.middleware.sessions import SessionMiddleware

from benchmarks.layers import Layers, TellsItsTime, Watched, exchanges_in
from benchmarks.targets import Target
from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, sign_in

LOGINS: Final = 100
BASE_URL: Final = "https://app.test"
METADATA: Final = "/.well-known/openid-configuration"
SECRET: Final = "a-secret-of-a-benchmark-that-guards-nothing"
OURS, PEER = "ours, cookie", "authlib, SessionMiddleware"
PROVIDER, EXCHANGES, APPLICATION, BROWSER = "provider", "exchanges", "application", "browser"

Parts = Mapping[str, float]
"""Milliseconds of one login, by whose they are."""


@dataclass(frozen=True)
class Taken:
    """Every login of one application; `exchanges` is how many requests one makes."""

    logins: Sequence[Parts]
    cpu: float
    exchanges: float

    @property
    def usual(self) -> Parts:
        """Of each part its first quartile: what else a machine does makes logins slower only."""
        parts = (PROVIDER, EXCHANGES, APPLICATION, BROWSER)
        taken = {part: [login[part] for login in self.logins] for part in parts}
        return {part: statistics.quantiles(each)[0] for part, each in taken.items()}

    @property
    def rate(self) -> float:
        """Logins in a second, one after the other."""
        return 1000 / sum(self.usual.values())

    @property
    def own(self) -> float:
        """Milliseconds without the provider and the browser."""
        return self.usual[EXCHANGES] + self.usual[APPLICATION]


def login_targets() -> Iterator[Target]:
    """Signs in again and again, and shows how often in a second and where the time goes."""
    taken = logins(LOGINS)
    print(f"\n{LOGINS} logins in turns, first quartiles in ms:")
    print(f"  {'':<28}{'all':>8}{'CPU':>8}" + "".join(f"{part:>13}" for part in taken[OURS].usual))
    for name, each in taken.items():
        parts = "".join(f"{part:13.2f}" for part in each.usual.values())
        print(f"  {name:<28}{sum(each.usual.values()):8.2f}{each.cpu:8.2f}{parts}")
    ours, peer = taken[OURS], taken[PEER]
    print(f"  requests to the provider: ours {ours.exchanges:g}, authlib {peer.exchanges:g}")
    for name, each in taken.items():
        print(f"  {name}: {each.rate:.0f} a second")
    yield Target("login without provider and browser: ours / authlib", ours.own / peer.own, 1)


def logins(count: int) -> dict[str, Taken]:
    """Signs in so often with each application, in turns."""
    with a_dev_provider() as issuer:
        return asyncio.run(_logins(issuer, count))


async def _logins(issuer: str, count: int) -> dict[str, Taken]:
    layers = Layers()
    taken: dict[str, list[Parts]] = {OURS: [], PEER: []}
    cpu, exchanges = dict.fromkeys(taken, 0.0), dict.fromkeys(taken, 0)
    async with AsyncExitStack() as stack:
        browsers = {
            name: await stack.enter_async_context(a_browser(issuer, make(issuer), layers))
            for name, make in {OURS: our_app, PEER: authlib_app}.items()
        }
        besides = tuple(browsers.values())
        stack.enter_context(exchanges_in(layers, EXCHANGES, PROVIDER, besides=besides))
        for number in range(-1, count):
            for name, browser in browsers.items():
                layers.clear()
                used = time.process_time()
                with layers.within(BROWSER):
                    await one_login(browser)
                if number >= 0:  # the first one asks for the provider's keys and metadata
                    cpu[name] += (time.process_time() - used) / count * 1000
                    taken[name].append({part: 1000 * each for part, each in layers.seconds.items()})
                    exchanges[name] += layers.entered[EXCHANGES]
    return {name: Taken(taken[name], cpu[name], exchanges[name] / count) for name in taken}


def a_browser(issuer: str, app: FastAPI, layers: Layers) -> httpx.AsyncClient:
    """One that reaches the application in this process, and the provider at its port."""
    return httpx.AsyncClient(
        base_url=BASE_URL,
        transport=httpx.ASGITransport(layers.around(app, APPLICATION)),
        mounts={issuer: Watched(layers, PROVIDER)},
        follow_redirects=True,
    )


async def one_login(browser: httpx.AsyncClient) -> None:
    browser.cookies.clear()
    answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    answer.raise_for_status()


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
    client = DevClient(
        client_id="app", client_secret=SECRET, redirect_uris=[f"{BASE_URL}/auth/callback"]
    )
    op = DevProvider(users=[DevUser("alice", "Alice")], clients=[client])
    op.app.add_middleware(TellsItsTime)
    with op.serve() as issuer:
        connection.send(issuer)
        connection.recv()


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
