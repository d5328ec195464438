"""Fifty guests of fifty people call at the same time, while half of them lose their access."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from fastapi_oidc import OIDCSession
from fastapi_oidc.broker import Access, Broker
from tests.oidc.broker.apis import Api, Received, says, serving
from tests.oidc.broker.guests import NAME, Guest
from tests.oidc.broker.rig import TWO_HOURS, Rig, broker_world, rigged, route_to, session_of
from tests.oidc.flows.steps import until
from tests.oidc.world import World

GUESTS, CALLS = 50, 4


async def person(world: World, number: int) -> OIDCSession[object]:
    await world.signed_in(f"user{number}")
    return await session_of(world, f"user{number}")


async def test_each_guest_calls_as_its_own_person_until_that_person_ends_it(
    tmp_path: Path,
) -> None:
    world, accesses = broker_world(), list[Access]()

    async def tells_who(request: Received, writer: asyncio.StreamWriter) -> None:
        token = world.op._state.credentials.access_token(request.token)
        assert token is not None
        await says(str(token.claims["sub"]).encode())(request, writer)

    async with serving(Api(tells_who)) as api, AsyncExitStack() as stack:
        broker = Broker(world.oidc, {NAME: route_to(api)})
        stack.push_async_callback(broker.aclose)
        for number in range(GUESTS):
            session = await person(world, number)
            access = await broker.give(session, to=f"m{number}", routes=[NAME], until=TWO_HOURS)
            await stack.enter_async_context(broker.serve(access, str(tmp_path / f"{number}")))
            accesses.append(access)

        async def storm(number: int) -> None:
            guest = Guest(str(tmp_path / f"{number}"))
            async with guest.client() as client:
                first = await asyncio.gather(*(client.get("/events") for _ in range(CALLS)))
                assert {each.text for each in first} == {f"user{number}"}
                if number % 2:
                    await broker.withdraw(accesses[number])
                after = await asyncio.gather(*(client.get("/events") for _ in range(CALLS)))
                assert {each.status_code for each in after} == {401 if number % 2 else 200}

        await asyncio.gather(*map(storm, range(GUESTS)))
        assert len(api.received) == GUESTS * CALLS * 3 // 2
        await broker.aclose()
        for access in accesses[::2]:
            assert (await broker.check(access)).use.calls == 2 * CALLS


async def test_a_sign_out_among_a_storm_of_one_guest_lets_nothing_through_later() -> None:
    async with rigged() as rig:
        await asyncio.gather(*(calls_until_refused(rig) for _ in range(8)), signs_out_soon(rig))
        sent = len(rig.api.received)
        assert (await rig.guest.get()).status_code == 401
        assert len(rig.api.received) == sent


async def calls_until_refused(rig: Rig) -> None:
    async with rig.guest.client() as client, asyncio.timeout(20):
        while (answer := await client.get("/events")).status_code == 200:
            pass
        assert answer.status_code == 401


async def signs_out_soon(rig: Rig) -> None:
    await until(lambda: len(rig.api.received) >= 30)
    await rig.browser.post("/auth/logout")
