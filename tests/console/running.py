"""A console that answers on a socket of this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

import httpx
from fastapi import FastAPI

from examples.console.app import create_app
from examples.console.demo import Parts, parts, samples
from examples.console.host import Host
from examples.console.lively_memory import LivelyMemory
from examples.console.monitors import Monitors
from examples.console.settings import ConsoleSettings
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser
from tests.console.serving import serving

ALICE, BOB = "AA Alice Admin", "BV Bob Viewer"


class MachineSettings(TypedDict, total=False):
    """What the environment may say of a console's machines."""

    firecracker: str
    jailer: str
    kernel: str
    rootfs: str
    everybody_views: bool
    api_audience: str
    simulated_agent: bool


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that answers at `url`."""

    url: str
    parts: Parts
    suggestions: Mapping[str, str] = field(default_factory=dict)
    own: SimulatedMonitor | None = None

    @property
    def monitor(self) -> SimulatedMonitor:
        """The monitor of this process, called `demo`."""
        assert self.own is not None
        return self.own

    def disk(self, name: str) -> Path:
        """A new disk that this console's machines may have."""
        assert self.parts.folder is not None
        path = self.parts.folder / "images" / "disks" / name
        path.write_bytes(bytes(4096))
        return path

    def changes(self) -> list[str]:
        """Every call that was not only to look, as method and path."""
        calls = self.monitor.calls
        return [f"{call.method} {call.path}" for call in calls if call.method != "GET"]


@contextmanager
def running_console(sockets: Mapping[str, str] | None = None) -> Iterator[RunningConsole]:
    """A console of the monitors that `sockets` names, or else of one in this process."""
    with ExitStack() as stack:
        own, suggestions = None, dict[str, str]()
        if sockets is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="console-")))
            own, suggestions = _own_monitor(folder), samples(folder)
            stack.enter_context(own)
            sockets = {"demo": str(own.socket_path)}
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        settings = ConsoleSettings(port=port, provider_port=0, sockets=sockets, issuer=None)
        console = stack.enter_context(parts(settings))
        app = create_app(console.oidc, Monitors(sockets, suggestions))
        stack.enter_context(serving(app, listener))
        yield RunningConsole(f"http://127.0.0.1:{port}", console, suggestions, own)


@contextmanager
def hosting_console(
    folder: Path | None = None, **machines: Unpack[MachineSettings]
) -> Iterator[RunningConsole]:
    """A console that starts monitors itself, simulated unless told otherwise, kept in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings = ConsoleSettings(
            port=port, provider_port=0, sockets={}, issuer=None, folder=folder, **machines
        )
        with parts(settings) as console:
            app = create_app(
                console.oidc,
                console.monitors,
                everybody_views=settings.everybody_views,
                api_audience=settings.api_audience,
                apis=console.apis,
            )
            with serving(app, listener):
                yield RunningConsole(f"http://127.0.0.1:{port}", console)


def _own_monitor(folder: Path) -> SimulatedMonitor:
    monitor = SimulatedMonitor(folder / "demo.socket", instance_id="demo", enable_pci=True)
    monitor.guest.balloon_statistics = LivelyMemory(monitor)
    monitor.guest.boot_seconds = 0
    return monitor


def signed_in(console: RunningConsole, name: str = ALICE) -> Browser:
    """A new browser of a person of the demo."""
    browser = Browser(console.url)
    browser.home()
    browser.click(name)
    return browser


def pid_of(console: RunningConsole, name: str) -> int:
    """The process of a machine's monitor."""
    host = console.parts.monitors
    assert isinstance(host, Host)
    machine = host.machines.find(name)
    assert machine is not None
    assert machine.monitor is not None
    return machine.monitor.pid


def disks_of(console: RunningConsole, name: str) -> list[Path]:
    """The disks of a machine's own."""
    host = console.parts.monitors
    assert isinstance(host, Host)
    machine = host.machines.find(name)
    assert machine is not None
    assert console.parts.folder is not None
    return list((console.parts.folder / "machines" / machine.id / "disks").iterdir())


def end_processes_of(folder: Path) -> None:
    """Kills what runs with a file of `folder` on its command line, or in a jail below it."""
    mark = f"{folder}/".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            said = (process / "cmdline").read_bytes() + (process / "mountinfo").read_bytes()
            if mark in said and process.name != str(os.getpid()):
                os.kill(int(process.name), signal.SIGKILL)


def asked(app: FastAPI, path: str, headers: Mapping[str, str]) -> httpx.Response:
    """What an app that is not served answers to a GET."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())
