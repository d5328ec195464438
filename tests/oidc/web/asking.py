"""Requests by name, for what the library's routes and guards answer: in order, and in trouble."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import httpx
from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from fastapi_oidc import API, OIDC, OIDCMiddleware, OIDCSession
from fastapi_oidc.testing import ServerError, sign_in
from fastapi_oidc.testing.faults import Endpoint, Fault
from tests.oidc.resource_server.api_world import METADATA_URL, make_api_world
from tests.oidc.world import BASE_URL, LOGIN_URL, make_world, signed_in_world

NONE: Final[Mapping[str, str]] = {}
PAGE: Final = {"sec-fetch-mode": "navigate"}
IFRAME: Final = {"sec-fetch-dest": "iframe"}
FORM_POST: Final = {"response_mode": "form_post"}
SILENT: Final = "/auth/login?silent=1"
LONG: Final = 3600
"""Seconds after which a session has to be refreshed."""

Headers: TypeAlias = Mapping[str, str]
Asking: TypeAlias = Callable[[], Awaitable[httpx.Response]]


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.post("/form", dependencies=[Depends(oidc.require_auth)])
    async def form() -> None: ...

    @app.get("/forbidden", dependencies=[Depends(oidc.require(lambda _identity: False))])
    async def forbidden() -> None: ...

    guards = [Depends(oidc.require_acr("mfa"))]

    @app.api_route("/strong", methods=["GET", "POST"], dependencies=guards)
    async def strong() -> None: ...

    @app.post("/change", dependencies=[Depends(oidc.require_csrf)])
    async def change() -> None: ...


def asking(
    method: str,
    path: str,
    headers: Headers = NONE,
    *,
    content: bytes = b"",
    settings: Any = None,
    is_signed_in: bool = False,
) -> Asking:
    async def ask() -> httpx.Response:
        world = make_world(mount=mount, settings=settings)
        browser = await world.signed_in() if is_signed_in else world.browser()
        return await browser.request(
            method, path, content=content, headers=headers, follow_redirects=False
        )

    return ask


signed_in: Final = partial(asking, is_signed_in=True)


def with_fault(endpoint: Endpoint, fault: Fault, path: str, headers: Headers = NONE) -> Asking:
    """The answer to `path`, by somebody who is not signed in, while the provider fails."""

    async def ask() -> httpx.Response:
        world = make_world()
        world.op.faults.put(endpoint, fault, times=9)
        async with world.browser() as browser:
            return await browser.get(path, headers=headers)

    return ask


def callback(
    fault: Fault | None = None, headers: Headers = NONE, *, settings: Any = None
) -> Asking:
    """What the callback answers at the end of a login, while the token endpoint fails."""

    async def ask() -> httpx.Response:
        world = make_world(settings=settings)
        if fault is not None:
            world.op.faults.put("token", fault, times=9)
        browser = world.browser()
        browser.headers.update(headers)
        landed = await sign_in(browser, LOGIN_URL, user="alice")
        answers = [*landed.history, landed]
        return next(each for each in answers if each.url.path == "/auth/callback")

    return ask


def to_be_refreshed(method: str, path: str, headers: Headers = NONE) -> Asking:
    """The answer to somebody whose session cannot be refreshed now."""

    async def ask() -> httpx.Response:
        world, browser = await signed_in_world(mount=mount)
        world.time.advance(LONG)
        world.op.faults.put("token", ServerError(), times=9)
        return await browser.request(method, path, headers=headers)

    return ask


def silently(user: str) -> Asking:
    """What alice's hidden iframe is told when `user` is signed in at the provider."""

    async def ask() -> httpx.Response:
        world, browser = await signed_in_world()
        world.op.edits.put("id_token", lambda said: said | {"sub": user})
        return await browser.get(SILENT, headers=IFRAME, follow_redirects=True)

    return ask


class Noting(httpx.ASGITransport):
    """Keeps what the application answered the provider."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.answer = await super().handle_async_request(request)
        return self.answer


async def told_of_a_logout() -> httpx.Response:
    world = make_world()
    world.op.back_channel_transport = transport = Noting(world.app)
    await world.signed_in()
    await world.op.log_out("alice")
    return transport.answer


async def signing_out_without_the_provider() -> httpx.Response:
    world, browser = await signed_in_world()
    world.time.advance(25 * LONG)  # what is known of the provider is asked for anew
    world.op.faults.put("metadata", ServerError(), times=9)
    return await browser.post("/auth/logout", headers=PAGE)


def api_refusing(
    authorization: str | None, headers: Headers = NONE, path: str = "/machines"
) -> Asking:
    async def ask() -> httpx.Response:
        sent = {} if authorization is None else {"authorization": authorization}
        async with make_api_world(mount=mount_tools).world.browser() as program:
            return await program.get(path, headers={**headers, **sent})

    return ask


def mount_tools(app: FastAPI, oidc: OIDC[Any, Any], api: API[Any]) -> None:
    app.mount("/tools", api.protected(FastAPI()))


async def api_without_scope() -> httpx.Response:
    world = make_api_world()
    return await world.get(await world.token("machines:write"))


async def api_without_provider() -> httpx.Response:
    world = make_api_world()
    token = await world.token()
    world.world.op.faults.put("jwks", ServerError())
    return await world.get(token)


async def api_metadata() -> httpx.Response:
    async with make_api_world().world.browser() as program:
        return await program.get(METADATA_URL)


async def choosing() -> httpx.Response:
    one = make_world().oidc.settings
    other = one.model_copy(update={"name": "other", "client_id": "other"})
    oidc = OIDC({"One": one, "Other": other})
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    async with browser_of(app) as browser:
        return await browser.get("/auth/login?return_to=/me")


def browser_of(app: ASGIApp, **scope: Any) -> httpx.AsyncClient:
    """A browser that reaches the application and no provider."""
    transport = httpx.ASGITransport(app, **scope)
    return httpx.AsyncClient(transport=transport, base_url=BASE_URL)


async def begin(app: FastAPI, path: str, **scope: Any) -> httpx.Response:
    """The answer at another host, to a request whose headers lie about it."""
    transport = httpx.ASGITransport(app, **scope)
    async with httpx.AsyncClient(transport=transport, base_url="https://other.test") as browser:
        headers = {"x-forwarded-host": "evil.test"}
        return await browser.get(path, params={"moved": "1"}, headers=headers)


def who(oidc: OIDC[Any, Any]) -> Any:
    """An endpoint that tells somebody who is signed in their `sub`."""

    async def who(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
        return session.sub

    return who
