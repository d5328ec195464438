"""Changes of one machine wait for each other, and those of its process for none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from examples.console.carry_out import carry_out
from examples.console.changes import CHANGES, Change
from examples.console.changes.change import Parsed
from examples.console.monitors import Monitor
from generated_vmm.testing import SimulatedMonitor


@dataclass
class Work:
    """A change that goes on until it may end."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def act(self, monitor: Monitor, parsed: Parsed) -> None:
        self.begun.set()
        await self.may_end.wait()

    def change(self, *, at_once: bool = False) -> Change:
        return replace(CHANGES["start"], act=self.act, unless=lambda machine: "", at_once=at_once)


async def second_of(first: Work, second: Work, monitor: Monitor, *, at_once: bool) -> bool:
    """Whether the second change begins while the first is under way."""
    tasks = [asyncio.ensure_future(carry_out(monitor, first.change(), {}))]
    await first.begun.wait()
    tasks.append(asyncio.ensure_future(carry_out(monitor, second.change(at_once=at_once), {})))
    if at_once:
        await second.begun.wait()
    else:
        await monitor.state()  # as long as the second change would need to look
    began = second.begun.is_set()
    first.may_end.set()
    second.may_end.set()
    assert await asyncio.gather(*tasks) == [None, None]
    await monitor.close()
    return began


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    with SimulatedMonitor(tmp_path / "vm.socket") as simulated:
        yield Monitor("demo", str(simulated.socket_path))


async def broken(monitor: Monitor, parsed: Parsed) -> None:
    raise KeyError


async def test_what_came_of_a_change_is_in_the_trail_whatever_it_raises(monitor: Monitor) -> None:
    with pytest.raises(KeyError):
        await carry_out(monitor, replace(Work().change(), act=broken), {})
    (event,) = monitor.events.latest(9)
    assert (event.what, event.refused) == ("Tried to start a machine.", "It was cut off.")
    assert not event.pending
    await monitor.close()


def test_a_change_waits_for_the_one_before(monitor: Monitor) -> None:
    assert not asyncio.run(second_of(Work(), Work(), monitor, at_once=False))
    assert [event.what for event in monitor.events.latest(9)] == [CHANGES["start"].done] * 2


def test_a_machine_is_stopped_whatever_is_under_way(monitor: Monitor) -> None:
    assert asyncio.run(second_of(Work(), Work(), monitor, at_once=True))
    assert [name for name, change in CHANGES.items() if change.at_once] == ["stop"]
