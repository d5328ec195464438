"""The simulated microVM: its phase, its configuration, and its options."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.testing.bodies import BodyReader
from generated_vmm.testing.description import CURRENT, Description, Json
from generated_vmm.testing.guest import SimulatedGuest, VsockBackend
from generated_vmm.testing.outlets import Outlets

MIB: Final = 1 << 20
BEFORE_START: Final = "The requested operation is not supported before starting the microVM."
AFTER_START: Final = "The requested operation is not supported after starting the microVM."
PAYLOAD_LIMIT: Final = 51200
"""The default limit of a request body, and of the MMDS data store, in bytes."""

Members: TypeAlias = dict[str, Any]
"""A body, or a stored one, checked against the description."""


class Fault(Exception):
    """A refusal by the monitor's logic; the text becomes the `fault_message`."""

    def __init__(self, text: str, *, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Phase(Enum):
    """The state of the microVM; the values are those of `GET /`."""

    NOT_STARTED = "Not started"
    RUNNING = "Running"
    PAUSED = "Paused"


@dataclass(frozen=True, kw_only=True)
class MonitorOptions:
    """The options of a monitor's command line, and the assumptions of the simulation."""

    instance_id: str = "anonymous-instance"
    version: str = CURRENT.version
    payload_limit: int = PAYLOAD_LIMIT
    mmds_size_limit: int = PAYLOAD_LIMIT
    enable_pci: bool = False
    check_files: bool = True
    host_devices: Collection[str] | None = None
    description: Description = CURRENT


@dataclass
class Machine:
    """The state behind one monitor process. `exit_code` is set when the process ends.

    `resources` has the bodies that were PUT, by path without id: members, or members by id.
    """

    options: MonitorOptions
    guest: SimulatedGuest
    outlets: Outlets
    phase: Phase = Phase.NOT_STARTED
    exit_code: int | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    is_configured: bool = False
    has_kernel: bool = False
    drivers_up: bool = False
    disks: dict[str, Descriptor] = field(default_factory=dict)
    held_taps: set[str] = field(default_factory=set)
    balloon_actual_mib: int = 0
    hinting_command: int = 0
    hinting_runs: int = 0
    plugged_mib: int = 0
    vsock_backend: VsockBackend | None = None
    _reset_pending: bool = False
    _boot_pending: bool = False
    _boot_timer: threading.Timer | None = None
    _has_ended: bool = False

    def __post_init__(self) -> None:
        self.bodies = BodyReader(self.options.description)
        self._configure("/boot-source", kernel_image_path="")
        self._configure("/machine-config", vcpu_count=1, mem_size_mib=128)

    def _configure(self, path: str, **known: Json) -> None:
        operation = self.options.description.resources.get(path)
        if operation is not None and self.options.description.fields(operation.body):
            self.resources[path] = self.bodies.blank(operation.body or "", **known)

    @property
    def started(self) -> bool:
        """Whether the guest has been started or restored."""
        return self.phase is not Phase.NOT_STARTED

    @property
    def memory_mib(self) -> int:
        """The guest's memory in MiB, with hotpluggable memory."""
        size: int = self.value("/machine-config", "mem_size_mib", 0)
        return size + int(self.value("/hotplug/memory", "total_size_mib", 0))

    def value(self, path: str, name: str, default: Any = None) -> Any:
        """One member of a resource; the default if it is absent or null."""
        found = (self.resources.get(path) or {}).get(name)
        return default if found is None else found

    def devices(self, path: str) -> dict[str, Members]:
        """The devices below a path such as `/drives` by id, to read and to change."""
        devices: dict[str, Members] = self.resources.setdefault(path, {})
        return devices

    def config(self) -> dict[str, Json]:
        """The response to GET /vm/config; null for missing parts."""
        shown: dict[str, Json] = {}
        for member, (path, is_list) in self.options.description.shown.items():
            found = self.shown(path)
            shown[member] = list((found or {}).values()) if is_list else found
        return shown

    def shown(self, path: str) -> Any:
        """A resource without the members that the monitor shows never, or only if they are set."""
        found = self.resources.get(path)
        if not isinstance(found, dict):
            return found
        hidden = {"vsock_id"} | ({"cpu_template"} if found.get("cpu_template") is None else set())
        return {name: found[name] for name in found if name not in hidden}

    def start(self) -> None:
        """Boot the guest; its drivers are up after its `boot_seconds`."""
        self.flush_metrics()
        self.phase = Phase.RUNNING
        for line in ("guest is up", self._boot_args):
            self.print_line(line)
        self._boot()

    def restore(self, phase: Phase, *, drivers_up: bool) -> None:
        """Continue the guest from a snapshot."""
        self.phase = phase
        if drivers_up:
            self._activate()
        else:
            self._boot()

    def _boot(self) -> None:
        seconds = self.guest.boot_seconds
        if seconds is not None and seconds <= 0:
            self.finish_boot()
        elif seconds is not None:
            self._boot_timer = threading.Timer(seconds, self.finish_boot)
            self._boot_timer.daemon = True
            self._boot_timer.start()

    def finish_boot(self) -> None:
        """Bring the guest's drivers up; those of a paused guest when it is resumed."""
        self._boot_pending = self.phase is Phase.PAUSED
        if self.phase is Phase.RUNNING and not self.drivers_up:
            for line in ("guest serves", *self.guest.boot_messages):
                self.print_line(line)
            self._activate()

    def _activate(self) -> None:
        self.drivers_up = True
        if self.vsock_backend is not None:
            self.vsock_backend.activate()
        self.settle()

    def settle(self) -> None:
        """A running guest reacts immediately."""
        if self.phase is not Phase.RUNNING:
            return
        if self._boot_pending:
            self.finish_boot()
        if self.drivers_up:
            self.balloon_actual_mib = self.value("/balloon", "amount_mib", 0)
        if self._reset_pending and self.exit_code is None:
            self.print_line("guest resets")
            self.outlets.metrics.count("i8042", "reset_count")
            self.exit_code = 0

    def reset(self) -> None:
        """Press Ctrl+Alt+Del: the guest resets, which ends the process."""
        self._reset_pending = True

    @property
    def _boot_args(self) -> str:
        found: str = self.value("/boot-source", "boot_args", "")
        return found

    def print_line(self, text: str) -> None:
        """Print a line on the guest's serial console."""
        self._print(text.encode())

    def _print(self, line: bytes) -> None:
        if "console=ttyS0" in self._boot_args:  # without, the guest writes to no serial port
            self.outlets.print_serial(line + b"\n")

    def hear(self, content: bytes) -> None:
        """Echo typed bytes on the guest's serial console."""
        if self.phase is Phase.RUNNING:
            for byte in content:
                self.outlets.metrics.count("uart", "read_count")
                self._print(b"guest hears %c" % byte)

    def flush_metrics(self) -> None:
        """Write a line of metrics, with a group for each drive and network interface."""
        drives = [f"block_{name}" for name in self.devices("/drives")]
        self.outlets.flush_metrics(
            [*drives, *(f"net_{name}" for name in self.devices("/network-interfaces"))]
        )

    def end(self, *, remove_files: bool) -> None:
        """Break the guest's connections; like a real process, leave the vsock's socket behind."""
        self.disks.clear()
        if self._boot_timer is not None:
            self._boot_timer.cancel()
        if self.exit_code is not None and not self._has_ended:
            self._has_ended = True
            self.outlets.log("Vmm is stopping.")
            self.flush_metrics()
        if self.vsock_backend is not None:
            with contextlib.suppress(OSError):
                self.vsock_backend.close(remove_file=remove_files)
