"""The examples of the broker, as programs of a guest."""

from __future__ import annotations

import asyncio
import json

from examples.broker import agent, worker
from tests.oidc.broker.apis import Api, says
from tests.oidc.broker.rig import rigged

EVENTS = says(json.dumps(["Lunch"]).encode())


async def test_a_coding_agents_tool_calls_are_calls_of_the_person() -> None:
    async with rigged(api=Api(EVENTS)) as rig, rig.guest.client() as guest:
        assert await agent.call_tool(guest, "list_events", {}) == '["Lunch"]'
        assert await agent.call_tool(guest, "add_event", {"title": "Tea"}) == '["Lunch"]'
        assert json.loads(rig.api.received[1].body) == {"title": "Tea"}
        await rig.broker.withdraw(rig.access)
        refused = await agent.call_tool(guest, "list_events", {})
        assert refused == "refused: broker.withdrawn: The access has ended."


async def test_a_worker_goes_on_until_the_person_ends_it() -> None:
    async with rigged(api=Api(EVENTS)) as rig, rig.guest.client() as guest:
        counted = []
        async with asyncio.timeout(20):
            async for count in worker.counts(guest, 0):
                counted.append(count)
                if len(counted) == 3:
                    await rig.browser.post("/auth/logout")
        assert counted == [1, 1, 1]
