"""One machine, one person; and what a person can give."""

from typing import Any

import pytest
from pydantic import ValidationError

from fastapi_oidc import Code, ConfigurationError
from fastapi_oidc.broker import Broker, Refused, Route
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import RESOURCE, TWO_HOURS, Rig, broker_world, rigged, session_of
from tests.oidc.broker.test_tokens import called, claims_of
from tests.oidc.world import make_world

Given = dict[str, Any]


async def bob(rig: Rig) -> Any:
    await rig.world.signed_in("bob")
    return await session_of(rig.world, "bob")


async def given_to(rig: Rig, machine: str, session: Any = None) -> Any:
    return await rig.broker.give(session or rig.session, to=machine, routes=[NAME], until=TWO_HOURS)


@pytest.mark.parametrize("end", ["its withdrawal", "its time", "its session"])
async def test_a_machine_has_one_person_until_the_access_has_ended(end: str) -> None:
    async with rigged() as rig:
        other = await bob(rig)
        with pytest.raises(Refused, match=r"broker\.taken"):
            await given_to(rig, "m1", other)
        assert (await rig.guest.get()).status_code == 200
        if end == "its time":
            rig.world.time.advance(TWO_HOURS.total_seconds())
        elif end == "its session":
            await rig.browser.post("/auth/logout")
        else:
            await rig.broker.withdraw(rig.access)
        access = await given_to(rig, "m1", other)
        assert (access.sub, access.machine) == ("bob", "m1")
        assert (await rig.guest.get()).status_code == 401, "the socket was Alice's"
        assert await rig.broker.access_of("m1") == access
        with pytest.raises(Refused, match=r"broker\.(taken|signed_out)"):
            await given_to(rig, "m1")


async def test_a_machine_is_asked_for_its_access_and_calls_as_its_person() -> None:
    async with rigged() as rig:
        mine = await given_to(rig, "m2", await bob(rig))
        for access, person in ((rig.access, "alice"), (mine, "bob")):
            assert await called(rig.broker, access) == 200
            assert claims_of(rig, rig.api.received[-1])["sub"] == person
        for access in (rig.access, mine):
            assert await rig.broker.access_of(access.machine) == await rig.broker.check(access)
        assert await rig.broker.access_of("m3") is None
        await rig.broker.withdraw(mine)
        assert await rig.broker.access_of("m2") is None
        assert (await rig.guest.get()).status_code == 200
        again = await given_to(rig, "m1")
        assert (await rig.guest.get()).status_code == 401, "it replaces what Alice gave"
        await rig.broker.withdraw(rig.access)
        assert await rig.broker.check(again) == await rig.broker.access_of("m1") == again
        rig.world.time.advance(TWO_HOURS.total_seconds())
        assert await rig.broker.access_of("m1") is None


async def test_a_name_that_was_not_given_does_not_exist() -> None:
    async with rigged() as rig:
        routes = {"mail.internal": rig.broker.routes[NAME], NAME: rig.broker.routes[NAME]}
        both = Broker(rig.world.oidc, routes)
        mail = await both.give(rig.session, to="m2", routes=["mail.internal"], until=TWO_HOURS)
        assert both.app(mail)._apis.keys() == {"mail.internal"}
        assert rig.broker.app(mail)._apis == {}


def test_sessions_in_cookies_are_refused_with_a_sentence() -> None:
    world = make_world()
    with pytest.raises(ConfigurationError, match="only a session_store can") as caught:
        Broker(world.oidc, {})
    assert caught.value.code is Code.CONFIGURATION_STORE_MISSING


async def test_what_nobody_can_give_is_refused() -> None:
    async with rigged() as rig:
        for routes in ([], ["calender.internal"], NAME):
            with pytest.raises(ConfigurationError, match=r"routes of broker.give are some of"):
                await rig.broker.give(rig.session, to="m2", routes=routes, until=TWO_HOURS)
        for wrong in ({"session": rig.access}, {"until": 7200}):
            given: Given = {"session": rig.session, "until": TWO_HOURS} | wrong
            with pytest.raises(TypeError, match=rf"{next(iter(wrong))} of broker.give must be"):
                await rig.broker.give(to="m2", routes=[NAME], **given)


WRONG_ROUTES: list[Given] = [
    {"url": "http://calendar.test"},
    {"url": "https://alice@calendar.test"},
    {"url": "https://calendar.test/?a=1"},
    {"approve": ["GET /as"]},
    {"url": "https://calendar.test/a/"},
    {"resource": None},
    {"own_token": True},
]


@pytest.mark.parametrize("wrong", WRONG_ROUTES, ids="-".join)
def test_a_route_that_cannot_be_meant_is_refused(wrong: Given) -> None:
    right: Given = {"url": "https://calendar.test", "allow": ["GET /a"], "resource": RESOURCE}
    Route(**right | {"url": "https://calendar.test/A/a"})
    with pytest.raises(ConfigurationError, match=r"configuration\.invalid"):
        Route(**right | wrong)
    for name, value in (("allow", "GET /a"), ("headers", "X-A"), ("own_tokens", True)):
        with pytest.raises(ValidationError, match=f"Route\n{name}\n"):
            Route(**right | {name: value})


def test_an_api_that_sessions_get_no_tokens_for_is_refused() -> None:
    route = Route(url="https://calendar.test", allow=["GET /"], resource="https://other.test")
    with pytest.raises(ConfigurationError, match="none of downstream_apis"):
        Broker(broker_world().oidc, {NAME: route})
