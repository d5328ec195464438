"""What is missing is told when the application starts, in three lines."""

from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.staticfiles import StaticFiles
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    IdentityContext,
    OIDCMiddleware,
    PersistContext,
    oidc_locals,
    require_auth,
    require_csrf,
)
from tests.oidc.web.asking import browser_of
from tests.oidc.world import make_world


async def start(app: ASGIApp, sent: list[str] | None = None) -> list[str]:
    """The types of what the application says to its server."""
    received = iter(["lifespan.startup", "lifespan.shutdown"])
    sent = [] if sent is None else sent

    async def receive() -> Message:
        return {"type": next(received)}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return sent


def an_instance() -> OIDC[object, object]:
    return make_world().oidc


@pytest.mark.parametrize("hide", ["route", "mount"])
async def test_what_hides_the_login_is_named(hide: str, caplog: pytest.LogCaptureFixture) -> None:
    oidc, app = an_instance(), FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    if hide == "mount":
        app.mount("/", FastAPI())
    else:
        app.get("/{path:path}", dependencies=[Depends(require_auth)])(lambda path: path)
    app.include_router(oidc.router, prefix="/auth")
    await start(app)
    (message,) = caplog.messages
    hiding = "/" if hide == "mount" else "/{path:path}"
    assert message.startswith(f"The route /auth/login is never reached: requests go to {hiding},")
    assert message.endswith("Move app.include_router(oidc.router, ...) above that route.")


async def test_what_the_guard_of_the_application_does_not_reach_is_named(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    oidc = an_instance()
    app, admin, api = FastAPI(), FastAPI(openapi_url=None), oidc.api("https://app.test/tools")
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.include_router(api.router)
    app.get("/early")(lambda: None)
    app.router.dependencies.append(Depends(oidc.require_auth))
    app.get("/late")(lambda: None)
    app.add_route("/may-ask", lambda _: Response())
    admin.get("/open")(lambda: None)
    admin.get("/guarded", dependencies=[Depends(oidc.require(lambda _: True))])(lambda: None)
    app.mount("/admin", admin)
    app.mount("/files", StaticFiles(directory=tmp_path))
    app.mount("/asgi", Starlette())
    app.mount("/tools", api.protected(Starlette()))
    app.mount("/", StaticFiles(directory=tmp_path))
    await start(app)
    (message,) = caplog.messages
    assert message.splitlines()[0] == (
        "The guard in `dependencies` of the application does not apply to /openapi.json, /docs, "
        "/docs/oauth2-redirect, /redoc, /early, /may-ask, /admin/open, /files, /asgi, /."
    )


async def no_answer(request: Request) -> Response:
    return Response()


@pytest.mark.parametrize(
    ("make", "is_told"),
    [
        (lambda api: Mount("/mcp", Starlette()), True),
        (lambda api: Mount("/", Starlette(routes=[Route("/mcp", no_answer)])), True),
        (lambda api: Mount("/mcp", api.protected(Starlette())), False),
        (lambda api: Route("/mcp", api.protected(Starlette())), False),
        (lambda api: Mount("/mcp", FastAPI()), False),
        (lambda api: Mount("/mcp", MCPServer("notes").streamable_http_app()), True),
        (lambda api: Mount("/mcp", api.protected(MCPServer("notes").sse_app())), False),
    ],
    ids=["mounted", "below", "protected", "a protected route", "FastAPI", "MCP", "guarded MCP"],
)
async def test_an_open_application_at_the_url_of_an_api_is_named(
    caplog: pytest.LogCaptureFixture, request: Any, make: Any, is_told: bool
) -> None:
    """An MCP server also anywhere else."""
    oidc, app = an_instance(), FastAPI()
    is_elsewhere = "MCP" in request.node.callspec.id
    api = oidc.api("https://app.test/api" if is_elsewhere else "https://app.test/mcp")
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    for router in (oidc.router, api.router):
        app.include_router(router, prefix="/auth" if router is oidc.router else "")
    app.routes.append(make(api))
    await start(app)
    told = "What is mounted at /mcp answers everybody"
    assert (told in caplog.text) == is_told
    assert caplog.text == "" or is_told


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ({"allow_origins": ["*"], "allow_credentials": True}, True),
        ({"allow_origin_regex": "https://.*", "allow_credentials": True}, True),
        ({"allow_origins": ["*"]}, False),
        ({"allow_origin_regex": r"https://[a-z]+\.test", "allow_credentials": True}, False),
    ],
)
async def test_pages_of_every_origin_that_may_read_what_users_read_are_told(
    options: Any, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    world.app.add_middleware(CORSMiddleware, **options)
    await start(world.app)
    assert len(caplog.messages) == is_told == caplog.text.count("CORSMiddleware allows every")


@pytest.mark.parametrize("guard", [require_csrf, oidc_locals, an_instance().require_auth])
async def test_a_guard_in_an_app_without_any_instance_names_the_line(guard: Any) -> None:
    app = FastAPI(dependencies=[Depends(guard)])
    app.get("/")(lambda: "reached")
    async with browser_of(app) as browser:
        with pytest.raises(ConfigurationError) as caught:
            await browser.get("/")
    assert caught.value.code is Code.CONFIGURATION_MIDDLEWARE_MISSING
    assert "has passed no middleware of 'oidc'. Add it last" in caught.value.explanation
    assert "app.add_middleware(OIDCMiddleware, oidc=oidc)" in caught.value.explanation


@pytest.mark.parametrize("started", ["--workers=4", "-w 2", "16", "--workers 1", "1", ""])
async def test_memory_of_several_workers_is_told(
    started: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["uvicorn", *started.split(), "app:app"])
    monkeypatch.setenv("WEB_CONCURRENCY", started if started.isdigit() else "2" if started else "")
    for store in (None, "memory"):
        assert caplog.messages == []
        await start(make_world(back_channel_logout_store=store).app)
    told = "memory: each of the workers has a store of its own, and learns no sign-out of the oth"
    are_several = started[-1:] not in ("1", "")
    assert len(caplog.messages) == are_several == caplog.text.count(told)


@pytest.mark.parametrize(
    ("path", "is_told"),
    [("/mcp", False), ("/app/mcp", False), ("/app/mcp/v1/", False), ("/tools", True)],
)
def test_a_server_that_is_not_where_its_clients_look_is_told(
    path: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    an_instance().api("https://app.test/app/mcp").mount(FastAPI(), path, Starlette())
    told = f"api.mount at {path}: its clients look for https://app.test/app/mcp: pass that URL's"
    assert len(caplog.messages) == is_told == caplog.text.count(told)


@pytest.mark.parametrize(
    ("setting", "least"), [("session_lifetime", 1800), ("idle_timeout", 300), ("max_age", 60)]
)
def test_a_duration_that_may_be_in_another_unit_is_told(
    setting: str, least: int, caplog: pytest.LogCaptureFixture
) -> None:
    make_world(settings={setting: least}).oidc.require_recent(60)
    for seconds in (900, 30 * 86_400):
        oidc = make_world(settings={"max_age": 0, "session_lifetime": seconds}).oidc
        oidc.api("https://app.test/api").require(max_age=60)
    assert caplog.messages == []
    oidc = make_world(settings={setting: least - 1}).oidc
    oidc.require_recent(5)
    oidc.api("https://app.test/api").require(max_age=15)
    make_world(settings={"session_lifetime": 28_800_000})
    assert caplog.messages[0].startswith(f"{setting}: {least - 1} seconds. As many minutes are ")
    assert caplog.messages[1:] == [
        "oidc.require_recent: 5 seconds. As many minutes are 300 seconds, as many days 432000",
        "max_age of api.require: 15 seconds. As many minutes are 900 seconds, as many days 1296000",
        "session_lifetime: 28800000 seconds, 333 days. In milliseconds?",
    ]


def no_check(context: PersistContext[Any]) -> None: ...


def company(context: IdentityContext) -> str:
    return str(context.id_token_claims["hd"])


def groups(context: IdentityContext) -> str:
    return str((context.user_info or {}).get("groups"))


HTTP = {"allow_insecure_http": True}
WISH = {"extra_params": {"acr_values": "mfa", "ui_locales": "de"}}
WORDS = "an-example-secret-of-at-least-32-bytes"


def of_words(secret: str, base_url: str) -> dict[str, Any]:
    return {"cookie_secret": ["hZ0q3mYQW1k0b8fJr2C5c6v7N9xLtPpS", secret], "base_url": base_url}


@pytest.mark.parametrize(
    ("settings", "callbacks", "told"),
    [
        ({"base_url": "http://app.example.com", **HTTP}, {}, "allow_insecure_http: base_url is"),
        ({"base_url": "http://localhost:8000", **HTTP}, {}, None),
        ({"fetch_userinfo": False}, {"resolve_identity": groups}, "fetch_userinfo: it is False, "),
        ({"fetch_userinfo": True}, {"resolve_identity": groups}, None),
        (WISH, {}, "acr_values in extra_params: it asks the provider, and requires nothing of who"),
        ({"extra_params": {"hd": "example.com"}}, {}, "hd in extra_params: it asks the provider"),
        (WISH, {"resolve_identity": company}, None),
        (WISH, {"before_session_persist": no_check}, None),
        (of_words(WORDS, "https://notes.my-company.org"), {}, "cookie_secret: it has words, which"),
        (of_words("ChangeMe-" + WORDS, "https://test.my-company.org/"), {}, "cookie_secret: it "),
        (of_words(WORDS, "https://notes.example.org"), {}, None),
        (of_words(WORDS, "https://127.0.0.1:8443"), {}, None),
        (of_words("hZ0q3mYQW1k0b8fJr2C5c6v7N9xLtPpS4d", "https://my-company.org"), {}, None),
    ],
)
async def test_what_may_be_wrong_is_told_once(
    settings: Any, callbacks: Any, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    await start(make_world(settings=settings, **callbacks).app)
    assert [each[: len(told or "")] for each in caplog.messages] == [told] * bool(told)
    assert WORDS not in caplog.text


async def test_a_guard_requires_what_logins_ask_for(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(settings=WISH)
    world.oidc.require_acr("mfa")
    await start(world.app)
    assert caplog.messages == []
