"""The folder of machines: its format, records and files, and the lock of who controls it.

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

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from generated_vmm.machines import records
from generated_vmm.machines.records import MachineError, MachineRecord
from generated_vmm.misuse import require_replaced
from generated_vmm.process.copying import copy_data, regular
from generated_vmm.process.keeper.kernel import Descriptor

FORMAT: Final = '{"format":3}'
ID: Final = re.compile(r"[0-9a-f]{12}")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
SNAPSHOT: Final = "snapshot.json"
UIDS: Final = range(0x70000000, 0x7FFFFFFF)
"""Distributions use none of these user ids: https://systemd.io/UIDS-GIDS/."""

MOST_ATTEMPTS: Final = 100
"""To remove a folder in which another process works, too."""

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

    def find(self, id: str) -> Record | None:
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

    def get(self, id: str) -> Record:
        """A record. Raises `MachineError` if there is none, or one that cannot be read."""
        if ID.fullmatch(id) is None or (found := self.find(id)) is None:  # else it may be a path
            kind = self._name.removesuffix(".json")
            raise MachineError(f"no {kind} has the id {id!r}, or not any more; `find` takes a name")
        return found

    def all(self) -> list[Record]:
        """Every record that can be read."""
        found = list[Record]()
        for id in self.ids():
            with suppress(MachineError):
                found.append(self.get(id))
        return found

    def put(self, id: str, record: Record) -> None:
        """Stores a record. Raises OSError; then the old one stays."""
        content = record.model_dump_json(by_alias=True, exclude_none=True)
        write(self._folder / id / self._name, content)
        self._known.pop(id, None)

    def remove(self, id: str) -> None:
        """Removes a folder, with its record first. Raises OSError."""
        for path in (self._folder / id / self._name, self._folder / id):
            remove(path)


def free_uid(taken: Collection[int]) -> int:
    """A user id that none of the others has, and by chance no machine of another folder."""
    while (uid := secrets.choice(UIDS)) in taken:
        pass
    return uid


def make_own(folder: Path) -> Path:
    """Creates a folder, unless it is there.

    Raises `MachineError` for one that belongs to another user, or that others may write to.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MachineError(f"{folder} belongs to another user, or other users may write to it")
    return folder


class Store:
    """The records of all machines and snapshots in a folder, which is created if needed.

    Raises `MachineError` for a folder of another user or another format, and for one that has
    other files.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require_replaced("folder", os.fspath(folder))
        self.folder = make_own(Path(os.path.abspath(folder)))
        format = self.folder / "format.json"
        if not format.exists():
            if set(os.listdir(self.folder)) - {".format.json.new"}:
                raise MachineError(f"{self.folder} has other files: machines need a folder alone")
            write(format, FORMAT)
        elif format.read_text() != FORMAT:
            raise MachineError(f"{self.folder} has a format that this release cannot use")
        machines, snapshots, self.jails, self.run = (
            make_own(self.folder / name) for name in ("machines", "snapshots", "jails", "run")
        )
        self.machines = Records(machines, "machine.json", MachineRecord)
        self.snapshots = Records(snapshots, SNAPSHOT, records.SnapshotRecord)
        self._naming = threading.Lock()

    def take_control(self) -> Descriptor:
        """Takes the lock of the one process that controls the machines; it ends with the process.

        Raises `MachineError` if another process has it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        lock = Descriptor(os.open, self.folder / "control", flags, 0o600)
        try:
            fcntl.flock(lock.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = "another process, or another `Machines` of this one,"
            raise MachineError(f"{other} controls the machines of {self.folder}") from None
        return lock

    def begin_machine(self, operation: records.Operation, definition: records.Definition) -> None:
        """Creates the folder of a machine that is being made, and chooses the user of its jail.

        Raises `MachineError` for an invalid name, and for one that another machine has, and
        OSError.
        """
        id, name, jail = operation.machine, operation.name, definition.jail
        if NAME.fullmatch(name) is None:
            raise MachineError("a name has 1 to 63 letters, digits, dots, hyphens and underscores")
        with self._naming:
            others = self.machines.all()
            if any(each.name == name for each in others):
                raise MachineError(f"there is a machine called {name}")
            uid = (jail.uid or free_uid({each.uid for each in others})) if jail else 0
            made = MachineRecord(
                id=id, name=name, definition=definition, uid=uid, operation=operation
            )
            try:
                make_folder(self.machines.path(id))
                self.machines.put(id, made)
            except BaseException:
                self.machines.remove(id)
                raise

    def tidy_snapshots(self) -> None:
        """Removes snapshots whose removal was not finished."""
        found = self.snapshots.ids()
        made = {one.operation.target for one in self.machines.all() if one.operation}
        for id in found:
            if id not in made and not os.path.lexists(self.snapshots.path(id) / SNAPSHOT):
                self.snapshots.remove(id)

    def tidy_disks(self, record: MachineRecord) -> None:
        """Removes the disks in a machine's folder that its definition does not name."""
        folder = self.machines.path(record.id)
        used = {
            identity(folder / disk.path)
            for disk in records.disks_of(record.definition.configuration)
        }
        for path in (folder / "disks").iterdir():
            if identity(path) not in used:
                path.unlink()

    def users_of(self, path: Path) -> list[MachineRecord]:
        """The machines that use a file, under whatever path; none if there is no such file.

        Raises `MachineError` if the record of a machine cannot be read.
        """

        def uses(record: MachineRecord) -> bool:
            files = records.files_of(record.definition.configuration)
            folder = self.machines.path(record.id)
            return any(identity(folder / file.path) == wanted for file in files)

        wanted = identity(path)
        found = map(self.machines.find, self.machines.ids() if wanted else ())
        return [record for record in found if record is not None and uses(record)]


def identity(path: Path) -> tuple[int, int] | None:
    """The file that a path leads to: its file system and number; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def write(path: Path, content: str) -> None:
    """Stores a record: afterwards the file has the old or the new one, also after a power cut.

    Raises OSError, for example if the disk is full; the old record stays.
    """
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
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


def make_folder(folder: Path) -> Path:
    """Creates a folder with one for disks. Raises OSError."""
    for path in (folder, folder / "disks"):
        path.mkdir(mode=0o700)
        sync_folder(path.parent)
    return folder


def copy_file(source: Path, target: Path) -> None:
    """Copies a file to a new one, which only its owner may read, and waits for the disk.

    Raises ValueError for a source that is no regular file, and OSError.
    """
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with regular(source) as origin, open(os.open(target, new, 0o600), "wb") as copy:
        for _ in copy_data(origin.number, copy.fileno()):
            pass
        os.fsync(copy.fileno())
    sync_folder(target.parent)


def grow_file(path: Path, size: int) -> None:
    """Makes a disk `size` bytes long, with zeros that use no blocks.

    Raises ValueError and OSError.
    """
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
        found = os.fstat(file.fileno())
        if size < found.st_size or size % 512:
            raise ValueError(f"a disk of {found.st_size} bytes cannot grow to {size} bytes")
        file.truncate(size)
        os.fsync(file.fileno())


def take_over(path: Path, target: Path) -> None:
    """Moves a new file that a jailed user has written, and makes this process's user its owner.

    Raises ValueError for anything but a regular file with one name, and OSError.
    """
    with regular(path, os.O_NOFOLLOW) as file:
        if os.fstat(file.number).st_nlink > 1:
            raise ValueError(f"{path} is a file of another name, too")
        os.fchown(file.number, os.geteuid(), os.getegid())
        os.fchmod(file.number, 0o600)
        os.fsync(file.number)
    os.rename(path, target)
    sync_folder(target.parent)


def remove(path: Path) -> None:
    """Removes a file, or a folder with everything in it; does nothing if there is none."""
    for left in reversed(range(MOST_ATTEMPTS)):
        if not os.path.lexists(path):
            return
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            sync_folder(path.parent)
        except OSError as error:  # what does the work of a killed keeper removes and moves files
            if not left or error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise
