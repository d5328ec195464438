"""A parameter that nothing can read is refused when the application starts, not by each request."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import httpx
import pytest
from fastapi import APIRouter, Cookie, Depends, FastAPI, Header, Request, Security
from pydantic import BaseModel

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    IdentityContext,
    LoginOptions,
    LogoutOptions,
    MemoryStore,
    OIDCLocals,
    OIDCMiddleware,
    OIDCSession,
    PublicSession,
    StandardIdentity,
    oidc_locals,
)
from fastapi_oidc.testing import session_for
from tests.oidc.web.asking import begin
from tests.oidc.web.test_startup import start
from tests.oidc.world import make_world

Session: TypeAlias = OIDCSession[Any]


class Member(BaseModel):
    """An identity of the application."""

    roles: tuple[str, ...] = ("admin",)


def with_a_parameter(oidc: OIDC[Any, Any]) -> FastAPI:
    app = FastAPI()

    @app.get("/notes")
    async def notes(session: Annotated[Session, Depends(oidc.require_auth)]) -> None: ...

    return app


def with_a_dependency(oidc: OIDC[Any, Any]) -> FastAPI:
    app, router = FastAPI(), APIRouter()
    CurrentSession: TypeAlias = Annotated[Session, Depends(oidc.require_auth)]

    def user(session: CurrentSession) -> str:
        return session.sub

    @router.get("/notes")
    async def notes(name: str = Depends(user)) -> None: ...

    app.include_router(router, prefix="/api")
    return app


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (with_a_parameter, "/notes: .*'session' of with_a_parameter"),
        (with_a_dependency, "/api/notes: .*'session' of with_a_dependency.<locals>.user"),
    ],
)
async def test_a_name_that_fastapi_cannot_see_is_refused(
    make: Callable[[OIDC[Any, Any]], FastAPI], where: str
) -> None:
    oidc = make_world().oidc
    app = make(oidc)
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    with pytest.raises(ConfigurationError, match=where) as caught:
        await start(app)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert "remove that import" in caught.value.explanation
    with pytest.raises(ConfigurationError, match=where):
        await begin(app, "/auth/session")


def with_a_scope_of_another_api(oidc: OIDC[Any, Any]) -> Any:
    api = oidc.api("https://app.test/api", scopes={"read": "See"})
    return Security(api.require_user, scopes=["raed"])


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda oidc: Security(oidc.require_auth, scopes=["admin"]), "nothing checks the scopes"),
        (lambda oidc: Depends(oidc.login), "Depends.oidc.login. guards nothing"),
        (lambda _: Depends(StandardIdentity), "the identity would be read from the request"),
        (lambda oidc: Depends(oidc.optional_user), "Depends.optional_user. .* refuses nobody"),
        (lambda oidc: Depends(oidc.locals), "Depends.locals. .* refuses nobody"),
        (lambda _: Depends(oidc_locals), "Depends.oidc_locals. .* refuses nobody"),
        (with_a_scope_of_another_api, "'raed' is none of the API's scopes: read"),
    ],
)
async def test_an_endpoint_that_is_open_by_mistake_is_refused(make: Any, fault: str) -> None:
    world = make_world()
    world.app.get("/open", dependencies=[make(world.oidc)])(lambda: None)
    with pytest.raises(ConfigurationError, match=f"/open: {fault}"):
        await start(world.app)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[Member, Depends()],
        StandardIdentity,
        StandardIdentity | None,
        list[StandardIdentity],
        Annotated[StandardIdentity, Header()],
        Annotated[StandardIdentity, Cookie()],
        PublicSession[Member],
        Annotated[PublicSession[Any], Depends()],
        Annotated[OIDCLocals[Member, None], Depends()],
    ],
)
async def test_an_identity_from_the_request_is_refused(annotation: Any) -> None:
    def resolve(_: IdentityContext) -> Member:
        return Member()

    def endpoint(member: annotation) -> None: ...

    endpoint.__annotations__ = {"member": annotation}
    world = make_world(resolve_identity=resolve)
    world.app.post("/open")(endpoint)
    with pytest.raises(ConfigurationError, match="the identity would be read from the request"):
        await start(world.app)


@pytest.mark.parametrize(
    "predicate",
    [lambda request, user: True, lambda: True, lambda *, user: True],
    ids=["two", "none", "by name"],
)
def test_a_predicate_that_cannot_take_an_identity_is_refused(predicate: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"is called with \(StandardIdentity\), and takes"):
        make_world().oidc.require(predicate)


def test_an_api_requires_its_own_scopes() -> None:
    api = make_world().oidc.api("https://app.test/api", scopes={"read": "See"})
    api.require("read")
    with pytest.raises(ConfigurationError, match="'raed' is none of the API's scopes"):
        api.require("raed")
    with pytest.raises(ConfigurationError, match="'raed' is none of the API's scopes"):
        api.protected(FastAPI(), tools={"delete": "raed"})


async def test_a_task_that_outlives_its_request_is_told_so() -> None:
    tasks: list[asyncio.Task[object]] = []
    responded = asyncio.Event()

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/begin")
        async def begin(request: Request) -> None:
            async def later() -> object:
                await responded.wait()
                return await oidc.get_session(request)

            tasks.append(asyncio.create_task(later()))

    browser = await make_world(mount=mount).signed_in()
    await browser.get("/begin")
    responded.set()
    with pytest.raises(ConfigurationError, match="this request has ended") as caught:
        await tasks[0]
    assert caught.value.code is Code.CONFIGURATION_INVALID


SECRET = "a-value-that-no-error-shows"
REQUEST = Request({"type": "http", "headers": []})
SESSION = session_for(StandardIdentity(sub=SECRET))


class Untouched(MemoryStore):
    async def read(self, keys: Any, /) -> Any:
        raise AssertionError("the store was asked")

    swap = read  # type: ignore[assignment]


class Nobody(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise AssertionError("the network was used")


MAKE: Any = OIDC
NO: Any = "no"
NEXT: Any = {"next": "/"}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda o: o.auth(SECRET), r"session of oidc.auth\(session\) must be .* or Grant, not str"),
        (lambda o: o.grant(SESSION), "session_id of oidc.grant must be str or .*, not OIDCSessio"),
        (lambda o: o.csrf_token(SECRET), "session of oidc.csrf_token must be OIDCSession, not str"),
        (lambda o: o.check_csrf_token(SECRET, SECRET), "session of .* must be OIDCSession, not st"),
        (lambda o: o.check_csrf_token(SESSION, 1), "token of .* must be str or None, not int"),
        (lambda o: o.user_info(SESSION.sub), "session of oidc.user_info must be .*, not str"),
        (lambda o: o.revoke(sub=SESSION), "sub of oidc.revoke must be str or None, not OIDCSessio"),
        (lambda o: o.revoke(session_id=SESSION), "session_id of oidc.revoke must be .*, not OIDC"),
        (lambda o: o.sessions_of(SESSION), "sub of oidc.sessions_of must be str, not OIDCSession"),
        (lambda o: o.to_public_session(SESSION), "locals of .* must be OIDCLocals, not OIDCSess"),
        (lambda o: o.clear_session(SESSION), "the request or websocket must be HTTPConnection, no"),
        (lambda o: o.login(SESSION), "login takes a request or websocket first, not OIDCSession"),
        (lambda o: o.login(REQUEST, SECRET), "options of oidc.login must be LoginOptions or None"),
        (lambda o: o.logout(REQUEST, SECRET), "options of oidc.logout must be LogoutOptions or No"),
        (lambda o: MAKE(o.settings, on_event=SECRET), "on_event of OIDC is a function, not str"),
        (lambda o: o.api("api", dpop_required=SECRET), "dpop_required: .* valid boolean"),
        (lambda o: o.api("api", accept_plain_jwt="false"), "plain_jwt: .* valid boolean"),
        (lambda o: o.api("api", resolve_identity=SECRET), "resolve_identity: .* callable"),
        (lambda o: LogoutOptions(local=NO), r"local\n  Input should be a valid boolean"),
        (lambda o: LoginOptions(max_age=NO), r"max_age\n  Input should be a valid integer"),
        (lambda o: LoginOptions(**NEXT), r"next\n  Unexpected keyword argument"),
        (lambda o: o.app_auth(min_validity=SECRET), "min_validity must be int, not str"),
        (lambda o: MAKE(SECRET), r"settings of OIDC \(several are a dict: .*OIDCSettings, not str"),
        (lambda o: MAKE(type(o.settings)), "not the class OIDCSettings"),
    ],
)
def test_it_is_named(call: Callable[[Any], Any], told: str) -> None:
    oidc = make_world(session_store=Untouched(), transport=Nobody()).oidc

    async def awaited() -> None:
        made = call(oidc)
        if inspect.isawaitable(made):
            await made

    with pytest.raises((TypeError, ValueError, ConfigurationError), match=told) as caught:
        asyncio.run(awaited())
    assert SECRET not in str(caught.value)
