"""A provider, an application and a browser in one process, on one clock that tests move."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    Clock,
    Event,
    OIDCLocals,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    oidc_locals,
    require_auth,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, Lifetimes, sign_in

BASE_URL = "https://app.test"
LOGIN_URL = "/auth/login?return_to=/me"


def client_at(*, routes: str = f"{BASE_URL}/auth", **members: Any) -> DevClient:
    """The client of an application whose routes are below this URL."""
    usual: dict[str, Any] = {
        "client_id": "app",
        "client_secret": secrets.token_urlsafe(32),
        "redirect_uris": [f"{routes}/callback"],
        "post_logout_redirect_uris": [f"{routes}/logged-out"],
        "backchannel_logout_uri": f"{routes}/backchannel-logout",
    }
    return DevClient(**(usual | members))


def settings_of(client: DevClient, op: DevProvider, **options: Any) -> OIDCSettings:
    """The settings of an application with this client."""
    usual: dict[str, Any] = {
        "issuer": op.issuer,
        "client_id": client.client_id,
        "client_secret": client.client_secret,
        "cookie_secret": secrets.token_urlsafe(32),
        "base_url": BASE_URL,
    }
    return OIDCSettings(**(usual | options))


@dataclass(slots=True)
class Time:
    """Seconds since the epoch, as far as the provider and the application know."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass(slots=True)
class World:
    """Everything a test looks at."""

    op: DevProvider
    oidc: OIDC[Any, Any]
    app: FastAPI
    time: Time
    events: list[Event] = field(default_factory=list)

    def browser(self) -> httpx.AsyncClient:
        """A browser with no cookies yet."""
        return self.op.browser(self.app, base_url=BASE_URL)

    async def signed_in(self, user: str = "alice") -> httpx.AsyncClient:
        """A browser in which `user` has signed in."""
        browser = self.browser()
        answer = await sign_in(browser, LOGIN_URL, user=user)
        assert answer.status_code == 200, answer.text
        return browser

    def event_names(self) -> list[str]:
        return [str(event.name) for event in self.events]


def make_world(
    *,
    settings: dict[str, Any] | None = None,
    client: dict[str, Any] | None = None,
    provider: dict[str, Any] | None = None,
    lifetimes: Lifetimes | None = None,
    mount: Callable[[FastAPI, OIDC[Any, Any]], None] | None = None,
    middleware: dict[str, Any] | None = None,
    time: Time | None = None,
    **options: Any,
) -> World:
    """A provider and an application that know each other; keywords change what a test is about."""
    time = time or Time()
    clock = Clock(read=time)
    registered = client_at(**(client or {}))
    described: dict[str, Any] = {
        "users": [DevUser("alice", "Alice", "alice@example.com"), DevUser("bob", "Bob")],
        "clients": [registered],
        "clock": clock,
        "lifetimes": lifetimes,
    }
    op = DevProvider(**(described | (provider or {})))
    chosen = {"scope": ["openid", "profile", "email", "offline_access"]} | (settings or {})
    events: list[Event] = []
    options.setdefault("on_event", events.append)
    if options.get("session_store") is None:
        options.setdefault("back_channel_logout_store", "memory")
    elif "session_store" in options:
        options["back_channel_logout_store"] = None
    options.setdefault("transport", httpx.ASGITransport(op.app))
    oidc = OIDC(settings_of(registered, op, **chosen), clock=clock, **options)
    app = application(oidc, mount, middleware or {})
    op.back_channel_transport = httpx.ASGITransport(app)
    return World(op, oidc, app, time, events)


async def signed_in_world(**options: Any) -> tuple[World, httpx.AsyncClient]:
    """As `make_world`, and a browser in which alice has signed in."""
    world = make_world(**options)
    return world, await world.signed_in()


def application(
    oidc: OIDC[Any, Any],
    mount: Callable[[FastAPI, OIDC[Any, Any]], None] | None,
    middleware: dict[str, Any],
) -> FastAPI:
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc, **middleware)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/")
    async def home(locals: Annotated[OIDCLocals[Any, Any], Depends(oidc_locals)]) -> object:
        return {"is_authenticated": locals.is_authenticated}

    @app.get("/me")
    async def me(
        session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)],
    ) -> object:
        return {"sub": session.sub, "identity": session.identity, "generation": session.generation}

    if mount is not None:
        mount(app, oidc)
    return app
