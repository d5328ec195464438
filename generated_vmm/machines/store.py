"""The folder of machines: its format, its records, and the lock of the process that controls it.

format.json                 the version of the format
control                     the lock
machines/ID/machine.json    the machine, with the operation that has begun
machines/ID/disks           its own disks
run/ID                      the folder of its monitor
jails                       the jails
snapshots/ID/snapshot.json  the snapshot, beside state, memory and disks; without it, the folder
                            is of one that is being made or removed
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from generated_vmm.machines.definition import OWN_DISKS, File, disks_of, files_of
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import identity, remove
from generated_vmm.machines.records import (
    FORMAT,
    Format,
    MachineRecord,
    Operation,
    SnapshotRecord,
    sync_folder,
    write,
)
from generated_vmm.misuse import require_replaced

ID: Final = re.compile(r"[0-9a-f]{12}")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
SNAPSHOT: Final = "snapshot.json"
UIDS: Final = range(0x70000000, 0x7FFFFFFF)
"""Distributions use none of these user ids: https://systemd.io/UIDS-GIDS/."""

Record = TypeVar("Record", bound=BaseModel)


class Records(Generic[Record]):
    """The records of one kind, in folders that are named by an id."""

    def __init__(self, folder: Path, name: str, kind: type[Record]) -> None:
        self._folder, self._name, self._kind = folder, name, kind
        self._known: dict[str, tuple[tuple[int, int], Record]] = {}

    def path(self, id: str) -> Path:
        """The folder with this id."""
        return self._folder / id

    def ids(self) -> list[str]:
        """The ids of all folders, also of those without a record; other names are ignored."""
        return sorted(name for name in os.listdir(self._folder) if ID.fullmatch(name))

    def get(self, id: str) -> Record | None:
        """A record; None if there is none. Raises `MachineError` if it cannot be read.

        A file that has not changed since is not read again.
        """
        path, known = f"{self._folder}/{id}/{self._name}", self._known.get(id)
        try:
            found = os.stat(path)
            version = (found.st_ino, found.st_mtime_ns)
            if known is None or known[0] != version:
                known = (version, self._kind.model_validate_json(Path(path).read_bytes()))
                self._known[id] = known
            return known[1]
        except FileNotFoundError:
            self._known.pop(id, None)
            return None
        except (OSError, ValidationError) as error:
            raise MachineError(f"{path} cannot be read: {type(error).__name__}") from error

    def readable(self, id: str) -> Record | None:
        """A record; None if there is none, or one that cannot be read."""
        try:
            return self.get(id)
        except MachineError:
            return None

    def all(self, *, strict: bool = False) -> list[Record]:
        """Every record that can be read; if `strict`, raises `MachineError` for another one."""
        found = map(self.get if strict else self.readable, self.ids())
        return [record for record in found if record is not None]

    def put(self, id: str, record: Record) -> None:
        """Stores a record. Raises OSError; then the old one stays."""
        write(self._folder / id / self._name, record)
        self._known.pop(id, None)

    def forget(self, id: str) -> None:
        """Removes a record; does nothing if there is none. Raises OSError."""
        with suppress(FileNotFoundError):
            (self._folder / id / self._name).unlink()
            sync_folder(self._folder / id)

    def begin(self, id: str) -> Path:
        """Creates a folder, which has no record yet. Raises OSError."""
        for folder in (self.path(id), self.path(id) / "disks"):
            folder.mkdir(mode=0o700)
            sync_folder(folder.parent)
        return self.path(id)

    def remove(self, id: str) -> None:
        """Removes a folder, with its record last."""
        folder = self.path(id)
        with suppress(FileNotFoundError):  # another caller was faster
            for path in list(folder.iterdir()):
                if path.name != self._name:
                    remove(path)
        remove(folder)


def free_uid(taken: Collection[int]) -> int:
    """A user id that none of the others has, and by chance no machine of another folder."""
    while (uid := secrets.choice(UIDS)) in taken:
        pass
    return uid


def make_own(folder: Path) -> None:
    """Creates a folder, unless it is there.

    Raises `MachineError` for one that belongs to another user, or that others may write to.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise MachineError(f"{folder} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MachineError(f"other users may write to {folder}")


class Store:
    """The records of all machines and snapshots in a folder, which is created if needed.

    Raises `MachineError` for a folder of another user or a later format, and for one that has
    other files.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require_replaced("folder", os.fspath(folder))
        self.folder = Path(os.path.abspath(folder))
        machines, snapshots = self.folder / "machines", self.folder / "snapshots"
        self.jails, self.run = self.folder / "jails", self.folder / "run"
        make_own(self.folder)
        formats = Records(self.folder.parent, "format.json", Format)
        if (found := formats.get(self.folder.name)) is None:
            if set(os.listdir(self.folder)) - {".format.json.new"}:
                raise MachineError(f"{self.folder} has other files: machines need a folder alone")
            formats.put(self.folder.name, Format())
        elif found.format != FORMAT:
            raise MachineError(f"{self.folder} has a format that this release cannot use: {found}")
        for path in (machines, snapshots, self.jails, self.run):
            make_own(path)
        self.machines = Records(machines, "machine.json", MachineRecord)
        self.snapshots = Records(snapshots, SNAPSHOT, SnapshotRecord)
        self._naming = threading.Lock()

    def take_control(self) -> int:
        """Takes the lock of the one process that controls the machines; it ends with the process.

        Returns its descriptor. Raises `MachineError` if another process has it.
        """
        descriptor = os.open(self.folder / "control", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            noted = os.pread(descriptor, 20, 0).decode(errors="replace")
            os.close(descriptor)
            owner = f"process {noted}" if noted else "another process"
            if noted == str(os.getpid()):
                owner = "another `Machines` of this process"
            raise MachineError(f"{owner} controls the machines of {self.folder}") from None
        except BaseException:
            os.close(descriptor)
            raise
        with suppress(OSError):  # a full disk: machines can be deleted then
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return descriptor

    def whole(self, *, strict: bool = False) -> list[MachineRecord]:
        """Every machine that is not being made or deleted; see `Records.all`."""
        return [record for record in self.machines.all(strict=strict) if record.is_whole]

    def begin_machine(self, record: MachineRecord) -> None:
        """Creates the folder of a machine that is being made, and chooses the user of its jail.

        Raises `MachineError` for an invalid name, and for one that another machine has, and
        OSError.
        """
        if NAME.fullmatch(record.name) is None:
            raise MachineError("a name has 1 to 63 letters, digits, dots, hyphens and underscores")
        with self._naming:
            others, jail = self.machines.all(strict=True), record.definition.jail
            if any(each.name == record.name for each in others):
                raise MachineError(f"there is a machine called {record.name}")
            uid = (jail.uid or free_uid({each.uid for each in others})) if jail else 0
            try:
                self.machines.begin(record.id)
                self.machines.put(record.id, record.model_copy(update={"uid": uid}))
            except BaseException:
                self.machines.remove(record.id)
                raise

    def operations(self) -> list[Operation]:
        """What runs now, and what was left half done."""
        return [each.operation for each in self.machines.all() if each.operation is not None]

    def tidy_snapshots(self) -> None:
        """Removes snapshots whose removal was not finished, and that no operation makes.

        Raises `MachineError` if an operation cannot be read.
        """
        found = self.snapshots.ids()  # first: a snapshot that begins now has an operation then
        begun = [each.operation for each in self.machines.all(strict=True)]
        made = {operation.target for operation in begun if operation is not None}
        for id in found:
            if id not in made and not os.path.lexists(self.snapshots.path(id) / SNAPSHOT):
                self.snapshots.remove(id)

    def remove_snapshot(self, id: str) -> None:
        """Removes a snapshot; it is gone with its record, which is removed first."""
        self.snapshots.forget(id)
        self.snapshots.remove(id)

    def tidy_disks(self, record: MachineRecord) -> None:
        """Removes the disks in a machine's folder that its definition does not name."""
        used = {disk.path for disk in disks_of(record.definition.configuration)}
        for path in (self.machines.path(record.id) / "disks").iterdir():
            if f"{OWN_DISKS}{path.name}" not in used:
                path.unlink()

    def source(self, record: MachineRecord, path: str) -> Path:
        """The file of a path in a machine's definition. ValueError for one outside its folder."""
        if not path.startswith("/") and ".." in Path(path).parts:
            raise ValueError(f"{path} is not in the machine's own folder")
        return self.machines.path(record.id) / path

    def users_of(self, path: Path, *, strict: bool = True) -> Iterator[tuple[MachineRecord, File]]:
        """The machines that use a file, under whatever path, with how they do.

        Raises `MachineError` if the files of a machine cannot be read and it is `strict`.
        """
        wanted = identity(path)
        for record in self.whole(strict=strict) if wanted is not None else ():
            for file in files_of(record.definition.configuration):
                if identity(self.machines.path(record.id) / file.path) == wanted:
                    yield record, file

    def require_free(self, record: MachineRecord, path: Path, *, writable: bool) -> None:
        """Raises ValueError if another machine writes to a disk, or uses one that is written to.

        For `writable`, raises `MachineError` if the disks of another machine cannot be read.
        """
        for other, file in self.users_of(path, strict=writable):
            if other.id != record.id and (writable or not file.is_read_only):
                does = "uses" if file.is_read_only else "writes to"
                raise ValueError(f"{other.name} {does} this disk: use a copy of it")
