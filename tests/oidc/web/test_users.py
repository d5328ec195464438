"""`optional_user`, `require_role` and `login(return_to=...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.testclient import TestClient

from fastapi_oidc import OIDC, ConfigurationError, IdentityContext, OIDCSession
from fastapi_oidc.testing import ServerError
from tests.oidc.world import make_world, signed_in_world


class User(BaseModel):
    sub: str
    roles: list[str] = ["reader"]


def resolve_identity(context: IdentityContext) -> User:
    return User(sub=str(context.id_token_claims["sub"]))


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/greeting")
    async def greeting(user: OIDCSession[Any] | None = Depends(oidc.optional_user)) -> str:
        return user.sub if user else "stranger"

    app.get("/readers", dependencies=[Depends(oidc.require_role("reader"))])(lambda: "read")
    app.get("/admins", dependencies=[Depends(oidc.require_role("admin"))])(lambda: "admin")


async def test_an_optional_user_is_the_session_or_none() -> None:
    world = make_world(mount=mount)
    assert (await world.browser().get("/greeting")).json() == "stranger"
    assert (await (await world.signed_in()).get("/greeting")).json() == "alice"


async def test_a_user_is_no_stranger_while_the_provider_is_down() -> None:
    world, browser = await signed_in_world(mount=mount)
    world.time.advance(3600)
    world.op.faults.put("token", ServerError(), times=9)
    assert (await browser.get("/greeting")).status_code == 503


async def test_a_role_is_one_of_the_identitys() -> None:
    browser = await make_world(mount=mount, resolve_identity=resolve_identity).signed_in()
    assert (await browser.get("/readers")).status_code == 200
    refused = await browser.get("/admins")
    assert (refused.status_code, refused.json()["code"]) == (403, "session.forbidden")


async def test_an_identity_without_roles_is_a_mistake_and_no_user_gets_in() -> None:
    browser = await make_world(mount=mount).signed_in()
    answer = await browser.get("/readers")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")


def test_a_role_is_a_text() -> None:
    with pytest.raises(TypeError, match=r"for several: oidc\.require.* must be str, not list"):
        make_world().oidc.require_role(["admin"])  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ConfigurationError, match=r"oidc.require_role"):
        FastAPI().get("/", dependencies=[Depends(make_world().oidc.require_role)])(lambda: None)


@pytest.mark.parametrize("read", [bool, lambda locals: locals.is_authenticated])
def test_locals_that_are_read_too_early_say_so(read: Callable[[Any], bool]) -> None:
    world = make_world()

    async def too_early(request: Request, call_next: Any) -> Response:
        assert read(request.state.oidc)
        response: Response = await call_next(request)
        return response

    world.app.add_middleware(BaseHTTPMiddleware, dispatch=too_early)
    with (
        pytest.raises(ConfigurationError, match="add OIDCMiddleware last"),
        TestClient(world.app) as browser,
    ):
        browser.get("/")


async def test_a_predicate_of_the_session_is_told_of_the_identity() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        wrong = oidc.require(lambda session: bool(session.identity))
        app.get("/wrong", dependencies=[Depends(wrong)])(lambda: None)

    browser = await make_world(mount=mount, resolve_identity=resolve_identity).signed_in()
    with pytest.raises(AttributeError) as refused:
        await browser.get("/wrong")
    assert "gets the identity, not the session" in "".join(refused.value.__notes__)


@pytest.mark.parametrize(("scheme", "is_told"), [("Bearer", True), ("Basic", False)])
async def test_a_token_for_an_endpoint_of_sessions_is_told(
    scheme: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Authorization": f"{scheme} x"}
    assert (await make_world().browser().get("/me", headers=headers)).status_code == 401
    assert ("its endpoint takes sessions only: use oidc.require_user" in caplog.text) == is_told
