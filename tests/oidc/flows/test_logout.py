"""Signing out: here first, then at the provider, from this site alone."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from fastapi_oidc import Code, MemorySessionStore
from fastapi_oidc.testing import Delay, ServerError, SignedOut, TokenRevoked
from tests.oidc.world import BASE_URL, World, make_world


async def is_signed_in(browser: httpx.AsyncClient) -> bool:
    return bool((await browser.get("/")).json()["is_authenticated"])


async def test_signs_out_here_and_at_the_provider(world: World) -> None:
    browser = await world.signed_in()
    begun = await browser.post("/auth/logout", data={"return_to": "/me"}, follow_redirects=False)
    assert begun.status_code == 302
    assert not await is_signed_in(browser)
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert set(query) == {"id_token_hint", "client_id", "post_logout_redirect_uri", "state"}
    assert query["post_logout_redirect_uri"] == [f"{BASE_URL}/auth/logged-out"]

    back = await browser.get(begun.headers["location"], follow_redirects=False)
    home = await browser.get(back.headers["location"], follow_redirects=False)
    assert (home.status_code, home.headers["location"]) == (302, "/me")
    assert len(world.op.record.of(SignedOut)) == 1
    assert world.event_names()[-1] == "logout.returned"


@pytest.mark.parametrize("query", ["", "?state=another", "?state=a&state=b"])
async def test_a_return_with_another_state_goes_home(world: World, query: str) -> None:
    browser = await world.signed_in()
    await browser.post("/auth/logout", data={"return_to": "/me"}, follow_redirects=False)
    home = await browser.get(f"/auth/logged-out{query}", follow_redirects=False)
    assert (home.status_code, home.headers["location"]) == (302, "/")
    assert world.event_names()[-1] == "logout.return_refused"


async def test_local_only_does_not_ask_the_provider(world: World) -> None:
    browser = await world.signed_in()
    answer = await browser.post(
        "/auth/logout", data={"local": "1", "return_to": "//evil"}, follow_redirects=False
    )
    assert (answer.status_code, answer.headers["location"]) == (302, "/")
    assert not await is_signed_in(browser)
    assert len(world.op.record.of(TokenRevoked)) == 1, "nobody has a use for the refresh token"


async def test_a_local_logout_leaves_the_refresh_token_when_told_to() -> None:
    world = make_world(settings={"revoke_on_local_logout": False})
    browser = await world.signed_in()
    await browser.post("/auth/logout", data={"local": "1"})
    assert not await is_signed_in(browser)
    assert world.op.record.of(TokenRevoked) == []


async def test_works_while_the_provider_is_down() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.time.advance(4000)
    for endpoint in ("metadata", "revocation"):
        world.op.faults.put(endpoint, ServerError(), times=9)
    answer = await browser.post("/auth/logout", follow_redirects=False)
    assert answer.headers["location"] == "/"
    assert not await is_signed_in(browser)


async def test_does_not_wait_long_for_a_slow_provider() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.op.faults.put("revocation", Delay(20))
    started = time.monotonic()
    answer = await browser.post("/auth/logout", follow_redirects=False)
    assert time.monotonic() - started < 5
    assert answer.headers["location"] == "/", "a browser sent to it would wait as well"
    assert "logout.revocation_failed" in world.event_names()


async def test_works_while_the_store_is_down() -> None:
    class Broken(MemorySessionStore[Any]):
        down = False

        async def get(self, id: str, /) -> Any:
            if self.down:
                raise ConnectionError
            return await super().get(id)

    store = Broken()
    world = make_world(session_store=store)
    browser = await world.signed_in()
    store.down = True
    assert (await browser.get("/")).status_code == 503
    answer = await browser.post("/auth/logout", follow_redirects=False)
    assert answer.status_code == 302
    assert "__Host-oidc_session=;" in str(answer.headers.get_list("set-cookie"))


async def test_without_a_session_the_provider_can_still_be_asked(world: World) -> None:
    async with world.browser() as browser:
        answer = await browser.post("/auth/logout", follow_redirects=False)
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert query["client_id"] == ["app"]
    assert "id_token_hint" not in query


async def test_revokes_the_refresh_token(world: World) -> None:
    browser = await world.signed_in()
    await browser.post("/auth/logout", follow_redirects=False)
    assert world.op.record.of(TokenRevoked)[0].token_type_hint == "refresh_token"


async def test_a_row_that_cannot_be_deleted_still_ends_at_the_provider() -> None:
    class Undeletable(MemorySessionStore[Any]):
        async def delete(self, id: str, /) -> None:
            raise ConnectionError

    world = make_world(session_store=Undeletable())
    browser = await world.signed_in()
    answer = await browser.post("/auth/logout", follow_redirects=False)
    assert "id_token_hint=ey" in answer.headers["location"]
    assert len(world.op.record.of(TokenRevoked)) == 1
    assert "session.not_removed" in world.event_names()


async def test_tokens_of_another_provider_are_not_given_to_this_one() -> None:
    """The settings name another provider since; the cookie opens all the same."""
    before = make_world()
    browser = await before.signed_in()
    after = make_world(
        settings={"cookie_secret": before.oidc.settings.cookie_secret, "client_id": "successor"},
        client={"client_id": "successor"},
    )
    async with after.browser() as same:
        same.cookies.update(dict(browser.cookies))
        answer = await same.post("/auth/logout", follow_redirects=False)
    assert "id_token_hint" not in answer.headers["location"]
    assert after.op.record.calls["revocation"] == 0
    assert "session=; Max-Age=0" in str(answer.headers.get_list("set-cookie"))


async def test_a_stored_session_is_gone_for_a_copied_cookie() -> None:
    world = make_world(session_store="memory")
    browser = await world.signed_in()
    async with world.browser() as thief:
        thief.cookies.update(dict(browser.cookies))
        await browser.post("/auth/logout", data={"local": "1"})
        assert not await is_signed_in(thief)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"origin": "null", "sec-fetch-site": "none"},
        {"origin": "http://app.test"},
        {"origin": f"{BASE_URL}.evil.test"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.test", "sec-fetch-site": "same-origin"},
    ],
)
async def test_another_site_cannot_sign_anybody_out(world: World, headers: dict[str, str]) -> None:
    browser = await world.signed_in()
    answer = await browser.post("/auth/logout", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, Code.SESSION_CROSS_SITE)
    assert await is_signed_in(browser)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": BASE_URL},
        {"sec-fetch-site": "same-origin"},
        # A page with `Referrer-Policy: no-referrer` hides its origin.
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {},
    ],
)
async def test_this_site_can(world: World, headers: dict[str, str]) -> None:
    browser = await world.signed_in()
    await browser.post("/auth/logout", headers=headers, follow_redirects=False)
    assert not await is_signed_in(browser)


async def test_get_does_not_sign_out(world: World) -> None:
    browser = await world.signed_in()
    assert (await browser.get("/auth/logout")).status_code == 405
    assert await is_signed_in(browser)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [(b"{}", "application/json"), (b"a=1", "text/plain"), (b"a=" + b"x" * 70_000, None)],
)
async def test_an_unreadable_form_is_refused(
    world: World, content: bytes, content_type: str | None
) -> None:
    browser = await world.signed_in()
    headers = {"content-type": content_type or "application/x-www-form-urlencoded"}
    answer = await browser.post("/auth/logout", content=content, headers=headers)
    assert answer.status_code == 400
