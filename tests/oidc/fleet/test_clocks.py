"""One worker's clock is two minutes ahead."""

from __future__ import annotations

import pytest

from tests.oidc.fleet.fleet import LONG_AFTER, MODES, Fleet

AHEAD = 120


@pytest.mark.parametrize("mode", MODES)
async def test_sessions_live_and_end_across_a_clock_that_is_ahead(fleet: Fleet, mode: str) -> None:
    fleet.mode = mode
    ahead, right = workers = fleet.workers({"ahead": AHEAD}, {})
    for begins, ends in ((ahead, right), (right, ahead)):
        async with fleet.signed_in(begins) as browser:
            calls = fleet.token_calls()
            for generation in (0, 1, 2):
                for worker in workers if generation % 2 else reversed(workers):
                    answer = await browser.get(worker.at("/me"))
                    assert answer.json() == {"sub": "alice", "generation": generation}
                fleet.pass_seconds(LONG_AFTER)
            assert fleet.token_calls() - calls == 2
            stolen = dict(browser.cookies)
            await browser.post(ends.at("/auth/logout"), data={"local": "1"})
            browser.cookies.update(stolen)
            for worker in workers:
                assert (await browser.get(worker.at("/me"))).status_code == 401
