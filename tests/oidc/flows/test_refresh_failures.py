"""A refresh that fails postpones, or ends the session where the provider says so for good."""

import secrets
from itertools import pairwise
from typing import Any

import httpx
import pytest

from fastapi_oidc import PersistContext
from fastapi_oidc.testing import AnswerLost, OAuthError, ServerError
from fastapi_oidc.testing.faults import Fault
from tests.oidc.flows.steps import AFTER_EXPIRY, SHORTLY_BEFORE_EXPIRY, copy_of, generation
from tests.oidc.interleaving import Raised
from tests.oidc.world import World, make_world


async def test_invalid_grant_ends_the_session(world: World) -> None:
    browser = await world.signed_in()
    copy = copy_of(browser, world)
    world.op.faults.put("token", OAuthError("invalid_grant"))
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["ended"]) == (401, "ended_by_provider")
    assert "session=; Max-Age=0" in answer.headers["set-cookie"]
    assert world.events[-1].code == "token.invalid_grant"
    assert [await generation(each) for each in (browser, copy)] == [None, None]
    assert world.op.record.calls["token"] == 2, "the login and the refresh"


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_refused_refresh_of_a_process_without_a_store_is_told(
    store: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(back_channel_logout_store=store)
    browser = await world.signed_in()
    world.op.faults.put("token", OAuthError("invalid_grant"))
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    await browser.get("/me")
    told = "If the application has several processes, another one may have used it"
    assert (told in caplog.text) == (store is None)


@pytest.mark.parametrize(
    "fault",
    [
        ServerError(),
        ServerError(429),
        Raised(httpx.ConnectError("refused")),
        Raised(httpx.ReadTimeout("silent")),
        AnswerLost(),
        OAuthError("temporarily_unavailable"),
        OAuthError("invalid_client"),
        OAuthError("unauthorized_client"),
    ],
)
async def test_other_failures_keep_the_session(world: World, fault: Any) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", fault, times=2)
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    assert await generation(browser) == 0
    calls = world.op.record.calls["token"]
    assert await generation(browser) == 0
    assert world.op.record.calls["token"] == calls, "the provider is not asked during the pause"

    world.time.advance(25)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
    assert int(answer.headers["retry-after"]) > 0
    assert "set-cookie" not in answer.headers
    assert (await browser.get("/")).json() == {"is_authenticated": False}, "a public page"

    world.time.advance(15)
    # A response that is lost uses the token up.
    assert await generation(browser) == (None if isinstance(fault, AnswerLost) else 1)


@pytest.mark.parametrize("pause", [60, 600])
@pytest.mark.parametrize("error", ["invalid_request", "", "unknown_error"])
async def test_token_that_is_refused_again_and_again_ends_the_session(
    world: World, error: str, pause: int
) -> None:
    """For no reason that RFC 6749 5.2 gives a grant; an outage in between counts anew."""
    browser = await world.signed_in()
    faults: list[Fault] = [OAuthError(error), ServerError(), *[OAuthError(error)] * 4]
    for fault in faults:
        world.op.faults.put("token", fault)
    world.time.advance(AFTER_EXPIRY)
    for _ in range(5):
        assert (await browser.get("/me")).status_code == 503
        world.time.advance(pause)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["ended"]) == (401, "ended_by_provider")
    assert await generation(copy_of(browser, world)) is None


async def test_refused_session_lives_while_its_access_token_is_valid() -> None:
    world = make_world(settings={"refresh_margin": 150})
    browser = await world.signed_in()
    world.op.faults.put("token", OAuthError("invalid_request"), times=9)
    world.time.advance(150)
    for _ in range(5):
        assert await generation(browser) == 0
        world.time.advance(20)
    assert world.op.record.calls["token"] > 4, "the login and four refusals"
    world.time.advance(100)
    assert (await browser.get("/me")).status_code == 401


async def test_pauses_double_up_to_a_minute() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.time.advance(AFTER_EXPIRY)
    world.op.faults.put("token", ServerError(), times=99)
    attempts = []
    for _ in range(330):
        calls = world.op.record.calls["token"]
        await browser.get("/")
        if world.op.record.calls["token"] > calls:
            attempts.append(world.time.now)
        world.time.advance(1)
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses[:7] == [5, 10, 20, 40, 60, 60, 60]


async def test_pause_is_over_when_the_clock_was_set_back(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(7200)
    world.op.faults.put("token", ServerError())
    assert await generation(browser) is None
    world.time.advance(-3600)
    assert await generation(browser) == 1


async def test_tokens_that_fit_no_cookie_end_the_session() -> None:
    world = make_world()
    browser = await world.signed_in()
    too_long = secrets.token_hex(5000)
    world.op.edits.put("token_response", lambda said: said | {"refresh_token": too_long})
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["ended"]) == (401, "expired")


async def test_token_that_the_application_left_out_stays_out_when_its_callback_fails() -> None:
    tokens = []

    def without_access_token(context: PersistContext[Any]) -> Any:
        if context.reason == "refresh":
            raise RuntimeError("a bug")
        left = context.session.tokens.model_copy(update={"access_token": ""})
        return context.session.model_copy(update={"tokens": left})

    world = make_world(
        before_session_persist=without_access_token,
        load_request_data=lambda context: tokens.append(context.session.tokens),
    )
    browser = await world.signed_in()
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    assert [each.access_token for each in tokens] == [""] * len(tokens)
    assert tokens[-1].refresh_token != tokens[0].refresh_token
