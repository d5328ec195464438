"""What a login asks the provider, and what is remembered of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from fastapi_oidc import Code, OIDCError
from fastapi_oidc.flows.login import LoginOptions, begin_login
from fastapi_oidc.session.model import LoginTransaction
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.world import BASE_URL, Time, World, make_world

REDIRECT_URI = f"{BASE_URL}/auth/callback"


@dataclass(slots=True)
class Begun:
    """A login under way: the parameters that were sent, and the transaction in its cookie."""

    sent: dict[str, str]
    transaction: LoginTransaction


async def begun(
    world: World, options: LoginOptions, browser: httpx.AsyncClient | None = None
) -> Begun:
    party, cookies = world.oidc.site.party, dict(browser.cookies) if browser else {}
    redirection = await begin_login(party, options, redirect_uri=REDIRECT_URI, cookies=cookies)
    sent = dict(parse_qsl(urlsplit(redirection.location).query))
    set_now = {change.name: change.value or "" for change in redirection.changes}
    found = party.transactions.find(sent["state"], set_now, now=int(world.time.now))
    assert found is not None
    return Begun(sent, found)


async def test_what_it_always_says() -> None:
    world = make_world()
    login = await begun(world, LoginOptions())
    challenge, state, nonce = (login.sent.pop(n) for n in ("code_challenge", "state", "nonce"))
    assert login.sent == {
        "response_type": "code",
        "client_id": "app",
        "redirect_uri": REDIRECT_URI,
        "scope": "openid profile email offline_access",
        "code_challenge_method": "S256",
    }
    transaction = login.transaction
    assert (transaction.state, transaction.nonce) == (state, nonce)
    assert transaction.model_copy(update={"state": "", "nonce": "", "code_verifier": ""}) == (
        LoginTransaction(
            state="",
            nonce="",
            code_verifier="",
            redirect_uri=REDIRECT_URI,
            return_to="/",
            issuer=world.op.issuer,
            created_at=int(world.time.now),
        )
    )
    assert (len(state), len(nonce), len(transaction.code_verifier)) == (43, 43, 64)
    assert len({state, nonce, challenge, transaction.code_verifier}) == 4


async def test_what_an_application_adds() -> None:
    world = make_world(settings={"extra_params": {"ui_locales": "de", "acr_values": "1"}})
    options = LoginOptions(
        return_to="/reports",
        prompt="login",
        login_hint="alice",
        max_age=0,
        extra_params={"acr_values": "2"},
    )
    login = await begun(world, options)
    added = {"prompt": "login", "login_hint": "alice", "max_age": "0"}
    assert login.sent.items() >= (added | {"ui_locales": "de", "acr_values": "2"}).items()
    assert (login.transaction.max_age, login.transaction.return_to) == (0, "/reports")


async def test_a_path_elsewhere_becomes_the_default_one() -> None:
    world = make_world(settings={"default_return_path": "/home"})
    login = await begun(world, LoginOptions(return_to="//evil.test"))
    assert login.transaction.return_to == "/home"


@pytest.mark.parametrize(("asked", "max_age"), [(None, 600), (60, 60)])
async def test_the_max_age_of_the_settings_unless_a_login_has_its_own(
    asked: int | None, max_age: int
) -> None:
    world = make_world(settings={"max_age": 600})
    login = await begun(world, LoginOptions(max_age=asked))
    assert (login.sent["max_age"], login.transaction.max_age) == (str(max_age), max_age)


async def test_a_silent_check_asks_for_the_end_user_of_the_session_and_nothing_else() -> None:
    settings: dict[str, Any] = {"max_age": 600, "response_mode": "form_post"}
    world = make_world(settings=settings)
    browser = await world.signed_in()
    found = await world.oidc.site.party.keeper.read(dict(browser.cookies))
    assert found is not None
    login = await begun(world, LoginOptions(silent=True), browser)
    assert login.sent["prompt"] == "none"
    assert login.sent["id_token_hint"] == found.kept.session.tokens.id_token
    assert login.sent.keys().isdisjoint({"max_age", "response_mode"})
    assert login.transaction.silent
    assert login.transaction.previous is None, "it replaces no session"


@pytest.mark.parametrize("store", [None, "memory"], ids=["cookie", "store"])
async def test_a_login_remembers_the_session_that_it_replaces(store: Any) -> None:
    world = make_world(session_store=store, settings={"response_mode": "form_post"})
    browser = await world.signed_in()
    party = world.oidc.site.party
    found = await party.keeper.read(dict(browser.cookies))
    assert found is not None
    login = await begun(world, LoginOptions(), browser)
    assert login.transaction.previous == party.keeper.previous(found.kept)
    assert login.sent["response_mode"] == "form_post"
    assert "id_token_hint" not in login.sent


async def test_a_cookie_that_says_nothing_without_its_store_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of 0.1.0, which names a row alone, while the store is down."""
    time = Time()
    store, options = fallible("store", time)
    world = make_world(time=time, **options)
    browser = await world.signed_in()
    store.is_down = True
    monkeypatch.setattr(world.oidc.site.party.keeper, "told", lambda *about: None)
    assert (await begun(world, LoginOptions(), browser)).transaction.previous is None


@pytest.mark.parametrize("name", ["state", "redirect_uri", "client_id"])
async def test_what_protects_a_login_is_not_the_applications_to_say(name: str) -> None:
    with pytest.raises(OIDCError) as caught:
        await begun(make_world(), LoginOptions(extra_params={name: "x"}))
    assert caught.value.code is Code.CONFIGURATION_PROTECTED_PARAMETER


async def test_a_pushed_request_leaves_its_client_and_name_in_the_url() -> None:
    world = make_world(settings={"use_par": True})
    browser = world.browser()
    answer = await browser.get("/auth/login", follow_redirects=False)
    sent = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    assert sent.keys() == {"client_id", "request_uri"}
    assert sent["client_id"] == "app"
