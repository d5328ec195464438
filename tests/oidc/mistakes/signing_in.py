"""Mistakes that show when somebody signs in, or wants to stay signed in."""

import secrets
from typing import Any

import httpx

from fastapi_oidc import StandardIdentity
from fastapi_oidc.doctor import examine
from fastapi_oidc.testing import OAuthError, sign_in
from tests.oidc.mistakes.desk import Desk
from tests.oidc.world import LOGIN_URL, World, make_world, signed_in_world


async def login(desk: Desk, world: World) -> str:
    """The log of a login, and its last page."""
    async with world.browser() as browser:
        page = await sign_in(browser, LOGIN_URL, user="alice")
    return f"{desk.log}\n{page.text}"


async def examined(world: World) -> str:
    """What the doctor says of the settings."""
    transport = httpx.ASGITransport(world.op.app)
    found = [each async for each in examine(world.oidc.settings, transport=transport)]
    return "\n".join(f"{each.verdict}: {each.topic}: {each.text}" for each in found)


async def a_redirect_uri_that_is_not_registered(_desk: Desk) -> str:
    """The provider's page says what is wrong, and the doctor what to register."""
    world = make_world(client={"redirect_uris": ["https://app.test/callback"]})
    page = await world.browser().get(LOGIN_URL)
    assert "redirect_uri" in page.text
    return await examined(world)


async def another_browser(desk: Desk) -> str:
    world = make_world()
    async with world.browser() as browser, world.browser() as other:
        await browser.get("/auth/login")
        answer = await other.get("/auth/callback?code=1&state=begun-elsewhere")
    return f"{desk.log}\n{answer.text}"


async def another_host(desk: Desk) -> str:
    async with make_world().browser() as browser:
        await browser.get("/auth/login", headers={"host": "localhost:8000"}, follow_redirects=False)
    return desk.log


async def no_way_to_the_provider(desk: Desk) -> str:
    def refused(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Name or service not known", request=request)

    return await login(desk, make_world(transport=httpx.MockTransport(refused)))


async def a_wrong_secret(desk: Desk) -> str:
    return await login(desk, make_world(settings={"client_secret": secrets.token_urlsafe(32)}))


async def clocks_that_differ(desk: Desk) -> str:
    world = make_world()
    world.op.edits.put("id_token", lambda claims: claims | {"iat": int(world.time.now) + 600})
    return await login(desk, world)


async def more_than_a_cookie_holds(desk: Desk) -> str:
    def everything(_context: Any) -> StandardIdentity:
        return StandardIdentity(sub="alice", name=secrets.token_urlsafe(6000))

    return await login(desk, make_world(resolve_identity=everything))


async def too_long_ago(desk: Desk) -> str:
    desk.caplog.set_level("INFO")
    world, browser = await signed_in_world()
    world.time.advance(9 * 3600)
    await browser.get("/me")
    return desk.log


async def no_refresh_token(_desk: Desk) -> str:
    return await examined(make_world(settings={"scope": ["openid"]}))


async def visit_another_process(desk: Desk, **options: Any) -> str:
    """The log of another process that gets the cookies of a session."""
    world, browser = await signed_in_world(**options)
    settings = {"cookie_secret": world.oidc.settings.cookie_secret} if options else {}
    other = make_world(settings=settings, time=world.time, **options).browser()
    async with other:
        other.cookies.update(dict(browser.cookies))
        await other.get("/me")
    return desk.log


async def another_secret(desk: Desk) -> str:
    return await visit_another_process(desk)


async def memory_of_another_process(desk: Desk) -> str:
    return await visit_another_process(desk, session_store="memory")


async def a_refresh_token_that_is_over(desk: Desk) -> str:
    desk.caplog.set_level("INFO")
    world, browser = await signed_in_world()
    world.time.advance(3600)
    world.op.faults.put("token", OAuthError("invalid_grant"))
    await browser.get("/me")
    return desk.log
