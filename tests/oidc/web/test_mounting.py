"""Where the routes are: behind a proxy, in another application; other origins; signing out."""

from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware

from fastapi_oidc import OIDC, Code, ConfigurationError, OIDCMiddleware, StandaloneAPI
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.web.asking import begin, browser_of, who
from tests.oidc.web.test_startup import start
from tests.oidc.world import BASE_URL, LOGIN_URL, World, make_world, signed_in_world


def redirect_uri(answer: httpx.Response) -> str:
    return parse_qs(urlsplit(answer.headers["location"]).query)["redirect_uri"][0]


@pytest.mark.parametrize(
    ("host", "location"),
    [
        ("other.test", f"{BASE_URL}/auth/login?return_to=%2Fme%3Fa%3Db&moved=1"),
        ("app.test:8443", f"{BASE_URL}/auth/login?return_to=%2Fme%3Fa%3Db&moved=1"),
        ("app.test", None),
        ("APP.test:443", None),
    ],
)
async def test_a_login_at_another_host_is_sent_to_ours(host: str, location: str | None) -> None:
    world = make_world()
    answer = await world.browser().get(
        "/auth/login?return_to=%2Fme%3Fa%3Db", headers={"host": host}, follow_redirects=False
    )
    if location is None:
        assert answer.headers["location"].startswith(world.op.issuer)
    else:
        assert answer.headers["location"] == location
        assert "set-cookie" not in answer.headers


async def test_behind_a_proxy_that_strips_the_root_path() -> None:
    """The browser asks for /proxied/auth/login, the application sees /auth/login."""
    world, outage = fallible_world("store")
    browser = await world.signed_in()
    world.app.root_path, outage.is_down = "/proxied", True
    begun = await begin(world.app, "/auth/login")
    assert redirect_uri(begun) == f"{BASE_URL}/proxied/auth/callback"
    logout = await browser.post("/auth/logout", data={"local": "1"}, follow_redirects=False)
    assert logout.status_code == 302, "the store is down and the library's routes do without it"


@pytest.mark.parametrize("exclude", [["static"], [""], ["/"], ["/a", "media/"], ["/a/*"], "/a"])
async def test_a_prefix_that_no_path_begins_with_fails_the_start(exclude: list[str] | str) -> None:
    """Servers take an error that is told in no other way for an application without a lifespan."""
    app, sent = make_world(middleware={"exclude": exclude}).app, list[str]()
    with pytest.raises(ConfigurationError, match="begin with a slash"):
        await start(app, sent)
    assert sent == ["lifespan.startup.failed"]


async def test_development_takes_the_origin_of_the_request() -> None:
    world = make_world(settings={"base_url": None, "allow_insecure_http": True})
    answer = await begin(world.app, "/auth/login")
    assert redirect_uri(answer) == "https://other.test/auth/callback"
    assert answer.headers["set-cookie"].startswith("oidc_login_")
    assert "Secure" not in answer.headers["set-cookie"]


async def test_a_page_without_a_login_route_is_told(caplog: pytest.LogCaptureFixture) -> None:
    oidc = make_world().oidc
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.get("/me")(who(oidc))
    async with browser_of(app) as browser:
        with pytest.raises(ConfigurationError, match=r"mounted: app\.include_router\(oidc"):
            await browser.get("/me", headers={"Accept": "text/html"})
    assert "OIDC instance 'oidc' has no route for: login, callback" in caplog.text


async def test_a_root_path_is_in_front_and_headers_name_no_redirect_uri() -> None:
    answer = await begin(make_world().app, "/proxied/auth/login", root_path="/proxied")
    assert redirect_uri(answer) == f"{BASE_URL}/proxied/auth/callback"


@pytest.mark.parametrize(
    ("root_path", "prefix", "said"),
    [
        ("", "/proxied", "a proxy removes 'proxied' from paths: start the server with this --r"),
        ("/other", "/proxied", "a proxy removes 'proxied' from paths"),
        ("/au", "", ""),
        ("/auth", "", ""),
        ("/proxied", "/proxied/", ""),
        ("/a/proxied", "/proxied, /a", ""),
        ("", "/auth", ""),
    ],
)
async def test_a_prefix_that_a_login_lacks_is_told(
    root_path: str, prefix: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    transport = httpx.ASGITransport(world.app, root_path=root_path)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        await client.get(f"{root_path}/auth/login", headers={"X-Forwarded-Prefix": prefix})
    assert len(caplog.messages) == bool(said) == caplog.text.count(f"root_path: {said}")


async def test_an_api_without_logins_needs_no_prefix(caplog: pytest.LogCaptureFixture) -> None:
    api, app = StandaloneAPI("https://op.test", BASE_URL), FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=api)
    app.include_router(api.router)
    app.get("/a", dependencies=[Depends(api.require())])(lambda: None)
    async with browser_of(app) as browser:
        answer = await browser.get("/a", headers={"X-Forwarded-Prefix": "/proxied"})
    assert (answer.status_code, caplog.messages) == (401, [])


async def test_a_prefix_that_a_login_has_twice_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    world.app.router.routes.clear()
    world.app.include_router(world.oidc.router, prefix="/proxied/auth")
    await begin(world.app, "/proxied/proxied/auth/login", root_path="/proxied")
    (message,) = caplog.messages
    assert "has it too, for a login at /proxied/proxied/auth/login: leave it out" in message


def with_a_shop(app: FastAPI, oidc: OIDC[Any, Any]) -> FastAPI:
    shop = FastAPI()
    shop.get("/")(lambda: "open to all")
    shop.get("/auth/login")(who(oidc))
    app.mount("/shop", shop)
    return shop


def with_a_guarded_shop(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    with_a_shop(app, oidc).add_middleware(OIDCMiddleware, oidc=oidc)


async def test_who_comes_to_an_app_that_is_mounted_inside_is_led_to_the_outer_login() -> None:
    async with make_world(mount=with_a_guarded_shop).browser() as browser:
        browser.headers["accept"] = "text/html"
        visited = await browser.get("/shop/auth/login?a=b", follow_redirects=False)
        back = quote_plus("/shop/auth/login?a=b")
        assert visited.headers["location"] == f"/auth/login?return_to={back}"


@pytest.mark.parametrize("exclude", [[], ["/shop"]])
async def test_where_the_routes_are_is_not_learned_from_an_app_inside(exclude: list[str]) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        with_a_shop(app, oidc)

    world = make_world(mount=mount, middleware={"exclude": exclude})
    async with world.browser() as browser:
        opened = await browser.get("/shop/")
        assert opened.headers.get("vary") == (None if exclude else "Cookie")
        headers = {"accept": "text/html"}
        answer = await browser.get("/me", headers=headers, follow_redirects=False)
        assert answer.headers["location"] == "/auth/login?return_to=%2Fme"


async def test_two_instances_of_one_name_are_refused() -> None:
    world = make_world()
    world.app.add_middleware(OIDCMiddleware, oidc=make_world().oidc)
    answer = await begin(world.app, "/")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.instance_ambiguous")


async def test_a_middleware_around_the_app_is_told_where_it_belongs() -> None:
    with pytest.raises(ConfigurationError, match="add_middleware"):
        await begin(OIDCMiddleware(CORSMiddleware(FastAPI()), make_world().oidc), "/")  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        (lambda oidc: oidc.require_auth, "add OIDCMiddleware to the mounted"),
        (
            lambda oidc: oidc.api("https://app.test/api").require(),
            r"to the mounted .* given to api\.mount\(\.\.\., tools={...}\)",
        ),
    ],
)
async def test_a_guard_in_a_mounted_application_says_what_to_add(guard: Any, said: str) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        inner = FastAPI()

        @inner.get("/guarded", dependencies=[Depends(guard(oidc))])
        async def guarded() -> None: ...

        app.mount("/inner", inner)

    async with make_world(mount=mount).browser() as browser:
        with pytest.raises(ConfigurationError, match=said) as caught:
            await browser.get("/inner/guarded")
    assert caught.value.code is Code.CONFIGURATION_MIDDLEWARE_MISSING


@pytest.mark.parametrize("is_inside", [False, True])
async def test_a_refusal_can_be_read_by_the_origin_that_may(
    is_inside: bool, caplog: pytest.LogCaptureFixture
) -> None:
    pages, world = "https://pages.test", make_world()
    world.app.add_middleware(CORSMiddleware, allow_origins=[pages], allow_credentials=True)
    if is_inside:
        world.app.user_middleware.reverse()
    headers = {"origin": pages, "sec-fetch-mode": "cors", "sec-fetch-site": "cross-site"}
    refused = await world.browser().get("/me", headers=headers)
    assert refused.json()["code"] == "session.required"
    assert ("access-control-allow-origin" in refused.headers) != is_inside
    assert ("add CORSMiddleware after OIDCMiddleware" in caplog.text) == is_inside


async def test_a_trusted_page_of_another_site_without_a_session_is_told_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = "https://page.example"
    world = make_world(settings={"trusted_origins": [page]})
    world.app.get("/me", dependencies=[Depends(world.oidc.require_auth)])(lambda: None)
    headers = {"origin": page, "sec-fetch-mode": "cors", "sec-fetch-site": "same-site"}
    await world.browser().get("/me", headers=headers)
    assert "trusted_origins" not in caplog.text
    await world.browser().get("/me", headers=headers | {"sec-fetch-site": "cross-site"})
    assert f"a page of '{page}' has no session here" in caplog.text


@pytest.mark.parametrize(("method", "path"), [("GET", "/auth/login"), ("POST", "/auth/logout")])
async def test_a_script_that_fetches_what_leads_to_the_provider_is_told(
    method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    world, browser = await signed_in_world()
    headers = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    if method == "POST":
        await (await world.signed_in()).post(path, headers=headers, data={"local": "1"})
    assert "fetch" not in caplog.text
    await browser.request(method, path, headers=headers)
    assert f"a script fetched {path}, whose response leads to the provider" in caplog.text


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param, settings={"idle_timeout": 600})


async def hints_of_a_sign_out(browser: httpx.AsyncClient) -> list[str]:
    """The hint of each visit to the provider, once the browser is back in the application."""
    last = await browser.post("/auth/logout")
    assert str(last.url) == "https://app.test/"
    assert last.json() == {"is_authenticated": False}
    visits = [each.url for each in last.history if each.url.path == "/end-session"]
    return [url.params.get("id_token_hint", "") for url in visits]


async def test_a_sign_out_with_a_copied_cookie_returns_to_the_application(world: World) -> None:
    """Some providers do not redirect back for the ID token of a session that has ended."""
    browser, tab = await world.signed_in(), world.browser()
    tab.cookies.update(dict(browser.cookies))
    [hint] = await hints_of_a_sign_out(browser)
    assert hint
    assert await hints_of_a_sign_out(tab) == []


async def test_a_sign_out_after_the_idle_timeout_visits_the_provider(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(601)
    [hint] = await hints_of_a_sign_out(browser)
    assert hint


async def token(browser: httpx.AsyncClient) -> str:
    """A CSRF token of the session that is here."""
    return str((await browser.get("/auth/session")).json()["csrf_token"])


async def signed_out(browser: httpx.AsyncClient, named: str) -> httpx.Response:
    return await browser.post(
        "/auth/logout", data={"local": "1"}, headers={"X-CSRF-Token": named}, follow_redirects=False
    )


async def is_signed_in(browser: httpx.AsyncClient) -> bool:
    return bool((await browser.get("/auth/session")).json()["is_authenticated"])


async def test_the_session_of_the_token_ends(world: World) -> None:
    browser = await world.signed_in()
    assert (await signed_out(browser, await token(browser))).status_code == 302
    assert not await is_signed_in(browser)


async def test_a_session_that_has_taken_its_place_stays(world: World) -> None:
    browser = await world.signed_in()
    former = await token(browser)
    await sign_in(browser, LOGIN_URL, user="alice")
    answer = await signed_out(browser, former)
    assert (answer.status_code, answer.json()["code"]) == (403, "session.csrf")
    assert "set-cookie" not in answer.headers
    assert await is_signed_in(browser)


async def test_a_store_that_is_down_keeps_nobody_signed_in() -> None:
    world, outage = fallible_world("store")
    browser = await world.signed_in()
    named = await token(browser)
    outage.is_down = True
    assert (await signed_out(browser, named)).status_code == 302


async def test_a_sign_out_whose_body_is_json_is_told_with_its_path_and_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, browser = await signed_in_world()
    headers = {"accept": "text/html"}
    answer = await browser.post("/auth/logout", json={"local": 1}, headers=headers)
    assert answer.status_code == 400
    assert "The logout request was refused" in answer.text
    assert "the body of POST '/auth/logout' is not a URL-encoded form" in caplog.text
    assert "new URLSearchParams({local: 1})" in caplog.text
