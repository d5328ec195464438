"""The task that looks at every machine, and what one machine costs the others."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from examples.console.history import ended, repeated, sample_all
from examples.console.monitors import Monitor
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import PATIENCE

AT_ONCE = 0.001


class Machine:
    """Counts its samples, tells of the third, and does something at each."""

    def __init__(self, name: str, act: Callable[[], Awaitable[object]] | None = None) -> None:
        self.name = name
        self.samples = 0
        self.enough = asyncio.Event()
        self._act = act

    async def sample(self) -> None:
        self.samples += 1
        if self.samples == 3:
            self.enough.set()
        if self._act is not None:
            await self._act()


def sampling(*machines: Machine, every: float) -> asyncio.Task[None]:
    work = repeated(lambda: sample_all(machines, every), every)
    return asyncio.create_task(work)


async def sampled(*machines: Machine) -> None:
    """Samples until every machine has been asked three times."""
    work = sampling(*machines, every=AT_ONCE)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*(machine.enough.wait() for machine in machines))
    await ended(work)


async def test_a_machine_that_never_answers_delays_no_other() -> None:
    await sampled(Machine("silent", asyncio.Event().wait), Machine("other"))


async def test_a_machine_that_fails_is_told_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    await sampled(Machine("bad", fail), Machine("good"))
    assert "no figures of bad" in caplog.text
    assert "no figures of good" not in caplog.text


async def test_it_ends_in_the_midst_of_a_round() -> None:
    asked = asyncio.Event()

    async def hang() -> None:
        asked.set()
        await asyncio.Event().wait()

    work = sampling(Machine("silent", hang), every=PATIENCE)
    await asked.wait()
    await ended(work)
    assert work.cancelled()


@pytest.mark.parametrize("has_statistics", [True, False])
async def test_only_what_runs_and_has_statistics_is_asked_for_them(
    tmp_path: Path, *, has_statistics: bool
) -> None:
    with SimulatedMonitor(tmp_path / "vm.socket", check_files=False) as simulated:
        monitor = Monitor("vm", str(simulated.socket_path))
        await monitor.sample()
        await monitor.control.boot_source.set(kernel_image_path="/k")
        if has_statistics:
            await monitor.control.balloon.set(
                amount_mib=0, deflate_on_oom=True, stats_polling_interval_s=1
            )
        asked = [call.path for call in simulated.calls].count
        assert asked("/balloon/statistics") == 0
        await monitor.control.action("InstanceStart")
        for _ in range(2):
            await monitor.sample()
        assert monitor.history.latest("balloon") == (0 if has_statistics else None)
        asked = [call.path for call in simulated.calls].count
        assert asked("/balloon/statistics") == has_statistics
        await monitor.close()
        monitor.records.close()


async def test_a_monitor_that_has_gone_has_no_figures(tmp_path: Path) -> None:
    monitor = Monitor("vm", str(tmp_path / "vm.socket"))
    await monitor.sample()
    assert monitor.charts() == []
    await monitor.close()
    monitor.records.close()
