"""A real monitor and a simulated one beside it, asked the same; each has a folder of its own."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.real.calls import Drawn
from tests.vmm.simulator.caller import Caller, Reply, connect

READY_SECONDS = 10
SETTLE_SECONDS = 2
GONE = Reply(0)
MIB = 1 << 20
RUNNING = Drawn("GET", "/")


@dataclass(frozen=True)
class Programs:
    """What the real side needs. `initrd` is for kernels that boot into one."""

    firecracker: str
    kernel: str | None = None
    initrd: str | None = None


class Asked:
    """One monitor behind its socket; a process that has ended answers `GONE`."""

    def __init__(self, socket_path: Path, names: dict[str, str]) -> None:
        self._call = Caller(socket_path)
        self.names = names

    def __call__(self, call: Drawn) -> Reply:
        text = call.text
        for name, value in self.names.items():
            text = None if text is None else text.replace(f"{{{name}}}", value)
        try:
            return self._call(call.method, call.path, text)
        except OSError:
            return GONE


class Real(Asked):
    """The real monitor's process; a call returns when the guest has done what it will do."""

    def __init__(self, process: subprocess.Popen[bytes], socket_path: Path, names: dict[str, str]):
        super().__init__(socket_path, names)
        self._process = process
        self._output = socket_path.with_suffix(".out")
        self._resets = False

    def __call__(self, call: Drawn) -> Reply:
        reply = super().__call__(call)
        text = call.text or ""
        if reply.status == 204 and "InstanceStart" in text:
            wait_until(lambda: b"guest serves" in self._output.read_bytes())
        if reply.status == 204 and ("SendCtrlAltDel" in text or "Resumed" in text):
            self._resets |= "SendCtrlAltDel" in text
            state = super().__call__(RUNNING).json
            if self._resets and isinstance(state, dict) and state["state"] == "Running":
                wait_until(lambda: self._process.poll() is not None)
        return reply


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait a while; what is not reached shows in the comparison."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.005)


def host_names(folder: Path, programs: Programs) -> dict[str, str]:
    """The host paths and devices that calls name, made in the folder."""
    sizes = {"file": MIB, "other": 2 * MIB, "empty": 0, "big": 600 * MIB}
    names = {"folder": str(folder), "tap": f"fc{os.getpid() % 10**6}x"}
    for name, size in sizes.items():
        names[name] = str(folder / name)
        with (folder / name).open("wb") as file:
            file.truncate(size)
    names["kernel"] = programs.kernel or names["file"]
    return names


@contextmanager
def real_process(
    firecracker: str, socket_path: Path, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A fresh process, killed in the end."""
    with socket_path.with_suffix(".out").open("wb") as output:
        process = subprocess.Popen(
            [firecracker, "--api-sock", str(socket_path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            wait_until_ready(socket_path)
            yield process
        finally:
            process.kill()
            process.wait(READY_SECONDS)


@contextmanager
def real_monitor(programs: Programs, *, pci: bool) -> Iterator[Asked]:
    """The real monitor."""
    with tempfile.TemporaryDirectory(prefix="vmm-") as name:
        socket_path, arguments = Path(name, "r.socket"), ["--enable-pci"] * pci
        with real_process(programs.firecracker, socket_path, *arguments) as process:
            yield Real(process, socket_path, host_names(_inner(name), programs))


@contextmanager
def simulated_monitor(programs: Programs, *, pci: bool) -> Iterator[Asked]:
    """A fresh simulated monitor; without root's rights the host has no tap devices for us.

    The real guest has no drivers for PCI devices, so with PCI the simulated one has none either.
    """
    with tempfile.TemporaryDirectory(prefix="vmm-") as name:
        devices = None if os.geteuid() == 0 else ()
        socket_path = Path(name, "s.socket")
        monitor = SimulatedMonitor(socket_path, enable_pci=pci, host_devices=devices)
        monitor.guest.boot_seconds = None if pci else 0
        with monitor:
            yield Asked(monitor.socket_path, host_names(_inner(name), programs))


def _inner(name: str) -> Path:
    folder = Path(name, "host")
    folder.mkdir()
    return folder


def wait_until_ready(socket_path: Path) -> None:
    """Return when somebody listens on the socket."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            connect(socket_path).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on {socket_path}"
            time.sleep(0.005)
