"""Where a browser goes on after it signed out, and what it takes along."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from fastapi_oidc import Code
from fastapi_oidc.flows.logout import LogoutOptions, begin_logout, complete_logout
from fastapi_oidc.flows.outcomes import Redirection
from fastapi_oidc.session.logout_cookie import PendingLogout
from fastapi_oidc.testing import AnswerLost, ServerError, TokenRevoked
from tests.oidc.world import BASE_URL, World, make_world

BACK = f"{BASE_URL}/auth/logged-out"


async def signed_out(
    world: World,
    browser: httpx.AsyncClient | None = None,
    *,
    back: str | None = BACK,
    local: bool = False,
) -> Redirection:
    return await begin_logout(
        world.oidc.site.party,
        LogoutOptions(local=local, return_to="/bye"),
        post_logout_redirect_uri=back,
        cookies=dict(browser.cookies) if browser else {},
    )


def sent(redirection: Redirection) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(redirection.location).query))


def cookies(redirection: Redirection) -> dict[str, str]:
    return {change.name: change.value or "" for change in redirection.changes}


async def test_to_the_provider_and_back() -> None:
    world = make_world()
    redirection = await signed_out(world, await world.signed_in())
    assert redirection.location.startswith(f"{world.op.issuer}/")
    assert sent(redirection).keys() == {
        "id_token_hint",
        "client_id",
        "post_logout_redirect_uri",
        "state",
    }
    assert (sent(redirection)["client_id"], len(sent(redirection)["state"])) == ("app", 43)
    assert not redirection.provider_unreachable
    party, state = world.oidc.site.party, sent(redirection)["state"]
    home = complete_logout(party, {"state": [state]}, cookies(redirection))
    assert home == Redirection("/bye", (party.logouts.ended(),))


@pytest.mark.parametrize("states", [[], ["another"], ["\ud800"], None])
async def test_another_state_leads_home(states: list[str] | None) -> None:
    world = make_world(settings={"default_return_path": "/home"})
    redirection = await signed_out(world)
    state = sent(redirection)["state"]
    parameters = {"state": [state, state] if states is None else states}
    party = world.oidc.site.party
    home = complete_logout(party, parameters, cookies(redirection))
    assert home == Redirection("/home", (party.logouts.ended(),))
    assert world.event_names()[-1] == "logout.return_refused"


async def test_a_path_elsewhere_leads_home_though_it_was_sealed() -> None:
    """By an older version, whose rule for paths was another one."""
    world = make_world(settings={"default_return_path": "/home"})
    party = world.oidc.site.party
    now = int(world.time.now)
    pending = PendingLogout(state="s", return_to="//evil.test", created_at=now)
    sealed = cookies(Redirection("", (party.logouts.begun(pending),)))
    assert complete_logout(party, {"state": ["s"]}, sealed).location == "/home"


async def test_a_return_long_after_leads_home() -> None:
    world = make_world()
    redirection = await signed_out(world)
    world.time.advance(24 * 3600)
    parameters = {"state": [sent(redirection)["state"]]}
    home = complete_logout(world.oidc.site.party, parameters, cookies(redirection))
    assert home.location == "/"


async def test_without_a_way_back_nothing_is_remembered() -> None:
    world = make_world()
    redirection = await signed_out(world, await world.signed_in(), back=None)
    assert sent(redirection).keys() == {"id_token_hint", "client_id"}
    assert redirection.changes == ()


async def test_a_session_whose_id_token_was_stripped_gives_no_hint() -> None:
    def strip(context: Any) -> Any:
        tokens = context.session.tokens.model_copy(update={"id_token": ""})
        return context.session.model_copy(update={"tokens": tokens})

    world = make_world(before_session_persist=strip)
    redirection = await signed_out(world, await world.signed_in())
    assert "id_token_hint" not in sent(redirection)
    assert len(world.op.record.of(TokenRevoked)) == 1


async def test_a_provider_without_a_page_for_it_is_told_and_left_out() -> None:
    world = make_world()
    world.op.edits.put("metadata", lambda said: said | {"end_session_endpoint": None})
    assert await signed_out(world, await world.signed_in()) == Redirection("/bye")
    assert len(world.op.record.of(TokenRevoked)) == 1


async def test_a_provider_that_is_down_is_left_out_and_named() -> None:
    world = make_world()
    browser = await world.signed_in()
    for endpoint in ("metadata", "revocation", "jwks", "end_session"):
        world.op.faults.put(endpoint, AnswerLost(), times=99)
    here = Redirection("/bye", provider_unreachable=True)
    assert await signed_out(world, browser) == here
    started = next(event for event in world.events if event.name == "logout.started")
    failed = world.events[-1]
    assert (failed.name, failed.code) == ("logout.revocation_failed", Code.PROVIDER_UNREACHABLE)
    assert failed.session_id == started.session_id
    assert await signed_out(world) == here, "without a session too"


async def test_a_session_without_a_refresh_token_has_nothing_to_give_back() -> None:
    world = make_world(client={"issue_refresh_tokens": False})
    redirection = await signed_out(world, await world.signed_in())
    assert redirection.location.startswith(f"{world.op.issuer}/")
    assert world.op.record.calls["revocation"] == 0
    assert "logout.revocation_failed" not in world.event_names()


async def unreachable() -> bool:
    return False


async def test_and_asks_nevertheless_whether_the_provider_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world(client={"issue_refresh_tokens": False})
    browser = await world.signed_in()
    monkeypatch.setattr(world.oidc.site.party.provider, "is_reachable", unreachable)
    here = Redirection("/bye", provider_unreachable=True)
    assert await signed_out(world, browser) == here


async def test_a_provider_that_took_the_refresh_token_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world()
    browser = await world.signed_in()
    monkeypatch.setattr(world.oidc.site.party.provider, "is_reachable", unreachable)
    redirection = await signed_out(world, browser)
    assert redirection.location.startswith(f"{world.op.issuer}/")


async def test_a_local_sign_out_misses_no_provider() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.op.faults.put("revocation", ServerError(), times=99)
    assert await signed_out(world, browser, local=True) == Redirection("/bye")
    assert "logout.revocation_failed" in world.event_names()


async def test_a_bug_on_the_way_to_the_provider_keeps_nobody_signed_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    browser = await world.signed_in()

    async def broken() -> None:
        raise json.JSONDecodeError("a bug", "", 0)

    monkeypatch.setattr(world.oidc.site.party.provider, "metadata", broken)
    assert await signed_out(world, browser) == Redirection("/bye", provider_unreachable=True)
    assert "sign-out goes on without the provider" in caplog.messages
    assert (await browser.get("/me")).status_code == 401
