"""One machine, one person; and what a person can give."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fastapi_oidc import Code, ConfigurationError
from fastapi_oidc.broker import Broker, Refused, Route
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import RESOURCE, TWO_HOURS, Rig, broker_world, rigged, session_of
from tests.oidc.world import make_world


async def bob(rig: Rig) -> Any:
    await rig.world.signed_in("bob")
    return await session_of(rig.world, "bob")


async def test_a_machine_has_one_person_at_a_time() -> None:
    async with rigged() as rig:
        session = await bob(rig)
        with pytest.raises(Refused, match=r"broker\.taken"):
            await rig.broker.give(session, to="m1", routes=[NAME], until=TWO_HOURS)
        assert (await rig.guest.get()).status_code == 200
        await rig.broker.withdraw(rig.access)
        await rig.broker.give(session, to="m1", routes=[NAME], until=TWO_HOURS)
        assert (await rig.guest.get()).status_code == 401, "the socket was Alice's"


@pytest.mark.parametrize("end", ["its time", "its session"])
async def test_another_person_follows_when_an_access_has_ended(end: str) -> None:
    async with rigged() as rig:
        if end == "its time":
            rig.world.time.advance(TWO_HOURS.total_seconds())
        else:
            await rig.browser.post("/auth/logout")
        await rig.broker.give(await bob(rig), to="m1", routes=[NAME], until=TWO_HOURS)
        assert (await rig.guest.get()).status_code == 401


async def test_what_a_person_gives_again_replaces_what_they_gave() -> None:
    async with rigged() as rig:
        again = await rig.broker.give(rig.session, to="m1", routes=[NAME], until=TWO_HOURS)
        assert (await rig.guest.get()).status_code == 401
        assert [access.id for access in await rig.broker.given(rig.session)] == [again.id]
        await rig.broker.withdraw(rig.access)
        assert (await rig.broker.check(again)).withdrawn_at is None


async def test_a_clone_or_a_restored_machine_starts_without_access() -> None:
    """Access is bound to the name of a machine and to a socket that is served for it."""
    async with rigged() as rig:
        assert [each.machine for each in await rig.broker.given(rig.session)] == ["m1"]
        assert await rig.broker._accesses._values.find("m1-clone") is None


async def test_a_person_sees_and_gives_only_their_own() -> None:
    async with rigged() as rig:
        session = await bob(rig)
        assert await rig.broker.given(session) == []
        mine = await rig.broker.give(session, to="m2", routes=[NAME], until=TWO_HOURS)
        assert [each.id for each in await rig.broker.given(session)] == [mine.id]
        assert [each.id for each in await rig.broker.given(rig.session)] == [rig.access.id]
        assert (mine.sub, mine.machine) == ("bob", "m2")


async def test_a_name_that_was_not_given_does_not_exist() -> None:
    world = broker_world()
    async with rigged(world) as rig:
        routes = {NAME: rig.broker.routes[NAME], "mail.internal": rig.broker.routes[NAME]}
        both = Broker(world.oidc, routes)
        assert both.app(rig.access)._routes.keys() == {NAME}
        fewer = Broker(world.oidc, {"mail.internal": rig.broker.routes[NAME]})
        assert not fewer.app(rig.access)._routes
        await both.aclose()


def test_sessions_in_cookies_are_refused_with_a_sentence() -> None:
    world = make_world()
    with pytest.raises(ConfigurationError, match="only a session_store can") as caught:
        Broker(world.oidc, {})
    assert caught.value.code is Code.CONFIGURATION_STORE_MISSING


@pytest.mark.parametrize(
    "wrong",
    [
        {"routes": ["mail.internal"]},
        {"routes": []},
        {"until": timedelta(0)},
        {"until": timedelta(hours=-1)},
        {"to": ""},
    ],
)
async def test_what_nobody_can_give_is_refused(wrong: dict[str, Any]) -> None:
    async with rigged() as rig:
        given: dict[str, Any] = {"to": "m2", "routes": [NAME], "until": TWO_HOURS} | wrong
        with pytest.raises(ConfigurationError, match=r"configuration\.invalid"):
            await rig.broker.give(rig.session, **given)


@pytest.mark.parametrize("method", ["give", "withdraw", "given", "waiting", "decide", "app"])
async def test_a_value_of_another_kind_is_a_mistake(method: str) -> None:
    async with rigged() as rig:
        options = {"to": "m", "routes": [], "until": TWO_HOURS} if method == "give" else {}
        if method == "decide":
            options = {"id": "x", "fingerprint": "y", "approve": True}
        function = getattr(rig.broker, method)
        with pytest.raises(TypeError, match="must be"):
            await function({"sub": "alice"}, **options)


WRONG_ROUTES: list[dict[str, Any]] = [
    {"url": "http://calendar.test"},
    {"url": "http://93.184.216.34"},
    {"url": "ftp://calendar.test"},
    {"url": "https://"},
    {"url": "https://alice@calendar.test"},
    {"url": "https://calendar.test/?a=1"},
    {"url": "https://calendar.test/a/../b"},
    {"allow": "GET /events"},
    {"allow": ["/events"]},
    {"approve": ["POST events"]},
    {"headers": ["Authorization"]},
    {"headers": ["Content-Length"]},
    {"headers": ["two words"]},
    {"networks": ["10.0.0.1/8"]},
    {"networks": ["everything"]},
    {"resource": None},
    {"own_token": True},
    {"resource": None, "own_token": True, "actor": print},
]


@pytest.mark.parametrize("wrong", WRONG_ROUTES, ids=str)
def test_a_route_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {
        "url": "https://calendar.test",
        "allow": ["GET /events"],
        "resource": RESOURCE,
    }
    Route(**right)
    with pytest.raises(ConfigurationError, match=r"configuration\.invalid"):
        Route(**right | wrong)


@pytest.mark.parametrize("name", ["Calendar.internal", "a b", "calendar.internal:80", "", "-a"])
def test_a_name_that_no_guest_could_ask_for_is_refused(name: str) -> None:
    route = Route(url="https://calendar.test", allow=[], own_token=True)
    with pytest.raises(ConfigurationError, match="host name"):
        Broker(broker_world().oidc, {name: route})
