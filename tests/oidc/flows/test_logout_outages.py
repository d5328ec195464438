"""A sign-out while the provider or the store is down, or slow, signs the person out here."""

from __future__ import annotations

import time

import pytest

from fastapi_oidc import Code
from fastapi_oidc.testing import AnswerLost, Delay, ServerError
from tests.oidc.flows.steps import LOCAL, signed_out, user
from tests.oidc.world import make_world


async def test_local_sign_out_goes_on_without_the_provider() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.op.faults.put("revocation", ServerError(), times=9)
    assert (await signed_out(browser, **LOCAL)).headers["location"] == "/me"
    assert "logout.revocation_failed" in world.event_names()


async def test_sign_out_goes_on_without_the_provider() -> None:
    world = make_world()
    browser = await world.signed_in()
    for endpoint in ("metadata", "revocation", "jwks", "end_session"):
        world.op.faults.put(endpoint, AnswerLost(), times=99)
    answer = await signed_out(browser)
    assert answer.headers["location"] == "/me"
    assert await user(browser) is None
    failed = [event for event in world.events if event.name == "logout.revocation_failed"][-1]
    started = next(event for event in world.events if event.name == "logout.started")
    assert (failed.code, failed.session_id) == (Code.PROVIDER_UNREACHABLE, started.session_id)


async def test_sign_out_waits_two_seconds_for_the_provider() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.op.faults.put("revocation", Delay(20))
    started = time.monotonic()
    answer = await signed_out(browser)
    assert time.monotonic() - started < 15
    assert answer.headers["location"] == "/me", "a browser sent to it would wait as well"


async def test_bug_on_the_way_to_the_provider_keeps_nobody_signed_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    browser = await world.signed_in()

    async def broken() -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(world.oidc.runtime.party.provider, "metadata", broken)
    assert (await signed_out(browser)).headers["location"] == "/me"
    assert "sign-out continues without the provider" in caplog.messages
    monkeypatch.undo()
    assert await user(browser) is None
