"""A provider that fails: each fault at a login, at a refresh and at a sign-out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from starlette.responses import Response

from fastapi_oidc.testing import AnswerLost, Delay, ServerError
from fastapi_oidc.testing.faults import Answer, Endpoint, Fault
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

SLOW = 0.5
OFTEN, SINCE_THE_KEYS_WERE_READ = 20, 60
AS_A_PERSON = {"Sec-Fetch-Mode": "navigate"}


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing is done, and nothing is said in time."""

    async def happen(self, answer: Answer) -> Response:
        await asyncio.sleep(PROVIDER_TIMEOUT + 1)
        return Response(status_code=503)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one fault means to people.

    At a login: the answer to the callback, which is refused with a code or signs in, and what is
    logged then; whether the provider gave tokens for its code; whether the same callback signs in
    when the fault is over, or a new login has to. At a refresh: whether it waits for the end of
    the fault. At a sign-out: whether the provider's own page follows.
    """

    begin: Callable[[Fleet], None]
    login: str = ""
    logged: str = ""
    code_is_used: bool = False
    comes_again: bool = False
    refresh_waits: bool = True
    goes_to_the_provider: bool = False


def answering(fault: Fault, *endpoints: Endpoint, rotated: bool = False) -> Callable[[Fleet], None]:
    def begin(fleet: Fleet) -> None:
        if rotated:
            fleet.op.rotate_keys()
        for endpoint in endpoints or ("token", "revocation"):
            fleet.op.faults.put(endpoint, fault, times=OFTEN)

    return begin


def rotated(fleet: Fleet) -> None:
    fleet.op.rotate_keys()


TABLE = {
    "gone": Seen(Fleet.provider_ends, "provider.unreachable", comes_again=True),
    "wrong certificate": Seen(
        Fleet.provider_shows_another_certificate,
        "provider.unreachable",
        logged="the certificate is not trusted",
        comes_again=True,
    ),
    "silent": Seen(answering(Silent()), "provider.timeout"),
    "500": Seen(answering(ServerError(500)), "provider.status", goes_to_the_provider=True),
    "garbage": Seen(
        answering(ServerError(200, "<html>not JSON")),
        "provider.answer_malformed",
        goes_to_the_provider=True,
    ),
    "slow": Seen(answering(Delay(SLOW)), refresh_waits=False, goes_to_the_provider=True),
    "keys rotated": Seen(rotated, refresh_waits=False, goes_to_the_provider=True),
    "keys rotated and gone": Seen(
        answering(ServerError(503), "jwks", rotated=True),
        "provider.status",
        code_is_used=True,
        goes_to_the_provider=True,
    ),
    "UserInfo 500": Seen(
        answering(ServerError(500), "userinfo"),
        "provider.status",
        code_is_used=True,
        refresh_waits=False,
        goes_to_the_provider=True,
    ),
}
FAULTS = pytest.mark.parametrize("fault", TABLE.values(), ids=TABLE.keys())


@pytest.fixture(scope="module")
def pair_of_module() -> Iterator[Pair]:
    with running_fleet_with_tls() as fleet:
        fleet.settings["provider_timeout"] = PROVIDER_TIMEOUT
        yield Pair(fleet, *fleet.workers({}, {}))


@FAULTS
async def test_at_a_login(pair: Pair, fault: Seen) -> None:
    """Nobody is signed in by half, no code is redeemed twice, and a login works afterwards."""
    fleet, first, second = pair.fleet, pair.first, pair.second
    login = first.at("/auth/login?return_to=/me&login_hint=alice")
    async with fleet.signed_in(first, "bob"), fleet.browser() as browser:
        fleet.pass_seconds(SINCE_THE_KEYS_WERE_READ)
        callback = await callback_of_login(browser, login)
        fault.begin(fleet)
        before = first.logged()
        answer = await browser.get(callback)
        assert fault.logged in first.logged().removeprefix(before)
        if fault.login:
            assert (answer.is_server_error, answer.json()["code"]) == (True, fault.login)
        else:
            assert answer.is_redirect
        fleet.provider_heals()
        fleet.pass_seconds(ONE_PAUSE)
        if fault.login:
            assert (await browser.get(second.at("/me"))).status_code == 401
            again = callback if fault.comes_again else login
            page = await browser.get(again, follow_redirects=True)
            assert page.json() == {"sub": "alice", "generation": 0}
        for worker in (first, second):
            assert (await browser.get(worker.at("/me"))).status_code == 200
    codes = {"bob's": 1, "hers": 1, "that of the login that failed": int(fault.code_is_used)}
    assert fleet.token_calls("authorization_code") == sum(codes.values())


@FAULTS
async def test_at_a_refresh(pair: Pair, fault: Seen) -> None:
    fleet, first, second = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(first) as browser:
        fault.begin(fleet)
        fleet.pass_seconds(BEFORE_THE_END)
        answer = await browser.get(first.at("/me"))
        assert answer.json()["generation"] == (0 if fault.refresh_waits else 1)
        if fault.refresh_waits:
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


@FAULTS
async def test_at_a_sign_out(pair: Pair, fault: Seen) -> None:
    """The session is over everywhere, whatever the provider does."""
    fleet, first, second = pair.fleet, pair.first, pair.second
    async with fleet.signed_in(first) as browser:
        stolen = dict(browser.cookies)
        fault.begin(fleet)
        answer = await browser.post(first.at("/auth/logout"), headers=AS_A_PERSON)
        if fault.goes_to_the_provider:
            assert answer.headers["location"].startswith(fleet.op.issuer)
        else:
            assert answer.status_code == 200
            assert "location" not in answer.headers
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
