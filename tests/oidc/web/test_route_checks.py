"""A parameter that nothing can read is refused when the application starts, not by each request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import pytest
from fastapi import APIRouter, Cookie, Depends, FastAPI, Header, Security
from pydantic import BaseModel

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    IdentityContext,
    OIDCMiddleware,
    OIDCSession,
    PublicSession,
    StandardIdentity,
    oidc_locals,
)
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


def with_a_mounted_application(oidc: OIDC[Any, Any]) -> FastAPI:
    app, outer, inner = FastAPI(), FastAPI(), with_a_parameter(oidc)
    app.mount("/outer", outer)
    outer.mount("/inner", inner)
    return app


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (with_a_parameter, "/notes: .*'session' of with_a_parameter"),
        (with_a_mounted_application, "/outer/inner/notes: .*'session' of with_a_parameter"),
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
        (
            lambda oidc: Security(oidc.require_auth, scopes=["admin"]),
            "nothing checks the scopes of",
        ),
        (lambda oidc: Depends(oidc.login), "Depends.oidc.login. guards nothing"),
        (lambda _: Depends(StandardIdentity), "the identity would be read from the request"),
        (lambda oidc: Depends(oidc.optional_user), "Depends.optional_user. .* refuses nobody"),
        (lambda oidc: Depends(oidc.locals), "Depends.locals. .* refuses nobody"),
        (lambda _: Depends(oidc_locals), "Depends.oidc_locals. .* refuses nobody"),
        (with_a_scope_of_another_api, "'raed' is none of the API's scopes: read"),
        (
            lambda oidc: Security(oidc.api("https://app.test/api").require_user, scopes="read"),
            "the scopes of .* are letters: write scopes=",
        ),
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
    ("annotation", "is_refused"),
    [
        (StandardIdentity, True),
        (Member, True),
        (OIDCSession[Any] | None, False),  # an override may return None
        (OIDCSession[Any], False),
        (PublicSession[Any], False),
        (BaseModel, False),
        (object, False),
        (Any, False),
    ],
    ids=str,
)
async def test_a_guard_returns_the_session_no_identity(annotation: Any, is_refused: bool) -> None:
    world = make_world()

    async def me(user: Any = Depends(world.oidc.require_auth)) -> Any: ...

    me.__annotations__["user"] = annotation
    world.app.get("/me")(me)
    if not is_refused:
        assert await start(world.app)
        return
    declared = re.escape(annotation.__name__)
    fault = f"/me: 'user' of .*me is declared as {declared}, and require_auth returns OIDCSession"
    with pytest.raises(ConfigurationError, match=fault):
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
