"""A login from the first request to the kept session, and everything that must stop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from fastapi_oidc import OIDC, Code, OIDCError, SignedIn
from fastapi_oidc.testing import AuthorizationRequested, ServerError, TokensIssued, sign_in
from tests.oidc.world import BASE_URL, LOGIN_URL, World, make_world


async def begin(browser: httpx.AsyncClient, url: str = LOGIN_URL) -> httpx.Response:
    return await browser.get(url, follow_redirects=False)


async def answered(world: World, browser: httpx.AsyncClient, begun: httpx.Response) -> str:
    """The callback URL to which the provider sends the browser."""
    url = begun.headers["location"] + "&login_hint=alice"
    answer = await browser.get(url, follow_redirects=False)
    location: str = answer.headers["location"]
    assert location.startswith(f"{BASE_URL}/auth/callback"), location
    return location


async def test_signs_in_and_comes_back() -> None:
    world = make_world()
    async with world.browser() as browser:
        answer = await sign_in(browser, LOGIN_URL, user="alice")
        assert answer.url == f"{BASE_URL}/me"
        assert answer.json()["identity"]["email"] == "alice@example.com"
    assert world.event_names() == ["login.started", "login.succeeded"]


async def test_the_request_carries_pkce_state_and_nonce() -> None:
    world = make_world(settings={"scope": ["email"], "extra_params": {"ui_locales": "de"}})
    async with world.browser() as browser:
        await sign_in(browser, LOGIN_URL, user="alice")
    sent = world.op.record.of(AuthorizationRequested)[0].parameters
    assert sent["code_challenge_method"] == "S256"
    assert len(sent["state"]) >= 43
    assert len(sent["nonce"]) >= 43
    assert sent["state"] != sent["nonce"]
    assert sent["scope"] == "openid email"
    assert sent["redirect_uri"] == f"{BASE_URL}/auth/callback"
    assert sent["ui_locales"] == "de"
    assert "response_mode" not in sent


async def test_two_tabs_do_not_meet() -> None:
    world = make_world()
    async with world.browser() as browser:
        first, second = await begin(browser), await begin(browser, "/auth/login?return_to=/")
        for begun, return_to in ((second, "/"), (first, "/me")):
            callback = await answered(world, browser, begun)
            answer = await browser.get(callback, follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (302, return_to)


async def test_a_ninth_pending_login_evicts_the_oldest() -> None:
    world = make_world()
    async with world.browser() as browser:
        begun = []
        for _ in range(9):
            world.time.advance(1)
            begun.append(await begin(browser))
        pending = [name for name in browser.cookies if "_login_" in name]
        assert len(pending) == 8
        newest = await browser.get(await answered(world, browser, begun[8]), follow_redirects=False)
        assert newest.headers["location"] == "/me"


async def test_a_replayed_callback_of_a_signed_in_browser_goes_home() -> None:
    world = make_world()
    async with world.browser() as browser:
        callback = await answered(world, browser, await begin(browser))
        await browser.get(callback, follow_redirects=False)
        again = await browser.get(callback, follow_redirects=False)
        assert (again.status_code, again.headers["location"]) == (302, "/")
    assert len(world.op.record.of(TokensIssued)) == 1


def changed(name: str, value: str | None) -> Callable[[dict[str, list[str]]], None]:
    def change(query: dict[str, list[str]]) -> None:
        query.pop(name, None)
        if value is not None:
            query[name] = [value]

    return change


def repeated(name: str) -> Callable[[dict[str, list[str]]], None]:
    def change(query: dict[str, list[str]]) -> None:
        query[name] = query[name] * 2

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (changed("state", None), Code.AUTHORIZATION_STATE_MISSING),
        (changed("state", "x" * 43), Code.AUTHORIZATION_TRANSACTION_MISSING),
        (repeated("state"), Code.AUTHORIZATION_PARAMETER_REPEATED),
        (repeated("code"), Code.AUTHORIZATION_PARAMETER_REPEATED),
        (changed("code", None), Code.AUTHORIZATION_CODE_MISSING),
        (changed("code", "another"), Code.TOKEN_INVALID_GRANT),
        (changed("iss", "https://evil.test"), Code.AUTHORIZATION_ISSUER_MISMATCH),
        (changed("iss", None), Code.AUTHORIZATION_ISSUER_MISSING),
    ],
)
async def test_one_wrong_parameter_is_refused(
    change: Callable[[dict[str, list[str]]], None], code: Code
) -> None:
    world = make_world()
    async with world.browser() as browser:
        callback = await answered(world, browser, await begin(browser))
        query = parse_qs(urlsplit(callback).query)
        change(query)
        answer = await browser.get("/auth/callback", params=query, follow_redirects=False)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
        assert (await browser.get("/")).json() == {"is_authenticated": False}
    assert world.events[-1].code is code


async def test_an_error_answer_uses_the_transaction_up() -> None:
    world = make_world()
    async with world.browser() as browser:
        begun = await begin(browser)
        state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
        query = {"state": state, "error": "access_denied", "iss": world.op.issuer}
        answer = await browser.get("/auth/callback", params=query)
        assert (answer.status_code, answer.json()["code"]) == (400, "authorization.refused")
        assert not [name for name in browser.cookies if "_login_" in name]


async def test_another_browser_cannot_finish_the_login() -> None:
    """Login CSRF: the answer to an attacker's login does nothing in a victim's browser."""
    world = make_world()
    async with world.browser() as attacker, world.browser() as victim:
        callback = await answered(world, attacker, await begin(attacker))
        answer = await victim.get(callback, follow_redirects=False)
        assert answer.json()["code"] == "authorization.transaction_missing"
        assert "session" not in str(answer.headers.get_list("set-cookie"))


async def test_an_old_transaction_is_too_late() -> None:
    world = make_world()
    async with world.browser() as browser:
        callback = await answered(world, browser, await begin(browser))
        world.time.advance(600)
        answer = await browser.get(callback, follow_redirects=False)
        assert answer.json()["code"] == "authorization.transaction_missing"


@pytest.mark.parametrize(
    ("message", "members", "code"),
    [
        ("id_token", {"iss": "https://op.test/"}, Code.ID_TOKEN_ISSUER),
        ("id_token", {"aud": "another"}, Code.ID_TOKEN_AUDIENCE),
        ("id_token", {"nonce": "another"}, Code.ID_TOKEN_NONCE),
        ("id_token", {"exp": 1}, Code.ID_TOKEN_EXPIRED),
        ("id_token", {"iat": None}, Code.ID_TOKEN_ISSUED_AT),
        ("id_token", {"sub": ""}, Code.ID_TOKEN_SUBJECT),
        ("id_token", {"at_hash": "x"}, Code.ID_TOKEN_ACCESS_TOKEN_HASH),
        ("userinfo", {"sub": "bob"}, Code.USERINFO_SUBJECT),
        ("token_response", {"token_type": "DPoP"}, Code.TOKEN_TYPE),
        ("token_response", {"id_token": None}, Code.TOKEN_ID_TOKEN_MISSING),
    ],
)
async def test_one_wrong_word_of_the_provider_is_refused(
    message: Any, members: dict[str, Any], code: Code
) -> None:
    world = make_world()
    world.op.edits.put(message, lambda said: said | members)
    async with world.browser() as browser:
        answer = await sign_in(browser, LOGIN_URL, user="alice")
        assert answer.json()["code"] == code
        assert (await browser.get("/")).json() == {"is_authenticated": False}


async def test_a_provider_that_is_down_is_a_clear_answer_and_not_for_long() -> None:
    world = make_world()
    world.op.faults.put("metadata", ServerError(), times=1)
    async with world.browser() as browser:
        assert (await browser.get("/")).status_code == 200
        answer = await browser.get("/auth/login")
        assert answer.status_code in (502, 503)
        world.time.advance(10)
        assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 200


async def test_no_userinfo_when_it_is_not_wanted() -> None:
    world = make_world(settings={"fetch_userinfo": False})
    await world.signed_in()
    assert world.op.record.calls["userinfo"] == 0


async def test_pushes_the_request_when_the_provider_wants_it() -> None:
    world = make_world(client={"require_pushed_authorization_requests": True})
    world.op.edits.put(
        "metadata", lambda said: said | {"require_pushed_authorization_requests": True}
    )
    async with world.browser() as browser:
        begun = await begin(browser)
        assert set(parse_qs(urlsplit(begun.headers["location"]).query)) == {
            "client_id",
            "request_uri",
        }
        assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 200


async def test_form_post() -> None:
    world = make_world(settings={"response_mode": "form_post"})
    async with world.browser() as browser:
        begun = await begin(browser)
        assert "SameSite=None; Secure" in begun.headers["set-cookie"]
        page = await browser.get(begun.headers["location"] + "&login_hint=alice")
        assert page.status_code == 200
        answer = await sign_in(browser, LOGIN_URL + "&login_hint=alice", user="alice")
        assert answer.url == f"{BASE_URL}/me"


async def test_on_success_and_on_failure_may_answer() -> None:
    async def on_success(_request: Request, result: SignedIn[Any]) -> PlainTextResponse:
        return PlainTextResponse(f"hello {result.session.identity.name}")

    def on_failure(_request: Request, error: OIDCError) -> PlainTextResponse:
        return PlainTextResponse(f"sorry: {error.code}", error.status)

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.router.routes.clear()
        app.get("/in")(oidc.login_handler())
        app.get("/back")(oidc.callback_handler(on_success=on_success, on_failure=on_failure))

    world = make_world(client={"redirect_uris": [f"{BASE_URL}/back"]}, mount=mount)
    async with world.browser() as browser, world.browser() as stranger:
        assert (await sign_in(browser, "/in", user="alice")).text == "hello Alice"
        refused = await stranger.get("/back?state=x")
        assert refused.text == "sorry: authorization.transaction_missing"
