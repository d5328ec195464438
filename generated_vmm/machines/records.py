"""What is stored of machines, operations and snapshots, and the errors that tell of it."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import AwareDatetime, Field

from generated_vmm.errors import VmmError
from generated_vmm.machines.definition import Definition, Frozen

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
        is_deleted = self.operation is not None and self.operation.kind == "delete"
        return self.is_made and not is_deleted

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
    of the snapshot. `is_held` says that the guest's agent let it stand still, so that a copy can
    get an identity before it runs.
    """

    id: str
    name: str
    machine: str
    machine_name: str
    definition: Definition
    is_held: bool = False
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
