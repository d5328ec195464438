"""What somebody without a session gets, and who may pass: `optional_user`, `require_role`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Annotated, Any

import pytest
from fastapi import Body, Depends, FastAPI, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from fastapi_oidc import (
    OIDC,
    AccessToken,
    Code,
    ConfigurationError,
    IdentityContext,
    OIDCLocals,
    OIDCSession,
    PersistContext,
    SessionError,
    SignedIn,
    StandardIdentity,
    Tokens,
)
from fastapi_oidc.testing import sign_in
from tests.oidc.world import BASE_URL, make_world, signed_in_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.api_route("/page", methods=["HEAD", "POST"], include_in_schema=False)
    @app.get("/page")
    async def page(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
        return session.sub


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"sec-fetch-mode": "navigate"}, 302),
        ("HEAD", {"sec-fetch-mode": "navigate"}, 302),
        ("GET", {"accept": "text/html,*/*"}, 302),
        ("POST", {"sec-fetch-mode": "navigate"}, 401),
        ("GET", {"sec-fetch-mode": "cors", "accept": "text/html"}, 401),
        ("GET", {"accept": "application/json"}, 401),
        ("GET", {}, 401),
    ],
)
async def test_a_page_is_sent_to_sign_in_and_a_script_is_told(
    method: str, headers: dict[str, str], status: int
) -> None:
    browser, path = make_world(mount=mount).browser(), "/page?a=%20b"
    answer = await browser.request(method, path, headers=headers, follow_redirects=False)
    assert answer.status_code == status
    if status == 302:
        assert answer.headers["location"] == "/auth/login?return_to=%2Fpage%3Fa%3D%2520b"
    else:
        assert answer.headers["www-authenticate"].startswith('Cookie realm="oidc"')
    assert answer.headers["cache-control"] == "no-store"


def nobody(_context: IdentityContext) -> StandardIdentity:
    raise SessionError(Code.SESSION_REQUIRED, "the application does not know this user")


async def test_a_login_that_the_application_refuses_does_not_begin_again_by_itself() -> None:
    world = make_world(resolve_identity=nobody)
    async with world.browser() as browser:
        browser.headers.update(NAVIGATION)
        answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    assert (answer.status_code, answer.url.path) == (401, "/auth/callback")
    assert "/auth/login" in answer.text, "the person may try again"


PAGES = "https://pages.app.test"
BY_SCRIPT = {"origin": PAGES, "sec-fetch-site": "same-site"}


def mount_notes(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.api_route("/notes", methods=["GET", "POST", "DELETE"])
    async def notes(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
        return session.sub

    @app.post("/feedback")
    async def feedback(session: OIDCSession[Any] | None = Depends(oidc.optional_user)) -> str:
        return "a stranger" if session is None else session.sub


@pytest.mark.parametrize(
    ("method", "headers", "is_refused"),
    [
        ("POST", {"sec-fetch-site": "same-site"}, True),
        ("POST", {"sec-fetch-site": "cross-site", "origin": "null"}, True),
        ("POST", {"origin": "https://evil.app.test"}, True),  # of a browser without Fetch Metadata
        ("POST", {"origin": "http://app.test"}, True),
        ("DELETE", BY_SCRIPT, True),
        ("POST", {"origin": BASE_URL}, False),
        ("POST", {"origin": "null", "sec-fetch-site": "same-origin"}, False),
        ("POST", {"sec-fetch-site": "none"}, False),
        ("POST", {}, False),
        ("GET", BY_SCRIPT, False),
    ],
)
async def test_only_own_pages_write(method: str, headers: dict[str, str], is_refused: bool) -> None:
    _, browser = await signed_in_world(mount=mount_notes)
    answer = await browser.request(method, "/notes", headers=headers)
    assert answer.status_code == (403 if is_refused else 200)
    if is_refused:
        assert answer.json()["code"] == Code.SESSION_CROSS_SITE
        assert (await browser.request(method, "/notes")).status_code == 200, "it is still signed in"
    trusting = {"trusted_origins": [PAGES]}
    _, browser = await signed_in_world(mount=mount_notes, settings=trusting)
    answer = await browser.request(method, "/notes", headers=headers)
    assert answer.status_code == (403 if is_refused and headers.get("origin") != PAGES else 200)


async def test_another_page_uses_no_session_of_an_open_endpoint() -> None:
    world, browser = await signed_in_world(mount=mount_notes)
    for client, status in ((browser, 403), (world.browser(), 200)):
        answer = await client.post("/feedback", headers=BY_SCRIPT)
        assert answer.status_code == status
        assert "alice" not in answer.text


class User(BaseModel):
    sub: str
    roles: list[str] = ["reader"]


def resolve_identity(context: IdentityContext) -> User:
    return User(sub=str(context.id_token_claims["sub"]))


def mount_for_users(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/greeting")
    async def greeting(user: OIDCSession[Any] | None = Depends(oidc.optional_user)) -> str:
        return user.sub if user else "stranger"

    app.get("/readers", dependencies=[Depends(oidc.require_role("reader"))])(lambda: "read")
    app.get("/admins", dependencies=[Depends(oidc.require_role("admin"))])(lambda: "admin")


async def test_an_optional_user_is_the_session_or_none() -> None:
    world = make_world(mount=mount_for_users, resolve_identity=resolve_identity)
    assert (await world.browser().get("/greeting")).json() == "stranger"
    assert (await (await world.signed_in()).get("/greeting")).json() == "alice"


async def test_a_role_is_one_of_the_identitys() -> None:
    browser = await make_world(mount=mount_for_users, resolve_identity=resolve_identity).signed_in()
    assert (await browser.get("/readers")).status_code == 200
    refused = await browser.get("/admins")
    assert (refused.status_code, refused.json()["code"]) == (403, "session.forbidden")


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (lambda request: bool(request.state.oidc), r"request\.state\.oidc"),
        (lambda request: request.state.oidc.is_authenticated, "oidc.is_authenticated"),
    ],
)
def test_what_is_read_too_early_says_so(read: Callable[[Any], Any], what: str) -> None:
    world = make_world()

    async def too_early(request: Request, call_next: Any) -> Response:
        read(request)
        raise AssertionError

    world.app.add_middleware(BaseHTTPMiddleware, dispatch=too_early)
    too_late = rf"{what} is .* added after OIDCMiddleware and .* add OIDCMiddleware last"
    with pytest.raises(ConfigurationError, match=too_late), TestClient(world.app) as browser:
        browser.get("/")


@pytest.mark.parametrize(
    ("path", "scheme", "said"),
    [
        ("/me", "Bearer", "an access token was refused, because its endpoint takes sessions only"),
        ("/me", "Basic", None),
        ("/api", "Token", "Authorization: its scheme is neither Bearer nor DPoP"),
        ("/api", None, "a session was refused, because its endpoint takes access tokens only"),
    ],
)
async def test_a_token_or_session_too_much_is_told(
    path: str, scheme: str | None, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    api = world.oidc.api("https://app.test/api")
    world.app.get("/api", dependencies=[Depends(api.require())])(lambda: None)
    browser = world.browser() if scheme else await world.signed_in()
    headers = {"Authorization": f"{scheme} x"} if scheme else {}
    assert (await browser.get(path, headers=headers)).status_code == 401
    assert (said or "") in caplog.text
    assert ("only: use" in caplog.text) == bool(said and "only" in said)


def test_a_refusal_that_was_not_meant_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(middleware={"exclude": ["/health"]})
    world.app.get("/health", dependencies=[Depends(world.oidc.require_auth)])(lambda: None)
    world.app.add_exception_handler(401, lambda *_: Response())  # perhaps that of HTTPBasic
    assert TestClient(world.app).get("/health").status_code == 401
    told = "The lifespan of this application does not run", "exclude: /health is below it, where"
    assert list(map(caplog.text.count, told)) == [1, 1] == [1 for _ in caplog.messages]


async def test_the_error_of_a_guard_of_the_module_names_the_instance_that_refused() -> None:
    world = make_world()  # whose /me depends on the module's require_auth
    world.app.add_exception_handler(SessionError, lambda _, error: Response(error.instance))
    assert (await world.browser().get("/me")).text == "oidc"


async def test_a_method_that_a_middleware_has_changed_is_the_one_that_counts() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        mount_notes(app, oidc)
        app.router.routes.insert(0, Mount("/form", Overriding(app)))

    _, browser = await signed_in_world(mount=mount)
    for headers, status in (({"sec-fetch-site": "cross-site"}, 403), ({}, 200)):
        assert (await browser.get("/form/notes", headers=headers)).status_code == status


class Overriding:
    """Makes a DELETE of each request, as a form's field `_method` does elsewhere."""

    def __init__(self, app: FastAPI) -> None:
        self._router = app.router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router({**scope, "method": "DELETE"}, receive, send)


async def test_an_own_endpoint_at_a_path_of_the_library_is_no_exception() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.post("/auth/session", dependencies=[Depends(oidc.require_auth)])(lambda: "changed")

    _, browser = await signed_in_world(mount=mount)
    assert (await browser.post("/auth/session", headers=BY_SCRIPT)).status_code == 403
    assert (await browser.post("/auth/session")).status_code == 200


Session = OIDCSession[StandardIdentity]
Locals = OIDCLocals[StandardIdentity, None]
Endpoint = Callable[..., Any]


def taking(annotation: object, *, default: object = ...) -> Endpoint:
    """An endpoint with one parameter."""

    def endpoint(value):  # type: ignore[no-untyped-def]  # annotated below
        return value

    endpoint.__annotations__ = {"value": annotation}
    endpoint.__defaults__ = None if default is ... else (default,)
    return endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        taking(Session),
        taking(Annotated[Session, Depends()]),
        taking(Session, default=Depends()),
        taking(Locals),
        taking(Annotated[OIDCLocals, Depends()]),
        taking(Annotated[Session, Depends(Session)]),
        taking(Annotated[Session, Body()]),
        taking(Annotated[Session, Query()]),
        taking(Session | None, default=None),
        taking(list[Session]),
        taking(OIDCSession["Later"]),
        taking(Tokens),
        taking(Annotated[Tokens, Depends()]),
        *(
            taking(make_dataclass("Body", [("tokens", kind)]))
            for kind in (Tokens, AccessToken, Session)
        ),
        taking(PersistContext[StandardIdentity]),
        taking(SignedIn[StandardIdentity]),
    ],
    ids=lambda endpoint: str(endpoint.__annotations__["value"]),
)
def test_what_fastapi_would_make_of_the_request_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(ConfigurationError, match=r"Depends\(oidc\.require_auth\)") as caught:
        FastAPI().post("/")(endpoint)
    assert caught.value.code is Code.CONFIGURATION_INVALID


@pytest.mark.parametrize("annotation", [AccessToken, Annotated[AccessToken, Depends()]])
def test_an_access_token_is_not_read_from_the_request(annotation: object) -> None:
    with pytest.raises(ConfigurationError, match="rite as a parameter "):
        FastAPI().post("/")(taking(annotation))


class Later(BaseModel):
    sub: str


def test_a_session_as_an_answer_is_refused() -> None:
    def endpoint() -> None: ...

    endpoint.__annotations__ = {"return": Session}
    with pytest.raises(ConfigurationError, match=r"PublicSession\.of"):
        FastAPI().get("/")(endpoint)
