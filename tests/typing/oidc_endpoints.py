"""What type checkers say of endpoints with dependencies, and of stores. Checked, never run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, TypeVar, assert_type

import httpx
from fastapi import Depends, FastAPI, WebSocket
from pydantic import BaseModel

from fastapi_oidc import (
    API,
    OIDC,
    AccessToken,
    Caller,
    Code,
    DownstreamAPI,
    Grant,
    IssuedToken,
    OIDCError,
    OIDCLocals,
    OIDCMiddleware,
    OIDCSession,
    RefreshLock,
    SealedSession,
    SessionStore,
    StandardIdentity,
    oidc_locals,
    require_auth,
)

Result = TypeVar("Result")


class User(BaseModel):
    sub: str


app = FastAPI()


def mounted(oidc: OIDC[User, int]) -> None:
    app.add_middleware(OIDCMiddleware, oidc=oidc, exclude=["/static"])
    app.add_middleware(OIDCMiddleware, oidc=oidc.settings)  # type: ignore[arg-type]
    app.add_middleware(OIDCMiddleware)  # type: ignore[call-arg]
    app.include_router(oidc.router, prefix="/auth")
    app.get("/in")(oidc.login_handler())
    app.get("/back")(oidc.callback_handler())

    @app.get("/own")
    async def own(session: Annotated[OIDCSession[User], Depends(oidc.require_auth)]) -> str:
        return session.identity.sub

    @app.get("/events")
    async def events(session: Annotated[OIDCSession[User], Depends(oidc.require_auth)]) -> None:
        httpx.AsyncClient(auth=oidc.auth(session, resource="https://calendar.test"))
        httpx.Client(auth=oidc.auth(session, scope=["a", "b"], min_validity=10))
        httpx.AsyncClient(auth=oidc.app_auth(scope="a b", audience="calendar"))
        grant = await oidc.grant(session.id)
        assert_type(grant, Grant)
        assert_type(await grant.access_token(min_validity=60), IssuedToken)
        httpx.AsyncClient(auth=oidc.auth(grant))
        oidc.auth(session.id)  # type: ignore[arg-type]
        DownstreamAPI(grant="on_behalf_of", scope="a")
        DownstreamAPI(grant="implicit", scope="a")  # type: ignore[arg-type]

    @app.get("/locals")
    async def own_locals(locals: Annotated[OIDCLocals[User, int], Depends(oidc.locals)]) -> None:
        assert_type(locals.identity, User | None)
        assert_type(locals.data, int | None)
        assert_type(locals.is_authenticated, bool)
        print(locals.session.sub)  # type: ignore[union-attr]


def apis(oidc: OIDC[User, int]) -> None:
    api = oidc.api(audience="https://api.example.com", roles_claim=("realm_access", "roles"))
    assert_type(api, API[User])
    oidc.api(audience="https://api.example.com", introspect="yes")  # type: ignore[arg-type]
    oidc.api(audience="https://api.example.com", scope="read")  # type: ignore[call-arg]
    oidc.api("https://api.example.com", resolve_identity=lambda context: User(sub="x"))
    oidc.api("x", resolve_identity=lambda context: 1)  # type: ignore[arg-type, return-value]
    app.include_router(api.router)
    app.mount("/tools", api.protected(app, "tools:use"))

    @app.get("/machines", responses=api.responses)
    async def machines(token: Annotated[AccessToken, Depends(api.require("read"))]) -> None:
        assert_type(token.scope, tuple[str, ...])

    @app.get("/either")
    async def either(caller: Annotated[Caller[User], Depends(oidc.require_user)]) -> None:
        assert_type(caller.identity, User)
        assert_type(caller.session, OIDCSession[User] | None)
        assert_type(caller.access_token, AccessToken | None)


@app.get("/me")
async def me(session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)]) -> None:
    assert_type(session.identity.email, str | None)
    assert_type(session.tokens.expires_at, int | None)


@app.get("/")
async def home(locals: Annotated[OIDCLocals[User, None], Depends(oidc_locals)]) -> None:
    assert_type(locals.session, OIDCSession[User] | None)


@app.websocket("/ws")
async def ws(socket: WebSocket, session: OIDCSession[User] = Depends(require_auth)) -> None:
    assert_type(session.identity, User)


CurrentUser = Annotated[OIDCSession[User], Depends(require_auth)]


@app.get("/current")
async def current(session: CurrentUser, other: CurrentUser) -> None:
    assert_type(session, OIDCSession[User])
    assert_type(other.identity.sub, str)


class OwnStore(SessionStore):
    async def get(self, id: str, /) -> SealedSession | None: ...
    def set(self, id: str, session: SealedSession, /) -> None: ...
    async def delete(self, id: str, /) -> None: ...


class HalfStore(SessionStore):
    async def get(self, id: str, /) -> SealedSession | None: ...


class Unrelated:
    async def get(self, id: str, /) -> SealedSession | None: ...


class Lock(RefreshLock):
    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Result]], /
    ) -> Result:
        return await operation()


def stores() -> None:
    takes(OwnStore())
    takes(HalfStore())  # type: ignore[abstract]
    takes(Unrelated())  # type: ignore[arg-type]
    locks: RefreshLock = Lock()
    print(locks)


def takes(store: SessionStore) -> None:
    """What `OIDC[User]` takes."""


def errors(error: OIDCError) -> None:
    assert_type(error.code, Code)
    assert_type(error.status, HTTPStatus)
    assert_type(error.public_text, str)
