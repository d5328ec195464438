"""Kernels and disks of this host: their files, users, and deletion."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

from generated_vmm.machines import MachineError

Place: TypeAlias = Literal["kernels", "disks"]
Users: TypeAlias = Callable[[Path], Sequence[str]]

ELF: Final = b"\x7fELF\x02"
SECTOR: Final = 512
MOST_STRAYS: Final = 20
SHELVES: Final[Mapping[Place, str]] = {"kernels": "Kernels", "disks": "Disks"}


@dataclass(frozen=True, slots=True)
class Thing:
    """A kernel or a disk; `taken` are the bytes that it uses on disk.

    `id` names the file itself, whatever other file has its name. `fault` is why it is not known who
    uses it.
    """

    id: str
    name: str
    path: Path
    taken: int
    made: datetime
    users: Sequence[str]
    is_given: bool = False
    fault: str = ""

    @property
    def may_go(self) -> bool:
        """Whether it can be deleted: no machine uses it, and no setting names it."""
        return not (self.users or self.is_given or self.fault)


NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(slots=True, kw_only=True)
class Arriving:
    """A file that is being received into a folder; its request has `whole` bytes, if it says so.

    `name` is that of the file, once it is known; `by` and `since` say who sends it, since when.
    """

    place: Place
    path: Path
    file: BinaryIO
    by: str
    whole: int
    name: str = ""
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def received(self) -> int:
        """The bytes that are there."""
        return os.fstat(self.file.fileno()).st_size

    def accept(self) -> None:
        """Gives the whole file its name. Raises ValueError for one that is no kernel or disk."""
        if NAME.fullmatch(self.name) is None:
            raise ValueError("A name has letters, digits, dots, hyphens and underscores.")
        size = self.file.tell()
        self.file.flush()
        os.fsync(self.file.fileno())
        if self.place == "kernels" and os.pread(self.file.fileno(), len(ELF), 0) != ELF:
            raise ValueError("This is no kernel: an uncompressed 64-bit ELF file (vmlinux).")
        if self.place == "disks" and (size == 0 or size % SECTOR):
            raise ValueError("This is no disk: its size is no multiple of 512 bytes.")
        try:
            os.link(self.path, self.path.with_name(self.name))
        except FileExistsError:
            raise ValueError(f"There is a file called {self.name}.") from None


class Library:
    """The folders of kernels and disks; machines use no other files than these and their own.

    Files that a setting names (`given`) may be read anywhere.
    """

    def __init__(self, images: Path, given: Mapping[Place, Sequence[Path]]) -> None:
        self.folders: Mapping[Place, Path] = {
            place: images / place for place in ("kernels", "disks")
        }
        self._given, self._images = given, images
        self.arriving: list[Arriving] = []
        """What is being received now."""
        self.arrived = 0
        """How many files were received."""
        for folder in self.folders.values():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in folder.glob(".*.part"):
                _remove_abandoned(path)

    @property
    def files(self) -> list[Path]:
        """The folders and files that machines may use."""
        given = (path for paths in self._given.values() for path in paths)
        return [*self.folders.values(), *given]

    @property
    def strays(self) -> list[str]:
        """The names of files beside the folders, which nothing finds there; some of many."""
        known = self.files
        lost = (path for path in _files_in(self._images) if path not in known)
        return sorted(printable(path.name) for path in islice(lost, MOST_STRAYS))

    def paths(self, place: Place) -> Iterator[Path]:
        """All files to choose from, without those whose names are no text."""
        return (path for path in self._all(place) if printable(path.name) == path.name)

    def _all(self, place: Place) -> Iterator[Path]:
        yield from sorted(_files_in(self.folders[place]))
        yield from (path for path in self._given.get(place, ()) if path.is_file())

    def things(self, place: Place, users: Users) -> list[Thing]:
        """The files, the newest first; one that is removed meanwhile is left out."""
        found: list[Thing] = []
        for path in self._all(place):
            with suppress(OSError):
                found.append(self._thing(path, place, users))
        return sorted(found, key=lambda thing: thing.made, reverse=True)

    def _thing(self, path: Path, place: Place, users: Users) -> Thing:
        stat, known, fault = path.stat(), list[str](), ""
        try:
            known += users(path)
        except MachineError as error:
            fault = str(error)
        return Thing(
            id=f"{stat.st_dev:x}-{stat.st_ino:x}",
            name=printable(path.name),
            path=path,
            taken=stat.st_blocks * 512,
            made=datetime.fromtimestamp(stat.st_mtime, UTC),
            users=sorted(known),
            is_given=path in self._given.get(place, ()),
            fault=fault,
        )

    @contextmanager
    def receiving(self, place: Place, by: str, whole: int) -> Iterator[Arriving]:
        """A file that is being received, and is gone after the block unless it was accepted."""
        path = self.folders[place] / f".{secrets.token_hex(8)}.part"
        with path.open("x+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            arriving = Arriving(place=place, path=path, file=file, by=by, whole=whole)
            self.arriving.append(arriving)
            try:
                yield arriving
                self.arrived += 1
            finally:
                self.arriving.remove(arriving)
                path.unlink(missing_ok=True)

    def delete(self, place: Place, thing_id: str, users: Users) -> str:
        """Delete an unused file, and return its name.

        Raises ValueError if it is in use or does not exist any more.
        """
        thing = next((one for one in self.things(place, users) if one.id == thing_id), None)
        if thing is None:
            raise ValueError("This file does not exist any more.")
        if not thing.may_go:
            raise ValueError(
                thing.fault or f"{thing.name} is used by {', '.join(thing.users) or 'a setting'}."
            )
        thing.path.unlink(missing_ok=True)
        return thing.name


def _files_in(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file() and path.name[:1] != ".")


def _remove_abandoned(path: Path) -> None:
    """Removes a file that was not whole when its console was killed: nobody holds its lock."""
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def printable(name: str) -> str:
    """A file's name as text: bytes that are none, and control characters, are escaped."""
    text = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
