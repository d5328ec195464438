"""What is stored of machines, operations and snapshots, and how it is written."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, Field

from generated_vmm.machines.definition import Definition, Frozen

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
Kind: TypeAlias = Literal[
    "create", "start", "pause", "resume", "snapshot", "restore", "clone", "edit", "stop", "delete"
]
What: TypeAlias = Literal["finished", "undone", "ended", "lost", "started", "failed"]
State: TypeAlias = Literal["Ended", "Paused", "Running"]
FORMAT: Final = 1


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


class End(Frozen):
    """How a monitor has ended.

    `lost`: nobody saw it end, for example because the host was restarted. Else `returncode` is its
    exit status as in `subprocess`. `log` has the last lines of its log.
    """

    at: AwareDatetime = Field(default_factory=now)
    how: Literal["ended", "lost"]
    returncode: int | None = None
    log: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether it ended in another way than with exit status 0."""
        return self.returncode != 0


class MachineRecord(Frozen):
    """A machine as it is stored.

    `should_be` is the state in which operations have left it. `started_at` is None unless its
    monitor was started and has not been seen to end; `end` is its last end, which `reconcile` has
    reported if `is_told`. `uid` is the user of its jail, 0 without a jail. `failures` counts the
    ends since the last long run, and `retry_at` is the moment of the next restart. `agent_error`
    says why the guest's agent could not do its part when the machine was resumed last; empty if it
    could. `boot` is the boot of the host in which it was made, started or reconciled last.
    `operation` runs, or was left half done. A machine that is being made or deleted is not
    `is_whole`.
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
    is_whole: bool = True

    def begun(self, kind: Kind, by: str, target: str = "", target_name: str = "") -> Operation:
        """An operation that changes the machine, or copies it."""
        return Operation(
            kind=kind,
            machine=self.id,
            name=self.name,
            by=by,
            target=target,
            target_name=target_name,
        )


class SnapshotRecord(Frozen):
    """A snapshot as it is stored.

    `definition` is that of its machine at the time, and `disks` are the paths of the copies of its
    disks in the folder of the snapshot, by the id of the drive or persistent memory. `is_held` says
    that the guest's agent let it stand still, so that a copy can get an identity before it runs.
    """

    id: str
    name: str
    machine: str
    machine_name: str
    definition: Definition
    disks: dict[str, str] = Field(default_factory=dict)
    is_held: bool = False
    created_at: AwareDatetime = Field(default_factory=now)


class Format(Frozen):
    """The format of a folder."""

    format: int = FORMAT


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


def write(path: Path, record: BaseModel) -> None:
    """Stores a record: afterwards the file has the old or the new one, also after a power cut.

    Raises OSError, for example if the disk is full; the old record stays.
    """
    new = path.with_name(f".{path.name}.new")
    content = record.model_dump_json(by_alias=True, exclude_none=True).encode()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    os.rename(new, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Waits until new, renamed and removed names of a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
