"""What a machine is made of, and what is stored of machines, operations and snapshots."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from generated_vmm import FullVmConfiguration
from generated_vmm.errors import VmmError

OWN_DISKS: Final = "disks/"
"""Paths that begin so are relative: they name files in the machine's own folder, or in its jail."""
BOOT_FILES: Final = ("kernel_image_path", "initrd_path")
HostPath: TypeAlias = str | os.PathLike[str]
RestartPolicy: TypeAlias = Literal["never", "on-failure", "always"]
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 300.0
LONG_RUN_SECONDS: Final = 60.0
"""After a run of this length the pauses before restarts begin anew."""
Kind: TypeAlias = Literal[
    "create", "start", "pause", "resume", "snapshot", "restore", "clone", "edit", "stop", "delete"
]
What: TypeAlias = Literal["finished", "undone", "ended", "lost", "started", "failed"]
State: TypeAlias = Literal["Ended", "Paused", "Running"]


class Frozen(BaseModel):
    """A value that is compared by its members and never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Jail(Frozen):
    """The jail of a machine; needs root. The members are options of `JailedMonitor`.

    If `uid` is None, the machine gets a user id that no other machine of the folder has.
    """

    uid: int | None = Field(default=None, ge=1)
    netns: str | None = None
    cgroups: Mapping[str, str] = {}
    cgroup_version: Literal[1, 2] = 2
    parent_cgroup: str | None = None
    resource_limits: Mapping[Literal["fsize", "no-file"], int] = {}
    new_pid_ns: bool = False


class TapDevice(Frozen):
    """A tap device that exists while the machine runs; see `process.network.Tap`.

    `address` is the host's address on it, with its prefix.
    """

    name: str
    address: str | None = None
    bridge: str | None = None
    nat: bool = False


Copied: TypeAlias = Annotated[
    FullVmConfiguration, AfterValidator(lambda given: given.model_copy(deep=True))
]
"""A copy, so that later changes of the caller's model do not change a definition."""


class Definition(Frozen):
    """A machine: its devices, its jail, and when it is started.

    `configuration` has kernel, drives, network interfaces, vsock and the other devices, as the
    monitor shows them, and also `cpu_config` and `logger`, which it does not show. Without a root
    device and an initrd, most kernels panic: nothing reports it, but `start` emits a RuntimeWarning
    if there are disks and `boot_args` has no `root=`. `metadata` is the document of
    MMDS, which a guest reads only with `mmds_config`. The machine creates its `taps`. With
    `autostart` it starts with the host; machines with a smaller `order` start first. `restart` says
    what happens after its monitor has ended: nothing, a restart unless the exit status was 0, or a
    restart always. Only `reconcile`, called about every second, starts machines by `autostart` and
    `restart`. `agent` is the vsock port of the guest's agent (`generated_vmm.guest`); None if it
    has none.
    """

    configuration: Copied = Field(default_factory=FullVmConfiguration)
    metadata: dict[str, JsonValue] | None = None
    enable_pci: bool = False
    jail: Jail | None = None
    taps: tuple[TapDevice, ...] = ()
    autostart: bool = False
    order: int = 0
    restart: RestartPolicy = "never"
    agent: int | None = Field(default=None, ge=1, strict=True)

    def replace(self, **members: object) -> Definition:
        """The definition with other members. Raises `pydantic.ValidationError`."""
        return Definition.model_validate({**dict(self), **members})

    @property
    def own_disks(self) -> dict[str, str]:
        """The disks in the machine's folder, or in that of its snapshot: their paths by name."""
        disks = disks_of(self.configuration)
        return {disk.id: disk.path for disk in disks if not disk.path.startswith("/")}

    @property
    def can_boot(self) -> bool:
        """Whether there is a kernel."""
        source = self.configuration.boot_source
        return source is not None and bool(source.kernel_image_path)


class File(NamedTuple):
    """A file that a monitor opens at its start, and the member of a device that names it.

    `id` is that of the drive or persistent memory; the kernel and the initial RAM disk have none.
    """

    id: str
    device: BaseModel
    member: str
    is_read_only: bool

    @property
    def path(self) -> str:
        """The file's path; relative if it is the machine's own."""
        return getattr(self.device, self.member) or ""


def files_of(configuration: FullVmConfiguration) -> list[File]:
    """All files that a monitor opens at its start."""
    source = configuration.boot_source
    found = [File("", source, name, True) for name in BOOT_FILES] if source else []
    for drive in configuration.drives or []:
        found.append(File(drive.drive_id, drive, "path_on_host", bool(drive.is_read_only)))
    for pmem in configuration.pmem or []:
        found.append(File(pmem.id, pmem, "path_on_host", bool(pmem.read_only)))
    return [file for file in found if file.path]


def disks_of(configuration: FullVmConfiguration) -> list[File]:
    """The files of drives and of persistent memory."""
    return [file for file in files_of(configuration) if file.id]


def new_id() -> str:
    """The id of a machine, a snapshot or an operation: twelve hexadecimal digits."""
    return secrets.token_hex(6)


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


def boot_id() -> str:
    """The id of this boot of the host; empty where the kernel does not tell it."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


class Operation(Frozen):
    """An operation that has begun: what is done, by whom, since when, and its present step.

    `machine` and `name` are those of the machine that it changes or makes. `target` is the id of
    the snapshot or machine that it makes. If `is_done`, its machine is stored as it will be.
    """

    id: str = Field(default_factory=new_id)
    kind: Kind
    machine: str
    name: str
    by: str = ""
    since: AwareDatetime = Field(default_factory=now)
    step: str = "begins"
    target: str = ""
    target_name: str = ""
    is_done: bool = False

    @property
    def in_words(self) -> str:
        """The operation as a phrase, for messages."""
        target = f" {self.target_name}" if self.target_name else ""
        by = f" by {self.by}" if self.by else ""
        return f"{self.kind}{target}{by} since {self.since:%H:%M:%S} UTC ({self.step})"


def creation(kind: Kind, name: str, by: str) -> Operation:
    """An operation that makes a machine with a new id."""
    id = new_id()
    return Operation(kind=kind, machine=id, name=name, by=by, target=id)


class MachineError(VmmError):
    """An operation that is not possible; nothing was changed."""


class MachineBusy(MachineError):
    """Another operation of the machine runs, in this process or another one.

    `busy_with` is None if `reconcile` looks at the machine for long.
    """

    def __init__(self, name: str, busy_with: Operation | None) -> None:
        what = busy_with.in_words if busy_with else "reconcile looks at it"
        super().__init__(f"{name} is busy: {what}")
        self.busy_with = busy_with


class End(Frozen):
    """How a monitor has ended.

    `returncode` is its exit status as in `subprocess`; None if nobody saw it end, for example
    because the host was restarted. `log` has the last lines of its log.
    """

    at: AwareDatetime = Field(default_factory=now)
    returncode: int | None = None
    log: tuple[str, ...] = ()

    @property
    def how(self) -> Literal["ended", "lost"]:
        """`lost` if nobody saw it end."""
        return "lost" if self.returncode is None else "ended"


class MachineRecord(Frozen):
    """A machine as it is stored.

    `should_be` is the state in which operations have left it. `started_at` is None unless its
    monitor was started and has not been seen to end; `end` is its last end, which `reconcile` has
    reported if `is_told`. `uid` is the user of its jail, 0 without a jail. `failures` counts the
    restarts since the last long run, and `retry_at` is the moment of the next one. `agent_error`
    says why the guest's agent could not do its part when the machine was resumed last; empty if it
    could. `boot` is the boot of the host in which it was made, started or reconciled last.
    `operation` runs, or was left half done.
    """

    id: str
    name: str
    definition: Definition
    created_at: AwareDatetime = Field(default_factory=now)
    should_be: State = "Ended"
    uid: int = 0
    started_at: AwareDatetime | None = None
    end: End | None = None
    is_told: bool = True
    failures: int = 0
    retry_at: AwareDatetime | None = None
    agent_error: str = ""
    boot: str = Field(default_factory=boot_id)
    operation: Operation | None = None

    @property
    def is_made(self) -> bool:
        """Whether the operation in its record does not make the machine, or has made it."""
        begun = self.operation
        return begun is None or begun.is_done or begun.target != self.id

    @property
    def is_whole(self) -> bool:
        """Whether the machine is neither being made nor being deleted."""
        return self.is_made and (self.operation is None or self.operation.kind != "delete")

    @property
    def is_due(self) -> bool:
        """Whether a machine that does not run should be started now.

        A moment after the longest pause is one of a clock that was set back since.
        """
        if self.should_be != "Running" or self.started_at is not None:
            return False
        pause = (self.retry_at - now()).total_seconds() if self.retry_at is not None else 0.0
        return not 0 < pause <= LONGEST_PAUSE_SECONDS

    def after(self, end: End) -> dict[str, object]:
        """The members of the record after its monitor has ended by itself."""
        began, policy = self.started_at, self.definition.restart
        ran = (end.at - began).total_seconds() if began is not None else 0.0
        failures = 0 if ran >= LONG_RUN_SECONDS else self.failures
        again = policy == "always" or (policy == "on-failure" and end.returncode != 0)
        again = again and self.should_be != "Ended"
        return {
            "started_at": None,
            "end": end,
            "is_told": False,
            "should_be": "Running" if again else "Ended",
            "failures": failures,
            "retry_at": next_try(failures, end.at) if again else None,
        }


def next_try(failures: int, at: datetime) -> datetime:
    """When a machine is restarted: after a second, and after twice the time at each failure."""
    pause = min(FIRST_PAUSE_SECONDS * 2 ** min(failures, 20), LONGEST_PAUSE_SECONDS)
    return at + timedelta(seconds=pause)


class SnapshotRecord(Frozen):
    """A snapshot as it is stored.

    `definition` is that of its machine at the time; its own disks have the same paths in the folder
    of the snapshot. If it has an agent, the guest stood still, so that a copy gets an identity
    before it runs.
    """

    id: str
    name: str
    machine: str
    machine_name: str
    definition: Definition
    created_at: AwareDatetime = Field(default_factory=now)


class Report(Frozen):
    """What `reconcile` has found or done with a machine.

    `finished` and `undone` are operations that were left half done, `ended` and `lost` monitors
    (`end`), `started` machines that should run. `failed` is what is tried again at the next
    `reconcile`, with the reason in `why`.
    """

    what: What
    machine: str
    name: str
    operation: Operation | None = None
    end: End | None = None
    why: str = ""
