"""A new cookie secret, brought in by two restarts of one worker after the other."""

from __future__ import annotations

import secrets

import pytest

from tests.oidc.fleet.fleet import LONG_AFTER, MODES, Fleet


@pytest.mark.parametrize("mode", MODES)
async def test_sessions_go_on_while_a_new_cookie_secret_is_rolled_out(
    fleet: Fleet, mode: str
) -> None:
    fleet.mode = mode
    old, new = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    before, between, after = fleet.workers(
        {"cookie_secret": old}, {"cookie_secret": [old, new]}, {"cookie_secret": [new, old]}
    )
    async with fleet.signed_in(before) as browser:
        for generation, rolling in enumerate([(before, between), (between, after)]):
            for worker in rolling:
                answer = await browser.get(worker.at("/me"))
                assert answer.json() == {"sub": "alice", "generation": generation}
            fleet.pass_seconds(LONG_AFTER)
        answer = await browser.get(after.at("/me"))
        assert answer.json() == {"sub": "alice", "generation": 2}
        assert (await browser.get(between.at("/me"))).json() == answer.json()
    assert fleet.token_calls() == 2
