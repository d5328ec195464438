"""What is missing is told when the application starts, in three lines."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc import (
    OIDC,
    Caller,
    Code,
    ConfigurationError,
    OIDCMiddleware,
    OIDCSession,
    oidc_locals,
    require_auth,
    require_csrf,
)
from fastapi_oidc.web.checks import configured_workers
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


def for_everybody(locals: Annotated[Any, Depends(oidc_locals)]) -> str:
    return str(locals)


class Users:
    """What an application has of its own, in another module or in an object."""

    def user(self, request: Request) -> str:
        return str(request.state.oidc.identity)


USERS = Users()


def asking_an_object(request: Request) -> str:
    return USERS.user(request)


class AskingRoute(APIRoute):
    """A route that may ask before its endpoint does (FastAPI: "Custom Request and APIRoute")."""


async def asking(request: Request, call_next: RequestResponseEndpoint) -> Response:
    return await call_next(request)


class Guarding:
    """A middleware of the application, which may guard all of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


@pytest.mark.parametrize(
    ("endpoint", "guards", "added", "route", "warnings"),
    [
        (lambda: "open", [], [], APIRoute, 1),
        (lambda: "open", [], [Middleware(GZipMiddleware)], APIRoute, 1),
        (lambda: "guarded", [Depends(require_auth)], [], APIRoute, 0),
        (for_everybody, [], [], APIRoute, 0),
        (asking_an_object, [], [], APIRoute, 0),
        (lambda: "open", [], [Middleware(Guarding)], APIRoute, 0),
        (lambda: "open", [], [Middleware(BaseHTTPMiddleware, dispatch=asking)], APIRoute, 0),
        (lambda: "open", [], [], AskingRoute, 0),
    ],
)
async def test_an_application_that_asks_for_nobody_is_one_warning(
    endpoint: Callable[..., str],
    guards: list[Any],
    added: list[Middleware],
    route: type[APIRoute],
    warnings: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, oidc = FastAPI(middleware=added), an_instance()
    app.add_middleware(OIDCMiddleware, oidc=oidc, exclude=["/public"])
    app.include_router(oidc.router, prefix="/auth")
    app.router.route_class = route
    app.get("/secret")(endpoint)
    app.get("/other", dependencies=guards)(lambda: None)
    await start(app)
    assert caplog.text.count("No endpoint of this application asks") == warnings


async def plain(request: Request) -> Response:
    return Response()


def guarded_by(oidc: OIDC[object, object]) -> Callable[[Request], Awaitable[Response]]:
    async def guarded(request: Request) -> Response:
        await oidc.require_auth(request)
        return Response()

    return guarded


async def test_what_is_mounted_without_the_guard_of_the_application_is_named(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    oidc = an_instance()
    app, admin = FastAPI(dependencies=[Depends(oidc.require_auth)]), FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.add_route("/metrics", plain)
    app.add_route("/guarded", guarded_by(oidc))
    app.get("/inside")(lambda: None)
    admin.get("/open")(lambda: None)
    admin.get("/guarded", dependencies=[Depends(oidc.require(lambda _: True))])(lambda: None)
    app.mount("/admin", admin)
    app.mount("/files", StaticFiles(directory=tmp_path))
    app.mount("/guarded-files", GuardedFiles(oidc, tmp_path))
    app.mount("/asgi", Answering())
    app.router.routes.append(Route("/object", Answering()))
    await start(app)
    (message,) = caplog.messages
    assert message.splitlines()[0] == (
        "The guard in `dependencies` of the application, a router or a route does not apply to "
        "/metrics, /admin/open, /files, /asgi, /object."
    )


def overriding_a_guard(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    app.dependency_overrides[require_auth] = lambda: None


def overriding_nothing(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    app.dependency_overrides[oidc.require_auth] = lambda: None


def guarding_later(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    app.get("/early")(lambda: None)
    app.router.dependencies.append(Depends(oidc.require_auth))
    app.get("/late")(lambda: None)


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        (overriding_a_guard, "Nobody has to sign in: dependency_overrides has require_auth."),
        (overriding_nothing, "dependency_overrides has require_auth, and no endpoint depends on"),
        (guarding_later, r"The guard in .* does not apply to /, /early\."),
    ],
)
async def test_a_guard_that_guards_nothing_is_one_warning(
    mount: Callable[[FastAPI, OIDC[Any, Any]], None], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    await start(make_world(mount=mount).app)
    (message,) = caplog.messages
    assert re.match(told, message)


class Answering:
    """An application without a guard, such as that of another framework."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class GuardedFiles(StaticFiles):
    """Files for those who are signed in."""

    def __init__(self, oidc: OIDC[Any, Any], folder: Path) -> None:
        super().__init__(directory=folder)
        self._oidc = oidc


async def test_an_endpoint_older_than_its_guard_is_named(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    staff, all_of_it = APIRouter(), APIRouter()
    staff.get("/early")(lambda: None)
    staff.dependencies.append(Depends(world.oidc.require_auth))
    staff.get("/late")(lambda: None)
    all_of_it.include_router(staff, prefix="/staff")
    world.app.include_router(all_of_it)
    world.app.get("/route")(lambda: None)
    for route in world.app.routes:
        if isinstance(route, APIRoute) and route.path == "/route":
            route.dependencies.append(Depends(world.oidc.require_auth))
    world.app.include_router(
        staff, prefix="/guarded", dependencies=[Depends(world.oidc.require_auth)]
    )
    await start(world.app)
    (message,) = caplog.messages
    assert message.splitlines()[0].endswith("does not apply to /staff/early, /route.")


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda app, oidc: OIDCMiddleware(app, oidc), "is added as a class"),
        (lambda app, oidc: OIDCMiddleware(app.router, oidc.settings), "not OIDCSettings"),
    ],
)
def test_the_middleware_is_a_class_and_gets_an_instance(make: Any, fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        make(FastAPI(), an_instance())


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


@pytest.mark.parametrize(
    ("arguments", "variable", "workers"),
    [
        (["uvicorn", "app:app"], "", 1),
        (["uvicorn", "app:app", "--workers", "2"], "", 2),
        (["uvicorn", "app:app", "--workers=3"], "", 3),
        (["gunicorn", "-w", "4", "app:app"], "", 4),
        (["gunicorn", "app:app"], "5", 5),
        (["uvicorn", "app:app", "--workers", "1"], "5", 1),
        (["uvicorn", "app:app"], "many", 1),
        (["uvicorn", "--workers"], "", 1),
    ],
)
def test_how_many_processes_a_server_has(arguments: list[str], variable: str, workers: int) -> None:
    assert configured_workers(arguments, {"WEB_CONCURRENCY": variable}) == workers


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"session_store": "memory"}, ["session_store"]),
        ({"back_channel_logout_store": "memory"}, ["back_channel_logout_store"]),
        ({"back_channel_logout_store": None}, []),
    ],
)
async def test_memory_with_several_workers_is_one_warning(
    options: dict[str, Any],
    named: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    await start(make_world(**options).app)
    assert [message.partition(":")[0] for message in caplog.messages] == named
    for message in caplog.messages:
        assert '"memory" is that of one process, and this server has 4' in message


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


def forbidding() -> Response:
    return Response(status_code=403)


def sending_somewhere_else(request: Request) -> Response | None:
    return None if "user" in request.headers else RedirectResponse("/auth/login")


def not_raising(request: Request) -> object:
    return "user" in request.headers or HTTPException(403)


@pytest.mark.parametrize("refuse", [forbidding, sending_somewhere_else, not_raising])
async def test_a_dependency_whose_response_is_ignored_is_one_warning(
    refuse: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.get("/open", dependencies=[Depends(refuse)])(lambda: None)
        app.get("/wanted")(wanted)

    async def wanted(made: Annotated[Response, Depends(forbidding)]) -> Response:
        return made

    await start(make_world(mount=mount).app)
    (message,) = caplog.messages
    named = refuse.__name__
    assert message.startswith(f"/open: FastAPI ignores what the dependency {named} returns")


@pytest.mark.parametrize(
    ("at", "inner", "is_open"),
    [
        ("/mcp", "/", True),
        ("", "/mcp", True),
        ("", "/x", False),
        ("/mcp", "/mcp", True),
        ("/other", "/x", False),
    ],
)
async def test_an_open_application_at_an_api_is_one_error(
    at: str, inner: str, is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    api = world.oidc.api("https://app.test/mcp")
    world.app.include_router(api.router)
    routes = [Route(inner, lambda _: Response())]
    if at:
        world.app.mount(at, Starlette(routes=routes))
    else:
        world.app.router.routes.extend(routes)
    await start(world.app)
    found = [each for each in caplog.messages if "https://app.test/mcp is open" in each]
    assert bool(found) == is_open


def of_the_session(oidc: OIDC[Any, Any]) -> Any:
    async def page(
        user: Annotated[OIDCSession[Any] | None, Depends(oidc.require_auth)],
    ) -> None: ...

    return page


def of_the_caller(oidc: OIDC[Any, Any]) -> Any:
    guard = oidc.api("https://app.test/api").require_user

    def reader(user: Annotated[Caller[Any] | None, Depends(guard)]) -> None: ...

    async def page(name: Annotated[None, Depends(reader)]) -> None: ...

    return page


def of_a_role(oidc: OIDC[Any, Any]) -> Any:
    guard = oidc.require(lambda user: True)

    async def page(user: Optional[OIDCSession[Any]] = Depends(guard)) -> None: ...  # noqa: UP045

    return page


@pytest.mark.parametrize("make", [of_the_session, of_the_caller, of_a_role])
async def test_a_guards_result_that_may_be_none_by_its_annotation_is_one_warning(
    make: Callable[[OIDC[Any, Any]], Any], caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    world.app.get("/page")(make(world.oidc))
    await start(world.app)
    (message,) = [each for each in caplog.messages if "None" in each]
    assert message.startswith("/page: 'user' of of_")
    assert "refuses requests without a session or token" in message
    assert "Depends(oidc.optional_user)" in message


async def test_a_result_that_is_none_for_strangers_or_in_tests_is_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world()
    oidc, guard = world.oidc, world.oidc.require(lambda user: True)

    async def page(session: OIDCSession[Any] | None = Depends(oidc.optional_user)) -> None: ...

    async def overridden(session: OIDCSession[Any] | None = Depends(guard)) -> None: ...

    world.app.get("/page")(page)
    world.app.get("/overridden")(overridden)
    world.app.dependency_overrides[guard] = lambda: None
    await start(world.app)
    assert "may be None" not in caplog.text


async def tools(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("all notes")(scope, receive, send)


class Tools:
    """An application in an object."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer everybody."""
        await tools(scope, receive, send)


@pytest.mark.parametrize("server", [tools, Tools(), CORSMiddleware(tools), Tools().__call__])
async def test_an_asgi_application_at_an_api_is_one_error(
    server: ASGIApp, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    world.app.include_router(world.oidc.api("https://app.test/mcp").router)
    world.app.mount("/mcp", server)
    world.app.mount("/elsewhere", server)
    await start(world.app)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "The application at the API https://app.test/mcp is open" in record.message
    assert "api.mount(app, path, server, *scopes)" in record.message


@pytest.mark.parametrize("layers", [0, 1, 2])
async def test_an_asgi_application_that_guards_itself_at_an_api_is_silent(
    layers: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    api = world.oidc.api("https://app.test/mcp")

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        await api.access_token(Request(scope, receive))
        await tools(scope, receive, send)

    def layered(server: ASGIApp) -> ASGIApp:
        for _ in range(layers):
            server = CORSMiddleware(server)
        return server

    world.app.include_router(api.router)
    world.app.mount("/mcp", layered(api.protected(tools)))
    if not layers:
        world.app.mount("/mcp/", guarded)
    await start(world.app)
    assert caplog.messages == []


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
