"""A worker that stands still for longer than its lease, with a refresh token presented."""

from __future__ import annotations

import asyncio

import pytest

from tests.oidc.fleet.fleet import LONG_AFTER, MODES, ONE_PAUSE, Fleet
from tests.oidc.fleet.test_disconnecting_clients import Held, until_reached


@pytest.mark.parametrize("mode", MODES)
async def test_its_refresh_token_is_not_presented_by_another_one(fleet: Fleet, mode: str) -> None:
    fleet.mode = mode
    standing, other = fleet.workers({}, {})
    async with fleet.signed_in(standing) as browser:
        held = Held()
        fleet.op.faults.put("token", held)
        fleet.pass_seconds(LONG_AFTER)
        request = asyncio.create_task(browser.get(standing.at("/me")))
        await until_reached(held)
        standing.stop()
        answer = await browser.get(other.at("/me"))
        assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
        assert int(answer.headers["retry-after"]) > 0

        held.opened.set()
        standing.go_on()
        assert (await request).json() == {"sub": "alice", "generation": 1}
        fleet.pass_seconds(ONE_PAUSE)
        answer = await browser.get(other.at("/me"))
        assert answer.json() == {"sub": "alice", "generation": 1}
    assert fleet.token_calls() == 1
