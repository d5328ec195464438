"""A session that ends in one worker is refused by the others with their next request."""

from __future__ import annotations

import httpx

from tests.oidc.fleet.conftest import Pair
from tests.oidc.fleet.worker_process import Worker


async def is_signed_in(browser: httpx.AsyncClient, worker: Worker) -> bool:
    answer = await browser.get(worker.at("/me"))
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


async def test_a_sign_out_here_is_refused_there_at_once(pair: Pair) -> None:
    first, second = pair.first, pair.second
    async with pair.fleet.signed_in(first) as browser:
        assert await is_signed_in(browser, second)
        stolen = dict(browser.cookies)
        await browser.post(first.at("/auth/logout"), data={"local": "1"})
        browser.cookies.update(stolen)
        assert not await is_signed_in(browser, second)
        assert not await is_signed_in(browser, first)


async def test_a_logout_that_the_provider_tells_one_worker_is_refused_by_the_others(
    pair: Pair,
) -> None:
    first, second = pair.first, pair.second
    async with pair.fleet.signed_in(second) as alice, pair.fleet.signed_in(second, "bob") as bob:
        pair.fleet.logs_out_through(first)
        await pair.fleet.op.log_out("alice")
        assert not await is_signed_in(alice, second)
        assert not await is_signed_in(alice, first)
        assert await is_signed_in(bob, second)
    async with pair.fleet.signed_in(second) as alice:
        assert await is_signed_in(alice, first)
