"""A worker that is killed in the middle of a refresh costs nobody a session."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.oidc.fleet.fleet import LONG_AFTER, MODES, Fleet


@pytest.mark.parametrize("mode", MODES)
async def test_another_worker_goes_on_from_the_answer_that_a_killed_one_kept(
    fleet: Fleet, mode: str
) -> None:
    fleet.mode = mode
    killed, other = fleet.workers({"holds": True}, {})
    async with fleet.signed_in(killed) as browser:
        fleet.pass_seconds(LONG_AFTER)
        lost = asyncio.create_task(browser.get(killed.at("/me")))
        await killed.until_held()
        killed.kill()
        with pytest.raises(httpx.TransportError):
            await lost

        for _ in range(2):
            answer = await browser.get(other.at("/me"))
            assert (answer.status_code, answer.json()) == (200, {"sub": "alice", "generation": 1})
    assert fleet.token_calls() == 1
