"""An application that ends waits for what was sent, and sends nothing more."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.flows import relying_party
from fastapi_oidc.flows.callback import longest_login
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    callback_url,
    closed_by_a_job,
    generation,
    others_have_run,
    refreshes,
)
from tests.oidc.interleaving import Gate, Held, begun
from tests.oidc.world import BASE_URL, World, make_world


async def test_shutdown_waits_for_a_code_that_was_sent(world: World) -> None:
    browser, held = world.browser(), Held(first=True)
    world.op.faults.put("token", held)
    url = await callback_url(browser)
    request = begun(browser.get(url))
    await held.gate.until_reached()
    request.cancel()
    closing = asyncio.create_task(world.oidc.aclose())
    await others_have_run()
    assert not closing.done()
    held.gate.opened.set()
    await closing
    assert (await browser.get(url)).json()["sub"] == "alice"
    assert world.op.record.calls["token"] == 1


@pytest.mark.parametrize("is_over", [False, True], ids=["in time", "too late"])
async def test_refresh_that_has_not_begun_is_not_sent(
    mode: str, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it waits for its turn, and also when the shutdown is over by then."""
    monkeypatch.setattr(relying_party, "CONCURRENT_REFRESHES", 1)
    world = make_world(session_store="memory" if mode == "store" else None)
    first, second = await world.signed_in(), await world.signed_in("bob")
    held = Held(first=True)
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    requests = [begun(browser.get("/me")) for browser in (first, second)]
    await held.gate.until_reached()
    await others_have_run(500)
    if is_over:

        async def no_time(_tasks: object, _seconds: float) -> None:
            """As when the time for it is over."""

        monkeypatch.setattr(SingleFlight, "wait", no_time)
    closing = asyncio.create_task(world.oidc.aclose())
    await others_have_run()
    assert closing.done() is is_over
    held.gate.opened.set()
    await closing
    answers = await asyncio.gather(*requests)
    assert sorted(answer.status_code for answer in answers) == [200, 503]
    [refused] = [answer for answer in answers if answer.status_code == 503]
    assert "retry-after" in refused.headers
    assert refreshes(world) == 1
    world.time.advance(2)
    assert [await generation(browser) for browser in (first, second)] == [1, 1]


async def test_a_job_in_a_thread_that_ends_stops_no_refresh_of_the_application(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, gate = await world.signed_in(), Gate()
    party = world.oidc.runtime.party
    monkeypatch.setattr(party.provider, "prepare_refresh", gate.passed)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(browser.get("/me"))
    await gate.until_reached()
    await closed_by_a_job(world)
    gate.opened.set()
    assert (await refreshing).json()["generation"] == 1


async def test_a_server_that_runs_no_lifespan_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing would wait for its refreshes at shutdown."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await world.app({**scope, "state": {}}, receive, send)

    browser = world.op.browser(served, base_url=BASE_URL)
    for _ in range(2):
        await browser.get("/")
    [said] = [each for each in caplog.messages if "lifespan" in each]
    assert "\nCall at shutdown: await oidc.aclose()\n" in said


def test_a_shutdown_waits_as_long_as_a_callback_does() -> None:
    oidc = make_world(settings={"provider_timeout": 7, "callback_timeout": 3}).oidc
    assert oidc.registrations.engine.patience == longest_login(oidc.settings) == 17
