"""The console as a FastAPI app: two libraries, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from examples.console import access, account, creating, guest, guest_console, images, past, routes
from examples.console.access import NO_APIS, Accesses, Apis
from examples.console.account import User, identity_resolver, own_path
from examples.console.entrance import Entrance
from examples.console.events import address
from examples.console.host import Host
from examples.console.middleware import KeyHolders, SecurityHeaders
from examples.console.monitors import Monitors
from examples.console.pages import STATIC, STATIC_PATH
from examples.console.records import Event, Person, moment
from examples.console.refusals import message_page, refusal
from examples.console.settings import USUAL_ROLES, RoleSettings, Sessions
from examples.console.words import SIGN_INS
from fastapi_oidc import OIDC, EventName, OIDCError, OIDCMiddleware, OIDCSettings
from fastapi_oidc import Event as OIDCEvent
from fastapi_oidc.broker import AccessEvent


def create_app(
    settings: OIDCSettings,
    monitors: Monitors,
    sessions: Sessions = "memory",
    *,
    open_to_all: Sequence[str] = (),
    metrics_token: str | None = None,
    roles: RoleSettings = USUAL_ROLES,
    api_audience: str | None = None,
    apis: Apis = NO_APIS,
    key: str = "",
) -> FastAPI:
    """The console for `monitors`, which it opens and closes. Raises ConfigurationError.

    No session is read for the paths below `open_to_all`. With a `metrics_token`, Prometheus may
    read the figures. `roles` says where users' roles come from.
    With an `api_audience`, programs may use the API with access tokens for it. People may give the
    machines of a `Host` access to `apis`. With a `key`, only browsers that have opened `/?key=...`
    are admitted.
    """

    def note(event: OIDCEvent) -> None:
        if accesses is not None and isinstance(event, AccessEvent):
            accesses.note(event)
        if event.name in SIGN_INS:
            who, at = Person(event.sub or "", ""), moment(event.at)
            refused = str(event.code or "") if event.name is EventName.LOGIN_REFUSED else ""
            told = Event(at, who, SIGN_INS[event.name], refused, address=address())
            monitors.records.add_event(told)

    oidc: OIDC[User] = OIDC(
        settings,
        resolve_identity=identity_resolver(roles),
        session_store=sessions,
        on_event=note,
        downstream_apis=apis.downstream,
    )
    accesses: Accesses | None = None
    if apis.routes and isinstance(monitors, Host):
        accesses = Accesses(oidc, apis, monitors)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await monitors.open()
        try:
            async with accesses.served() if accesses else nullcontext():
                yield
        finally:
            await monitors.close()

    app = FastAPI(title="microVM console", lifespan=lifespan, openapi_url=None)
    app.state.monitors, app.state.oidc, app.state.accesses = monitors, oidc, accesses
    if metrics_token is not None:
        # A console without metrics does not need Prometheus's client library.
        from examples.console import watching

        app.include_router(watching.routes(monitors, metrics_token))
    without_session = ("/static", account.SIGNED_OUT_PATH, "/metrics", *open_to_all)
    app.add_middleware(Entrance, oidc=oidc, open_to_all=("/auth", "/api", *without_session))
    app.add_middleware(OIDCMiddleware, oidc=oidc, exclude=without_session)
    if key:
        app.add_middleware(KeyHolders, key=key)
    app.add_middleware(SecurityHeaders, issuer=settings.issuer)
    _mount(app, oidc)
    if accesses is not None:
        app.include_router(accesses.broker.router)
        app.include_router(access.routes(accesses))
    app.state.api = None
    if api_audience is not None:
        from examples.console import api

        app.state.api = oidc.api(api_audience, scopes=api.SCOPES)
        app.include_router(api.routes(app.state.api, monitors))
    return app


_ROUTERS: Final = [
    account.router, guest.router, guest_console.reading, guest_console.writing, images.reading,
    images.writing, past.router, routes.pages, creating.router, routes.changes,
]  # fmt: skip


def _mount(app: FastAPI, oidc: OIDC[User]) -> None:
    app.mount(STATIC_PATH, StaticFiles(directory=STATIC))
    app.include_router(oidc.router, prefix="/auth")
    for router in _ROUTERS:
        app.include_router(router)
    app.add_exception_handler(OIDCError, refusal)
    app.add_exception_handler(HTTPException, refusal)

    @app.get(account.SIGNED_OUT_PATH)
    async def signed_out(why: str = "", back: str = "/") -> HTMLResponse:
        text = _SIGNED_OUT.get(why, "You have signed out of the console.")
        return message_page(200, "Signed out", text, own_path(back), "Sign in again")


_SIGNED_OUT = {
    "expired": "Your session has expired: it lasts for some hours at the most.",
    "elsewhere": "You were signed out, here in another tab or at the sign-in service.",
}
