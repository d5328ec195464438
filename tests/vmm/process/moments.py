"""A caller that something happens to at a chosen moment: before one of its system calls.

It runs as a program that forks for each case, reads a case on each line and prints what came of it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from generated_vmm.process import JailedMonitor, Monitor, MonitorError
from generated_vmm.process.reaper_client import REAPER

CALLS = {
    os: (
        *("dup", "eventfd", "link", "mkdir", "mkfifo", "open", "pidfd_open", "pipe", "posix_spawn"),
        *("rename", "rmdir", "symlink", "unlink", "waitid", "write"),
    ),
    fcntl: ("flock",),
    signal: ("pidfd_send_signal",),
    socket: ("send_fds",),
}
MAY_FAIL = {
    errno.ENOSPC: {"link", "mkdir", "mkfifo", "open", "rename", "symlink", "write"},
    errno.EMFILE: {"dup", "eventfd", "open", "pidfd_open", "pipe", "posix_spawn", "send_fds"},
}


class Interrupted(Exception):
    """What a signal handler raises."""


class Moments:
    """Counts the calls of the threads that run monitors, and lets one thing happen at one."""

    def __init__(self, event: str, moment: int) -> None:
        self.count = 0
        self._event, self._moment = event, moment
        signal.signal(signal.SIGUSR1, self._interrupt)
        for module, names in CALLS.items():
            for name in names:
                setattr(module, name, self._counted(name, getattr(module, name)))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            if threading.current_thread().name.startswith("monitor"):
                if self.count == self._moment:
                    self.count += 1
                    getattr(self, f"_{self._event}")(name, *given)
                else:
                    self.count += 1
            return call(*given, **named)

        return counted

    def _interrupt(self, *_: object) -> None:
        raise Interrupted

    def _nothing(self, *_: Any) -> None:
        pass

    def _kill_caller(self, *_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _kill_reaper(self, *_: Any) -> None:
        if REAPER._reaper is not None:
            REAPER._reaper.child.send_signal(signal.SIGKILL)

    def _raise_in_caller(self, *_: Any) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def _disk_full(self, name: str, *given: Any) -> None:
        makes_nothing = name == "open" and not given[1] & os.O_CREAT
        if name in MAY_FAIL[errno.ENOSPC] and not makes_nothing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _descriptors_used_up(self, name: str, *_: Any) -> None:
        if name in MAY_FAIL[errno.EMFILE]:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def unjailed(folder: Path, **options: Any) -> Monitor:
    real = os.environ.get("FIRECRACKER_BIN")
    stand_in = [sys.executable, "-I", "-S", str(Path(__file__).with_name("stand_in.py"))]
    return Monitor([real] if real else stand_in, directory=folder / "vm", timeout=30, **options)


def jailed(folder: Path, **options: Any) -> JailedMonitor:
    jailer, binary = os.environ["JAILER_BIN"], os.environ["FIRECRACKER_BIN"]
    where: Any = {"id": f"vm-{os.getpid()}", "uid": 54_321, "gid": 54_321, "timeout": 30}
    return JailedMonitor(jailer, binary, chroot_base_dir=folder / "jails", **where, **options)


def start_and_stop(monitor: Monitor) -> None:
    monitor.start().stop()


def start_and_kill(monitor: Monitor) -> None:
    monitor.start().kill()


def crash(monitor: Monitor) -> None:
    os.kill(monitor.start().pid, signal.SIGKILL)
    monitor.wait(30)
    monitor.stop()


def detach_and_attach(monitor: Monitor) -> None:
    monitor.start().detach()
    type(monitor).attach(monitor.directory).stop()


def fill_a_jail(folder: Path) -> None:
    """Without a start, for which one has to be root."""
    own: Any = {"id": "vm-1", "uid": os.getuid(), "gid": os.getgid(), "binary": "/bin/true"}
    monitor = JailedMonitor(chroot_base_dir=folder / "jails", **own)
    monitor.copy_in(__file__, "/a/b")
    monitor.link_in(folder / "linked")
    monitor.stop()


SCENARIOS: dict[str, Callable[[Path], None]] = {
    "start and stop": lambda folder: start_and_stop(unjailed(folder)),
    "start and kill": lambda folder: start_and_kill(unjailed(folder)),
    "crash": lambda folder: crash(unjailed(folder)),
    "detach and attach": lambda folder: detach_and_attach(unjailed(folder, detached=True)),
    "fill a jail": fill_a_jail,
    "jail": lambda folder: start_and_stop(jailed(folder)),
    "jail with control groups": lambda folder: start_and_stop(
        jailed(folder, cgroups={"pids.max": "99"}, cgroup_version=1)
    ),
    "jail with a PID namespace": lambda folder: start_and_stop(jailed(folder, new_pid_ns=True)),
}


def carry_out(scenario: str, event: str, moment: int, folder: Path) -> dict[str, Any]:
    """Plays a scenario; afterwards, when nothing happens any more, what failed is ended again."""
    made: list[Monitor] = []
    set_up = Monitor._set_up

    def remember(self: Monitor, workspace: Any) -> None:
        made.append(self)
        set_up(self, workspace)

    setattr(Monitor, "_set_up", remember)  # noqa: B010  # mypy would want another signature
    before = descriptors()
    moments = Moments(event, moment)
    error = ""
    try:
        SCENARIOS[scenario](folder)
    except (Interrupted, MonitorError, OSError) as failure:
        error = repr(failure)
        for monitor in made:
            with contextlib.suppress(Interrupted):
                monitor.kill()
    return {"calls": moments.count, "error": error, "descriptors": left(before)}


def descriptors() -> set[str]:
    """What this process has open, but for the reaper's socket and pidfd."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(f"{each.name} {each.readlink()}")
    return {name for name in found if "/proc/" not in name}


def left(before: set[str]) -> list[str]:
    """Descriptors of monitors that are still open. Threads may need a moment to end."""
    deadline = time.monotonic() + 5
    while True:
        found = sorted(
            name for name in descriptors() - before if "socket:" not in name and "pidfd" not in name
        )
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.002)


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        folder = Path(case["folder"])
        os.environ["MOMENT"] = str(folder)
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(reading)
            result = carry_out(case["scenario"], case["event"], case["moment"], folder)
            os.write(writing, json.dumps(result).encode())
            sys.exit()
        os.close(writing)
        with open(reading, encoding="utf-8") as child:
            printed = child.read()
        os.waitpid(pid, 0)
        print(printed or "null", flush=True)


if __name__ == "__main__":
    main()
