"""No connection to the provider while a login is completed: what it has not seen can be said again,
and a code that it has seen is not presented twice."""

from __future__ import annotations

import httpx
import pytest

from fastapi_oidc import Code
from fastapi_oidc.flows.outcomes import Refused
from tests.oidc.flows.test_callback import completed
from tests.oidc.flows.test_cancelled_requests import to_callback
from tests.oidc.flows.test_double_callbacks import callback_url
from tests.oidc.flows.test_refresh import generation
from tests.oidc.world import World, make_world


class Network(httpx.AsyncBaseTransport):
    """Has no way to the paths in `cut_off`."""

    inner: httpx.AsyncBaseTransport

    def __init__(self) -> None:
        self.cut_off: set[str] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path in self.cut_off:
            raise httpx.ConnectError("refused")
        return await self.inner.handle_async_request(request)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def world(network: Network) -> World:
    world = make_world(transport=network)
    network.inner = httpx.ASGITransport(world.op.app)
    return world


async def test_a_code_that_was_not_sent_is_redeemed_when_the_page_is_loaded_again(
    world: World, network: Network
) -> None:
    browser = await world.signed_in("bob")
    callback = await to_callback(browser)
    network.cut_off = {"/token"}
    answer = await browser.get(callback)
    assert (answer.status_code, answer.json()["code"]) == (502, "provider.unreachable")
    network.cut_off.clear()
    assert (await browser.get(callback)).json()["sub"] == "alice"
    assert await generation(browser) == 0


async def test_a_code_that_was_not_sent_uses_nothing_up(world: World, network: Network) -> None:
    browser = world.browser()
    url = await callback_url(world, browser)
    network.cut_off = {"/token"}
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, Refused)
    assert outcome == Refused(outcome.error, silent=False, changes=(), may_be_retried=True)
    event = world.events[-1]
    assert (event.name, event.at) == ("login.refused", world.time.now)
    assert outcome.error.code is event.code is Code.PROVIDER_UNREACHABLE


async def test_a_code_that_was_redeemed_is_not_presented_again(
    world: World, network: Network
) -> None:
    browser = await world.signed_in("bob")
    calls = world.op.record.calls["token"]
    callback = await to_callback(browser)
    network.cut_off = {"/userinfo"}
    answer = await browser.get(callback)
    assert (answer.status_code, answer.json()["code"]) == (502, "provider.unreachable")
    network.cut_off.clear()
    await browser.get(callback)
    assert (await browser.get("/me")).json()["sub"] == "bob"
    assert world.op.record.calls["token"] == calls + 1
