"""A provider that cannot be reached: each fault at a login, at a refresh and at a sign-out."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from starlette.responses import Response

from fastapi_oidc.testing import AnswerLost, Delay
from fastapi_oidc.testing.faults import Answer, Endpoint
from tests.oidc.fleet.conftest import Pair
from tests.oidc.fleet.fleet import (
    BEFORE_THE_END,
    LONG_AFTER,
    ONE_PAUSE,
    Fleet,
    running_fleet_with_tls,
)
from tests.oidc.fleet.test_disconnecting_clients import callback_of_login

PROVIDER_TIMEOUT = 2
"""Seconds; of a provider that is silent, tests wait for it."""

SILENT_ENDPOINTS: tuple[Endpoint, ...] = ("token", "revocation")
OFTEN = 20
AS_A_PERSON = {"Sec-Fetch-Mode": "navigate"}


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing is done, and nothing is said in time."""

    async def happen(self, answer: Answer) -> Response:
        await asyncio.sleep(PROVIDER_TIMEOUT + 1)
        return Response(status_code=503)


@dataclass(frozen=True, slots=True)
class Seen:
    """One fault, and what a login is refused with and what is logged then.

    Where the provider has not had the code, the same callback signs in when the fault is over.
    """

    begin: Callable[[Fleet], None]
    login: str
    logged: str = ""
    comes_again: bool = False


def be_silent(fleet: Fleet) -> None:
    for endpoint in SILENT_ENDPOINTS:
        fleet.op.faults.put(endpoint, Silent(), times=OFTEN)


FAULTS = {
    "gone": Seen(Fleet.provider_ends, "provider.unreachable", comes_again=True),
    "wrong certificate": Seen(
        Fleet.provider_shows_another_certificate,
        "provider.unreachable",
        logged="the certificate is not trusted",
        comes_again=True,
    ),
    "silent": Seen(be_silent, "provider.timeout"),
}


@pytest.fixture(scope="module")
def pair_of_module() -> Iterator[Pair]:
    with running_fleet_with_tls() as fleet:
        fleet.settings["provider_timeout"] = PROVIDER_TIMEOUT
        yield Pair(fleet, *fleet.workers({}, {}))


@pytest.fixture(params=list(FAULTS.values()), ids=list(FAULTS))
def fault(request: pytest.FixtureRequest) -> Seen:
    fault: Seen = request.param
    return fault


async def test_at_a_login(pair: Pair, fault: Seen) -> None:
    """Nobody is signed in by half, no code is redeemed twice, and a login works afterwards."""
    fleet, first, second = pair.fleet, pair.first, pair.second
    login = first.at("/auth/login?return_to=/me&login_hint=alice")
    async with fleet.signed_in(first, "bob"), fleet.browser() as browser:
        callback = await callback_of_login(browser, login)
        fault.begin(fleet)
        before = first.logged()
        answer = await browser.get(callback)
        assert fault.logged in first.logged().removeprefix(before)
        assert (answer.is_server_error, answer.json()["code"]) == (True, fault.login)
        fleet.provider_heals()
        fleet.pass_seconds(ONE_PAUSE)
        assert (await browser.get(second.at("/me"))).status_code == 401
        page = await browser.get(callback if fault.comes_again else login, follow_redirects=True)
        assert page.json() == {"sub": "alice", "generation": 0}
        for worker in (first, second):
            assert (await browser.get(worker.at("/me"))).status_code == 200
    assert fleet.token_calls("authorization_code") == 2, "bob's and hers"


async def test_at_a_refresh(pair: Pair, fault: Seen) -> None:
    fleet, first, second = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(first) as browser:
        fault.begin(fleet)
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


async def test_at_a_sign_out(pair: Pair, fault: Seen) -> None:
    """The session is over everywhere, whatever the provider does."""
    fleet, first, second = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(first) as browser:
        stolen = dict(browser.cookies)
        fault.begin(fleet)
        answer = await browser.post(first.at("/auth/logout"), headers=AS_A_PERSON)
        assert (answer.status_code, "location" in answer.headers) == (200, False)
        assert (await browser.get(first.at("/me"))).status_code == 401
        browser.cookies.update(stolen)
        for worker in (second, first):
            assert (await browser.get(worker.at("/me"))).status_code == 401


async def test_an_answer_that_comes_later_than_the_provider_may_take_is_not_lost(
    pair: Pair,
) -> None:
    async with pair.fleet.signed_in(pair.first) as browser:
        pair.fleet.op.faults.put("token", Delay(PROVIDER_TIMEOUT + 1))
        pair.fleet.pass_seconds(LONG_AFTER)
        for worker in (pair.first, pair.second):
            assert (await browser.get(worker.at("/me"))).json()["generation"] == 1
    assert pair.fleet.token_calls() == 1


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
