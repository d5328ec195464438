"""The simulated microVM: its phase, what has been configured, and the options it was made with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from generated_vmm.testing.guest import SimulatedGuest
from generated_vmm.testing.json.reader import Json
from generated_vmm.testing.resources import Resources
from generated_vmm.testing.wire.vsock import VsockBackend

PAYLOAD_LIMIT: Final = 51200
"""Bytes of a request body the monitor accepts, and of MMDS data it stores, by default."""


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
    version: str = "1.16.1"
    payload_limit: int = PAYLOAD_LIMIT
    mmds_size_limit: int = PAYLOAD_LIMIT
    enable_pci: bool = False
    check_files: bool = True
    host_devices: Collection[str] | None = None


@dataclass
class Machine:
    """The state behind one monitor process. `exit_code` is set when the process ends."""

    options: MonitorOptions
    guest: SimulatedGuest
    phase: Phase = Phase.NOT_STARTED
    exit_code: int | None = None
    resources: Resources = field(default_factory=Resources)
    boot_path_configured: bool = False
    has_kernel: bool = False
    has_metrics: bool = False
    reboot_pending: bool = False
    mmds_stored: bool = False
    mmds_content: Json = None
    hinting_command: int = 0
    hinting_runs: int = 0
    requested_size_mib: int = 0
    vsock_backend: VsockBackend | None = None

    @property
    def started(self) -> bool:
        """Whether the guest has been started or restored."""
        return self.phase is not Phase.NOT_STARTED

    def run_guest(self, phase: Phase) -> None:
        """The guest exists from now on, and its vsock answers."""
        self.phase = phase
        if self.vsock_backend is not None:
            self.vsock_backend.activate()

    def end(self, *, remove_files: bool) -> None:
        """Break what the guest had open; a real process leaves the socket of its vsock behind."""
        if self.vsock_backend is not None:
            self.vsock_backend.close(remove_file=remove_files)
