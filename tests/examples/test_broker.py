"""The examples of the broker, as programs of a guest."""

import asyncio
import io
import json
import sys

import pytest

from examples.broker import agent, worker
from tests.oidc.broker.apis import Api, says
from tests.oidc.broker.rig import rigged
from tests.oidc.flows.steps import until

EVENTS = says(json.dumps(["Lunch"]).encode())


async def test_a_coding_agents_tool_calls_are_calls_of_the_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [{"tool": "list_events"}, {"tool": "add_event", "argument": "Tea"}, {"tool": "rm"}]
    async with rigged(api=Api(EVENTS)) as rig:
        for _ in range(2):
            monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(map(json.dumps, calls))))
            await agent.main(rig.guest.path)
            await rig.broker.withdraw(rig.access)
        assert json.loads(rig.api.received[1].body) == "Tea"
    no_tool = "there is no tool rm, but list_events, add_event"
    ended = "refused: broker.withdrawn: The access has ended."
    assert capsys.readouterr().out.splitlines() == [
        *['["Lunch"]', '["Lunch"]', no_tool],
        *[ended, ended, no_tool],
    ]


async def test_a_worker_goes_on_until_the_person_ends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with rigged(api=Api(EVENTS)) as rig, asyncio.TaskGroup() as tasks:
        work = tasks.create_task(worker.main(rig.guest.path, 0))
        await until(lambda: len(rig.api.received) >= 3)
        await rig.browser.post("/auth/logout")
        await work
    *counted, last = capsys.readouterr().out.splitlines()
    assert set(counted) == {"events: 1"}
    assert last == "the person has ended the access"
