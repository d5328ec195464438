"""A login from its first request to its callback: what is sent, and what every rule refuses."""

import secrets
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from fastapi import Request
from starlette.responses import Response

from fastapi_oidc import Code, ConfigurationError, LoginOptions, PersistContext, SessionError
from fastapi_oidc.protocol import urls
from fastapi_oidc.testing import AuthorizationRequested, DevUser, TokenRevoked, sign_in
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    callback_url,
    copy_of,
    generation,
    returned,
    shared_stores,
    two_processes,
    user,
)
from tests.oidc.flows.test_continued_sessions import SAME_USER, check, outcome
from tests.oidc.interleaving import Raised, another_process
from tests.oidc.world import BASE_URL, LOGIN_URL, Time, World, make_world, signed_in_world


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
    more = {"acr_values": "2"}
    options = LoginOptions(prompt="login", login_hint="alice", max_age=0, extra_params=more)
    parameters = await sent(world, options)
    expected = {"prompt": "login", "login_hint": "alice", "max_age": "0", "scope": "openid email"}
    assert parameters.items() >= (expected | {"ui_locales": "de", "acr_values": "2"}).items()
    for longer in (None, 601):
        world = make_world(settings={"max_age": 600})
        assert (await sent(world, LoginOptions(max_age=longer)))["max_age"] == "600"


@pytest.mark.parametrize("checked", ["on arrival", "before use"])
async def test_return_path_elsewhere_becomes_the_default_one(
    checked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if checked == "before use":
        monkeypatch.setattr(urls, "same_origin_path", lambda path, **_: path)
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


STEP_UP = "/auth/login?max_age=60&return_to=/me"


def pending(browser: httpx.AsyncClient) -> list[str]:
    return [name for name in browser.cookies if "_login_" in name]


@pytest.mark.parametrize(
    ("error", "status", "code", "comes_again"),
    [
        (httpx.ConnectError("refused"), 502, "provider.unreachable", True),
        (httpx.ReadTimeout("silent"), 504, "provider.timeout", False),
    ],
)
async def test_a_code_that_was_not_sent_is_exchanged_at_the_reload(
    error: Exception, status: int, code: str, comes_again: bool
) -> None:
    """One that may have been sent is used up, and a new login works."""
    world = make_world()
    browser = world.browser()
    url = await callback_url(browser)
    world.op.faults.put("token", Raised(error))
    answer = await browser.get(url)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert world.event_names()[-1] == "login.refused"
    assert len(pending(browser)) == comes_again
    assert await returned(browser, url) == ("/me" if comes_again else None)
    assert await user(browser) == ("alice" if comes_again else None)
    assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 200


@pytest.mark.parametrize("had", ["now", "then", "both"])
async def test_login_ends_the_sessions_that_its_browser_has_and_had(mode: str, had: str) -> None:
    """A cross-site form post brings the response without the session cookie."""
    here, there = two_processes(mode)
    browser = here.browser()
    copies = []
    if had in ("then", "both"):
        browser = await here.signed_in("bob")
        copies.append(copy_of(browser, there))
    url = await callback_url(browser, f"{LOGIN_URL}&prompt=login")
    for name in [name for name in browser.cookies if "session" in name]:
        browser.cookies.delete(name)
    if had in ("now", "both"):
        now = await here.signed_in("bob")
        copies.append(copy_of(now, there))
        sessions = {name: value for name, value in now.cookies.items() if "session" in name}
        browser.cookies.update(sessions)
    assert await returned(browser, url) == "/me"
    assert [await user(copy) for copy in copies] == [None] * len(copies)


@pytest.mark.parametrize("changed", ["client_id", "issuer"])
async def test_session_of_another_client_or_provider_is_none_here(changed: str) -> None:
    world, browser = await signed_in_world()
    update = {changed: "https://another.test", "client_secret": None}
    other = another_process(world, settings=world.oidc.settings.model_copy(update=update))
    assert (await copy_of(browser, other).get("/")).json() == {"is_authenticated": False}


async def test_tokens_of_another_provider_are_not_sent_to_this_one(mode: str) -> None:
    """The settings named another provider when the browser's session began."""
    time = Time()
    settings = {"cookie_secret": secrets.token_urlsafe(32)}
    options: dict[str, Any] = {"time": time, "settings": settings}
    stores = shared_stores(mode, time)
    former = make_world(provider={"issuer": "https://former.test"}, **options, **stores)
    world = make_world(**options, **stores)
    browser = copy_of(await former.signed_in(), world)
    copy = copy_of(browser, former)
    assert (await sign_in(browser, STEP_UP, user="alice")).status_code == 200
    assert world.op.record.calls["revocation"] == 0
    assert [await generation(each) for each in (browser, copy)] == [0, None]


@pytest.mark.parametrize(("as_user", "is_revoked"), [("bob", True), ("alice", False)])
async def test_tokens_of_a_replaced_session_are_revoked_unless_they_may_share_a_grant(
    mode: str, as_user: str, is_revoked: bool
) -> None:
    """Revoking one refresh token may end all of the same user's session (RFC 7009 2.1)."""
    world = make_world(session_store="memory" if mode == "store" else None)
    world.op.edits.put("id_token", lambda said: said | {"sid": "the same"})
    browser = await world.signed_in()
    await sign_in(browser, f"{LOGIN_URL}&prompt=login", user=as_user)
    assert await user(browser) == as_user
    assert len(world.op.record.of(TokenRevoked)) == is_revoked
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1


async def test_tokens_of_a_refused_login_are_revoked(mode: str) -> None:
    def refuse(_context: PersistContext[Any]) -> None:
        raise SessionError(Code.SESSION_FORBIDDEN, "not on the list")

    store = "memory" if mode == "store" else None
    world = make_world(before_session_persist=refuse, session_store=store)
    answer = await sign_in(world.browser(), LOGIN_URL, user="alice")
    assert (answer.status_code, answer.json()["code"]) == (403, "session.forbidden")
    assert len(world.op.record.of(TokenRevoked)) == 1


SHARED_ISSUER = "https://op.test/common/v2.0"
OURS = "11111111-aaaa-4444-8888-000000000000"
THEIRS = "22222222-bbbb-4444-8888-000000000000"


def of_tenants(*allowed: str) -> World:
    users = [DevUser("alice", tenant=OURS), DevUser("bob", tenant=THEIRS)]
    return make_world(
        provider={"issuer": SHARED_ISSUER, "users": users}, settings={"allowed_tenants": allowed}
    )


@pytest.mark.parametrize("allowed", [OURS, "*"])
async def test_user_of_an_allowed_tenant_signs_in_and_is_refreshed(allowed: str) -> None:
    """At an endpoint of Microsoft Entra that many tenants share."""
    world = of_tenants(allowed)
    browser = await world.signed_in("alice")
    world.time.advance(AFTER_EXPIRY)
    assert await user(browser) == "alice"
    assert "session.refreshed" in world.event_names()


async def test_user_of_another_tenant_is_refused() -> None:
    world = of_tenants(OURS)
    answer: httpx.Response = await sign_in(world.browser(), LOGIN_URL, user="bob")
    assert answer.json()["code"] == "id_token.issuer"
    [event] = [event for event in world.events if event.name == "login.refused"]
    assert THEIRS in event.explanation


async def test_where_every_tenant_is_allowed_a_sub_alone_names_nobody() -> None:
    with pytest.raises(ConfigurationError, match="pass both"):
        await of_tenants("*").oidc.revoke(sub="alice")


class TestUsersWithTheSameSub:
    """Of two tenants: a user is `iss` and `sub` of the ID token together (Core 5.7)."""

    async def worlds(self) -> tuple[World, httpx.AsyncClient, httpx.AsyncClient]:
        """Browsers of alice of one tenant, and of another whom the provider calls alice too."""
        issuers = [SHARED_ISSUER.replace("common", tenant) for tenant in (OURS, THEIRS)]
        users = [DevUser("alice", tenant=OURS)]
        world = make_world(
            provider={"issuer": SHARED_ISSUER, "users": users},
            settings={"allowed_tenants": [OURS, THEIRS]},
            session_store="memory",
        )
        ours = await world.signed_in()
        self.other = {"iss": issuers[1], "tid": THEIRS}
        world.op.edits.put("id_token", lambda said: said | self.other)
        theirs = await world.signed_in()
        world.op.edits.clear()
        return world, ours, theirs

    async def test_a_silent_login_of_one_does_not_confirm_the_other(self) -> None:
        _, ours, theirs = await self.worlds()
        assert outcome(await check(ours)) == SAME_USER
        assert outcome(await check(theirs))[0] == "other_user"
        assert [await user(each) for each in (ours, theirs)] == ["alice", "alice"]

    async def test_each_has_sessions_of_its_own(self) -> None:
        world, ours, theirs = await self.worlds()
        issuer = self.other["iss"]
        assert len(await world.oidc.sessions_of("alice")) == 2
        [session] = await world.oidc.sessions_of("alice", issuer=issuer)
        assert session.issuer == issuer
        await world.oidc.revoke(sub="alice", issuer=issuer)
        assert [await user(each) for each in (ours, theirs)] == ["alice", None]

    async def test_a_logout_token_of_one_does_not_end_the_other(self) -> None:
        world, ours, theirs = await self.worlds()
        world.op.edits.put(
            "logout_token", lambda said: {k: v for k, v in said.items() if k != "sid"} | self.other
        )
        world.time.advance(5)
        await world.op.log_out("alice")
        assert [await user(each) for each in (ours, theirs)] == ["alice", None]

    async def test_a_tenant_that_is_no_longer_allowed_is_signed_out(self) -> None:
        world, ours, theirs = await self.worlds()
        settings = world.oidc.settings.model_copy(update={"allowed_tenants": (OURS,)})
        store = world.oidc.runtime.party.sessions.cells.store
        later = another_process(world, settings=settings, session_store=store)
        copies = [copy_of(each, later) for each in (ours, theirs)]
        assert [await user(each) for each in copies] == ["alice", None]
