"""Kernels and disks of this host: their files, users, and deletion."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias

from generated_vmm.machines import MachineError

Place: TypeAlias = Literal["kernels", "disks"]
Users: TypeAlias = Callable[[Path], Sequence[str]]

ELF: Final = b"\x7fELF\x02"
SECTOR: Final = 512
COPIED_BYTES: Final = 1 << 20
DAY_SECONDS: Final = 86_400
SHELVES: Final[Mapping[Place, str]] = {"kernels": "Kernels", "disks": "Disks"}


@dataclass(frozen=True, slots=True)
class Thing:
    """A kernel or a disk; `taken` are the bytes that it uses on disk.

    `id` names the file itself, whatever other file has its name.
    """

    id: str
    name: str
    path: Path
    taken: int
    made: datetime
    users: Sequence[str]
    is_given: bool = False

    @property
    def may_go(self) -> bool:
        """Whether it can be deleted: no machine uses it, and no setting names it."""
        return not (self.users or self.is_given)


NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(slots=True)
class Body:
    """How much of a body was read; `whole` are its bytes, if the request says so."""

    whole: int
    received: int = 0


@dataclass(frozen=True, slots=True)
class Arriving:
    """A file that is being received; `by` and `since` say who sends it, since when."""

    place: Place
    body: Body
    by: str
    since: datetime = field(default_factory=lambda: datetime.now(UTC))


class Library:
    """The folders of kernels and disks; machines use no other files than these and their own.

    Files that a setting names (`given`) may be read anywhere.
    """

    def __init__(self, images: Path, given: Mapping[Place, Sequence[Path]]) -> None:
        self.folders: Mapping[Place, Path] = {
            place: images / place for place in ("kernels", "disks")
        }
        self._given = given
        self.arriving: list[Arriving] = []
        """What is being received now."""
        for folder in self.folders.values():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in folder.glob(".*.part"):
                with suppress(OSError):
                    if path.stat().st_mtime < time.time() - DAY_SECONDS:
                        path.unlink()

    @property
    def files(self) -> list[Path]:
        """The folders and files that machines may use."""
        given = (path for paths in self._given.values() for path in paths)
        return [*self.folders.values(), *given]

    def paths(self, place: Place) -> Iterator[Path]:
        """All files with names that pages can have."""
        found = self.folders[place].iterdir()
        yield from sorted(path for path in found if NAME.fullmatch(path.name) and path.is_file())
        yield from (path for path in self._given.get(place, ()) if path.is_file())

    def things(self, place: Place, users: Users) -> list[Thing]:
        """The files, the newest first; one that is removed meanwhile is left out."""
        found: list[Thing] = []
        for path in self.paths(place):
            with suppress(OSError):
                found.append(self._thing(path, place, users))
        return sorted(found, key=lambda thing: thing.made, reverse=True)

    def _thing(self, path: Path, place: Place, users: Users) -> Thing:
        stat = path.stat()
        try:
            known = users(path)
        except MachineError:
            known = ["a machine whose record cannot be read"]
        return Thing(
            id=f"{stat.st_dev:x}-{stat.st_ino:x}",
            name=path.name,
            path=path,
            taken=stat.st_blocks * 512,
            made=datetime.fromtimestamp(stat.st_mtime, UTC),
            users=sorted(known),
            is_given=path in self._given.get(place, ()),
        )

    @contextmanager
    def receiving(self, arriving: Arriving) -> Iterator[None]:
        """Tells of a file while it is being received."""
        self.arriving.append(arriving)
        try:
            yield
        finally:
            self.arriving.remove(arriving)

    def add(self, place: Place, name: str, file: BinaryIO) -> None:
        """Stores a file, as a whole or not at all.

        Raises OSError, and ValueError for one that is no kernel or disk.
        """
        require_image(place, name, file)
        path = self.folders[place] / f".{secrets.token_hex(8)}.part"
        try:
            with path.open("xb") as copy:
                shutil.copyfileobj(file, copy, COPIED_BYTES)
                copy.flush()
                os.fsync(copy.fileno())
            os.link(path, path.with_name(name))
        except FileExistsError:
            raise ValueError(f"There is a file called {name}.") from None
        finally:
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
                f"The file {thing.name} is used by {', '.join(thing.users) or 'a setting'}."
            )
        thing.path.unlink(missing_ok=True)
        return thing.name


def require_image(place: Place, name: str, file: BinaryIO) -> None:
    """Raises ValueError for a file that is no kernel or disk."""
    if NAME.fullmatch(name) is None:
        raise ValueError("A name has letters, digits, dots, hyphens and underscores.")
    size, _ = file.seek(0, os.SEEK_END), file.seek(0)
    if place == "kernels" and file.read(len(ELF)) != ELF:
        raise ValueError("This is no kernel: an uncompressed 64-bit ELF file (vmlinux).")
    if place == "disks" and (size == 0 or size % SECTOR):
        raise ValueError("This is no disk: its size is no multiple of 512 bytes.")
    file.seek(0)
