"""Two providers in one app: what one instance refuses, it answers itself."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from unittest.mock import AsyncMock

import pytest
from fastapi import Depends, FastAPI, Request, Security
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Match, Mount, NoMatchFound
from starlette.types import Scope

from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, require_auth
from fastapi_oidc.testing import ServerError, sign_in
from tests.oidc.web.asking import begin
from tests.oidc.web.several_providers import SeveralProviders
from tests.oidc.web.test_startup import start
from tests.oidc.world import BASE_URL, make_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}
ORDERS = pytest.mark.parametrize("order", [("staff", "partners"), ("partners", "staff")])


@dataclass
class TwoProviders(SeveralProviders):
    """An app whose users are alice, of the staff, and carol, a partner."""

    instances: dict[str, OIDC[Any, Any]] = field(default_factory=dict)


def two_providers(order: Sequence[str]) -> TwoProviders:
    """The middlewares are added in this order."""
    world = TwoProviders()
    for name, user in {"staff": "alice", "partners": "carol"}.items():
        settings = world.new_provider(name, user, f"{BASE_URL}/{name}")
        world.instances[name] = world.oidc(settings)
        world.app.include_router(world.instances[name].router, prefix=f"/{name}")
    for name in order:
        world.app.add_middleware(OIDCMiddleware, oidc=world.instances[name])
    _mount_pages(world)
    return world


def _mount_pages(world: TwoProviders) -> None:

    for name, instance in world.instances.items():

        @world.app.get(f"/{name}-page")
        async def page(session: OIDCSession[Any] = Depends(instance.require_auth)) -> str:
            return session.sub

        @world.app.get(f"/{name}-guest")
        async def guest(_: OIDCSession[Any] | None = Depends(instance.optional_user)) -> None: ...


@ORDERS
@pytest.mark.parametrize("name", ["staff", "partners"])
async def test_a_page_leads_to_the_login_of_its_guard(order: Sequence[str], name: str) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        answer = await browser.get(f"/{name}-page", headers=NAVIGATION, follow_redirects=False)
        assert answer.headers["location"].startswith(f"/{name}/login?")
        script = await browser.get(f"/{name}-page")
        assert script.headers["www-authenticate"].startswith(f'Cookie realm="{name}"')


@ORDERS
@pytest.mark.parametrize("path", ["/staff-guest", "/staff/session"])
async def test_what_one_instance_lacks_is_told_by_it(order: Sequence[str], path: str) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        await sign_in(browser, "/staff/login?return_to=/staff-page", user="alice")
        world.time.advance(3600)
        world.ops["staff"].faults.put("token", ServerError(), times=9)
        answer = await browser.get(path, headers=NAVIGATION)
    assert answer.status_code == 503
    assert "/staff/login" in answer.text
    assert "/partners/login" not in answer.text


async def test_two_instances_do_not_see_each_other() -> None:
    world = two_providers(("staff", "partners"))
    async with world.browser() as browser:
        await sign_in(browser, "/staff/login?return_to=/staff-page", user="alice")
        assert (await browser.get("/staff-page")).json() == "alice"
        assert (await browser.get("/partners-page")).status_code == 401

        await sign_in(browser, "/partners/login?return_to=/partners-page", user="carol")
        assert (await browser.get("/partners-page")).json() == "carol"

        await browser.post("/staff/logout", data={"local": "1"})
        assert (await browser.get("/staff-page")).status_code == 401
        assert (await browser.get("/partners-page")).json() == "carol"


async def test_a_transaction_of_one_instance_is_none_of_the_other() -> None:
    world = two_providers(("staff", "partners"))
    async with world.browser() as browser:
        begun = await browser.get("/staff/login", follow_redirects=False)
        url = begun.headers["location"] + "&login_hint=alice"
        callback = (await browser.get(url, follow_redirects=False)).headers["location"]
        answer = await browser.get(callback.replace("/staff/", "/partners/"))
        assert answer.json()["code"] == "authorization.transaction_missing"


async def test_a_guard_of_a_namesake_is_refused_whichever_way_it_is_used() -> None:
    world = SeveralProviders()
    users = {"partners": "carol", "staff": "alice"}
    partners, staff = (
        world.oidc(world.new_provider(name, user, BASE_URL), name="oidc")
        for name, user in users.items()
    )
    world.app.add_middleware(OIDCMiddleware, oidc=partners)
    world.app.include_router(partners.router, prefix="/auth")

    @world.app.get("/awaited")
    async def awaited(request: Request) -> str:
        return (await staff.require_auth(request)).sub

    async with world.browser() as browser:
        await sign_in(browser, "/auth/login", user="carol")
        assert (await browser.get("/awaited")).json()["code"] == "configuration.instance_ambiguous"

    def guarded_by(guard: Any) -> FastAPI:
        app = FastAPI()
        app.add_middleware(OIDCMiddleware, oidc=partners)

        @app.get("/staff")
        async def secret(_: Any = Depends(guard)) -> None: ...

        return app

    replaced = guarded_by(staff.require_auth)
    replaced.dependency_overrides[staff.require_auth] = lambda: None
    assert (await begin(replaced, "/staff")).status_code == 200
    for guard in (staff.require_auth, staff.require(lambda _: True), staff.optional_user):
        refused = await begin(guarded_by(guard), "/staff")
        assert refused.json()["code"] == "configuration.instance_ambiguous"


Mounting: TypeAlias = Callable[[FastAPI, OIDC[Any, Any]], Starlette | None]


class Proxy:
    """Stands for what is made later, like the proxies of `werkzeug` and `wrapt`."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("it is not made yet")

    @property
    def __module__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("it is not made yet")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("it is not made yet")


PROXY: Any = Proxy()


async def ok() -> str:
    return "ok"


def a_proxy(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    async def plain(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(PROXY))

    app.get("/a")(lambda: PROXY)
    app.get("/b")(lambda: PROXY.session.user)
    app.add_route("/c", plain)


def executed_code(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    names: dict[str, Any] = {"oidc": oidc}
    exec("async def endpoint(request): return oidc", names)
    app.add_route("/a", names["endpoint"])


def a_mock(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    app.get("/a", dependencies=[Depends(AsyncMock(spec=ok))])(ok)


def an_endpoint_without_a_hash(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @dataclass
    class Page:
        title: str

        def __call__(self) -> str:
            return self.title

    app.add_api_route("/a", Page("title"))


def a_method_of_its_own_class(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    class Own(OIDC[Any, Any]):
        async def user(self, request: Request) -> Any:
            return (await self.require_auth(request)).identity

    oidc.__class__ = Own
    app.get("/a", dependencies=[Depends(oidc.user)])(ok)  # type: ignore[attr-defined]


class ByTenant(BaseRoute):
    """Matches what a middleware of the application adds to requests."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["tenant"] == "acme" else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        raise NoMatchFound(name, path_params)


def scopes_for_tokens(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    api = oidc.api("https://app.test/api")
    for guard in (api.require("read"), api.require(), api.require_user):
        app.get("/api", dependencies=[Security(guard, scopes=["write"])])(ok)
    app.include_router(api.router)


def a_route_of_its_own_kind(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    app.router.routes.insert(0, ByTenant())


def routes_of_the_lifespan(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.include_router(oidc.router, prefix="/auth")
        yield

    app.router.routes.clear()
    app.router.lifespan_context = lifespan


def of_starlette(_app: FastAPI, oidc: OIDC[Any, Any]) -> Starlette:
    app = Starlette(routes=[Mount("/auth", oidc.router)])
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    return app


def around_another(app: FastAPI, _oidc: OIDC[Any, Any]) -> FastAPI:
    outer = FastAPI()
    outer.mount("/shop", app)
    return outer


@pytest.mark.parametrize(
    "mount",
    [
        *(a_proxy, executed_code, a_mock, an_endpoint_without_a_hash),
        *(a_method_of_its_own_class, scopes_for_tokens, a_route_of_its_own_kind),
        *(routes_of_the_lifespan, of_starlette, around_another),
    ],
)
async def test_what_is_right_is_silent(mount: Mounting, caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    app = mount(world.app, world.oidc) or world.app
    assert await start(app) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert caplog.messages == []


async def test_the_routes_of_a_mounted_application_may_be_those_of_the_outer_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, shop = make_world(), FastAPI()
    world.app.include_router(world.oidc.api(f"{BASE_URL}/shop").router)
    shop.add_middleware(OIDCMiddleware, oidc=world.oidc)
    shop.get("/", dependencies=[Depends(require_auth)])(lambda: "")
    world.app.mount("/shop", shop)
    await start(world.app)
    await begin(world.app, "/shop/")
    assert caplog.messages == []
