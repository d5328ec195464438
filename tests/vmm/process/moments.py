"""A caller that something happens to at a chosen moment: before one of the system calls.

It runs as a program that forks for each case, reads a case on each line and prints what came of it.
"""

import asyncio
import contextlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from generated_vmm.process import (
    AsyncJailedMonitor,
    AsyncMonitor,
    JailedMonitor,
    Monitor,
    MonitorError,
    nursery,
)
from tests.vmm.process.counting import Line, Moment, count_calls
from tests.vmm.process.events import AT_A_LINE, CANCELLED, EVENTS, FORKED, RIVAL, Interrupted, Stage
from tests.vmm.process.kernel import descriptors, left, name_of, user_of

COUNTED = Path(__file__).with_name("counted_nursery.py")
STAND_IN = [sys.executable, "-I", "-S", str(Path(__file__).with_name("stand_in.py"))]


class Play:
    """One case: monitors for threads or for tasks, and what they leave."""

    def __init__(self, folder: Path, event: str, *, in_tasks: bool) -> None:
        self.folder, self._event, self._in_tasks = folder, event, in_tasks
        self._is_over = False
        self._made: list[Monitor] = []

    def unjailed(self, **options: Any) -> Any:
        real = os.environ.get("FIRECRACKER_BIN")
        program = [real] if real and self._event != FORKED else STAND_IN
        kind: Any = AsyncMonitor if self._in_tasks else Monitor
        return self._remember(kind(program, directory=self.folder / "vm", timeout=30, **options))

    def jailed(self, **options: Any) -> Any:
        kind: Any = AsyncJailedMonitor if self._in_tasks else JailedMonitor
        where: Any = {"chroot_base_dir": self.folder / "jails", "timeout": 30}
        return self._remember(kind(id=name_of(self.folder), **where, **options))

    def of_the_jailer(self, **options: Any) -> Any:
        jailer, binary = os.environ["JAILER_BIN"], os.environ["FIRECRACKER_BIN"]
        user = user_of(self.folder)
        return self.jailed(jailer=jailer, binary=binary, uid=user, gid=user, **options)

    def _remember(self, monitor: Any) -> Any:
        self._made.append(monitor)
        return monitor

    async def carry_out(self, scenario: str) -> str:
        """Plays a scenario; afterwards, when nothing happens any more, what failed is ended."""
        try:
            await SCENARIOS[scenario](self)
            self._is_over = True
        except (asyncio.CancelledError, Interrupted, MonitorError, OSError) as failure:
            for monitor in self._made:
                with contextlib.suppress(Interrupted):
                    await done(monitor.kill())
            return repr(failure)
        return ""

    def interrupt(self, *_: object) -> None:
        """A handler. The last moments are the nursery's, when the caller may be done."""
        if not self._is_over:
            raise Interrupted


async def done(result: Any) -> Any:
    """The result of a call on a monitor of either kind."""
    return await result if inspect.isawaitable(result) else result


async def start_and_stop(monitor: Monitor) -> None:
    await done(monitor.start())
    await done(monitor.stop())


async def start_and_kill(play: Play) -> None:
    monitor = await done(play.unjailed().start())
    await done(monitor.client.vsock.set(guest_cid=3, uds_path=play.folder / "v.sock"))
    await done(monitor.kill())


async def crash(monitor: Monitor) -> None:
    await done(monitor.start())
    os.kill(monitor.pid, signal.SIGKILL)
    await done(monitor.wait(30))
    await done(monitor.stop())


async def detach_and_attach(play: Play) -> None:
    monitor = play.unjailed(detached=True)
    await done(monitor.start())
    await done(monitor.detach())
    again = await done(type(monitor).attach(monitor.directory))
    await done(play._remember(again).stop())


async def fill_a_jail(play: Play) -> None:
    """Without a start, for which one has to be root."""
    programs = {"jailer": "/bin/true", "binary": "/bin/true"}
    monitor = play.jailed(uid=os.getuid() or 1, gid=os.getgid() or 1, **programs)
    await done(monitor.copy_in(__file__, "/a/b"))
    await done(monitor.link_in(play.folder / "linked"))
    await done(monitor.stop())


SCENARIOS: dict[str, Callable[[Play], Awaitable[None]]] = {
    "start and stop": lambda play: start_and_stop(play.unjailed()),
    "start and kill": start_and_kill,
    "crash": lambda play: crash(play.unjailed()),
    "detach and attach": detach_and_attach,
    "fill a jail": fill_a_jail,
    "jail": lambda play: start_and_stop(play.of_the_jailer()),
    "jail with control groups": lambda play: start_and_stop(
        play.of_the_jailer(cgroups={"pids.max": "99"}, cgroup_version=1)
    ),
    "jail with a PID namespace": lambda play: start_and_stop(play.of_the_jailer(new_pid_ns=True)),
}


def carry_out(scenario: str, event: str, number: int, folder: str, place: str) -> dict[str, Any]:
    """Plays a scenario for threads, or for tasks if one is to be cancelled."""
    before = descriptors()
    moment = Moment(number, event, os.getpid(), Path(place))
    stage = Stage(Path(folder), moment)
    play = Play(Path(folder), event, in_tasks=event == CANCELLED)
    signal.signal(signal.SIGUSR1, play.interrupt)
    if event == AT_A_LINE:
        with Line(moment, Interrupted):
            error = in_this_thread(play.carry_out(scenario))
        return {"error": error, "descriptors": left(before)}
    os.environ["MOMENTS"] = json.dumps([number, event, os.getpid(), place, folder])
    os.environ["NURSERY"], nursery.PROGRAM = str(nursery.PROGRAM), COUNTED
    count_calls(moment, lambda name, given: EVENTS[event](stage, name, given))
    if event == CANCELLED:
        error = asyncio.run(in_a_task(play.carry_out(scenario)))
    else:
        error = in_this_thread(play.carry_out(scenario))
    return {"error": error, "descriptors": left(before)}


async def in_a_task(played: Coroutine[Any, Any, str]) -> str:
    """Not by a handler of the loop: with the loop it ends, and the next signal ends the process."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(played)

    def cancel(*_: object) -> None:
        if not task.done():
            loop.call_soon_threadsafe(task.cancel)

    signal.signal(signal.SIGUSR2, cancel)
    return await task


def in_this_thread(played: Coroutine[Any, Any, str]) -> str:
    """The result of a coroutine that never waits."""
    try:
        played.send(None)
    except StopIteration as end:
        return str(end.value)
    raise AssertionError("a call for threads was awaited")


def rival_for(case: dict[str, Any]) -> Callable[[], str]:
    """A process that starts the same monitor once it is told to; waits for what came of it."""
    reading, writing = os.pipe()
    orders = os.open(f"{case['place']}/rival", os.O_RDWR)
    if (pid := os.fork()) == 0:
        os.close(reading)
        error = "it was not told to"
        if os.read(orders, 1) == b"\n":
            play = Play(Path(case["folder"]), "nothing", in_tasks=False)
            error = in_this_thread(play.carry_out(case["scenario"]))
        os.write(writing, error.encode())
        sys.exit()
    os.close(writing)

    def wait() -> str:
        os.write(orders, b"x")  # it is over
        os.close(orders)
        return printed_by(pid, reading)

    return wait


def printed_by(pid: int, reading: int) -> str:
    """What a process writes until its end."""
    with open(reading, encoding="utf-8") as child:
        printed = child.read()
    os.waitpid(pid, 0)
    return printed


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        os.environ["MOMENT"] = case["folder"]
        wait_for_rival = rival_for(case) if case["event"] == RIVAL else None
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(reading)
            with contextlib.suppress(KeyboardInterrupt):
                os.write(writing, json.dumps(carry_out(**case)).encode())
            sys.exit()
        os.close(writing)
        result = {"caller": json.loads(printed_by(pid, reading) or "null")}
        if wait_for_rival is not None:
            result["rival"] = wait_for_rival()
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
