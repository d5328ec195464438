"""An ended session is ended everywhere: copies of its cookie, other browsers, other processes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import Request
from starlette.responses import Response

from fastapi_oidc import Clock, ConfigurationError, MemoryRevocationStore, OIDCSession
from fastapi_oidc.flows import callback
from fastapi_oidc.flows.endings import clear, revoke, sessions_of
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import LOGIN_URL, Time, World, make_world

HOUR = 3600


def copy_of(browser: httpx.AsyncClient, world: World) -> httpx.AsyncClient:
    thief = world.browser()
    thief.cookies.update(dict(browser.cookies))
    return thief


async def test_a_copied_cookie_is_worthless_after_sign_out(world: World) -> None:
    browser = await world.signed_in()
    thief = copy_of(browser, world)
    await browser.post("/auth/logout", data={"local": "1"})
    assert await generation(thief) is None


async def test_a_copied_cookie_is_worthless_after_the_next_login(world: World) -> None:
    browser = await world.signed_in()
    thief = copy_of(browser, world)
    await sign_in(browser, LOGIN_URL, user="alice")
    assert await generation(thief) is None
    assert await generation(browser) == 0


async def test_a_cleared_session_is_over_too(world: World) -> None:
    @world.app.post("/forget-me")
    async def forget_me(request: Request) -> None:
        world.oidc.clear_session(request)

    browser = await world.signed_in()
    thief = copy_of(browser, world)
    await browser.post("/forget-me")
    assert await generation(thief) is None


async def test_clearing_ends_the_session_that_the_request_has_begun(world: World) -> None:
    browser, party = await world.signed_in(), world.oidc.site.party
    found = await party.keeper.read(dict(browser.cookies))
    assert found is not None
    await clear(party, {}, found.kept)
    assert party.register.ended(found.kept.session) == "signed_out"
    assert await generation(browser) is None


async def test_revoking_a_user_ends_all_their_sessions_and_nobody_elses(world: World) -> None:
    one, other = await world.signed_in(), await world.signed_in()
    bob = await world.signed_in("bob")
    world.time.advance(5)
    await revoke(world.oidc.site.party, sub="alice")
    assert [await generation(browser) for browser in (one, other, bob)] == [None, None, 0]


@pytest.fixture
def waits_for_the_next_second(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def next_second() -> None:
        world.time.advance(1)

    monkeypatch.setattr(callback, "next_second", next_second)


@pytest.mark.usefixtures("waits_for_the_next_second")
async def test_a_login_in_the_second_of_a_revocation_lives(world: World) -> None:
    await world.signed_in()
    await revoke(world.oidc.site.party, sub="alice")
    assert await generation(await world.signed_in()) == 0


@pytest.mark.usefixtures("waits_for_the_next_second")
async def test_and_ends_with_the_next_revocation(world: World) -> None:
    await revoke(world.oidc.site.party, sub="alice")
    browser = await world.signed_in()
    await revoke(world.oidc.site.party, sub="alice")
    assert await generation(browser) is None


@pytest.mark.usefixtures("waits_for_the_next_second")
async def test_a_revocation_by_a_clock_that_is_ahead_holds_until_then(world: World) -> None:
    world.time.advance(120)
    await revoke(world.oidc.site.party, sub="alice")
    world.time.advance(-120)
    browser = world.browser()
    answer = await sign_in(browser, "/auth/login?return_to=/auth/session", user="alice")
    assert answer.json() == {"is_authenticated": False, "ended": "revoked"}
    world.time.advance(120)
    assert await generation(await world.signed_in()) == 0


async def test_revoking_one_session_leaves_the_others(world: World) -> None:
    one, other = await world.signed_in(), await world.signed_in()
    found = await world.oidc.site.party.keeper.read(dict(one.cookies))
    assert found is not None
    await revoke(world.oidc.site.party, session_id=found.kept.session.id)
    assert [await generation(browser) for browser in (one, other)] == [None, 0]


async def test_a_revocation_is_of_one_thing(world: World) -> None:
    with pytest.raises(ValueError, match="one of"):
        await revoke(world.oidc.site.party, sub="alice", sid="s")
    with pytest.raises(ValueError, match="one of"):
        await revoke(world.oidc.site.party)


async def test_a_revocation_that_nothing_can_keep_is_refused() -> None:
    world = make_world(back_channel_logout_store=None)
    with pytest.raises(ConfigurationError, match="store_missing"):
        await revoke(world.oidc.site.party, sub="alice")


async def test_the_sessions_of_a_user_are_listed_newest_first() -> None:
    world = make_world(session_store="memory")
    for _ in range(3):
        await world.signed_in()
        world.time.advance(10)
    await world.signed_in("bob")
    sessions = await sessions_of(world.oidc.site.party, "alice")
    ages = [int(world.time.now) - session.created_at for session in sessions]
    assert ages == [10, 20, 30]
    assert {session.sub for session in sessions} == {"alice"}


async def test_a_shorter_session_lifetime_brings_no_revoked_session_back() -> None:
    time = Time()
    store = MemoryRevocationStore(clock=Clock(read=time))
    long = make_world(
        time=time,
        settings={"session_lifetime": 72 * HOUR},
        back_channel_logout_store=store,
    )
    browser = await long.signed_in()
    settings = long.oidc.settings.model_copy(update={"session_lifetime": HOUR})
    short = another_process(long, settings=settings, back_channel_logout_store=store)
    long.op.back_channel_transport = httpx.ASGITransport(short.app)
    await long.op.log_out("alice")
    time.advance(HOUR + 60)
    assert await generation(copy_of(browser, long)) is None


async def test_a_session_without_sid_is_ended_by_a_logout_token_with_sid_and_sub(
    world: World,
) -> None:
    world.op.edits.put("id_token", lambda said: {k: v for k, v in said.items() if k != "sid"})
    browser = await world.signed_in()
    world.op.edits.clear()
    world.time.advance(5)
    await world.op.log_out("alice")
    assert await generation(browser) is None


@pytest.mark.parametrize("store", [None, "memory"], ids=["cookie", "store"])
async def test_signing_in_by_form_post_ends_the_session_before(store: Any) -> None:
    """The provider's cross-site POST comes without the Lax session cookie."""
    settings = {"response_mode": "form_post"}
    posting = make_world(settings=settings, session_store=store)
    browser = await posting.signed_in()
    thief = copy_of(browser, posting)
    before = {name: value for name, value in browser.cookies.items() if "session" in name}

    async def without_session_cookie(request: httpx.Request) -> None:
        if request.method == "POST" and request.url.path == "/auth/callback":
            kept = [
                pair
                for pair in request.headers["cookie"].split("; ")
                if pair.partition("=")[0] not in before
            ]
            request.headers["cookie"] = "; ".join(kept)

    browser.event_hooks["request"].append(without_session_cookie)
    await sign_in(browser, LOGIN_URL, user="alice")
    assert await generation(browser) == 0
    assert await generation(thief) is None


async def test_sign_out_revokes_the_newest_refresh_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions: list[OIDCSession[Any]] = []
    world = make_world(load_request_data=lambda context: sessions.append(context.session))

    @world.app.post("/leave")
    async def leave(request: Request) -> Response:
        return await world.oidc.logout(request)

    revoked: list[str] = []

    async def noted(token: str, token_type_hint: str) -> None:
        revoked.append(token)

    monkeypatch.setattr(world.oidc.site.party.provider, "revoke", noted)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    await browser.post("/leave", follow_redirects=False)
    assert sessions[-1].generation == 1
    assert revoked == [sessions[-1].tokens.refresh_token]


async def test_a_refresh_under_way_at_sign_out_gives_its_tokens_back(world: World) -> None:
    browser = await world.signed_in()
    held = Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    late = begun(browser.get("/me"))
    await held.gate.until_reached()
    tab = copy_of(browser, world)
    await tab.post("/auth/logout", data={"local": "1"})
    held.gate.opened.set()
    assert (await late).status_code == 401
    assert len(world.op.record.of(TokenRevoked)) == 2
