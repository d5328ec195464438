"""The simulated microVM: its phase, what has been configured, and the options it was made with."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from generated_vmm.testing.bodies.shapes import fill
from generated_vmm.testing.description import CONFIG, VERSION, Json
from generated_vmm.testing.guest import SimulatedGuest
from generated_vmm.testing.outlets import Outlets
from generated_vmm.testing.wire.vsock import VsockBackend

PAYLOAD_LIMIT: Final = 51200
"""Bytes of a request body the monitor accepts, and of MMDS data it stores, by default."""

Members: TypeAlias = dict[str, Any]
"""A body, or what is kept of one, checked against the description."""


class Fault(Exception):
    """A refusal by the monitor's logic; the text becomes the `fault_message`."""

    def __init__(self, text: str, *, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Phase(Enum):
    """Where the microVM is in its life; the values are those of `GET /`."""

    NOT_STARTED = "Not started"
    RUNNING = "Running"
    PAUSED = "Paused"


@dataclass(frozen=True, kw_only=True)
class MonitorOptions:
    """What a monitor process gets on its command line, and what the simulation takes as given.

    `check_files`: host paths in request bodies must exist, as for a real monitor; without it every
    path is accepted. `host_devices`: names of the tap devices of the host; None accepts every name.
    """

    instance_id: str = "anonymous-instance"
    version: str = VERSION
    payload_limit: int = PAYLOAD_LIMIT
    mmds_size_limit: int = PAYLOAD_LIMIT
    enable_pci: bool = False
    check_files: bool = True
    host_devices: Collection[str] | None = None


def fresh_config() -> Members:
    """The members of GET /vm/config before anything has been configured."""
    config: Members = {key: [] if "items" in spec else None for key, spec in CONFIG.items()}
    config["boot-source"] = fill("BootSource", {"kernel_image_path": ""})
    smallest: Json = {"vcpu_count": 1, "mem_size_mib": 128}
    config["machine-config"] = fill("MachineConfiguration", smallest)
    return config


@dataclass
class Machine:
    """The state behind one monitor process. `exit_code` is set when the process ends.

    `config` has the members of GET /vm/config; `stored` what was PUT to paths without a rule.
    """

    options: MonitorOptions
    guest: SimulatedGuest
    outlets: Outlets
    phase: Phase = Phase.NOT_STARTED
    exit_code: int | None = None
    ended: bool = False
    config: Members = field(default_factory=fresh_config)
    stored: Members = field(default_factory=dict)
    boot_path_configured: bool = False
    has_kernel: bool = False
    reboot_pending: bool = False
    serial_path: str | None = None
    held_taps: set[str] = field(default_factory=set)
    mmds_stored: bool = False
    mmds_content: Json = None
    balloon_actual_mib: int = 0
    hinting_command: int = 0
    hinting_runs: int = 0
    requested_size_mib: int = 0
    vsock_backend: VsockBackend | None = None

    @property
    def started(self) -> bool:
        """Whether the guest has been started or restored."""
        return self.phase is not Phase.NOT_STARTED

    @property
    def memory_mib(self) -> int:
        """MiB the guest has or can get by hotplug."""
        hotplug = self.config.get("memory-hotplug") or {}
        size: int = self.config["machine-config"]["mem_size_mib"]
        return size + int(hotplug.get("total_size_mib", 0))

    def devices(self, kind: str) -> list[Members]:
        """The devices of one kind, to read and to change; none in a version without that kind."""
        found: list[Members] | None = self.config.get(kind)
        return [] if found is None else found

    def run_guest(self, phase: Phase) -> None:
        """The guest exists from now on, and its vsock answers."""
        self.phase = phase
        if self.vsock_backend is not None:
            self.vsock_backend.activate()
        self.settle()

    def settle(self) -> None:
        """A guest that runs does at once what is asked of it."""
        if self.phase is Phase.RUNNING:
            self.balloon_actual_mib = (self.config.get("balloon") or {}).get("amount_mib", 0)
            if self.reboot_pending:
                self.print_line("guest resets")
                self.outlets.metrics.count("i8042", "reset_count")
                self.exit_code = 0

    def print_line(self, text: str) -> None:
        """The guest prints a line on its serial console."""
        self.outlets.print_serial(text.encode() + b"\n")

    def hear(self, content: bytes) -> None:
        """The guest answers on its serial console to each byte that somebody types there."""
        if self.phase is Phase.RUNNING:
            for byte in content:
                self.outlets.metrics.count("uart", "read_count")
                self.outlets.print_serial(b"guest hears %c\n" % byte)

    def flush_metrics(self) -> None:
        """Write a line of metrics, in which each drive and network interface has its group."""
        drives = [f"block_{device['drive_id']}" for device in self.devices("drives")]
        interfaces = [f"net_{device['iface_id']}" for device in self.devices("network-interfaces")]
        self.outlets.flush_metrics([*drives, *interfaces])

    def end(self, *, remove_files: bool) -> None:
        """Break what the guest had open; a real process leaves the socket of its vsock behind."""
        if self.exit_code is not None and not self.ended:
            self.ended = True
            self.outlets.log("Vmm is stopping.")
            self.flush_metrics()
        if self.vsock_backend is not None:
            with contextlib.suppress(OSError):
                self.vsock_backend.close(remove_file=remove_files)
