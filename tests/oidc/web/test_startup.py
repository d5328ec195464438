"""What is missing is told when the application starts, in three lines."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.staticfiles import StaticFiles
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    OIDCMiddleware,
    oidc_locals,
    require_auth,
    require_csrf,
)
from tests.oidc.web.asking import browser_of
from tests.oidc.world import make_world


async def start(app: ASGIApp) -> list[str]:
    """The types of what the application says to its server."""
    received = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[str] = []

    async def receive() -> Message:
        return {"type": next(received)}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return sent


def an_instance() -> OIDC[object, object]:
    return make_world().oidc


@pytest.mark.parametrize("hide", ["route", "mount"])
async def test_a_route_that_hides_the_login_is_named(
    hide: str, caplog: pytest.LogCaptureFixture
) -> None:
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


@pytest.mark.parametrize(
    ("guard", "instance"),
    [
        (require_auth, "an OIDC instance"),
        (require_csrf, "an OIDC instance"),
        (oidc_locals, "an OIDC instance"),
        (an_instance().require_auth, "the OIDC instance 'oidc'"),
    ],
    ids=["require_auth", "require_csrf", "oidc_locals", "oidc.require_auth"],
)
async def test_a_guard_in_an_app_without_any_instance_names_the_three_lines(
    guard: Callable[[HTTPConnection], Awaitable[object]], instance: str
) -> None:
    app = FastAPI(dependencies=[Depends(guard)])
    app.get("/")(lambda: "reached")
    async with browser_of(app) as browser:
        with pytest.raises(ConfigurationError) as caught:
            await browser.get("/")
    assert caught.value.code is Code.CONFIGURATION_MIDDLEWARE_MISSING
    assert caught.value.explanation.splitlines() == [
        f"this app has no middleware of {instance}, which needs three lines:",
        "  oidc = OIDC(OIDCSettings())",
        "  app.add_middleware(OIDCMiddleware, oidc=oidc)",
        "  app.include_router(oidc.router, prefix='/auth')",
    ]


async def test_a_callback_that_the_routers_own_hides_is_one_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def late(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.add_route("/auth/callback", oidc.callback_handler(), methods=["GET"])

    await start(make_world(mount=late).app)
    (message,) = caplog.messages
    assert message.splitlines() == [
        "The callback_handler() at /auth/callback is never reached, because of the router's "
        "callback: its on_success and on_failure are never called.",
        "Move app.include_router(oidc.router, ...) below it.",
    ]


@pytest.mark.parametrize("host", ["app.example.com", "localhost:8000"])
async def test_http_at_another_machine_is_one_warning(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"base_url": f"http://{host}", "allow_insecure_http": True}
    await start(make_world(settings=settings).app)
    told = [
        "allow_insecure_http: base_url is http://app.example.com, and not this machine: cookies "
        "and codes travel unencrypted. Use https, and remove allow_insecure_http"
    ]
    assert caplog.messages == (told if host == "app.example.com" else [])
