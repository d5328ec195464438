"""A list of 200 machines: what a viewer gets after the first page."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from statistics import median

import httpx
import pytest

from examples.console.history import Sample
from examples.console.host import Host
from examples.console.hosted import HostedMonitor
from generated_vmm.machines import Definition
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.records import now
from tests.console.browser import Browser
from tests.console.running import ALICE, BOB, RunningConsole, signed_in

MACHINES = 200
MOST_BYTES = 20_000
MOST_SECONDS = 0.01
"""The processor time of the console for one refresh."""


class Long:
    """A host with machines that seem to run, without their monitors."""

    def __init__(self, host: Host) -> None:
        self._host, self._records = host, host.machines._store.machines
        self._ids = asyncio.run(self._made())
        for number in range(MACHINES):
            self._put(number, "Running")

    async def _made(self) -> list[str]:
        create = self._host.machines.create
        return [(await create(f"machine-{n}", Definition())).id for n in range(MACHINES)]

    def _put(self, number: int, state: str) -> None:
        id = self._ids[number]
        made = self._host.machines.get(id).record
        self._records.put(id, made.model_copy(update={"should_be": state, "started_at": now()}))

    def change(self, state: str) -> None:
        """Gives one machine another state, and all of them other figures."""
        self._put(7, state)
        for one in self._host.hosted:
            figures = {name: random.uniform(0, 1e6) for name in ("processor", "memory")}
            one.history._samples.append(Sample(time.monotonic(), figures))

    def remove(self) -> None:
        for id in self._ids:
            self._records.forget(id)  # the console removes what is left


@pytest.fixture
def long(host: RunningConsole, monkeypatch: pytest.MonkeyPatch) -> Iterator[Long]:
    async def figures(self: HostedMonitor) -> dict[str, float]:
        self.last_state = "Running"
        return {}

    async def running(self: AsyncHeld) -> None:
        """See `AsyncHeld.find`."""

    monkeypatch.setattr(HostedMonitor, "_read_figures", figures)
    monkeypatch.setattr(AsyncHeld, "find", running)
    monkeypatch.setattr(AsyncHeld, "is_up", property(lambda _: True))
    found = host.parts.monitors
    assert isinstance(found, Host)
    made = Long(found)
    yield made
    made.remove()


async def used() -> float:
    """The processor time of the console's thread, so far."""
    return time.thread_time()


def polled(browser: Browser, host: RunningConsole, at: str) -> httpx.Response:
    headers = {"Accept": "application/json"}
    url = f"{host.url}/states"
    return httpx.get(url, params={"at": at}, headers=headers, cookies=browser.cookies, timeout=60)


@pytest.mark.parametrize("person", [ALICE, BOB])
def test_a_viewer_of_200_machines_gets_only_what_has_changed(
    host: RunningConsole, long: Long, person: str
) -> None:
    with signed_in(host, person) as browser:
        browser.open_until(f"machine-{MACHINES - 1} Running", "/")
        assert browser.has_button("Stop machine-7") == (person == ALICE)
        first = polled(browser, host, "").json()
        assert len(first["rows"]) >= MACHINES
        at = first["at"]
        seconds = list[float]()
        for state in ("Paused", "Running") * 5:
            long.change(state)
            began = host.server.do(used())
            answer = polled(browser, host, at)
            seconds.append(host.server.do(used()) - began)
            assert len(answer.content) <= MOST_BYTES
            found = answer.json()
            at = found["at"]
            assert [state in row for row in found["rows"].values()] == [True]
            assert list(found["rows"]) == ["machine-7"]
            assert len(found["figures"]) >= MACHINES
            assert len(found["order"]) >= MACHINES
        assert median(seconds) <= MOST_SECONDS
        nothing = polled(browser, host, at).json()
        assert nothing["rows"] == nothing["figures"] == {}
