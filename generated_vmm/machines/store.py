"""The folder of machines: its format, its names, and the locks of its machines.

    format.json                 the version of the format
    machines/ID/machine.json    the machine; without it, the folder is of one that is being made
    machines/ID/operation.json  the operation that has begun
    machines/ID/disks           its own disks
    run/ID                      the folder of its monitor
    control                     the lock of the process that controls the machines
    jails                       the jails
    snapshots/ID                snapshot.json, state, memory, disks
    snapshots/.ID.new           a snapshot that is being made

The process that carries out an operation holds a lock on the folder of the machine, which the
kernel releases when the process ends. An operation without a lock was left half done.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from generated_vmm.machines.definition import OWN_DISKS, disks_of
from generated_vmm.machines.errors import MachineBusy, MachineError
from generated_vmm.machines.files import identity, remove_folder
from generated_vmm.machines.records import (
    Format,
    MachineRecord,
    Operation,
    SnapshotRecord,
    sync_folder,
    write,
)

FORMAT: Final = 1
ID: Final = re.compile(r"[0-9a-f]{12}")
UNFINISHED: Final = re.compile(r"\.([0-9a-f]{12})\.(new|deleted)")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
FIRST_UID: Final = 0x70000000
"""Distributions use no ids from here on: https://systemd.io/UIDS-GIDS/."""

Record = TypeVar("Record", bound=BaseModel)


class Lease:
    """The lock of one machine; it is also released when the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Releases the lock."""
        os.close(self._descriptor)


class Store:
    """The records of all machines and snapshots in a folder, which is created if needed.

    Raises `MachineError` for a folder of another user or a later format.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(folder))
        self._cache: dict[Path, tuple[tuple[int, int], BaseModel]] = {}
        for path in (self.folder, self.machines, self.snapshots, self.jails, self.folder / "run"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.stat().st_uid != os.geteuid():
                raise MachineError(f"{path} belongs to another user")
            path.chmod(0o700)
        with self.locked():
            if self.format is None:
                write(self._format_path, Format(format=FORMAT))
        found = self.format
        if found is None or found.format != FORMAT:
            raise MachineError(f"{self.folder} has a format that this release cannot use: {found}")

    @property
    def machines(self) -> Path:
        """The folder with a folder for each machine."""
        return self.folder / "machines"

    @property
    def snapshots(self) -> Path:
        """The folder with a folder for each snapshot."""
        return self.folder / "snapshots"

    @property
    def jails(self) -> Path:
        """The folder with the jails."""
        return self.folder / "jails"

    @property
    def _format_path(self) -> Path:
        return self.folder / "format.json"

    @property
    def format(self) -> Format | None:
        """The format of the folder. Raises `MachineError` if it cannot be read."""
        return self._read(self._format_path, Format)

    def take_control(self) -> Lease:
        """Takes the lock of the one process that controls the machines.

        Raises `MachineError` if another process has it.
        """
        descriptor = os.open(self.folder / "control", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace")
            os.close(descriptor)
            raise MachineError(f"process {owner} controls the machines of {self.folder}") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return Lease(descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Waits for the lock of the folder; for the moment in which a name is taken."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def path(self, machine: str) -> Path:
        """The folder of a machine."""
        return self.machines / machine

    def ids(self) -> list[str]:
        """The ids of all machines, also of those that are being made; other names are ignored."""
        return sorted(name for name in os.listdir(self.machines) if ID.fullmatch(name))

    def record(self, machine: str) -> MachineRecord | None:
        """A machine; None if there is none. Raises `MachineError` if it cannot be read."""
        return self._read(self.path(machine) / "machine.json", MachineRecord)

    def operation(self, machine: str) -> Operation | None:
        """The operation of a machine that has begun, whether its process still runs or not."""
        return self._read(self.path(machine) / "operation.json", Operation)

    def write_record(self, record: MachineRecord) -> None:
        """Stores a machine. Raises OSError."""
        path = self.path(record.id) / "machine.json"
        write(path, record)
        self._cache.pop(path, None)

    def write_operation(self, operation: Operation) -> None:
        """Stores an operation. Raises OSError: then nothing may be done."""
        path = self.path(operation.machine) / "operation.json"
        write(path, operation)
        self._cache.pop(path, None)

    def clear_operation(self, machine: str) -> None:
        """Forgets an operation, which is finished or undone."""
        path = self.path(machine) / "operation.json"
        if path.exists():  # else the machine was deleted
            path.unlink()
            sync_folder(path.parent)

    def lease(self, machine: str, name: str) -> Lease:
        """Takes the lock of a machine. Raises `MachineBusy`, and `MachineError` if it is gone."""
        try:
            descriptor = os.open(self.path(machine), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise MachineError(f"{name} does not exist any more") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise MachineBusy(name, self.operation(machine)) from None
        if not os.fstat(descriptor).st_nlink:
            os.close(descriptor)
            raise MachineError(f"{name} does not exist any more")
        return Lease(descriptor)

    def begin_machine(self, operation: Operation) -> tuple[Operation, Lease]:
        """Creates the folder of a machine that is being made, with its operation and lock.

        Returns the operation with the user of its jail.

        Raises `MachineError` for an invalid name, and for one that another machine has.
        """
        if NAME.fullmatch(operation.name) is None:
            raise MachineError("a name has letters, digits, dots, hyphens and underscores")
        with self.locked():
            if operation.name in self._names():
                raise MachineError(f"there is a machine called {operation.name}")
            if operation.uid is None:
                operation = operation.model_copy(update={"uid": self._free_uid()})
            folder = self.path(operation.machine)
            folder.mkdir(mode=0o700)
            lease = self.lease(operation.machine, operation.name)
            try:
                (folder / "disks").mkdir(mode=0o700)
                self.write_operation(operation)
            except BaseException:
                lease.release()
                remove_folder(folder)
                raise
        return operation, lease

    def _names(self) -> Iterator[str]:
        for machine in self.ids():
            yield from (each.name for each in self._of(machine))

    def _of(self, machine: str) -> list[MachineRecord | Operation]:
        """The record of a machine and its operation, as far as there are any."""
        return [each for each in (self.record(machine), self.operation(machine)) if each]

    def remove_machine(self, machine: str) -> None:
        """Removes a machine: first its record, so that it is not offered, last its operation."""
        folder = self.path(machine)
        (folder / "machine.json").unlink(missing_ok=True)
        if not folder.exists():
            return
        sync_folder(folder)
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                remove_folder(Path(entry.path))
            elif entry.name != "operation.json":
                os.unlink(entry.path)
        remove_folder(folder)

    def tidy_disks(self, record: MachineRecord) -> None:
        """Removes the disks in a machine's folder that its definition does not name."""
        used = {disk.path for disk in disks_of(record.definition.configuration)}
        for entry in os.scandir(self.path(record.id) / "disks"):
            if f"{OWN_DISKS}{entry.name}" not in used:
                os.unlink(entry.path)

    def source(self, record: MachineRecord, path: str) -> Path:
        """The file of a path in a machine's definition. ValueError for one outside its folder."""
        if not path.startswith("/") and ".." in Path(path).parts:
            raise ValueError(f"{path} is not in the machine's own folder")
        return self.path(record.id) / path

    def require_free(self, record: MachineRecord, path: Path, *, writable: bool) -> None:
        """Raises ValueError if another machine writes to a disk, or uses one that is written to."""
        wanted = identity(path)
        others = (self.record(machine) for machine in self.ids() if machine != record.id)
        for other in filter(None, others):
            for disk in disks_of(other.definition.configuration):
                if (writable or not disk.is_read_only) and wanted == identity(
                    self.path(other.id) / disk.path
                ):
                    does = "uses" if disk.is_read_only else "writes to"
                    raise ValueError(f"{other.name} {does} this disk: use a copy of it")

    def _free_uid(self) -> int:
        """A user id for a jail that no machine has."""
        found = [each for machine in self.ids() for each in self._of(machine)]
        taken = {each.uid for each in found}
        return next(uid for uid in count(FIRST_UID) if uid not in taken)

    def snapshot_path(self, snapshot: str) -> Path:
        """The folder of a snapshot."""
        return self.snapshots / snapshot

    def new_snapshot_path(self, snapshot: str) -> Path:
        """The folder of a snapshot that is being made."""
        return self.snapshots / f".{snapshot}.new"

    def snapshot(self, snapshot: str) -> SnapshotRecord | None:
        """A snapshot; None if there is none. Raises `MachineError` if it cannot be read."""
        return self._read(self.snapshot_path(snapshot) / "snapshot.json", SnapshotRecord)

    def snapshot_ids(self) -> list[str]:
        """The ids of all whole snapshots; other names are ignored."""
        return sorted(name for name in os.listdir(self.snapshots) if ID.fullmatch(name))

    def finish_snapshot(self, record: SnapshotRecord) -> None:
        """Makes a written snapshot appear, as a whole."""
        new = self.new_snapshot_path(record.id)
        write(new / "snapshot.json", record)
        os.rename(new, self.snapshot_path(record.id))
        sync_folder(self.snapshots)

    def delete_snapshot(self, snapshot: str) -> None:
        """Makes a snapshot disappear as a whole, and removes its files."""
        gone = self.snapshots / f".{snapshot}.deleted"
        os.rename(self.snapshot_path(snapshot), gone)
        sync_folder(self.snapshots)
        remove_folder(gone)

    def tidy_snapshots(self) -> None:
        """Removes what a killed process has left of deleted snapshots, and of unrecorded ones."""
        wanted = {operation.target for operation in map(self.operation, self.ids()) if operation}
        for name in os.listdir(self.snapshots):
            found = UNFINISHED.fullmatch(name)
            if found is not None and found[1] not in wanted:
                remove_folder(self.snapshots / name)

    def _read(self, path: Path, kind: type[Record]) -> Record | None:
        """A stored record. A file that has not changed since is not read again."""
        try:
            found = path.stat()
            version = (found.st_ino, found.st_mtime_ns)
            known = self._cache.get(path)
            if known is not None and known[0] == version and isinstance(known[1], kind):
                return known[1]
            record = kind.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            self._cache.pop(path, None)
            return None
        except (OSError, ValidationError) as error:
            raise MachineError(f"{path} cannot be read: {type(error).__name__}") from error
        self._cache[path] = (version, record)
        return record
