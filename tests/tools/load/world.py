"""One person, an application and its provider in this process; answers can be changed."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from pydantic import SecretStr

from examples.console import account
from examples.console.account import Signed, User, identity_resolver
from examples.console.settings import RoleSettings
from examples.fleet import status
from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, OIDCSettings, PersistContext
from fastapi_oidc.testing import DevClient, DevProvider
from tools.load.browser import Browser, Way, sign_out
from tools.load.rules import Causes, Verdict
from tools.load.run import people
from tools.load.site import LogoutTokens, Site, TokenCalls

APP = "https://app.test"
[PERSON] = people(1)
CLIENT = DevClient(
    client_id="app",
    client_secret=secrets.token_urlsafe(32),
    redirect_uris=[f"{APP}/auth/callback"],
    post_logout_redirect_uris=[f"{APP}/auth/logged-out"],
    backchannel_logout_uri=f"{APP}/auth/backchannel-logout",
)
DUE_AFTER = 150
"""Seconds after which an access token of 300 may be refreshed; no test waits for that."""

Lie = Callable[[httpx.Request, httpx.Response], httpx.Response]


class Lying(httpx.AsyncBaseTransport):
    """The way to the application, with a change of each answer."""

    def __init__(self, inner: httpx.AsyncBaseTransport, lie: Lie) -> None:
        self._inner, self._lie = inner, lie

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        await response.aread()
        return self._lie(request, response)


def truth(_: httpx.Request, response: httpx.Response) -> httpx.Response:
    return response


@dataclass(slots=True)
class World:
    """`lie` changes what browsers are answered, `logout_lie` what the provider is."""

    lie: Lie = truth
    logout_lie: Lie = truth
    refresh_tokens: list[str] = field(default_factory=list)
    op: DevProvider = field(init=False)
    app: FastAPI = field(init=False)
    site: Site = field(init=False)

    def __post_init__(self) -> None:
        self.op = DevProvider(users=[PERSON], clients=[CLIENT])
        self.app = self._application()
        verdict, causes = Verdict(), Causes()
        logouts = LogoutTokens(
            Lying(httpx.ASGITransport(self.app), lambda *one: self.logout_lie(*one))
        )
        self.op.back_channel_transport = logouts
        self.site = Site(
            url=APP,
            client=self.client,
            op=self.op,
            tokens=TokenCalls(self.op, DUE_AFTER, verdict, causes),
            logouts=logouts,
            verdict=verdict,
            causes=causes,
            breath=0,
        )

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=Lying(httpx.ASGITransport(self.app), lambda *one: self.lie(*one)),
            mounts={self.op.issuer: httpx.ASGITransport(self.op.app)},
        )

    def _application(self) -> FastAPI:
        oidc: OIDC[User] = OIDC(
            OIDCSettings(
                issuer=self.op.issuer,
                client_id=CLIENT.client_id,
                client_secret=SecretStr(CLIENT.client_secret or ""),
                cookie_secret=(SecretStr(secrets.token_urlsafe(32)),),
                base_url=APP,
            ),
            resolve_identity=identity_resolver(RoleSettings()),
            session_store="memory",
            transport=httpx.ASGITransport(self.op.app),
            before_session_persist=self._persist,
        )
        app = FastAPI()
        app.add_middleware(OIDCMiddleware, oidc=oidc)
        app.include_router(oidc.router, prefix="/auth")
        app.state.oidc = oidc
        app.include_router(status.routes("1", ""))

        app.include_router(account.router)

        @app.get("/")
        async def page(session: Signed) -> HTMLResponse:
            token = oidc.csrf_token(session)
            return HTMLResponse(
                f'{session.identity.name} <input name="csrf_token" value="{token}">'
            )

        @app.get("/refresh")
        async def refresh(request: Request) -> None:
            await oidc.refresh(request)

        return app

    def _persist(self, context: PersistContext[User]) -> OIDCSession[User]:
        self.refresh_tokens.append(context.session.tokens.refresh_token or "")
        return context.session

    def browser(self, way: Way = sign_out) -> Browser:
        """Whose visits have no length and end in that way."""
        return Browser(self.site, PERSON, Random(0), 0, 0, (way,))

    async def visited(self, way: Way = sign_out) -> Verdict:
        """The verdict after a visit: a login, a look, a sign-out, and old cookies."""
        is_over = asyncio.Event()
        visit = asyncio.create_task(self.browser(way).run(is_over))
        await asyncio.sleep(0)  # it has begun
        is_over.set()
        await visit
        self.site.tokens.read()
        return self.site.verdict
