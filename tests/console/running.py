"""A console that answers on a socket of this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final, TypedDict, TypeVar, Unpack

import uvicorn
from fastapi import FastAPI

from examples.console.app import create_app
from examples.console.demo import Parts, parts
from examples.console.host import Host
from examples.console.settings import ConsoleSettings, RoleSettings
from generated_vmm import VmmApiError
from generated_vmm.machines import AsyncMachine, Definition
from tests.console.browser import PATIENCE, Browser

ALICE, BOB = "AA Alice Admin", "BV Bob Viewer"


class MachineSettings(TypedDict, total=False):
    """What the environment may say of a console's machines."""

    sockets: Mapping[str, str]
    firecracker: str
    jailer: str
    kernel: str
    rootfs: str
    roles: RoleSettings
    api_audience: str
    simulated_agent: bool


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that answers at `url`."""

    url: str
    parts: Parts
    server: Server

    @property
    def host(self) -> Host:
        """The machines that it starts."""
        assert isinstance(self.parts.monitors, Host)
        return self.parts.monitors

    def machine(self, name: str = "demo") -> AsyncMachine:
        """A machine that it starts."""
        machine = self.host.machines.find(name)
        assert machine is not None
        return machine

    def state(self, name: str = "demo") -> str:
        """The state of a machine that it starts."""
        return self.server.do(self.machine(name).state())

    @property
    def suggested_disk(self) -> str:
        """The disk that forms suggest."""
        return self.host.suggestions["root_drive.path_on_host"]

    def disk(self, name: str) -> Path:
        """A new disk that this console's machines may have."""
        path = self.host.library.folders["disks"] / name
        path.write_bytes(bytes(4096))
        return path

    async def drivers_are_up(self, name: str = "demo") -> None:
        """Waits until the guest follows its balloon."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(VmmApiError):
                    await self.machine(name).client.balloon.update(amount_mib=0)
                    return
                await asyncio.sleep(0.02)

    async def begin_anew(self) -> None:
        """Leaves one machine, `demo`, of which nothing was set up."""
        for machine in self.host.hosted:
            await machine.delete()
        for snapshot in self.host.machines.snapshots():
            await snapshot.delete()
        await self.host.create("demo", Definition())


def running_console(sockets: Mapping[str, str]) -> AbstractContextManager[RunningConsole]:
    """A console of the monitors that `sockets` names."""
    return hosting_console(sockets=sockets)


@contextmanager
def hosting_console(
    folder: Path | None = None, *, is_empty: bool = False, **machines: Unpack[MachineSettings]
) -> Iterator[RunningConsole]:
    """A console that starts monitors itself, simulated unless told otherwise, kept in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        given: MachineSettings = {"sockets": {}, **machines}
        settings = ConsoleSettings(port=port, provider_port=0, issuer=None, folder=folder, **given)
        with parts(settings) as console:
            if is_empty and isinstance(console.monitors, Host):
                console.monitors.at_first = None
            app = create_app(
                console.oidc,
                console.monitors,
                roles=settings.roles,
                api_audience=settings.api_audience,
                apis=console.apis,
            )
            with serving(app, listener) as server:
                yield RunningConsole(f"http://127.0.0.1:{port}", console, server)


def signed_in(console: RunningConsole, name: str = ALICE) -> Browser:
    """A new browser of a person of the demo."""
    browser = Browser(console.url)
    browser.home()
    browser.click(name)
    return browser


def pid_of(console: RunningConsole, name: str) -> int:
    """The process of a machine's monitor."""
    monitor = console.machine(name).monitor
    assert monitor is not None
    return monitor.pid


def disks_of(console: RunningConsole, name: str) -> list[Path]:
    """The disks of a machine's own."""
    folder = console.host.launch.machines / "machines" / console.machine(name).id / "disks"
    return list(folder.iterdir())


def end_processes_of(folder: Path) -> None:
    """Kills the processes of `folder`, until there are none.

    A keeper that sees its monitor killed writes its record there, so the first look is not enough.
    """
    until = time.monotonic() + PATIENCE
    while found := [*processes_of(folder)]:
        assert time.monotonic() < until, f"these processes do not end: {found}"
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def processes_of(folder: Path) -> Iterator[int]:
    """Those that have a file of `folder` open, on their command line or as a jail."""
    mark = f"{folder}/".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            said = (process / "cmdline").read_bytes() + (process / "mountinfo").read_bytes()
            files = [os.readlink(os.fsencode(file)) for file in (process / "fd").iterdir()]
            if mark in b" ".join([said, *files]) and process.name != str(os.getpid()):
                yield int(process.name)


# The console on a socket, from a thread of this process: for tests and screenshots


START_SECONDS: Final = 60.0
Answer = TypeVar("Answer")


class Server(uvicorn.Server):
    """Leaves no connection open, also when a response does not end in time."""

    loop: asyncio.AbstractEventLoop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def do(self, work: Coroutine[object, object, Answer]) -> Answer:
        """The result of `work`, which is done beside the requests."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


@contextmanager
def serving(app: FastAPI, listener: socket.socket) -> Iterator[Server]:
    """`app` answers on `listener` while the block runs."""
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none")
    server = Server(config)
    thread = Thread(target=server.run, args=([listener],), name="console", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield server
    finally:
        server.should_exit = True
        thread.join()


def _wait_until_started(server: uvicorn.Server, thread: Thread) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the console did not start")
        time.sleep(0.005)
