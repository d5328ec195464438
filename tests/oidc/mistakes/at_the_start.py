"""Mistakes that keep an application from starting, or are in the log when it starts."""

import secrets
from typing import Any

import httpx
import httpx2
from fastapi import FastAPI

from fastapi_oidc import OIDCMiddleware, OIDCSettings
from tests.oidc.mistakes.desk import Desk, an_instance, error_of
from tests.oidc.web.test_startup import start
from tests.oidc.world import BASE_URL, make_world

VARIABLES = {
    "ISSUER": "https://op.example.com",
    "CLIENT_ID": "app",
    "COOKIE_SECRET": secrets.token_urlsafe(32),
    "BASE_URL": "https://app.example.com",
}


def settings_error(desk: Desk, **variables: str) -> str:
    """The error of these variables, where an empty one is none."""
    for name, value in (VARIABLES | variables).items():
        desk.monkeypatch.setenv(f"OIDC_{name}", value)
    return error_of(OIDCSettings)


async def nothing_set(desk: Desk) -> str:
    desk.monkeypatch.chdir(desk.folder)
    return settings_error(desk, ISSUER="", CLIENT_ID="")


async def a_short_secret(desk: Desk) -> str:
    return settings_error(desk, COOKIE_SECRET=secrets.token_hex(4))


async def the_address_of_the_metadata(desk: Desk) -> str:
    issuer = "https://op.example.com/.well-known/openid-configuration"
    return settings_error(desk, ISSUER=issuer)


async def a_base_url_with_a_path(desk: Desk) -> str:
    return settings_error(desk, BASE_URL="https://app.example.com/app")


async def no_base_url(desk: Desk) -> str:
    return settings_error(desk, BASE_URL="")


async def a_store_of_another_database(_desk: Desk) -> str:
    return error_of(lambda: an_instance(session_store="mysql://localhost"))


async def a_transport_of_httpx2(_desk: Desk) -> str:
    transport = httpx2.ASGITransport(FastAPI())
    return error_of(lambda: an_instance(transport=transport))


async def no_annotation(_desk: Desk) -> str:
    return error_of(lambda: an_instance(resolve_identity=lambda context: context))


async def an_async_listener(_desk: Desk) -> str:
    async def on_event(_event: object) -> None: ...

    return error_of(lambda: an_instance(on_event=on_event))


async def the_name_of_a_role(_desk: Desk) -> str:
    oidc: Any = an_instance()
    return error_of(lambda: oidc.require("admin"))


async def a_prefix_that_is_no_list(_desk: Desk) -> str:
    oidc = an_instance()
    return error_of(lambda: OIDCMiddleware(FastAPI().router, oidc, exclude="/static"))


async def no_middleware(desk: Desk) -> str:
    app = FastAPI()
    app.include_router(an_instance().router, prefix="/auth")
    await start(app)
    return desk.log


async def a_mounted_application(desk: Desk) -> str:
    outer = FastAPI()
    outer.mount("/shop", make_world().app)
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser:
        await browser.get("/shop/")
    return desk.log
