"""A provider that is gone, broken or slow, at a refresh and at a sign-out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest
from starlette.responses import Response

from fastapi_oidc.testing import AnswerLost, Delay, ServerError
from fastapi_oidc.testing.faults import Answer, Fault
from tests.oidc.fleet.conftest import PROVIDER_TIMEOUT, Pair
from tests.oidc.fleet.fleet import BEFORE_THE_END, LONG_AFTER, ONE_PAUSE, Fleet

OFTEN = 20
AS_A_PERSON = {"Sec-Fetch-Mode": "navigate"}


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing is done, and nothing is said in time."""

    async def happen(self, answer: Answer) -> Response:
        await asyncio.sleep(PROVIDER_TIMEOUT + 1)
        return Response(status_code=503)


def answering(fault: Fault) -> Callable[[Fleet], None]:
    def begin(fleet: Fleet) -> None:
        fleet.op.faults.put("token", fault, times=OFTEN)
        fleet.op.faults.put("revocation", fault, times=OFTEN)

    return begin


GONE = pytest.param(Fleet.provider_ends, id="gone")
FAILING = pytest.param(answering(ServerError(500)), id="500")
GARBAGE = pytest.param(answering(ServerError(200, "<html>not JSON")), id="garbage")
SILENT = pytest.param(answering(Silent()), id="silent")


@pytest.mark.parametrize("begin", [GONE, FAILING, GARBAGE, SILENT])
async def test_a_refresh_waits_for_a_provider_that_fails(
    pair: Pair, begin: Callable[[Fleet], None]
) -> None:
    fleet, first, second = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(first) as browser:
        begin(fleet)
        fleet.pass_seconds(BEFORE_THE_END)
        assert (await browser.get(first.at("/me"))).json()["generation"] == 0
        fleet.pass_seconds(LONG_AFTER - BEFORE_THE_END)
        answer = await browser.get(second.at("/me"))
        assert (answer.status_code, answer.json()["code"]) == (503, "session.refresh_postponed")
        assert int(answer.headers["retry-after"]) > 0
        assert "set-cookie" not in answer.headers

        fleet.provider_heals()
        fleet.pass_seconds(ONE_PAUSE)
        for worker in (second, first):
            assert (await browser.get(worker.at("/me"))).json()["generation"] == 1
    assert fleet.token_calls() == 1


async def test_an_answer_that_comes_later_than_the_provider_may_take_is_not_lost(
    pair: Pair,
) -> None:
    async with pair.fleet.signed_in(pair.first) as browser:
        pair.fleet.op.faults.put("token", Delay(PROVIDER_TIMEOUT + 1))
        pair.fleet.pass_seconds(LONG_AFTER)
        for worker in (pair.first, pair.second):
            assert (await browser.get(worker.at("/me"))).json()["generation"] == 1
    assert pair.fleet.token_calls() == 1


async def signed_out_under(pair: Pair, begin: Callable[[Fleet], None]) -> httpx.Response:
    """The answer to a person who signs out while the provider fails; the session is over."""
    fleet, first, second = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(first) as browser:
        stolen = dict(browser.cookies)
        begin(fleet)
        answer = await browser.post(first.at("/auth/logout"), headers=AS_A_PERSON)
        assert (await browser.get(first.at("/me"))).status_code == 401
        browser.cookies.update(stolen)
        for worker in (second, first):
            assert (await browser.get(worker.at("/me"))).status_code == 401
        return answer


@pytest.mark.parametrize("begin", [GONE, SILENT])
async def test_a_sign_out_stays_here_when_the_provider_cannot_be_reached(
    pair: Pair, begin: Callable[[Fleet], None]
) -> None:
    answer = await signed_out_under(pair, begin)
    assert answer.status_code == 200
    assert "location" not in answer.headers


@pytest.mark.parametrize("begin", [FAILING, GARBAGE])
async def test_a_sign_out_goes_on_to_a_provider_that_cannot_revoke(
    pair: Pair, begin: Callable[[Fleet], None]
) -> None:
    answer = await signed_out_under(pair, begin)
    assert answer.is_redirect
    assert answer.headers["location"].startswith(pair.fleet.op.issuer)


async def test_an_answer_that_is_lost_on_its_way_costs_that_one_session(pair: Pair) -> None:
    """The provider has used the refresh token up, and nobody knows its successor."""
    fleet, first, second = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(first) as alice, fleet.signed_in(second, "bob") as bob:
        fleet.pass_seconds(LONG_AFTER)
        fleet.op.faults.put("token", AnswerLost())
        assert (await alice.get(first.at("/me"))).status_code == 503
        fleet.pass_seconds(ONE_PAUSE)
        assert (await alice.get(first.at("/me"))).status_code == 401
        assert (await bob.get(first.at("/me"))).json()["generation"] == 1
