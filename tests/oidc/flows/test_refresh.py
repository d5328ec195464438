"""Refreshing: once, for everybody, and never at the price of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from fastapi_oidc import (
    Code,
    IdentityContext,
    PersistContext,
    StandardIdentity,
)
from fastapi_oidc.testing import AnswerLost, Delay, OAuthError, ServerError, TokensIssued
from tests.oidc.world import World, make_world

LONG_AFTER = 400
SHORTLY_BEFORE_THE_END = 280


def refreshes(world: World) -> int:
    issued = world.op.record.of(TokensIssued)
    return sum(event.grant_type == "refresh_token" for event in issued)


async def generation(browser: httpx.AsyncClient) -> int | None:
    answer = await browser.get("/me")
    return answer.json()["generation"] if answer.status_code == 200 else None


async def test_a_fresh_session_is_left_alone(world: World) -> None:
    browser = await world.signed_in()
    answer = await browser.get("/me")
    assert answer.json()["generation"] == 0
    assert "set-cookie" not in answer.headers
    assert refreshes(world) == 0


async def test_an_expiring_session_is_refreshed_and_kept(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert [await generation(browser) for _ in range(3)] == [1, 1, 1]
    assert refreshes(world) == 1
    assert world.event_names()[-1] == "session.refreshed"


async def test_each_refresh_uses_the_newest_refresh_token(world: World) -> None:
    browser = await world.signed_in()
    for expected in (1, 2, 3):
        world.time.advance(LONG_AFTER)
        assert await generation(browser) == expected


async def test_a_hundred_requests_make_one_refresh(world: World) -> None:
    browser = await world.signed_in()
    old_cookies = dict(browser.cookies)
    world.op.faults.put("token", Delay(0.05))
    world.time.advance(LONG_AFTER)
    assert await asyncio.gather(*(generation(browser) for _ in range(100))) == [1] * 100
    assert refreshes(world) == 1

    async with world.browser() as straggler:
        straggler.cookies.update(old_cookies)
        world.time.advance(30)
        assert await generation(straggler) == 1
        assert await generation(straggler) == 1
    assert refreshes(world) == 1


async def test_the_refresh_outlives_the_request_that_began_it(world: World) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", Delay(0.05))
    world.time.advance(LONG_AFTER)
    first = asyncio.create_task(generation(browser))
    await asyncio.sleep(0.02)
    second = asyncio.create_task(generation(browser))
    await asyncio.sleep(0.01)
    first.cancel()
    assert await second == 1
    assert refreshes(world) == 1


async def test_a_final_refusal_ends_the_session(world: World) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", OAuthError("invalid_grant"))
    world.time.advance(SHORTLY_BEFORE_THE_END)
    answer = await browser.get("/me")
    assert answer.status_code == 401
    assert "session=; Max-Age=0" in answer.headers["set-cookie"]
    assert world.events[-1].code == "token.invalid_grant"
    assert await generation(browser) is None


@pytest.mark.parametrize(
    "fault",
    [
        ServerError(),
        ServerError(429),
        OAuthError("temporarily_unavailable"),
        OAuthError("invalid_client"),
    ],
)
async def test_a_passing_failure_keeps_the_session(world: World, fault: Any) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", fault, times=2)
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert await generation(browser) == 0
    calls = world.op.record.calls["token"]
    assert await generation(browser) == 0, "during the pause the provider is left alone"
    assert world.op.record.calls["token"] == calls

    world.time.advance(25)
    answer = await browser.get("/me")
    assert answer.status_code == 503, "the access token is over and the provider still fails"
    assert answer.json()["code"] == "session.refresh_postponed"
    assert "set-cookie" not in answer.headers, "nothing is destroyed"

    world.time.advance(15)
    assert await generation(browser) == 1, "the provider is back and so is the session"


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"iss": "https://op.test/"}, Code.ID_TOKEN_ISSUER),
        ({"sub": "bob"}, Code.ID_TOKEN_SUBJECT),
        ({"aud": ["app", "another"]}, Code.ID_TOKEN_AUDIENCE),
        ({"nonce": "another"}, Code.ID_TOKEN_NONCE),
    ],
)
async def test_a_wrong_refreshed_id_token_ends_the_session(
    world: World, members: dict[str, Any], code: Code
) -> None:
    browser = await world.signed_in()
    world.op.record.clear()
    world.op.edits.put("id_token", lambda said: said | members)
    world.time.advance(LONG_AFTER)
    assert await generation(browser) is None
    assert world.events[-1].code is code
    assert world.op.record.calls["userinfo"] == 0


async def test_an_answer_without_id_token_keeps_the_old_one(world: World) -> None:
    browser = await world.signed_in()
    world.op.edits.put(
        "token_response",
        lambda said: {name: value for name, value in said.items() if name != "id_token"},
    )
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    logout = await browser.post("/auth/logout", follow_redirects=False)
    assert "id_token_hint=ey" in logout.headers["location"]


async def test_userinfo_that_fails_does_not_cost_the_session(world: World) -> None:
    browser = await world.signed_in()
    world.op.faults.put("userinfo", ServerError(), times=3)
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    assert "session.identity_kept" in world.event_names()


async def test_signed_userinfo_that_is_over_does_not_cost_the_session() -> None:
    world = make_world(client={"userinfo_signed_response_alg": "RS256"})
    browser = await world.signed_in()
    world.op.edits.put("userinfo", lambda said: said | {"exp": 1})
    world.time.advance(LONG_AFTER)
    assert await generation(browser) == 1
    assert "session.identity_kept" in world.event_names()


async def test_an_answer_that_is_lost_does_not_loop(world: World) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", AnswerLost())
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert await generation(browser) == 0


async def test_the_absolute_end_is_fixed_at_login() -> None:
    world = make_world()
    browser = await world.signed_in()
    for expected in range(1, 97):
        world.time.advance(299)
        assert await generation(browser) == expected
    world.time.advance(8 * 3600 - 96 * 299)
    answer = await browser.get("/me")
    assert answer.status_code == 401
    assert "session=; Max-Age=0" in answer.headers["set-cookie"]
    assert world.events[-1].code is Code.SESSION_EXPIRED


async def test_a_session_that_a_page_asked_for_a_second_ago_is_over_at_its_end() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.time.advance(8 * 3600 - 1)
    assert await generation(browser) == 1
    world.time.advance(1)
    assert await generation(browser) is None
    assert world.events[-1].code is Code.SESSION_EXPIRED


async def test_the_callbacks_run_again_and_may_replace_the_session() -> None:
    seen: list[str] = []

    async def resolve_identity(context: IdentityContext) -> StandardIdentity:
        context.id_token_claims["sub"] = "mallory"  # type: ignore[index]  # a copy, of no effect
        return StandardIdentity(sub="alice", name=f"visit {len(seen) + 1}")

    def before_session_persist(context: PersistContext[StandardIdentity]) -> Any:
        seen.append(context.reason)
        return context.session.model_copy(update={"session_state": f"kept {len(seen)}"})

    world = make_world(
        resolve_identity=resolve_identity, before_session_persist=before_session_persist
    )
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    answer = (await browser.get("/me")).json()
    assert (answer["sub"], answer["identity"]["name"]) == ("alice", "visit 2")
    public = (await browser.get("/auth/session")).json()
    assert public["session_state"] == "kept 2"
    assert seen == ["login", "refresh"]


async def test_a_callback_that_raises_does_not_lose_the_new_tokens() -> None:
    visits = iter([StandardIdentity(sub="alice", name="Alice")])

    def resolve_identity(_context: IdentityContext) -> StandardIdentity:
        return next(visits)

    world = make_world(resolve_identity=resolve_identity)
    browser = await world.signed_in()
    for expected in (1, 2):
        world.time.advance(LONG_AFTER)
        assert await generation(browser) == expected


async def test_a_refresh_of_the_replaced_session_leaves_the_new_cookie_alone(world: World) -> None:
    browser = await world.signed_in()
    async with world.browser() as other_tab:
        other_tab.cookies.update(dict(browser.cookies))
        world.op.faults.put("token", Delay(0.2), times=1)
        world.time.advance(LONG_AFTER)
        refreshing = asyncio.create_task(other_tab.get("/me"))
        await asyncio.sleep(0.05)
        url = "/auth/login?return_to=/auth/session-management&login_hint=bob&prompt=login"
        await browser.get(url)
        late = await refreshing
    assert late.status_code == 401
    assert "set-cookie" not in late.headers, "it would come after the cookie of the new login"
