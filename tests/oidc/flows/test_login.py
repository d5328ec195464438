"""A login from its first request to the session: what is sent, and what every rule refuses."""

from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from fastapi import Request
from starlette.responses import Response

from fastapi_oidc import Code, LoginOptions
from fastapi_oidc.testing import AuthorizationRequested, sign_in
from tests.oidc.flows.steps import callback_url, user
from tests.oidc.world import BASE_URL, World, make_world


async def begun(world: World, options: LoginOptions | None) -> httpx.Response:
    """The response to a login with `options`."""

    @world.app.get("/begin")
    async def begin(request: Request) -> Response:
        return await world.oidc.login(request, options)

    return await world.browser().get("/begin", follow_redirects=False)


async def sent(world: World, options: LoginOptions | None = None) -> dict[str, str]:
    """The authorization request of a login with `options`."""
    answer = await begun(world, options)
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


async def test_request_has_pkce_state_and_nonce() -> None:
    parameters = await sent(make_world())
    challenge, state, nonce = (parameters.pop(n) for n in ("code_challenge", "state", "nonce"))
    assert parameters == {
        "response_type": "code",
        "client_id": "app",
        "redirect_uri": f"{BASE_URL}/auth/callback",
        "scope": "openid profile email offline_access",
        "code_challenge_method": "S256",
    }
    assert [len(each) for each in (challenge, state, nonce)] == [43, 43, 43]
    assert len({challenge, state, nonce}) == 3


async def test_request_has_what_settings_and_options_add() -> None:
    extra = {"ui_locales": "de", "acr_values": "1"}
    world = make_world(settings={"extra_params": extra, "max_age": 600, "scope": ["email"]})
    options = LoginOptions(
        prompt="login", login_hint="alice", max_age=0, extra_params={"acr_values": "2"}
    )
    parameters = await sent(world, options)
    expected = {"prompt": "login", "login_hint": "alice", "max_age": "0", "scope": "openid email"}
    assert parameters.items() >= (expected | {"ui_locales": "de", "acr_values": "2"}).items()
    for longer in (None, 601):
        world = make_world(settings={"max_age": 600})
        assert (await sent(world, LoginOptions(max_age=longer)))["max_age"] == "600"


async def test_return_path_elsewhere_becomes_the_default_one() -> None:
    world = make_world(settings={"default_return_path": "/me"})
    browser = world.browser()
    answer = await sign_in(browser, "/auth/login?return_to=//evil.test", user="alice")
    assert answer.url == f"{BASE_URL}/me"


async def test_request_is_pushed_where_the_provider_or_the_settings_want_it() -> None:
    def required(said: dict[str, Any]) -> dict[str, Any]:
        return said | {"require_pushed_authorization_requests": True}

    by_provider = make_world(client={"require_pushed_authorization_requests": True})
    by_provider.op.edits.put("metadata", required)
    for world in (by_provider, make_world(settings={"use_par": True})):
        answer = await world.browser().get("/auth/login", follow_redirects=False)
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        assert query.keys() == {"client_id", "request_uri"}
        assert await user(await world.signed_in()) == "alice"
        assert world.op.record.of(AuthorizationRequested)[0].pushed


async def test_logins_in_two_tabs_are_independent() -> None:
    world = make_world()
    browser = world.browser()
    urls = [
        await callback_url(browser, f"/auth/login?return_to={path}&login_hint=alice")
        for path in ("/me", "/")
    ]
    for url, path in zip(reversed(urls), ("/", "/me"), strict=True):
        answer = await browser.get(url, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (302, path)


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("state", ["x" * 43], Code.AUTHORIZATION_TRANSACTION_MISSING),
        ("code", ["another"], Code.TOKEN_INVALID_GRANT),
        ("iss", [], Code.AUTHORIZATION_ISSUER_MISSING),
    ],
)
async def test_response_with_a_wrong_parameter_is_refused(
    name: str, values: list[str], code: Code
) -> None:
    """The provider promises `iss` in its responses (RFC 9207 2.4)."""
    world = make_world()
    browser = world.browser()
    query = parse_qs(urlsplit(await callback_url(browser)).query) | {name: values}
    answer = await browser.get("/auth/callback", params=query, follow_redirects=False)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert await user(browser) is None
    assert world.events[-1].code is code
    is_used_up = not [name for name in browser.cookies if "_login_" in name]
    assert is_used_up is (name != "state")


async def test_another_browser_cannot_complete_a_login() -> None:
    """Login CSRF (RFC 6749 10.12): an attacker's response does nothing in a victim's browser."""
    world = make_world()
    attacker, victim = world.browser(), world.browser()
    answer = await victim.get(await callback_url(attacker), follow_redirects=False)
    assert answer.json()["code"] == "authorization.transaction_missing"
    assert "session" not in str(answer.headers.get_list("set-cookie"))


async def test_userinfo_is_fetched_only_where_it_is_wanted() -> None:
    world = make_world(settings={"fetch_userinfo": False})
    await world.signed_in()
    assert world.op.record.calls["userinfo"] == 0
